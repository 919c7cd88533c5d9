"""Heat: how often a part of a page moved, and when; whether that mutes it.

A part that two fetches of one moment show differently is muted at once; between polls the second move of a
number mutes it, words and whole lines need three; lines of one place count together (`lists`, `roles`). Heat
cools: after half a day of stillness for each move, or a week, the part is content again. A part that was
muted on weak evidence and then stayed as it is is told after all, late. What somebody states, a price or a
version, is not muted for two moves: it is told as soon as two looks in a row show the same, unless it moves
several times a day for days.
"""

from __future__ import annotations

from math import exp
from typing import Final, NamedTuple

import msgspec

from penstock.model.instant import SECOND_US

HOUR_US: Final = 3_600 * SECOND_US

WINDOW_US: Final = 36 * HOUR_US
"""Moves further apart than this do not add up; with rare polls, more than two polls apart."""
RARE_US: Final = 12 * HOUR_US
"""Looks further apart than this teach nothing about words and lines."""
KEEP_US: Final = 12 * HOUR_US
"""How long each move keeps a part muted; with rare polls, two polls."""
STILL_LOOKS: Final = 12
"""Looks after which what a pair showed differently, and what then changed once and stayed, was an edit."""
FIRM: Final = 14
"""Most moves that are counted, and the weight of a pair: a week without a move."""
SETTLED: Final = 4
"""Moves from which a part that cools stays as it is silently; after fewer it is told, late."""
FORGET_US: Final = 28 * 24 * HOUR_US
"""How long a part that moved often is known as such; then its next move is a first one."""
RESTLESS: Final = 5.0
"""Moves a day above which even what somebody states is muted: an exchange rate, not a price."""
_DAY_US: Final = 24 * HOUR_US
_MOST_LOAD: Final = 40.0
"""Most moves that count in `Heat.load`: what moves at every look rests for two days before it is told."""
NUMBER_MOVES: Final = 2
WORD_MOVES: Final = 3
COLUMN_MOVES: Final = 3
"""Weight that mutes a column of numbers: a look at which several lines moved counts twice, else once."""
ROLE_MOVES: Final = 5
"""Weight of moves that mutes a place for wordings that it has had before."""
QUIET_LOOKS: Final = 2
"""Looks after the first that only teach: the third fetch some minutes later, and the first regular poll."""


class Heat(msgspec.Struct, frozen=True, array_like=True):
    """Counts the moves of one part of a page, with the time of the last one."""

    moves: int = 0
    at_us: int = 0
    sure: bool = False
    """Whether two fetches of one moment differed in it."""
    again: int = 0
    """Moves since then."""
    still: int = 0
    """Looks since the last move."""
    load: float = 0.0
    """Moves within about a day: each counts less the longer ago it was, by e a day."""

    def moved(
        self, *, now_us: int, gap_us: int, words: bool = False, teaching: bool = False, weight: int = 1
    ) -> Heat:
        """The heat after a move between two looks that are `gap_us` apart.

        `words`: not a number, so that moves between rare looks say nothing: who polls once a day wants to be
        told of a new menu every day. `teaching`: the looks are minutes apart and nothing is told yet, so that
        a second move is enough. `weight`: for how many moves it counts.
        """
        if words and gap_us > RARE_US:
            return self
        load = min(self.load_at(now_us) + 1, _MOST_LOAD)
        recent = self.moves > 0 and now_us - self.at_us <= max(WINDOW_US, 5 * gap_us // 2)
        if not recent:
            known = self.moves // 2 if self.moves >= SETTLED and now_us - self.at_us <= FORGET_US else 0
            return Heat(known + weight, now_us, load=load)
        more = weight * (WORD_MOVES - 1) if teaching else weight
        return Heat(min(self.moves + more, FIRM), now_us, self.sure, self.again + self.sure, load=load)

    def load_at(self, now_us: int) -> float:
        """The load, as it has cooled since the last move."""
        return self.load * exp(min(0, self.at_us - now_us) / _DAY_US) if self.load else 0.0

    def rested(self) -> Heat:
        """The heat after a look at which it did not move."""
        return msgspec.structs.replace(self, still=self.still + 1)

    def seen(self, *, now_us: int) -> Heat:
        """The heat after two fetches of one moment differed."""
        return Heat(FIRM, now_us, sure=True, load=self.load_at(now_us))

    def mutes(self, need: int, *, now_us: int, gap_us: int) -> bool:
        """Whether the part is muted now, if so many moves are needed."""
        if self.moves < need and not self.sure:
            return False
        if self.still >= STILL_LOOKS and self.sure and self.again < NUMBER_MOVES:
            return False  # an edit between the two fetches of the pair, which has stayed
        return now_us - self.at_us <= self.moves * max(KEEP_US, 2 * gap_us)

    def silences(self, now_us: int) -> bool:
        """Whether what somebody states is muted: it moved again, at this look, or it keeps moving."""
        return self.load_at(now_us) > RESTLESS or (self.moves >= NUMBER_MOVES and not self.still)

    @property
    def unproven(self) -> bool:
        """Whether only a pair speaks for it, so that it may be an edit between the two fetches."""
        return self.sure and self.again < NUMBER_MOVES and self.still <= STILL_LOOKS

    @property
    def firm(self) -> bool:
        """Whether there is much evidence."""
        return self.sure or self.moves >= SETTLED


COLD: Final = Heat()


class Timing(NamedTuple):
    """Time and purpose of a look, by which heats grow and mute."""

    now_us: int
    gap_us: int
    """Time since the last look."""
    teaching: bool = False
    """Whether the look tells nothing, so that a second move is enough to mute."""
    first: bool = False
    """Whether nothing is told yet: then a pair that differs shows noise, and no edit that spreads."""

    def moved(self, heat: Heat, *, words: bool = False, weight: int = 1) -> Heat:
        """The heat after a move at this look."""
        return heat.moved(
            now_us=self.now_us, gap_us=self.gap_us, words=words, teaching=self.teaching, weight=weight
        )

    def contrasted(self, heat: Heat, sure: bool) -> Heat:
        """The heat after two fetches of this look differed; `sure`: neither shows what was told."""
        return heat.seen(now_us=self.now_us) if sure or self.first else self.moved(heat)

    def mutes(self, heat: Heat, need: int) -> bool:
        """Whether the heat mutes at this look, if so many moves are needed."""
        return heat.mutes(need, now_us=self.now_us, gap_us=self.gap_us)
