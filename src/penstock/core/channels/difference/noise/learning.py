"""Learning what moves on a page without news, of tokens, lines, places and columns.

`Learner` counts what moved since the last look. `contrast` compares two fetches of one moment: what they show
differently was not written by the author of the page.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.core.channels.difference.noise.evidence import TEXT_CHARS, Alignment, slot_at
from penstock.core.channels.difference.noise.heat import COLD, NUMBER_MOVES, WORD_MOVES, Heat
from penstock.core.channels.difference.noise.lists import Churn
from penstock.core.channels.difference.noise.memory import GONE, WHOLE, Slot, Stranger, hash_of, need_of
from penstock.core.channels.difference.noise.tokens import is_mostly, is_number, is_stated, shape_of, token_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.channels.difference.noise.evidence import Evidence


_PASSED: Final = 8
"""Moves of a price that are remembered until it is told."""


class Learner:
    """Counts the moves of one look; use it once."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._timing = evidence.timing
        self._churn = Churn()
        self._columns: dict[int, list[tuple[int, int]]] = {}
        self._strangers: dict[int, Stranger] = {}

    def learn(self, look: Alignment) -> None:
        """Count what moved since the last look."""
        evidence = self._evidence
        slots: dict[int, Slot | None] = {}
        for block in look.blocks:
            paired = dict(block.pairs)
            for i in range(block.hunk.old, block.hunk.old_end):
                j = paired.get(i, look.moved.get(i, -1))
                if j < 0:
                    slots[i] = self._moved_to(i, {GONE: ""})
                elif look.lines[j] != evidence.told[i]:
                    slots[i] = self._deviates(i, look.lines[j])
            known = {*paired.values(), *look.moved.values()}
            for j in range(block.hunk.new, block.hunk.new_end):
                if j not in known:
                    self._came(look.lines[j], look.places[j])
        for i in evidence.slots:
            if i not in slots and i < len(evidence.told):
                slots[i] = self._moved_to(i, {})
        for key, stranger in evidence.pool.items():
            if key not in self._strangers:
                self._strangers[key] = self._left(stranger) if stranger.here else stranger
        evidence.slots = {i: slot for i, slot in slots.items() if slot is not None}
        evidence.pool = self._strangers
        evidence.roles.count()
        self._count_lists(look)
        evidence.remember_variants()

    def _count_lists(self, look: Alignment) -> None:
        lists = self._evidence.lists
        lists.count_places(self._churn, look.lines, look.places)
        lists.count_orders(look.places[j] for j in look.moved.values())
        for at, found in self._columns.items():
            is_sorted = any(i in look.moved for i, _ in found)
            lists.count_column(at, len(found), of=self._mates(*found[0]), is_sorted=is_sorted)

    def _deviates(self, i: int, text: str) -> Slot | None:
        evidence = self._evidence
        told, now = evidence.told[i], evidence.deviation(i, text)
        if WHOLE in now:
            evidence.variants[hash_of(evidence.places[i], text)] = i
            return self._moved_to(i, now, text)
        before = evidence.slots.get(i)
        was = before.now if before is not None else {}
        slot = self._moved_to(i, now, text)
        if slot is None:
            return None
        for key, value in slot.now.items():
            heat = slot.heat.get(key, COLD)
            if was.get(key) != value and heat.moves and not heat.sure and is_number(token_at(told, key)):
                self._columns.setdefault(evidence.column(i, key), []).append((i, key))
        return slot

    def _moved_to(self, i: int, now: dict[int, str], text: str = "") -> Slot | None:
        """The slot of a told line after a look at which it deviates like this, by being this text."""
        evidence = self._evidence
        before = slot_at(evidence, i)
        if not now and not before.now and not before.heat:
            return None
        heat = dict(before.heat)
        calm: list[int] = []
        told = evidence.told[i]
        keys = {**before.now, **now}
        if WHOLE in keys or GONE in keys:  # the tokens of another line, or of none, say nothing of this one
            keys = {key: "" for key in keys if key < 0}
        has_moved = False
        for key in keys:
            was, new = before.now.get(key), now.get(key)
            if was == new:
                if key in heat:
                    heat[key] = heat[key].rested()
                if key in before.calm and not self._has_cooled(heat.get(key, COLD), told, key):
                    calm.append(key)
                continue
            trusted = was is None or key in before.calm
            old_text = token_at(told, key) if was is None else was
            new_text = token_at(told, key) if new is None else new
            since_us = before.at_us if before.now else None
            if trusted and evidence.is_clock(old_text, new_text, since_us=since_us):
                calm.append(key)
                continue
            has_moved = True
            words = key < 0 or not is_number(token_at(told, key))
            heat[key] = self._timing.moved(heat.get(key, COLD), words=words)
            if evidence.is_muted(heat[key], told, key):
                calm.append(key)
            if key in (WHOLE, GONE):
                self._count_churn(i, key, was, new)
        if has_moved:
            self._count_role(i, now, text)
        calm = [key for key in calm if key in now]
        return Slot(i, evidence.now_us, now, tuple(calm), heat, self._passed(before, now))

    def _count_role(self, i: int, now: dict[int, str], text: str) -> None:
        if self._evidence.lists.is_silent(self._evidence.places[i]):
            return
        if GONE in now:
            self._evidence.roles.goes(i)
        elif now:
            self._evidence.roles.differs(i, text, now)
        else:
            self._evidence.roles.comes(self._evidence.places[i], self._evidence.told[i])

    def _count_churn(self, i: int, key: int, was: str | None, new: str | None) -> None:
        churn, place = self._churn, self._evidence.places[i]
        churn.lost[place] += new is not None
        churn.won[place] += new is None or key == WHOLE
        churn.back[place] += new is None
        if was is None:
            churn.gone.setdefault(place, self._evidence.told[i])

    def _passed(self, before: Slot, now: dict[int, str]) -> dict[int, tuple[str, ...]]:
        """The prices and versions of a line since they were told, if it deviates like this now."""
        found = {key: values for key, values in before.passed.items() if key in now}
        for key, was in before.now.items():
            if now.get(key, was) != was and is_stated(self._evidence.told[before.line], key):
                found[key] = (*found.get(key, ()), was[:TEXT_CHARS])[-_PASSED:]
        return found

    def _has_cooled(self, heat: Heat, told: str, key: int) -> bool:
        """Whether it was muted on weak evidence and has been still since: then it is told, late."""
        weak = heat.moves >= need_of(token_at(told, key), key) and (not heat.firm or is_stated(told, key))
        weak = weak or (heat.sure and heat.again < NUMBER_MOVES)
        return weak and not self._evidence.is_muted(heat, told, key)

    def _came(self, text: str, place: str) -> None:
        key = hash_of(place, text)
        before = self._evidence.pool.get(key)
        if before is not None and before.here:
            heat = before.heat.rested()
            calm = before.calm and (not heat.sure or self._timing.mutes(heat, WORD_MOVES))
            self._strangers[key] = Stranger(here=True, heat=heat, calm=calm)
            return
        heat = self._timing.moved(before.heat if before else COLD, words=True)
        calm = self._timing.mutes(heat, WORD_MOVES)
        self._strangers[key] = Stranger(True, heat, calm)
        if not self._evidence.lists.is_silent(place):
            self._evidence.roles.comes(place, text)
        self._churn.won[place] += 1
        self._churn.back[place] += before is not None

    def _left(self, stranger: Stranger) -> Stranger:
        return Stranger(False, self._timing.moved(stranger.heat, words=True), False)

    def _mates(self, i: int, key: int) -> int:
        """Lines of a column of prices or versions; 0 of others, in which a few lines are evidence enough."""
        evidence = self._evidence
        if not is_stated(evidence.told[i], key):
            return 0
        place, shape = evidence.places[i], shape_of(evidence.told[i])
        return sum(
            at == place and shape_of(line) == shape
            for at, line in zip(evidence.places, evidence.told, strict=True)
        )


class _Sight:
    """The deviations of one fetch from what was told."""

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
