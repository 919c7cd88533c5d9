"""HTML as lines: the main content, without scripts, advertisements and what is hidden.

A line is a block of text or a row of a table. Its place is the way to it by tag, id and class, by which
noise is learned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock import limits
from penstock.core.channels.difference.instants import instant_of
from penstock.core.channels.difference.lines import Lines, cleaned
from penstock.core.channels.difference.markup import (
    BLOCKS,
    CELLS,
    PREFORMATTED,
    is_advertisement,
    is_aside,
    is_hidden,
    is_named_aside,
    label,
)
from penstock.core.channels.difference.selectors import compiled_css, compiled_xpath
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from penstock.core.channels.difference.rules import Rules

_DOUBTS: Final = 16
"""Frames with the name of an advertisement that are measured and found too large; then names count no more:
each costs a look at the text below it."""


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
        _Walk(found, gone=gone, ads=ads, asides=False).over(_main(body))
    if not found.lines:
        _Walk(found, gone=gone, ads=ads, asides=True).over(body)
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
    walk = _Walk(found, gone=gone, ads=ads, asides=True)
    if elements:
        for element in root.iter():  # in the order of the page, and inner matches only once
            if element in elements and not any(up in elements for up in element.iterancestors()):
                walk.over(element)
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


class _Walk:
    """Every text below an element, one line per block or table row; without recursion."""

    def __init__(self, found: Lines, *, gone: set[Any], ads: bool, asides: bool) -> None:
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
        """A frame called `with-sidebar` or `no-ads` holds most of the page: its name does not make it one."""
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
    """A paragraph that is all there is in a cell of a table: the row stays one line."""
    if element.tag not in ("p", "div"):
        return False
    parent = element.getparent()
    return parent is not None and parent.tag in CELLS and len(parent) == 1


def _flush(line: list[str], found: Lines, place: str, *, preformatted: bool = False) -> None:
    if not line:
        return
    text = "".join(line)
    line.clear()
    for part in text.splitlines() if preformatted else (text,):
        found.add(part, place)
