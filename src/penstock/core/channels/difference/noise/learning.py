"""Learning from one look: counts what moved since the last one, of tokens, lines, places and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.channels.difference.noise.evidence import TEXT_CHARS, slot_at
from penstock.core.channels.difference.noise.heat import COLD, NUMBER_MOVES, WORD_MOVES, Heat
from penstock.core.channels.difference.noise.lists import Churn
from penstock.core.channels.difference.noise.memory import GONE, WHOLE, Slot, Stranger, hash_of, need_of
from penstock.core.channels.difference.noise.tokens import is_number, is_stated, shape_of, token_at

if TYPE_CHECKING:
    from penstock.core.channels.difference.noise.evidence import Alignment, Evidence

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
