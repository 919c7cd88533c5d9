"""Slots: which line of one look is which line of another, by text, then by place and likeness.

Lines that are equal, in order, belong together. Between them, lines at the same place belong together if they
are rows that begin with the same name, then if they differ in numbers only, then if they are alike, then if
each is the only one of its place. Where that leaves lines alone that differ in numbers only, an equal line
stood in their way by chance ("Bob, 5 hours ago" is now another post of Bob): then shapes are paired first, as
many as possible. Pairs never cross, so what is left over can be written as a delta.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from penstock.core.channels.difference.hunks import Hunk, hunks
from penstock.core.channels.difference.noise.tokens import head_of, is_named, likeness, skeleton

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

ALIKE: Final = 0.5
"""Share of common tokens from which two lines at one place count as the same line."""
_NEAR: Final = 12
"""Lines searched for one that is alike: bounds the work on long differences."""
_NAMES: Final = re.compile(r"[#.][^/#.]*")


_Line: TypeAlias = tuple[str, str]
"""Tags of the place of a line, and its text."""
_Pairs: TypeAlias = list[tuple[int, int]]


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
    here = list(zip(map(tags_of, old_places), old, strict=True))
    there = list(zip(map(tags_of, new_places), new, strict=True))
    whole = hunks(here, there)
    if not whole:
        return []
    both = _Both(here, there, whole, lone)
    blocks = [LineBlock(hunk, tuple(both.pairs(hunk))) for hunk in whole]
    return both.by_shape(blocks) if len(whole) > 1 else blocks


def moved_lines(gone: Iterable[tuple[int, _Line]], came: Iterable[tuple[int, _Line]]) -> dict[int, int]:
    """Lines that went, with those that came and are the same ones, by their numbers.

    A line moved if its text stands elsewhere, or if its words do, with other numbers, and no other line has
    these words.
    """
    gone, came = list(gone), list(came)
    if not gone or not came:
        return {}
    found: dict[int, int] = {}
    there: dict[_Line, list[int]] = {}
    for j, line in reversed(came):
        there.setdefault(line, []).append(j)
    for i, line in gone:
        if there.get(line):
            found[i] = there[line].pop()
    taken = set(found.values())
    a = _lone_shapes((i, line) for i, line in gone if i not in found)
    b = _lone_shapes((j, line) for j, line in came if j not in taken)
    found.update((a[shape], b[shape]) for shape in a.keys() & b.keys())
    return found


class _Both:
    """The lines of two looks, and those among their differences that stand elsewhere."""

    def __init__(
        self,
        here: Sequence[_Line],
        there: Sequence[_Line],
        parts: Sequence[Hunk],
        lone: Callable[[int], bool],
    ) -> None:
        self._here, self._there, self._lone = here, there, lone
        gone = [(i, here[i]) for part in parts for i in range(part.old, part.old_end)]
        came = [(j, there[j]) for part in parts for j in range(part.new, part.new_end)]
        self._moved = {line for _, line in gone} & {line for _, line in came}
        strays = moved_lines(gone, came)
        self._strays = strays.keys(), set(strays.values())

    def pairs(self, hunk: Hunk) -> _Pairs:
        """Pairs within a hunk: same but for numbers, then the same text elsewhere, then alike, then alone."""
        if hunk.old == hunk.old_end or hunk.new == hunk.new_end:
            return []
        if hunk.old_end - hunk.old == 1 == hunk.new_end - hunk.new:
            return self._single(hunk.old, hunk.new)
        found = self._headed(hunk)
        for part in list(_between(hunk, found)):
            found += self._equal(part, _shape, self._moved)
        found.sort()
        for part in list(_between(hunk, found)):
            found += self._equal(part, _text, self._moved)
        found.sort()
        for part in list(_between(hunk, found)):
            found += self._alike(part)
        return sorted(found)

    def by_shape(self, blocks: list[LineBlock]) -> list[LineBlock]:
        """Blocks in which as many lines as possible have a partner of their shape; these, if they do."""
        here, there = self._here, self._there
        if not self._are_shapes_left(blocks):
            return blocks
        first, last = blocks[0].hunk, blocks[-1].hunk
        span = Hunk(first.old, last.old_end, first.new, last.new_end)
        pairs = self._equal(span, _shape)
        known = span.old_end - span.old
        for block in blocks:
            known -= block.hunk.old_end - block.hunk.old
            known += sum(
                _shape(here[i]) == _shape(there[j]) or _is_same_head(here[i], there[j])
                for i, j in block.pairs
            )
        if len(pairs) <= known:
            return blocks
        rest = _Both(here, there, list(_gaps(span, pairs)), self._lone)
        pairs = sorted([*pairs, *(pair for gap in _between(span, pairs) for pair in rest._alike(gap))])
        found: list[LineBlock] = []
        inner: _Pairs = []
        i, j = span.old, span.new
        for end_i, end_j in [*pairs, (span.old_end, span.new_end)]:
            if end_i < span.old_end and here[end_i] != there[end_j]:
                inner.append((end_i, end_j))
                continue
            if i < end_i or j < end_j:
                found.append(LineBlock(Hunk(i, end_i, j, end_j), tuple(inner)))
            inner = []
            i, j = end_i + 1, end_j + 1
        return found

    def _are_shapes_left(self, blocks: Sequence[LineBlock]) -> bool:
        """Whether lines that differ in numbers only were left without a partner, on both sides."""
        gone: set[object] = set()
        came: set[object] = set()
        for block in blocks:
            old, new = {i for i, _ in block.pairs}, {j for _, j in block.pairs}
            for i in range(block.hunk.old, block.hunk.old_end):
                if i not in old:
                    gone.add(_shape(self._here[i]))
            for j in range(block.hunk.new, block.hunk.new_end):
                if j not in new:
                    came.add(_shape(self._there[j]))
        return not gone.isdisjoint(came)

    def _single(self, i: int, j: int) -> _Pairs:
        """One line in the place of another: the pair, unless one of them only moved or they are unlike."""
        old, new = self._here[i], self._there[j]
        if old[0] != new[0]:
            return [(i, j)] if old[1] == new[1] else []
        if _is_same_head(old, new) or (_shape(old) == _shape(new) and not {old, new} & self._moved):
            return [(i, j)]
        if i in self._strays[0] or j in self._strays[1]:
            return []
        return [(i, j)] if likeness(old[1], new[1]) >= ALIKE or self._lone(i) else []

    def _headed(self, hunk: Hunk) -> _Pairs:
        """Pairs of rows that begin with the same name, which no other row of the hunk has."""
        a = _lone_heads(self._here, hunk.old, hunk.old_end)
        if not a:
            return []
        b = _lone_heads(self._there, hunk.new, hunk.new_end)
        found: _Pairs = []
        for head, i in a.items():
            j = b.get(head, -1)
            if j >= 0 and (not found or j > found[-1][1]):
                found.append((i, j))
        return found

    def _equal(self, hunk: Hunk, key: Callable[[_Line], object], moved: Collection[_Line] = ()) -> _Pairs:
        """Pairs with the same key, in order; lines that only moved are not paired with others."""
        a = [(key(line), line if line in moved else None) for line in self._here[hunk.old : hunk.old_end]]
        b = [(key(line), line if line in moved else None) for line in self._there[hunk.new : hunk.new_end]]
        found: _Pairs = []
        i = j = 0
        for inner in [*hunks(a, b), Hunk(len(a), len(a), len(b), len(b))]:
            found += [(hunk.old + i + n, hunk.new + j + n) for n in range(inner.old - i)]
            i, j = inner.old_end, inner.new_end
        return found

    def _alike(self, hunk: Hunk) -> _Pairs:
        """Pairs of lines that are alike, or alone at their place between two pairs."""
        here, there = self._here, self._there
        gone, came = self._strays
        found: _Pairs = []
        j = hunk.new
        for i in range(hunk.old, hunk.old_end):
            best, at = ALIKE, -1
            for k in range(j, min(j + _NEAR, hunk.new_end)):
                if here[i][0] == there[k][0] and i not in gone and k not in came:
                    share = likeness(here[i][1], there[k][1])
                    if share > best or (share == best and at < 0):
                        best, at = share, k
            if at >= 0:
                found.append((i, at))
                j = at + 1
        left: _Pairs = []
        for part in _between(hunk, found):
            a = [i for i in range(part.old, part.old_end) if i not in gone]
            b = [j for j in range(part.new, part.new_end) if j not in came]
            if [here[i][0] for i in a] == [there[j][0] for j in b]:
                left += [(i, j) for i, j in zip(a, b, strict=True) if self._lone(i)]
        return sorted([*found, *left])


def _lone_shapes(lines: Iterable[tuple[int, _Line]]) -> dict[object, int]:
    """Lines that are known by their words, since no other one has the same: their numbers, by shape."""
    shapes = [(n, _shape(line)) for n, line in lines if is_named(line[1])]
    counts = Counter(shape for _, shape in shapes)
    return {shape: n for n, shape in shapes if counts[shape] == 1}


def _lone_heads(lines: Sequence[_Line], start: int, end: int) -> dict[_Line, int]:
    """Lines by tags and head, if no other one has the same."""
    found: dict[_Line, int] = {}
    for n in range(start, end):
        head = head_of(lines[n][1])
        if head:
            key = lines[n][0], head
            found[key] = -1 if key in found else n
    return {key: n for key, n in found.items() if n >= 0}


def _is_same_head(old: _Line, new: _Line) -> bool:
    head = head_of(old[1])
    return head != "" and old[0] == new[0] and head == head_of(new[1])


def _text(line: _Line) -> object:
    return line[1]


def _shape(line: _Line) -> object:
    return line[0], skeleton(line[1])


def _between(hunk: Hunk, pairs: Sequence[tuple[int, int]]) -> Iterator[Hunk]:
    """The parts of a hunk between its pairs that have lines on both sides."""
    return (gap for gap in _gaps(hunk, pairs) if gap.old < gap.old_end and gap.new < gap.new_end)


def _gaps(hunk: Hunk, pairs: Sequence[tuple[int, int]]) -> Iterator[Hunk]:
    """The parts of a hunk between its pairs."""
    i, j = hunk.old, hunk.new
    for end_i, end_j in [*pairs, (hunk.old_end, hunk.new_end)]:
        yield Hunk(i, end_i, j, end_j)
        i, j = end_i + 1, end_j + 1
