"""Roles: lines at one place that say the same of several things, as the rows of a live board.

Each line alone is seen too rarely to be learned: a garage is full twice a day, a bus is among the next three
once an hour. Together they show that the place keeps saying what it has said before. So wordings are
remembered by place, without their numbers, and moves that bring nothing but known wordings are counted
for the place. Beyond a bound it is silent about them; a wording that is new there is told as ever. Lines with
a price or a version are never counted: what somebody states is told.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from penstock.core.channels.difference.noise.heat import COLD, HOUR_US, ROLE_MOVES
from penstock.core.channels.difference.noise.memory import hash_of
from penstock.core.channels.difference.noise.tokens import has_stated, is_number, skeleton, tokens
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.core.channels.difference.noise.heat import Timing
    from penstock.core.channels.difference.noise.memory import Memory

WORDS: Final = 1
"""Weight of a move between known wordings without a number: the fifth look is silent, so that a status page
tells two failures and both recoveries."""
NUMBERS: Final = 2
"""Weight of a move between known wordings with a number: the third look is silent."""
ROWS: Final = 3
"""Weight of a line that came or went and differs from another line in numbers only: the second is silent,
like the second move of a number."""

REMEMBERED_US: Final = 24 * HOUR_US
"""How long a wording that went is known: what a place says every day comes back within a day."""


class Roles:
    """Wordings that went from places, as they grow with one look."""

    def __init__(self, memory: Memory, told: Sequence[str], places: Sequence[str], timing: Timing) -> None:
        self._told = told
        self._places = places
        self._timing = timing
        self._unmuted = memory.unmuted
        self._before = memory.wordings
        self._found: dict[int, int] = {}
        self._weights: dict[str, int] = {}
        self._siblings: dict[str, Counter[str]] = {}
        self.heats = memory.roles

    @property
    def wordings(self) -> dict[int, int]:
        """Wordings that were seen, in the order in which they were seen last, with the time in seconds."""
        if not self._found:
            return self._before
        older = {key: at for key, at in self._before.items() if key not in self._found}
        return {**older, **self._found}

    # -- learning ----------------------------------------------------------------------------------------

    def differs(self, i: int, text: str, now: dict[int, str]) -> None:
        """A told line stands at its place in another wording, or another line does."""
        told, place = self._told[i], self._places[i]
        if skeleton(told) == skeleton(text):
            return
        if self._is_repeated(place, told, text, now):
            self._count(place, (told, text))
        self._see(place, told, _said(_replaced(told, now)))

    def goes(self, i: int) -> None:
        """A told line is missing."""
        told, place = self._told[i], self._places[i]
        if self._is_row(place, told, besides=1):
            self._count(place, (), ROWS)
        elif self._is_known(place, told):
            self._count(place, (told,))
        self._see(place, told)

    def comes(self, place: str, text: str) -> None:
        """A line came."""
        if self._is_row(place, text):
            self._count(place, (), ROWS)
        elif self._is_known(place, text):
            self._count(place, (text,))

    def _count(self, place: str, lines: Iterable[str], weight: int = 0) -> None:
        if not weight:
            weight = NUMBERS if any(map(is_number, lines)) else WORDS
        self._weights[place] = max(weight, self._weights.get(place, 0))

    def _see(self, place: str, *texts: str) -> None:
        now_s = self._timing.now_us // SECOND_US
        self._found.update((_wording(place, text), now_s) for text in texts if text)

    def count(self) -> None:
        """Count the moves of the look, once for each place."""
        if self._weights:
            heats = dict(self.heats)
            for place, weight in self._weights.items():
                heats[place] = self._timing.moved(heats.get(place, COLD), words=True, weight=weight)
            self.heats = heats

    # -- judging -----------------------------------------------------------------------------------------

    def may_differ(self, i: int, text: str, now: dict[int, str]) -> bool:
        """Whether a told line may stand in another wording."""
        told, place = self._told[i], self._places[i]
        return (
            self.mutes(place)
            and skeleton(told) != skeleton(text)
            and self._is_repeated(place, told, text, now)
        )

    def may_go(self, i: int) -> bool:
        """Whether a told line may be missing."""
        return self.mutes(self._places[i]) and not has_stated(self._told[i])

    def may_come(self, place: str, text: str) -> bool:
        """Whether a line may come."""
        return self.mutes(place) and (self._is_row(place, text) or self._is_known(place, text))

    def mutes(self, place: str) -> bool:
        """Whether nothing is told of known wordings at a place."""
        return place not in self._unmuted and self._timing.mutes(self.heats.get(place, COLD), ROLE_MOVES)

    def _is_known(self, place: str, text: str) -> bool:
        """Whether a wording stood there, in this line or another one, and went."""
        at_s = self._before.get(_wording(place, text)) if self._before else None
        if at_s is None or has_stated(text):
            return False
        return self._timing.now_us - at_s * SECOND_US <= max(REMEMBERED_US, 5 * self._timing.gap_us // 2)

    def _is_repeated(self, place: str, told: str, text: str, now: dict[int, str]) -> bool:
        """Whether a told line became what it, or a line beside it, was before."""
        if has_stated(told) or has_stated(text):
            return False
        return (
            self._is_known(place, text)
            or self._is_known(place, _said(now.values()))
            or self._has_sibling(place, text)
        )

    def _is_row(self, place: str, text: str, besides: int = 0) -> bool:
        """Whether a line differs from told lines at its place in numbers only."""
        return is_number(text) and not has_stated(text) and self._has_sibling(place, text, besides)

    def _has_sibling(self, place: str, text: str, besides: int = 0) -> bool:
        siblings = self._siblings.get(place)
        if siblings is None:
            lines = zip(self._places, self._told, strict=True)
            siblings = self._siblings[place] = Counter(skeleton(line) for at, line in lines if at == place)
        return siblings[skeleton(text)] > besides


def _wording(place: str, text: str) -> int:
    return hash_of(place, f"\x00{skeleton(text)}")


def _said(values: Iterable[str]) -> str:
    return " ".join(value for value in values if value)


def _replaced(told: str, now: dict[int, str]) -> list[str]:
    """Tokens of a told line that deviate."""
    found = tokens(told)
    return [found[key // 2] for key in now if key > 0 and key % 2 and key // 2 < len(found)]
