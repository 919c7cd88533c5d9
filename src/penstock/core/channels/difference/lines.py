"""Lines of a content while it is read: cleaned, cut to size, each with its place, and not too many."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNSEEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u200b-\u200f\u2060\ufeff]")
"""Control characters and marks of no width: pages put them in at random to foil copying."""


def cleaned(text: str) -> str:
    """One line: no runs of space, no invisible characters."""
    return " ".join(_UNSEEN.sub("", text).split())


def pieces(line: str) -> Iterator[str]:
    """A line, cut where it is too long: after a sentence, else at a space, else anywhere."""
    start = 0
    while len(line) - start > limits.LINE_CHARS:
        least, most = start + limits.LINE_CHARS // 2, start + limits.LINE_CHARS
        cut = line.rfind(". ", least, most) + 1 or line.rfind(" ", least, most)
        cut = most if cut <= 0 else cut
        yield line[start:cut].rstrip()
        start = cut
        while line[start : start + 1].isspace():
            start += 1
    if start < len(line):
        yield line[start:]


@dataclass(slots=True)
class Lines:
    """Collects lines; ChannelError when there are too many."""

    lines: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    _known: dict[str, str] = field(default_factory=dict)

    def add(self, text: str, place: str) -> None:
        """One line, if there is anything in it."""
        line = cleaned(text)
        if not line:
            return
        place = self._place(place)
        for piece in pieces(line):
            if len(self.lines) >= limits.CONTENT_LINES:
                raise ChannelError(
                    f"there are over {limits.CONTENT_LINES} lines: choose the part that matters by a selector"
                )
            self.lines.append(piece)
            self.places.append(place)

    def _place(self, place: str) -> str:
        known = self._known.get(place)
        if known is None:
            known = place[-limits.PLACE_CHARS :] if len(self._known) < limits.LINE_PLACES else "elsewhere"
            if len(self._known) < limits.LINE_PLACES:
                self._known[place] = known
        return known
