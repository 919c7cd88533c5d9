"""Items of a feed: whether the lines of an item changed by more than noise.

Items are told apart by id, and most are seen a few times only, so there is nothing to learn about one of
them. What is learned is shapes: kinds of lines ("12 points, 3 comments") whose numbers change in several
items at one look.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from penstock.core.channels.difference.noise.clocks import passed
from penstock.core.channels.difference.noise.heat import COLD, NUMBER_MOVES, QUIET_LOOKS
from penstock.core.channels.difference.noise.lists import MASS
from penstock.core.channels.difference.noise.memory import FORM, Memory, bounded, hash_of
from penstock.core.channels.difference.noise.slots import aligned
from penstock.core.channels.difference.noise.tokens import deviation, is_number, skeleton, token_at

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


class ItemJudge:
    """Judges the items of one feed at one look; then `memory` is what was learned."""

    def __init__(self, memory: Memory, kinds: Collection[str], *, now_us: int, quiet: bool) -> None:
        """`quiet`: the look only teaches, so that no item counts as changed."""
        self._memory = memory
        self._kinds = kinds
        self._now_us = now_us
        self._gap_us = max(0, now_us - memory.at_us) if memory.at_us else 0
        self._quiet = quiet
        self._moved: Counter[int] = Counter()
        self.withheld = False
        """Whether an item changed, and the look only teaches."""

    def differ(self, old: Sequence[str], new: Sequence[str]) -> bool:
        """Whether the lines of an item differ by more than noise."""
        news = False
        for block in aligned(old, new, ("item",) * len(old), ("item",) * len(new)):
            news |= len(block.pairs) < max(
                block.hunk.old_end - block.hunk.old, block.hunk.new_end - block.hunk.new
            )
            for i, j in block.pairs:
                news |= not self._is_noise(old[i], new[j])
        self.withheld |= news and self._quiet
        return news and not self._quiet

    def _is_noise(self, old: str, new: str) -> bool:
        if skeleton(old) == skeleton(new):
            shape = hash_of("item", skeleton(old))
            self._moved[shape] += 1
        else:
            shape = 0
        heat = self._memory.columns.get(shape, COLD)
        is_counter = "moving" in self._kinds and heat.mutes(
            NUMBER_MOVES, now_us=self._now_us, gap_us=self._gap_us
        )
        for key, value in deviation(old, new).items():
            token = token_at(old, key)
            if is_counter and is_number(token):
                continue
            if not ("clocks" in self._kinds and self._memory.at_us and self._has_passed(token, value)):
                return False
        return True

    def _has_passed(self, old: str, new: str) -> bool:
        return passed(old, self._memory.at_us, new, self._now_us)

    def key(self, line: str) -> str:
        """Text by which a line of an item that left the feed is recognised."""
        return skeleton(line)

    def memory(self) -> Memory:
        """The memory after the look."""
        shapes = dict(self._memory.columns)
        for shape, count in self._moved.items():
            if shape and count >= MASS:
                shapes[shape] = shapes.get(shape, COLD).moved(now_us=self._now_us, gap_us=self._gap_us)
        return bounded(
            msgspec.structs.replace(
                self._memory,
                form=FORM,
                looks=min(self._memory.looks + 1, QUIET_LOOKS + 1),
                at_us=self._now_us,
                columns=shapes,
            )
        )
