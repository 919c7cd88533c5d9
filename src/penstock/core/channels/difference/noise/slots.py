"""Slots: which line of one look is which line of another, by text, then by place and likeness.

Lines that are equal, in order, belong together. Between them, lines at the same place belong together if they
differ in numbers only, then if they are alike, then if each is the only one of its place. Pairs never cross,
so what is left over can be written as a delta.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from penstock.core.channels.difference.hunks import Hunk, hunks
from penstock.core.channels.difference.noise.tokens import likeness, skeleton

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

ALIKE: Final = 0.5
"""Share of common tokens from which two lines at one place count as the same line."""
_NEAR: Final = 12
"""Lines searched for one that is alike: bounds the work on long differences."""
_NAMES: Final = re.compile(r"[#.][^/#.]*")


_Line: TypeAlias = tuple[str, str]
"""Tags of the place of a line, and its text."""


class LineBlock(NamedTuple):
    """A difference of two looks: lines [old, old_end) became [new, new_end), some of them pairwise."""

    hunk: Hunk
    pairs: tuple[tuple[int, int], ...]
    """Lines that are the same one, in order; the others came or went."""


@lru_cache(maxsize=8_192)
def tags_of(place: str) -> str:
    """A place by tags alone, without ids and class names."""
    return _NAMES.sub("", place) if "/" in place else place


def aligned(
    old: Sequence[str],
    new: Sequence[str],
    old_places: Sequence[str],
    new_places: Sequence[str],
    *,
    lone: Callable[[int], bool] = lambda _: True,
) -> list[LineBlock]:
    """Differences of two looks; `lone` says whether an old line may be paired with an unlike one."""
    here = [(tags_of(place), line) for line, place in zip(old, old_places, strict=True)]
    there = [(tags_of(place), line) for line, place in zip(new, new_places, strict=True)]
    whole = hunks(here, there)
    gone = {here[i] for hunk in whole for i in range(hunk.old, hunk.old_end)}
    moved = gone & {there[j] for hunk in whole for j in range(hunk.new, hunk.new_end)}
    return [LineBlock(hunk, tuple(_pairs(here, there, hunk, moved, lone))) for hunk in whole]


def _pairs(
    here: Sequence[_Line],
    there: Sequence[_Line],
    hunk: Hunk,
    moved: Collection[_Line],
    lone: Callable[[int], bool],
) -> list[tuple[int, int]]:
    """Pairs within a hunk: the same but for numbers, then the same text elsewhere, then alike, then alone."""
    if hunk.old == hunk.old_end or hunk.new == hunk.new_end:
        return []
    found = _equal(here, there, hunk, _shape, moved)
    for step in (_text, None):
        more: list[tuple[int, int]] = []
        for part in _between(hunk, found):
            if step is not None:
                more += _equal(here, there, part, step, moved)
            else:
                more += _alike(here, there, part, moved, lone)
        found = sorted([*found, *more])
    return found


def _text(line: _Line) -> object:
    return line[1]


def _shape(line: _Line) -> object:
    return line[0], skeleton(line[1])


def _between(hunk: Hunk, pairs: Sequence[tuple[int, int]]) -> Iterator[Hunk]:
    """The parts of a hunk between its pairs."""
    i, j = hunk.old, hunk.new
    for end_i, end_j in [*pairs, (hunk.old_end, hunk.new_end)]:
        if i < end_i and j < end_j:
            yield Hunk(i, end_i, j, end_j)
        i, j = end_i + 1, end_j + 1


def _equal(
    here: Sequence[_Line],
    there: Sequence[_Line],
    hunk: Hunk,
    key: Callable[[_Line], object],
    moved: Collection[_Line],
) -> list[tuple[int, int]]:
    """Pairs with the same key, in order; lines that only moved are not paired with others."""
    a = [(key(line), line if line in moved else None) for line in here[hunk.old : hunk.old_end]]
    b = [(key(line), line if line in moved else None) for line in there[hunk.new : hunk.new_end]]
    found: list[tuple[int, int]] = []
    i = j = 0
    for inner in [*hunks(a, b), Hunk(len(a), len(a), len(b), len(b))]:
        found += [(hunk.old + i + n, hunk.new + j + n) for n in range(inner.old - i)]
        i, j = inner.old_end, inner.new_end
    return found


def _alike(
    here: Sequence[_Line],
    there: Sequence[_Line],
    hunk: Hunk,
    moved: Collection[_Line],
    lone: Callable[[int], bool],
) -> list[tuple[int, int]]:
    """Pairs of lines that are alike, or alone at their place between two pairs."""
    found: list[tuple[int, int]] = []
    j = hunk.new
    for i in range(hunk.old, hunk.old_end):
        best, at = ALIKE, -1
        for k in range(j, min(j + _NEAR, hunk.new_end)):
            if here[i][0] == there[k][0] and here[i] not in moved and there[k] not in moved:
                share = likeness(here[i][1], there[k][1])
                if share > best or (share == best and at < 0):
                    best, at = share, k
        if at >= 0:
            found.append((i, at))
            j = at + 1
    left: list[tuple[int, int]] = []
    for part in _between(hunk, found):
        a = [i for i in range(part.old, part.old_end) if here[i] not in moved]
        b = [j for j in range(part.new, part.new_end) if there[j] not in moved]
        if [here[i][0] for i in a] == [there[j][0] for j in b]:
            left += [(i, j) for i, j in zip(a, b, strict=True) if lone(i)]
    return sorted([*found, *left])
