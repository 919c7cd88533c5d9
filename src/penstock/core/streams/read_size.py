"""How many messages to read from a log at once: few as long as nobody knows how large they are.

A log counts messages, and one may have a few bytes or a megabyte: whoever reads on tells what came, and the
next reading has about as many bytes as an answer to a program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock import limits

if TYPE_CHECKING:
    from collections.abc import Sequence

FEW: Final = 8
"""Messages of the first reading."""

GROWTH: Final = 4
"""A reading has at most so many times the messages of the one before it: later ones may be larger."""


class ReadSize:
    """Of one reader."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages = min(FEW, limits.STREAM_READ)

    def came(self, found: Sequence[tuple[int, bytes]]) -> None:
        """What was read with this size; a reading that was not full does not let the next one grow."""
        if not found:
            return
        most = self.messages * GROWTH if len(found) >= self.messages else self.messages
        size = sum(len(body) for _, body in found) // len(found)
        self.messages = max(1, min(most, limits.STREAM_READ, limits.STREAM_FETCH_BYTES // max(1, size)))
