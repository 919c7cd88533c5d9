"""Evidence: the told lines of a page and what is known of them, as it grows while one look is studied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from penstock.core.channels.difference.noise.clocks import passed
from penstock.core.channels.difference.noise.heat import COLD, QUIET_LOOKS, WORD_MOVES, Heat, Timing
from penstock.core.channels.difference.noise.lists import Lists
from penstock.core.channels.difference.noise.memory import (
    FORM,
    WHOLE,
    Memory,
    Slot,
    Stranger,
    bounded,
    hash_of,
    is_token_muted,
)
from penstock.core.channels.difference.noise.roles import Roles
from penstock.core.channels.difference.noise.slots import ALIKE, LineBlock, aligned, moved_lines, tags_of
from penstock.core.channels.difference.noise.tokens import column, deviation, likeness, skeleton

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

TEXT_CHARS: Final = 200
"""Characters of a line that are remembered."""


class Evidence:
    """Facts about the told lines at one look; the parts that study the look add to them."""

    def __init__(
        self,
        memory: Memory,
        told: Sequence[str],
        told_places: Sequence[str],
        *,
        kinds: Collection[str],
        now_us: int,
        teaching: bool = False,
    ) -> None:
        """`teaching`: the look tells nothing, so that a second move is enough to mute."""
        self.before = memory
        self.told = told
        self.places = [tags_of(place) for place in told_places] if memory.by_tags else told_places
        self.kinds = kinds
        self.now_us = now_us
        gap_us = max(0, now_us - memory.at_us) if memory.at_us else 0
        self.timing = Timing(now_us, gap_us, teaching, first=teaching or memory.looks == 0)
        self.lists = Lists(memory, self.timing, kinds)
        self.roles = Roles(memory, told, self.places, self.timing)
        self.slots = {slot.line: slot for slot in memory.slots}
        self.pool = memory.pool
        self.variants: dict[int, int] = {}
        """Lines that stood in place of told ones: their hashes, with the index of the told line."""
        self.common: dict[int, dict[int, str]] = {}
        """Deviations of told lines that two fetches share."""

    def named(self, places: Sequence[str]) -> Sequence[str]:
        """Return the names of places: by tags alone where class names change from fetch to fetch."""
        return [tags_of(place) for place in places] if self.before.by_tags else places

    def aligned(
        self, lines: Sequence[str], places: Sequence[str], *, sure_only: bool = False
    ) -> list[LineBlock]:
        """Differences between told lines and a look; `sure_only`: lines that rotate stay alone."""

        def lone(i: int) -> bool:
            slot = self.slots.get(i)
            return not sure_only or slot is None or WHOLE not in slot.heat

        return aligned(self.told, lines, self.places, places, lone=lone)

    def moves(
        self, blocks: Sequence[LineBlock], lines: Sequence[str], places: Sequence[str]
    ) -> dict[int, int]:
        """Told lines that stand elsewhere at the same place of the page now, with their new index."""
        gone: list[tuple[int, tuple[str, str]]] = []
        came: list[tuple[int, tuple[str, str]]] = []
        for block in blocks:
            old, new = {i for i, _ in block.pairs}, {j for _, j in block.pairs}
            left = (i for i in range(block.hunk.old, block.hunk.old_end) if i not in old)
            gone += [(i, (self.places[i], self.told[i])) for i in left]
            left = (j for j in range(block.hunk.new, block.hunk.new_end) if j not in new)
            came += [(j, (places[j], lines[j])) for j in left]
        return moved_lines(gone, came)

    def deviation(self, i: int, text: str) -> dict[int, str]:
        """How a line deviates from the told line that it is paired with."""
        told = self.told[i]
        if skeleton(told) == skeleton(text) or likeness(told, text) >= ALIKE:
            return deviation(told, text)
        return {WHOLE: text[:TEXT_CHARS]}

    def column(self, i: int, key: int) -> int:
        """Hash of the column of a number in a told line."""
        return hash_of(self.places[i], column(self.told[i], key))

    def is_clock(self, old: str, new: str, *, since_us: int | None) -> bool:
        """Whether an expression of time only went on since then, or since the last look."""
        if "clocks" not in self.kinds or not self.before.at_us:
            return False
        return passed(old, since_us or self.before.at_us, new, self.now_us)

    def is_muted(self, heat: Heat, told: str, key: int) -> bool:
        """Whether a part of a told line is muted at this look."""
        return is_token_muted(heat, told, key, now_us=self.now_us, gap_us=self.timing.gap_us)

    def remember_variants(self) -> None:
        """Put lines that stood in place of told ones into the pool: they may come back beside them."""
        for key, i in self.variants.items():
            heat = self.slots[i].heat.get(WHOLE, COLD) if i in self.slots else COLD
            known = self.pool.get(key)
            if known is None or known.heat.moves < heat.moves:
                calm = self.timing.mutes(heat, WORD_MOVES)
                self.pool = {**self.pool, key: Stranger(here=False, heat=heat, calm=calm)}
        self.variants = {}

    def memory(self) -> Memory:
        """The memory after the look."""
        return bounded(
            msgspec.structs.replace(
                self.before,
                form=FORM,
                looks=min(self.before.looks + 1, QUIET_LOOKS + 1),
                at_us=self.now_us,
                slots=tuple(self.slots[i] for i in sorted(self.slots)),
                pool=self.pool,
                places=self.lists.places,
                orders=self.lists.orders,
                columns=self.lists.columns,
                tables=self.lists.tables,
                roles=self.roles.heats,
                wordings=self.roles.wordings,
            )
        )


class Alignment:
    """Lines of a look beside the told ones: differences, and told lines that stand elsewhere now."""

    def __init__(
        self,
        evidence: Evidence,
        lines: Sequence[str],
        places: Sequence[str],
        *,
        sure_only: bool = False,
    ) -> None:
        self.lines = lines
        self.places = places
        self.blocks = evidence.aligned(lines, places, sure_only=sure_only)
        self.moved = evidence.moves(self.blocks, lines, places) if self.blocks else {}


def slot_at(evidence: Evidence, i: int) -> Slot:
    """The slot of a told line, or a new one."""
    return evidence.slots.get(i) or Slot(i, evidence.before.at_us)
