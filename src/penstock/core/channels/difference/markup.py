"""Scans a feed for the elements that matter, without a parser of XML.

`FeedScan` goes once over the text. Tags are recognised with their quoted attributes; CDATA sections, comments
and instructions are skipped. Within an item, an element that matters is taken as it is written, from its tag
to its end tag, with whatever markup is inside. Prefixes mean what the root declares, else what is usual.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape, unescape
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock import limits
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME: Final = r"[^\W\d][\w.-]{0,63}+(?::[\w.-]{1,64}+)?+"
_TAG: Final = re.compile(
    rf"<(?:(/?)({_NAME})((?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+')*+)>|(!\[CDATA\[|!--|\?))", re.DOTALL
)
_ENDS: Final = {"![CDATA[": "]]>", "!--": "-->", "?": "?>"}
_ATTRIBUTE: Final = re.compile(r"([\w:.-]{1,100}+)\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)')")
_CDATA: Final = "<![CDATA["
_ROOT: Final = re.compile(r"<((?:[\w.-]{1,40}:)?(?:rss|feed|rdf))[\s>]", re.IGNORECASE)

_NAMESPACES: Final = {
    "http://www.w3.org/2005/atom": "",
    "http://purl.org/atom/ns#": "",
    "http://purl.org/rss/1.0/": "",
    "http://my.netscape.com/rdf/simple/0.9/": "",
    "http://backend.userland.com/rss2": "",
    "http://purl.org/rss/1.0/modules/content/": "content:",
    "http://purl.org/rss/1.0/modules/syndication/": "sy:",
    "http://purl.org/dc/elements/1.1/": "dc:",
    "http://purl.org/dc/terms/": "dcterms:",
    "http://search.yahoo.com/mrss/": "media:",
    "http://www.itunes.com/dtds/podcast-1.0.dtd": "itunes:",
    "http://www.w3.org/1999/xhtml": "xhtml:",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf:",
}
_USUAL: Final = {
    "": "",
    "atom": "",
    "atom10": "",
    "a10": "",
    "rss": "",
    **{name: f"{name}:" for name in ("content", "sy", "dc", "dcterms", "media", "itunes", "xhtml", "rdf")},
}
_DECLARATIONS: Final = 100
"""Namespaces that are looked at: feeds declare up to 20."""

_SKIPPED: Final = frozenset({"source", "image", "textinput"})
"""Elements with titles and links of their own, which are not those of the feed or the item."""
_OF_FEED: Final = _SKIPPED.union(
    ("title", "link", "ttl", "skiphours", "skipdays", "lastbuilddate", "updated", "modified"),
    ("sy:updateperiod", "sy:updatefrequency"),
)
_OF_ITEM: Final = _SKIPPED.union(
    ("title", "link", "guid", "id", "description", "summary", "content", "content:encoded", "tagline"),
    ("xhtml:body", "xhtml:div", "pubdate", "published", "issued", "created", "updated", "modified", "date"),
    ("dc:date", "dc:title", "dc:identifier", "dc:description", "dcterms:issued", "dcterms:modified"),
    ("itunes:summary", "itunes:subtitle", "media:description"),
)
_NAMES: Final = 1_000
"""Names of elements that are looked up once: feeds use 50."""
_FEW: Final = 16
"""Elements of one name that are kept of an item, such as its links."""


class Element(NamedTuple):
    """One element as it is written in the feed."""

    name: str
    """In lower case, with a usual prefix if it belongs to an extension."""
    attributes: str = ""
    """Attributes as they are written in the start tag, not parsed."""
    raw: str = ""
    """Text and markup between start tag and end tag, not decoded."""
    is_inline: bool = False
    """Whether there are tags inside, so that this is markup, not text that may be escaped markup."""

    def attribute(self, name: str) -> str:
        """Value of an attribute, by its name in lower case; empty if it is missing."""
        if not self.attributes or name not in self.attributes.lower():
            return ""
        for found in _ATTRIBUTE.finditer(self.attributes):
            if found.group(1).lower() == name:
                return unescape(found.group(2) or found.group(3) or "").strip()
        return ""

    @property
    def is_markup(self) -> bool:
        """Whether the content may be HTML: everything but what Atom calls text."""
        return self.is_inline or self.attribute("type").lower() not in ("text", "text/plain")

    @property
    def markup(self) -> str:
        """The content as HTML or text: escaped markup is unescaped, inline markup is as it is."""
        return _inline(self.raw) if self.is_inline else plain(self.raw)


def plain(raw: str) -> str:
    """Text of an element: entities resolved as in HTML, unknown ones kept, CDATA as it is."""
    if _CDATA not in raw:
        return unescape(raw) if "&" in raw else raw
    return "".join(part if is_cdata else unescape(part) for part, is_cdata in _parts(raw))


def _inline(raw: str) -> str:
    if _CDATA not in raw:
        return raw
    return "".join(escape(part) if is_cdata else part for part, is_cdata in _parts(raw))


def _parts(raw: str) -> Iterator[tuple[str, bool]]:
    """The text in front of, inside and behind CDATA sections."""
    done = 0
    while (start := raw.find(_CDATA, done)) >= 0:
        end = raw.find("]]>", start)
        end = len(raw) if end < 0 else end
        yield raw[done:start], False
        yield raw[start + len(_CDATA) : end], True
        done = min(end + 3, len(raw))
    yield raw[done:], False


@dataclass(slots=True)
class _Open:
    """An element whose end is awaited."""

    qualified: str
    name: str
    """Empty: it is skipped."""
    attributes: str
    start: int
    depth: int = 1
    is_inline: bool = False

    def ends_with(self, qualified: str, *, closes: bool, is_empty: bool) -> bool:
        """Note a tag inside; whether it is the end tag."""
        if qualified != self.qualified:
            self.is_inline = True
        elif closes:
            self.depth -= 1
        elif not is_empty:
            self.depth += 1
        return self.depth == 0


@dataclass(slots=True)
class FeedScan:
    """The elements of one feed that matter; ChannelError if it has too many items."""

    text: str
    root: Element = field(init=False)
    about: dict[str, list[Element]] = field(default_factory=dict)
    """By name: what the feed says about itself."""
    items: list[dict[str, list[Element]]] = field(default_factory=list)
    """The first FEED_ITEMS items: what each says, by name."""
    is_feed: bool = False
    """Whether there is an item or a title."""
    _prefixes: dict[str, str] = field(default_factory=lambda: dict(_USUAL))
    _names: dict[str, str] = field(default_factory=dict)
    _count: int = 0
    _has_own: bool = False
    """Whether an item was found that is one of RSS or Atom, not of an extension."""

    def __post_init__(self) -> None:
        found = _ROOT.search(self.text)
        if found is None:
            self.root = Element("")
            return
        tag = _TAG.match(self.text, found.start())
        prefix, _, name = found.group(1).lower().rpartition(":")
        self.root = Element(name, tag.group(3) if tag else "")
        self._declare(prefix, is_rdf=name == "rdf")
        self._scan(tag.end() if tag else found.end())
        self.is_feed = bool(self._count) or "title" in self.about

    def _declare(self, prefix: str, *, is_rdf: bool) -> None:
        if prefix and not is_rdf:
            self._prefixes[prefix] = ""
        for number, found in enumerate(_ATTRIBUTE.finditer(self.root.attributes)):
            if number >= _DECLARATIONS:
                return
            key, _, own = found.group(1).lower().partition(":")
            meant = _NAMESPACES.get((found.group(2) or found.group(3) or "").strip().lower())
            if key == "xmlns" and own and meant is not None:
                self._prefixes[own] = meant

    def _name(self, qualified: str) -> str:
        """Name of an element by which it is looked up; of an unknown extension it has the prefix `?`."""
        known = self._names.get(qualified)
        if known is None:
            prefix, _, local = qualified.lower().rpartition(":")
            known = self._prefixes.get(prefix, "?:") + local
            if len(self._names) < _NAMES:
                self._names[qualified] = known
        return known

    def _is_item(self, name: str) -> bool:
        if name in ("item", "entry"):
            self._has_own = True
            return True
        return name in ("?:item", "?:entry") and not self._has_own

    def _scan(self, at: int) -> None:
        item: dict[str, list[Element]] | None = None
        inside: _Open | None = None
        left = limits.FEED_TAGS
        while (tag := _TAG.search(self.text, at)) is not None:
            left -= 1
            if not left:
                raise ChannelError(f"the feed has over {limits.FEED_TAGS} tags")
            at = tag.end()
            closes, qualified, rest, skips = tag.groups()
            if skips:
                end = self.text.find(_ENDS[skips], at)
                at = len(self.text) if end < 0 else end + len(_ENDS[skips])
                continue
            name, is_empty = self._name(qualified), rest.endswith("/")
            if self._is_item(name):  # it ends whatever is still open: damage stays within one item
                self._end(inside, item, tag.start())
                inside = None
                item = None if closes else self._begin(rest)
                item = None if is_empty else item
            elif inside is not None:
                if inside.ends_with(qualified, closes=bool(closes), is_empty=is_empty):
                    self._end(inside, item, tag.start())
                    inside = None
            elif not closes and name in (_OF_FEED if item is None else _OF_ITEM):
                name = "" if name in _SKIPPED else name
                if is_empty:
                    self._keep(Element(name, rest), item)
                    continue
                end = self.text.find("<", at)
                if self.text.startswith(f"</{qualified}>", end):  # text alone: most elements
                    self._keep(Element(name, rest, self.text[at:end]), item)
                    at = end + len(qualified) + 3
                else:
                    inside = _Open(qualified, name, rest, at)
        self._end(inside, item, len(self.text))

    def _begin(self, attributes: str) -> dict[str, list[Element]]:
        self._count += 1
        if self._count > limits.FEED_ITEMS_READ:
            raise ChannelError(f"the feed has over {limits.FEED_ITEMS_READ} items")
        item: dict[str, list[Element]] = {}
        for name in ("rdf:about", "xml:base"):
            value = Element(name, attributes).attribute(name)
            if value:
                item[name] = [Element(name, raw=escape(value))]
        if len(self.items) < limits.FEED_ITEMS:
            self.items.append(item)
        return item

    def _end(self, inside: _Open | None, item: dict[str, list[Element]] | None, at: int) -> None:
        if inside is not None:
            raw = self.text[inside.start : at]
            self._keep(Element(inside.name, inside.attributes, raw, inside.is_inline), item)

    def _keep(self, element: Element, item: dict[str, list[Element]] | None) -> None:
        if element.name:
            found = (self.about if item is None else item).setdefault(element.name, [])
            if len(found) < _FEW:
                found.append(element)
