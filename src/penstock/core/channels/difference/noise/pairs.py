"""Pairs: what two fetches of one moment show differently was not written by the author of the page."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from penstock.core.channels.difference.noise.evidence import Alignment, slot_at
from penstock.core.channels.difference.noise.heat import COLD
from penstock.core.channels.difference.noise.memory import GONE, WHOLE, Stranger, hash_of
from penstock.core.channels.difference.noise.tokens import is_mostly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.channels.difference.noise.evidence import Evidence


class _Sight:
    """How one fetch deviates from what was told."""

    def __init__(self, evidence: Evidence, lines: Sequence[str], places: Sequence[str]) -> None:
        self.slots: dict[int, dict[int, str]] = {}
        self.strangers: dict[int, str] = {}
        """Places of lines that were not told, by hash."""
        look = Alignment(evidence, lines, places)
        self.moved = {places[j] for j in look.moved.values()}
        for block in look.blocks:
            paired = dict(block.pairs)
            for i in range(block.hunk.old, block.hunk.old_end):
                j = paired.get(i, look.moved.get(i, -1))
                if j < 0:
                    self.slots[i] = {GONE: ""}
                elif lines[j] != evidence.told[i]:
                    self.slots[i] = evidence.deviation(i, lines[j])
                    if WHOLE in self.slots[i]:
                        evidence.variants[hash_of(evidence.places[i], lines[j])] = i
            came = set(paired.values()) | set(look.moved.values())
            for j in range(block.hunk.new, block.hunk.new_end):
                if j not in came:
                    self.strangers[hash_of(places[j], lines[j])] = places[j]


def contrast(evidence: Evidence, one: Sequence[str], other: Sequence[str], *places: Sequence[str]) -> None:
    """Learn from two fetches of one moment.

    If one of them shows what was told, the other may be the first sight of an edit that has not reached
    all servers: that counts as a move only.
    """
    here, there = (evidence.named(each) for each in places)
    a, b = _Sight(evidence, one, here), _Sight(evidence, other, there)
    timing = evidence.timing
    slots = dict(evidence.slots)
    for i in a.slots | b.slots:
        mine, yours = a.slots.get(i, {}), b.slots.get(i, {})
        if mine == yours:
            continue
        evidence.common[i] = {key: value for key, value in mine.items() if yours.get(key) == value}
        slot = slot_at(evidence, i)
        heat = dict(slot.heat)
        differ = {key for key in {**mine, **yours} if mine.get(key) != yours.get(key)}
        for key in differ:
            both = bool(mine) and bool(yours)
            if both or key < 0 or timing.first:
                heat[key] = timing.contrasted(heat.get(key, COLD), both)
        if is_mostly(evidence.told[i], differ) and (timing.first or (mine and yours)):
            heat[WHOLE] = heat.get(WHOLE, COLD).seen(now_us=evidence.now_us)
        slots[i] = msgspec.structs.replace(slot, heat=heat)
    evidence.slots = slots
    pool = dict(evidence.pool)
    for key in a.strangers.keys() ^ b.strangers.keys():
        known = pool.get(key) or Stranger(False, COLD, False)
        pool[key] = msgspec.structs.replace(known, heat=timing.contrasted(known.heat, timing.first))
    evidence.pool = pool
    evidence.remember_variants()
    _contrast_places(evidence, a, b, (Counter(here), Counter(there)))


def _contrast_places(
    evidence: Evidence, a: _Sight, b: _Sight, sizes: tuple[Counter[str], Counter[str]]
) -> None:
    only_a = Counter(place for key, place in a.strangers.items() if key not in b.strangers)
    only_b = Counter(place for key, place in b.strangers.items() if key not in a.strangers)
    for i in a.slots | b.slots:
        mine, yours = a.slots.get(i, {}), b.slots.get(i, {})
        for key in (WHOLE, GONE):
            if mine.get(key) != yours.get(key):
                only_a[evidence.places[i]] += key not in mine or key == WHOLE
                only_b[evidence.places[i]] += key not in yours or key == WHOLE
    evidence.lists.contrast(only_a, only_b, sizes, a.moved ^ b.moved)
