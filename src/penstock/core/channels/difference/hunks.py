"""Hunks: the minimal differences of two sequences, computed by rapidfuzz in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock import limits
from penstock.core.channels.difference.content import library

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


class Hunk(NamedTuple):
    """Old items [old, old_end) were replaced by new items [new, new_end)."""

    old: int
    old_end: int
    new: int
    new_end: int

    def moved(self, old: int, new: int) -> Hunk:
        """The hunk, moved on by `old` and `new` items."""
        return Hunk(self.old + old, self.old_end + old, self.new + new, self.new_end + new)


def hunks(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Hunk]:
    """Hunks in order; beyond DIFF_CELLS or the memory there is, one from the first to the last difference."""
    start, most = 0, min(len(old), len(new))
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    a, b = old[start : len(old) - end], new[start : len(new) - end]
    if not a and not b:
        return []
    if not a or not b or len(a) * len(b) > limits.DIFF_CELLS:
        return [Hunk(start, start + len(a), start, start + len(b))]
    numbers: dict[Hashable, int] = {}
    first = [numbers.setdefault(member, len(numbers)) for member in a]
    second = [numbers.setdefault(member, len(numbers)) for member in b]
    found: list[Hunk] = []
    try:
        codes = library("rapidfuzz.distance").LCSseq.opcodes(first, second)
    except MemoryError:
        return [Hunk(start, start + len(a), start, start + len(b))]
    for code in codes:
        if code.tag == "equal":
            continue
        hunk = Hunk(code.src_start, code.src_end, code.dest_start, code.dest_end)
        found.append(hunk.moved(start, start))
    return joined(found)


def joined(found: list[Hunk]) -> list[Hunk]:
    """Merge adjacent hunks."""
    whole: list[Hunk] = []
    for hunk in found:
        last = whole[-1] if whole else None
        if last and last.old_end == hunk.old and last.new_end == hunk.new:
            whole[-1] = Hunk(last.old, hunk.old_end, last.new, hunk.new_end)
        else:
            whole.append(hunk)
    return whole
