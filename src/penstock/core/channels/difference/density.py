"""Content by density: on a page that does not mark its main content, lists of links are furniture.

From the body downwards, the element that holds most of the text outside links is followed. What stands
beside it and consists of links (navigation, "most read") is left out; other text beside it stays. A page
that consists of links has no such element, and stays whole.
"""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import Any, Final

from penstock.core.channels.difference.content import library

_MAIN_SHARE: Final = 0.6
"""Share of the text outside links that the followed element holds."""
_LINK_SHARE: Final = 0.6
"""Share of its text that is in links, from which an element beside the text is a list of links."""
_BOXES: Final = frozenset(["div", "section", "article", "center", "form", "table", "tbody", "tr", "td"])
"""Elements that are followed: a list or a paragraph is part of the content."""
_LEAST_LINKS: Final = 2
_DEPTH: Final = 8
"""Levels followed: each costs a walk over the text below it."""
_CHILDREN: Final = 200
"""Children of an element that are looked at; one with more is a list itself."""


def link_lists(body: Any) -> set[Any]:
    """Elements beside the text that consist of links."""
    found: set[Any] = set()
    element = body
    for _ in range(_DEPTH):
        if len(element) > _CHILDREN or sum(1 for _ in islice(element.iter("a"), _LEAST_LINKS)) < _LEAST_LINKS:
            break
        sizes = [(child, *_sizes(child)) for child in element if isinstance(child.tag, str)]
        plain = sum(text - linked for _, text, linked, _ in sizes)
        main = max(sizes, key=lambda each: each[1] - each[2], default=None)
        if main is None or main[1] - main[2] < _MAIN_SHARE * plain or not plain or main[0].tag not in _BOXES:
            break
        found.update(
            child
            for child, text, linked, links in sizes
            if child is not main[0] and links >= _LEAST_LINKS and linked >= _LINK_SHARE * text
        )
        element = main[0]
    return found


def _sizes(element: Any) -> tuple[int, int, int]:
    """Characters, characters in links, and links of an element."""
    if element.tag in ("script", "style"):
        return 0, 0, 0
    size = _length()
    found = [int(size(link)) for link in element.iter("a")]
    return int(size(element)), sum(found), len(found)


@cache
def _length() -> Any:
    """Length of the text of an element, white space aside; in C."""
    return library("lxml.etree").XPath("string-length(normalize-space(.))")
