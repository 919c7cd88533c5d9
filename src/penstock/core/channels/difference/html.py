"""HTML as lines: the main content, without scripts, advertisements and hidden elements.

A line is a block of text or a row of a table. Its place is the path to it by tag, id and class; noise is
learned by place. libxml2 parses the page, because selectors are XPath; since 2.14 it reads tags and
attributes as HTML 5 says. What it does in quadratic time, or what takes more memory than a page is worth, is
refused before it parses: decision 0032 has the figures.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock import limits
from penstock.core.channels.difference.content import ContentLines, cleaned, instant_of, library
from penstock.core.channels.difference.density import link_lists
from penstock.core.channels.difference.rules import compiled_css, compiled_xpath
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.channels.difference.rules import Rules

_VALUE: Final = rb"""\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+)"""
_ATTRIBUTE: Final = rb"[\s/]++[^\s/>][^\s/>=]*+(?:%s)?+" % _VALUE
_CROWDED: Final = re.compile(rb"<[A-Za-z][^\s/>]*+(?:%s){%d}" % (_ATTRIBUTE, limits.TAG_ATTRIBUTES + 1))
_BODY_ENDS: Final = re.compile(rb"</(?:body|html)\s*+>", re.IGNORECASE)
"""HTML 5 counts what follows them as part of the body, libxml2 does not."""
_START: Final = re.compile(rb"<[A-Za-z]")
_SCRIPT: Final = re.compile(rb"<!--.*?(?:-->|\Z)|<script\b.*?(?:</script\b|\Z)", re.DOTALL | re.IGNORECASE)
_CROWDED_BYTES: Final = 1 << 14
"""Smaller pages cannot have so many attributes that it matters."""


def tree_of(text: str) -> Any:
    """Parse a page; ChannelError if it is empty, or too large or too deep to be worth its cost."""
    etree = library("lxml.etree")
    body = _BODY_ENDS.sub(b"", text.encode())
    _check(body)
    parser = _parser(huge=len(body) >= _DEEP_BYTES)
    try:
        root = etree.fromstring(body, parser)
    except (etree.LxmlError, ValueError, AssertionError) as error:
        if str(error).startswith("unknown error"):  # what lxml says when libxml2 gets no memory
            raise MemoryError from None
        raise ChannelError(f"the page cannot be read: {error}") from None
    if root is None:
        raise ChannelError("the page is empty")
    if any("depth" in entry.message for entry in parser.error_log):
        raise ChannelError(f"the page is nested deeper than {limits.PAGE_DEPTH} elements")
    etree.strip_elements(root, *_DROPPED, with_tail=False)
    return root


@cache
def _parser(*, huge: bool) -> Any:
    """A parser of pages; it forgets each of them."""
    return library("lxml.etree").HTMLParser(
        recover=True,
        no_network=True,
        encoding="utf-8",
        remove_comments=True,
        remove_pis=True,
        huge_tree=huge,
    )


_DEEP_BYTES: Final = 512
"""Smaller pages do not reach the depth at which libxml2 has to be told to go on."""
_DROPPED: Final = ("script", "style")
"""Never content, and often most of a page: gone before its texts are measured."""


def _check(body: bytes) -> None:
    if body.count(b"<") - body.count(b"</") > limits.PAGE_ELEMENTS:
        found = _START.finditer(_SCRIPT.sub(b"", body))
        if sum(1 for _ in islice(found, limits.PAGE_ELEMENTS + 1)) > limits.PAGE_ELEMENTS:
            raise ChannelError(f"the page has over {limits.PAGE_ELEMENTS} elements")
    if len(body) >= _CROWDED_BYTES and _CROWDED.search(body) is not None:
        raise ChannelError(f"a tag of the page has over {limits.TAG_ATTRIBUTES} attributes")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


BLOCKS: Final = _set(
    "address article aside blockquote body button caption center dd details dialog dir div dl dt "
    "fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu "
    "nav ol option p pre section summary table tbody textarea tfoot thead tr ul video audio"
)
CELLS: Final = frozenset({"td", "th"})
PREFORMATTED: Final = frozenset({"pre", "textarea", "listing", "plaintext", "xmp"})
_UNSEEN: Final = _set(
    "script style noscript template svg iframe object embed canvas head title meta link base datalist "
    "map audio video param source track noframes frameset applet"
)
_ASIDES: Final = frozenset({"nav", "aside", "footer"})
_ASIDE_ROLES: Final = frozenset({"navigation", "complementary", "contentinfo", "search"})
_ASIDE_WORDS: Final = _set(
    "sidebar nav navbar navigation breadcrumb breadcrumbs footer related recommended recommendations trending"
)
_AD_WORDS: Final = _set(
    "ad ads advert adverts advertisement advertisements advertising adsbygoogle adsense adslot adunit "
    "adbox sponsor sponsored promoted outbrain taboola doubleclick dfp"
)
_CONSENT_WORDS: Final = frozenset(
    {"banner", "notice", "consent", "bar", "popup", "modal", "overlay", "dialog"}
)
_NOT_SHOWN: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_STEADY: Final = re.compile(r"[A-Za-z_-]{1,30}")
_BARE: Final = re.compile(r"<[^<>]*>")
_STYLE_CHARS: Final = 1_000


_TELLING: Final = _set("id class style hidden aria-hidden role shadowrootmode shadowroot")
"""Attributes that say what an element is."""


class Traits(NamedTuple):
    """The role of an element, read from its tag and attributes."""

    label: str
    """Name of the element: tag, id and classes without digits (those with digits are generated)."""
    hidden: bool
    """Whether it is invisible."""
    advertisement: bool = False
    """Whether its names mark it as advertisement or consent banner."""
    aside: bool = False
    """Whether it is marked as beside the content: navigation, footer, recommendations."""
    named_aside: bool = False
    """Whether its names mark it as beside the content."""


def traits_of(element: Any) -> Traits:
    """Traits of an element, asked once for each combination of tag and telling attributes."""
    return _traits(
        element.tag,
        *[(name, value[:_STYLE_CHARS]) for name, value in element.items() if name in _TELLING],
    )


@lru_cache(maxsize=2_048)
def _traits(tag: Any, *attributes: tuple[str, str]) -> Traits:
    said = dict(attributes)
    own, classes = said.get("id", ""), said.get("class", "")
    words = frozenset(word.lower() for word in _WORDS.findall(f"{own} {classes}"[:_STYLE_CHARS]))
    return Traits(
        _label(str(tag), own, classes),
        _is_hidden(tag, said),
        bool(words & _AD_WORDS)
        or (bool(words & {"cookie", "cookies", "gdpr", "consent"}) and bool(words & _CONSENT_WORDS)),
        tag in _ASIDES or said.get("role") in _ASIDE_ROLES,
        bool(words & _ASIDE_WORDS),
    )


def _is_hidden(tag: Any, said: Mapping[str, str]) -> bool:
    if tag in _UNSEEN or not isinstance(tag, str):  # a template is shown as the inside of a custom element
        return tag != "template" or said.keys().isdisjoint(("shadowrootmode", "shadowroot"))
    if "hidden" in said or said.get("aria-hidden") == "true":
        return True
    return _NOT_SHOWN.search(said.get("style", "")) is not None


def _label(tag: str, own: str, classes: str) -> str:
    name = f"#{own}" if _STEADY.fullmatch(own) else ""
    steady = [one for one in classes.split()[:8] if _STEADY.fullmatch(one)][:3]
    return tag + name + "".join(f".{one}" for one in sorted(steady))


_PLACE_CHARS: Final = 2 * limits.PLACE_CHARS
"""Longest path while a page is read: of deep pages only the innermost elements are named."""
_DOUBTS: Final = 16
"""Containers named like advertisements that are measured and found too large to be one; after so many the
names are ignored, because each costs a walk over its text.
"""


def title_of(root: Any) -> str:
    """Title of the page."""
    for path in ("head/title", ".//title", ".//h1"):
        found = root.find(path)
        if found is not None:
            title = cleaned("".join(found.itertext()))
            if title:
                return title[: limits.TITLE_CHARS]
    return ""


def modified_of(root: Any) -> int | None:
    """Modification time stated by the page; other meta elements have the time of the request."""
    for meta in root.iter("meta"):
        if (meta.get("property") or "").lower() == "article:modified_time":
            return instant_of(meta.get("content"))
    return None


def page_lines(root: Any, rules: Rules) -> ContentLines:
    """Lines of the page that the rules select; ChannelError if a selector finds nothing."""
    gone = {element for text in rules.exclude_css for element in compiled_css(text)(root)}
    gone |= {
        element
        for text in rules.exclude_xpath
        for element in compiled_xpath(text)(root)
        if not isinstance(element, str)
    }
    ads = "ads" in rules.noise
    if rules.css or rules.xpath:
        return _selected(root, rules, gone=gone, ads=ads)
    body = root.find("body")
    body = root if body is None else body
    found = ContentLines()
    if not rules.whole_page:
        main = _main(body)
        beside = link_lists(body) if main is body else set()
        _Walk(found, gone=gone | beside, ads=ads, asides=False).over(main)
    if not found.lines:
        _Walk(found, gone=gone, ads=ads, asides=True).over(body)
    if not found.lines:
        _add_frames(found, root)
    return found


_FRAMES: Final = 100


def _add_frames(found: ContentLines, root: Any) -> None:
    """List the frames of a page made of frames: their pages can be watched instead."""
    for text in (text for each in root.iter("noframes") for text in each.itertext()):
        for line in _BARE.sub("\n", text).splitlines():
            found.add(line, "noframes")
    for frame in islice(root.iter("frame", "iframe"), _FRAMES):
        source = frame.get("src") or ""
        if source:
            found.add(f"frame {source[: limits.URL_CHARS]}", "frame")


def _selected(root: Any, rules: Rules, *, gone: set[Any], ads: bool) -> ContentLines:
    elements: dict[Any, None] = {}
    values: list[tuple[str, str]] = []
    for name, texts, compiler in (("css", rules.css, compiled_css), ("xpath", rules.xpath, compiled_xpath)):
        for place, text in enumerate(texts):
            matches = compiler(text)(root)
            if not matches:
                raise ChannelError(f"rules.{name}[{place}]: {text!r} finds nothing on the page")
            for match in matches:
                if isinstance(match, str):
                    values.append((str(match), text))
                elif isinstance(getattr(match, "tag", None), str):
                    elements[match] = None
    found = ContentLines()
    walk = _Walk(found, gone=gone, ads=ads, asides=True)
    if elements:
        for element in root.iter():  # in page order, and nested matches only once
            if element in elements and not any(up in elements for up in element.iterancestors()):
                walk.over(element)
    for value, place_name in values:
        found.add(value, place_name)
    return found


def _main(body: Any) -> Any:
    """The element marked as main content, the longest if several; else the body."""
    named = [element for element in body.iter("main", "div", "section", "td") if _is_main(element)]
    named = named or list(body.iter("article"))
    if not named or (named[0].tag == "article" and len(named) > 1):
        return body
    return max(named, key=lambda element: sum(len(text) for text in element.itertext()))


def _is_main(element: Any) -> bool:
    return bool(element.tag == "main" or element.get("role") == "main")


_ENTER, _LEAVE, _END_LINE = range(3)
"""Steps of the walk for an element on the stack; at the end of a block, its line ends."""


class _Walk:
    """Collects every text below an element, one line per block or table row; without recursion."""

    def __init__(self, found: ContentLines, *, gone: set[Any], ads: bool, asides: bool) -> None:
        self._found = found
        self._gone = gone
        self._ads = ads
        self._asides = asides
        self._top: Any = None
        self._room = -1
        """A third of the characters of all texts; below 0: not counted yet."""
        self._doubts = _DOUBTS
        self._line: list[str] = []
        self._linked = 0
        """Characters of the line that are in links."""
        self._links = 0
        """Links that are open."""

    def over(self, top: Any) -> None:
        """Collect the lines."""
        self._top, self._room = top, -1
        stack: list[tuple[Any, str, int]] = [(top, "", _ENTER)]
        while stack:
            element, place, step = stack.pop()
            traits = traits_of(element) if step == _ENTER else None
            if traits is not None and self._is_shown(element, traits, is_top=element is top):
                place, step = self._enter(element, element.tag, place, traits.label)
                stack.append((element, place, step))
                text = element.text
                stack += [(child, place, _ENTER) for child in element.iterchildren(reversed=True)]
            else:
                if step == _END_LINE:
                    self._flush(place, preformatted=element.tag in PREFORMATTED)
                elif step == _LEAVE and element.tag == "a":
                    self._links -= 1
                text = element.tail if element is not top else None
            if text:
                self._line.append(text)
                self._linked += len(text) if self._links else 0
        self._flush("")

    def _enter(self, element: Any, tag: str, place: str, label: str) -> tuple[str, int]:
        """Begin an element; return its place, and what is to be done at its end."""
        if tag in BLOCKS:
            if _fills_cell(element, tag):
                return place, _LEAVE
            self._flush(place)
            return f"{place}/{label}"[-_PLACE_CHARS:], _END_LINE
        if tag in CELLS:
            if any(map(str.strip, self._line)):
                self._line.append(" | ")
        elif tag == "br":
            self._flush(place)
        elif tag == "a":
            self._links += 1
        return place, _LEAVE

    def _flush(self, place: str, *, preformatted: bool = False) -> None:
        """Add what was collected as a line, or as several."""
        if self._line:
            text = "".join(self._line)
            self._line.clear()
            for part in text.splitlines() if preformatted else (text,):
                self._found.add(part, place, linked=self._linked)
            self._linked = 0

    def _is_shown(self, element: Any, traits: Traits, *, is_top: bool) -> bool:
        if traits.hidden or is_top:
            return not traits.hidden
        if (self._gone and element in self._gone) or (traits.aside and not self._asides):
            return False
        named = (traits.advertisement and self._ads) or (traits.named_aside and not self._asides)
        return not (named and self._is_small(element))

    def _is_small(self, element: Any) -> bool:
        """Whether an element named like an advertisement is small enough to be one.

        A container called `with-sidebar` or `no-ads` holds most of the page.
        """
        if self._doubts == 0:
            return False
        if self._room < 0:
            self._room = sum(map(len, self._top.itertext())) // 3
        room = self._room
        for text in element.itertext():
            room -= len(text)
            if room < 0:
                self._doubts -= 1
                return False
        return True


def _fills_cell(element: Any, tag: str) -> bool:
    """Whether a paragraph is alone in its table cell: then the row stays one line."""
    if tag not in ("p", "div"):
        return False
    parent = element.getparent()
    return parent is not None and parent.tag in CELLS and len(parent) == 1
