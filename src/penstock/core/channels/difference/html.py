"""HTML as lines: the main content, without scripts, advertisements and what is hidden.

Tags are read by libxml2, whose work is linear and whose depth is bounded: lexbor, the faster reader on paper,
takes 0.95 s for 20,000 nested elements and two minutes for 200,000.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock import limits
from penstock.core.channels.difference.instants import instant_of
from penstock.core.channels.difference.libraries import library
from penstock.core.channels.difference.lines import Lines, cleaned
from penstock.core.channels.difference.markup import (
    BLOCKS,
    CELLS,
    PREFORMATTED,
    is_advertisement,
    is_aside,
    is_hidden,
    label,
)
from penstock.core.channels.difference.selectors import compiled_css, compiled_xpath
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.channels.difference.rules import Rules

_CROWDED_BYTES: Final = 4_096
"""Between two `>`: a tag with a thousand attributes may hide there."""

_TOO_DEEP: Final = f"the page is nested deeper than {limits.MARKUP_DEPTH} elements"


def tree_of(text: str) -> Any:
    """The root element; ChannelError if there is none, or too deep a nesting."""
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
    """Builds the same tree, but no tag of many attributes: libxml2's own work grows with their square."""

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


def title_of(root: Any) -> str:
    """What the page calls itself."""
    for path in ("head/title", ".//title", ".//h1"):
        found = root.find(path)
        if found is not None:
            title = cleaned("".join(found.itertext()))
            if title:
                return title[: limits.TITLE_CHARS]
    return ""


def modified_of(root: Any) -> int | None:
    """When the page says it was modified: the one meta element that is not simply the time of the request."""
    for meta in root.iter("meta"):
        if (meta.get("property") or "").lower() == "article:modified_time":
            return instant_of(meta.get("content"))
    return None


def page_lines(root: Any, rules: Rules) -> Lines:
    """The lines a channel is about; ChannelError if a selector finds nothing."""
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
    found = Lines()
    if not rules.whole_page:
        _walk(_main(body), found, gone=gone, ads=ads, asides=False)
    if not found.lines:
        _walk(body, found, gone=gone, ads=ads, asides=True)
    return found


def _selected(root: Any, rules: Rules, *, gone: set[Any], ads: bool) -> Lines:
    elements: dict[Any, None] = {}
    values: list[tuple[str, str]] = []
    for name, texts, compiler in (("css", rules.css, compiled_css), ("xpath", rules.xpath, compiled_xpath)):
        for place, text in enumerate(texts):
            matches = compiler(text)(root)
            if not matches:
                raise ChannelError(f"rules.{name}[{place}]: {text!r} finds nothing on the page any more")
            for match in matches:
                if isinstance(match, str):
                    values.append((str(match), text))
                elif isinstance(getattr(match, "tag", None), str):
                    elements[match] = None
    found = Lines()
    if elements:
        for element in root.iter():  # in the order of the page, and inner matches only once
            if element in elements and not any(up in elements for up in element.iterancestors()):
                _walk(element, found, gone=gone, ads=ads, asides=True)
    for value, place_name in values:
        found.add(value, place_name)
    return found


def _main(body: Any) -> Any:
    """The element that calls itself the main content, the longest if there are several; else all."""
    named = [element for element in body.iter("main", "div", "section", "td") if _is_main(element)]
    named = named or list(body.iter("article"))
    if not named or (named[0].tag == "article" and len(named) > 1):
        return body
    return max(named, key=lambda element: sum(len(text) for text in element.itertext()))


def _is_main(element: Any) -> bool:
    return bool(element.tag == "main" or element.get("role") == "main")


def _walk(top: Any, found: Lines, *, gone: set[Any], ads: bool, asides: bool) -> None:
    """Every text below an element, one line per block or table row; without recursion."""
    line: list[str] = []
    stack: list[tuple[Any, str, bool]] = [(top, "", True)]
    while stack:
        element, place, enters = stack.pop()
        tag = element.tag
        if not enters:
            if tag in BLOCKS:
                _flush(line, found, place, preformatted=tag in PREFORMATTED)
            if element is not top and element.tail:
                line.append(element.tail)
            continue
        if (
            is_hidden(element)
            or element in gone
            or (
                element is not top
                and ((ads and is_advertisement(element)) or (not asides and is_aside(element)))
            )
        ):
            if element is not top and element.tail:
                line.append(element.tail)
            continue
        outer = place
        if tag in BLOCKS:
            place = f"{place}/{label(element)}"
            _flush(line, found, outer)
        elif tag in CELLS and line:
            line.append(" | ")
        elif tag == "br":
            _flush(line, found, place)
        stack.append((element, place if tag in BLOCKS else outer, False))
        if element.text:
            line.append(element.text)
        stack.extend((child, place, True) for child in element.iterchildren(reversed=True))
    _flush(line, found, "")


def _flush(line: list[str], found: Lines, place: str, *, preformatted: bool = False) -> None:
    if not line:
        return
    text = "".join(line)
    line.clear()
    for part in text.splitlines() if preformatted else (text,):
        found.add(part, place)
