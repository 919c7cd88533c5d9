"""HTML as lines: the main content, without scripts, advertisements and hidden elements.

A line is a block of text or a row of a table. Its place is the path to it by tag, id and class; noise is
learned by place. libxml2 parses the page within a bounded depth: lexbor, as fast on ordinary pages, takes
0.95 s for 20,000 nested elements and two minutes for 200,000.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from penstock import limits
from penstock.core.channels.difference.content import ContentLines, cleaned, instant_of, library
from penstock.core.channels.difference.rules import compiled_css, compiled_xpath
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.channels.difference.rules import Rules

_CROWDED_BYTES: Final = 4_096
"""Bytes between two `>` above which a tag may have a thousand attributes."""

_TOO_DEEP: Final = f"the page is nested deeper than {limits.MARKUP_DEPTH} elements"


def tree_of(text: str) -> Any:
    """Parse a page; ChannelError if it is empty or nested too deeply."""
    etree = library("lxml.etree")
    body = text.encode()
    options = {
        "recover": True,
        "no_network": True,
        "encoding": "utf-8",
        "remove_comments": True,
        "remove_pis": True,
    }
    builder = _Builder(etree) if any(map(_is_crowded, body.split(b">"))) else None
    parser = etree.HTMLParser(**options, **({"target": builder} if builder else {}))
    try:
        root = etree.fromstring(body, parser)
    except (etree.LxmlError, ValueError, AssertionError) as error:
        problem = (builder and builder.problem) or f"the page cannot be read: {error}"
        raise ChannelError(problem) from None
    if builder and builder.problem:
        raise ChannelError(builder.problem)
    if root is None:
        raise ChannelError("the page is empty")
    if any("depth" in entry.message for entry in parser.error_log):
        raise ChannelError(_TOO_DEEP)
    return root


def _is_crowded(piece: bytes) -> bool:
    if len(piece) < _CROWDED_BYTES:
        return False
    ends = len(piece.split()) + piece.count(b"/") + piece.count(b'"') // 2 + piece.count(b"'") // 2
    return ends > limits.TAG_ATTRIBUTES


class _Builder:
    """Tree builder that refuses tags with many attributes: libxml2's own takes quadratic time for them."""

    def __init__(self, etree: Any) -> None:
        self._tree = etree.TreeBuilder()
        self._depth = 0
        self.problem = ""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if len(attributes) > limits.TAG_ATTRIBUTES:
            self.problem = f"a tag <{tag[:20]}> of the page has over {limits.TAG_ATTRIBUTES} attributes"
        elif self._depth > limits.MARKUP_DEPTH:
            self.problem = _TOO_DEEP
        if not self.problem:
            self._tree.start(tag, attributes)

    def end(self, tag: str) -> None:
        self._depth -= 1
        if not self.problem:
            self._tree.end(tag)

    def data(self, text: str) -> None:
        if not self.problem:
            self._tree.data(text)

    def close(self) -> Any:
        return None if self.problem else self._tree.close()


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
_STYLE_CHARS: Final = 1_000


def is_hidden(element: Any) -> bool:
    """Whether the element is invisible."""
    if element.tag in _UNSEEN or not isinstance(element.tag, str):
        return True
    if not element.attrib:
        return False
    if element.get("hidden") is not None or element.get("aria-hidden") == "true":
        return True
    style = element.get("style")
    return style is not None and _NOT_SHOWN.search(style[:_STYLE_CHARS]) is not None


def is_advertisement(element: Any) -> bool:
    """Whether the element's names mark it as advertisement or consent banner."""
    if not element.attrib:
        return False
    words = _names(element)
    return bool(words & _AD_WORDS) or (
        bool(words & {"cookie", "cookies", "gdpr", "consent"}) and bool(words & _CONSENT_WORDS)
    )


def is_aside(element: Any) -> bool:
    """Whether the element is marked as beside the content: navigation, footer, recommendations."""
    return element.tag in _ASIDES or (bool(element.attrib) and element.get("role") in _ASIDE_ROLES)


def is_named_aside(element: Any) -> bool:
    """Whether the element's names mark it as beside the content."""
    return bool(element.attrib) and bool(_names(element) & _ASIDE_WORDS)


def label(element: Any) -> str:
    """Name of an element: tag, id and classes without digits (those with digits are generated)."""
    if not element.attrib:
        return str(element.tag)
    return _label(element.tag, element.get("id") or "", element.get("class") or "")


@lru_cache(maxsize=4_096)
def _label(tag: str, own: str, classes: str) -> str:
    name = f"#{own}" if _STEADY.fullmatch(own) else ""
    steady = [one for one in classes.split()[:8] if _STEADY.fullmatch(one)][:3]
    return tag + name + "".join(f".{one}" for one in sorted(steady))


def _names(element: Any) -> frozenset[str]:
    own, classes = element.get("id"), element.get("class")
    return _words(own or "", classes or "") if own or classes else frozenset()


@lru_cache(maxsize=4_096)
def _words(own: str, classes: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORDS.findall(f"{own} {classes}"[:_STYLE_CHARS]))


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
        _Walk(found, gone=gone, ads=ads, asides=False).over(_main(body))
    if not found.lines:
        _Walk(found, gone=gone, ads=ads, asides=True).over(body)
    return found


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


class _Walk:
    """Collects every text below an element, one line per block or table row; without recursion."""

    def __init__(self, found: ContentLines, *, gone: set[Any], ads: bool, asides: bool) -> None:
        self._found = found
        self._gone = gone
        self._ads = ads
        self._asides = asides
        self._room = 0
        self._doubts = _DOUBTS

    def over(self, top: Any) -> None:
        """Collect the lines."""
        self._room = sum(map(len, top.itertext())) // 3
        line: list[str] = []
        stack: list[tuple[Any, str, bool]] = [(top, "", True)]
        while stack:
            element, place, enters = stack.pop()
            tag = element.tag
            if enters and not (is_hidden(element) or (element is not top and self._is_left_out(element))):
                outer = place
                if tag in BLOCKS and not _fills_cell(element):
                    place = f"{place}/{label(element)}"
                    _flush(line, self._found, outer)
                elif tag in CELLS and any(map(str.strip, line)):
                    line.append(" | ")
                elif tag == "br":
                    _flush(line, self._found, place)
                stack.append((element, place, False))
                if element.text:
                    line.append(element.text)
                stack.extend((child, place, True) for child in element.iterchildren(reversed=True))
                continue
            if not enters and tag in BLOCKS and not _fills_cell(element):
                _flush(line, self._found, place, preformatted=tag in PREFORMATTED)
            if element is not top and element.tail:
                line.append(element.tail)
        _flush(line, self._found, "")

    def _is_left_out(self, element: Any) -> bool:
        if element in self._gone or (not self._asides and is_aside(element)):
            return True
        named = (self._ads and is_advertisement(element)) or (not self._asides and is_named_aside(element))
        return named and self._is_small(element)

    def _is_small(self, element: Any) -> bool:
        """Whether an element named like an advertisement is small enough to be one.

        A container called `with-sidebar` or `no-ads` holds most of the page.
        """
        if self._doubts == 0:
            return False
        room = self._room
        for text in element.itertext():
            room -= len(text)
            if room < 0:
                self._doubts -= 1
                return False
        return True


def _fills_cell(element: Any) -> bool:
    """Whether a paragraph is alone in its table cell: then the row stays one line."""
    if element.tag not in ("p", "div"):
        return False
    parent = element.getparent()
    return parent is not None and parent.tag in CELLS and len(parent) == 1


def _flush(line: list[str], found: ContentLines, place: str, *, preformatted: bool = False) -> None:
    if not line:
        return
    text = "".join(line)
    line.clear()
    for part in text.splitlines() if preformatted else (text,):
        found.add(part, place)
