"""Lists: what the lines of one place show together, where each of them alone is too little evidence.

A place rotates if many of its lines are replaced at a look, or come back from a pool, or if it is a
timetable: the lines that go name times that are as far from now as those that went before. The order of its
lines may change by itself. A column is the same number in all lines of a list or table, as likes of posts.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from penstock.core.channels.difference.noise.calendar import DAY_S, moments
from penstock.core.channels.difference.noise.heat import COLD, COLUMN_MOVES, NUMBER_MOVES, WORD_MOVES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from penstock.core.channels.difference.noise.heat import Timing
    from penstock.core.channels.difference.noise.memory import Memory

TURNOVER: Final = 0.4
"""Share of the lines of a place that must be replaced at a look for the place to be a rotating one."""
RETURNED: Final = 1 / 3
"""Share of new lines that were there before: a list that draws from a pool."""
TURNOVER_GAP_US: Final = 2 * 3_600 * 1_000_000
"""Longest time between two looks whose turnover counts: in a day the front page of a paper is replaced."""
MASS: Final = 3
"""Lines that must change the number in one column at one look for the column to hold counters."""
MOST: Final = 0.6
"""Share of a column of prices that must change at one look for it to be muted: an exchange rate."""
_TIMED: Final = 0.8
"""Share of the lines of a place that name a time of day, from which it may be a timetable."""
_LATE_S: Final = 600
"""How late a line of a timetable goes, besides the time between two looks."""


class Churn:
    """Lines replaced at one look, by place."""

    def __init__(self) -> None:
        self.won: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.back: Counter[str] = Counter()
        """Lines among `won` that were seen before."""
        self.gone: dict[str, str] = {}
        """The first line that went."""


class Lists:
    """Evidence about places, orders and columns, as it grows with one look."""

    def __init__(self, memory: Memory, timing: Timing, kinds: Collection[str]) -> None:
        self._timing = timing
        self._rotating = "rotating" in kinds
        self._moving = "moving" in kinds
        self._unmuted = memory.unmuted
        self.places = memory.places
        self.orders = memory.orders
        self.columns = memory.columns
        self.tables = memory.tables

    # -- learning ----------------------------------------------------------------------------------------

    def count_places(self, churn: Churn, lines: Sequence[str], places: Sequence[str]) -> None:
        """Count places whose lines were replaced."""
        found = {place: heat.rested() for place, heat in self.places.items()}
        sizes = Counter(places)
        for place in churn.won | churn.lost if self._timing.gap_us <= TURNOVER_GAP_US else ():
            heat = self.places.get(place, COLD)
            won, lost = churn.won[place], churn.lost[place]
            rotates = won > 1 and churn.back[place] >= RETURNED * won
            stays = won > 0 and self._timing.mutes(heat, WORD_MOVES)  # what is known needs less to stay so
            if max(won, lost) >= TURNOVER * max(sizes[place], 1) or rotates or stays:
                found[place] = self._timing.moved(heat)
            elif won and place in churn.gone:
                own = [line for line, at in zip(lines, places, strict=True) if at == place]
                if self._is_due(place, churn.gone[place], own):
                    found[place] = self._timing.moved(heat)
        self.places = found

    def _is_due(self, place: str, gone: str, lines: Sequence[str]) -> bool:
        """Whether a line of a timetable went: it is as far from now as the one before; notes how far."""
        clock_s = _clock_of(gone)
        if clock_s is None or sum(_clock_of(line) is not None for line in lines) < _TIMED * len(lines):
            return False
        ahead_s = int(clock_s - self._timing.now_us / 1e6) % DAY_S
        before_s = self.tables.get(place)
        self.tables = {**self.tables, place: ahead_s}
        off_s = abs(ahead_s - before_s) if before_s is not None else 0
        return min(off_s, DAY_S - off_s) <= self._timing.gap_us / 1e6 + _LATE_S

    def count_orders(self, places: Iterable[str]) -> None:
        """Count places whose lines changed their order."""
        for place in set(places):
            heat = self._timing.moved(self.orders.get(place, COLD), words=True)
            self.orders = {**self.orders, place: heat}

    def count_column(self, column: int, lines: int, *, of: int, is_sorted: bool) -> None:
        """Count a column whose number moved; twice, if it did in several lines, or while looks only teach.

        `of`: lines of the column, if it holds prices or versions, most of which have to move. `is_sorted`: a
        line went elsewhere with its number, so one line is evidence enough that the list is sorted by it.
        """
        teaching = self._timing.teaching
        is_mass = lines >= (1 if is_sorted else 2 if teaching else MASS)
        if of and not (is_mass and lines >= MOST * of):
            return
        weight = 2 if is_mass else 1
        heat = self.columns.get(column, COLD)
        for _ in range(2 if teaching and weight > 1 else 1):
            heat = self._timing.moved(heat, weight=weight)
        self.columns = {**self.columns, column: heat}

    def contrast(
        self,
        one: Counter[str],
        other: Counter[str],
        sizes: tuple[Counter[str], Counter[str]],
        shuffled: Iterable[str],
    ) -> None:
        """Learn from two fetches of one moment: lines that only one of them has, and orders, by place."""
        found = dict(self.places)
        for place in one | other:
            share = max(one[place], other[place]) / max(sizes[0][place], sizes[1][place], 1)
            if share >= TURNOVER:
                both = one[place] > 0 and other[place] > 0
                found[place] = self._timing.contrasted(found.get(place, COLD), both)
        self.places = found
        for place in shuffled:
            heat = self._timing.contrasted(self.orders.get(place, COLD), True)
            self.orders = {**self.orders, place: heat}

    # -- judging -----------------------------------------------------------------------------------------

    def is_silent(self, place: str) -> bool:
        """Whether nothing is told of a place."""
        return self._counts(place) and self._timing.mutes(self.places.get(place, COLD), WORD_MOVES)

    def is_shuffled(self, place: str) -> bool:
        """Whether the order of its lines is not told."""
        return self._counts(place) and self._timing.mutes(self.orders.get(place, COLD), NUMBER_MOVES)

    def _counts(self, place: str) -> bool:
        return self._rotating and place not in self._unmuted

    def mutes_column(self, column: int) -> bool:
        """Whether the numbers of a column are not told."""
        return self._moving and self._timing.mutes(self.columns.get(column, COLD), COLUMN_MOVES)


def _clock_of(line: str) -> float | None:
    """The first time of day that a line names, in seconds."""
    return next(
        (meaning.value for moment in moments(line) for meaning in moment.meanings if meaning.kind == "clock"),
        None,
    )
