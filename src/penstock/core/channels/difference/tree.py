"""Tags become a tree, in bounded time whatever they are.

They are read by libxml2, whose depth is bounded. lexbor, on ordinary pages as fast, takes 0.95 s for 20,000
nested elements and two minutes for 200,000.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock import limits
from penstock.core.channels.difference.libraries import library
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Mapping

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
