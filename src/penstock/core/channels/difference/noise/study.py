"""One look at a page against what was told: learns what moves, and says which differences are news.

`Study` aligns the told lines with those of the look, counts moves in the memory, then judges each difference:
noise if the part that differs is muted, or if it is a clock that moved by the time that passed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.core.channels.delta import Between
from penstock.core.channels.difference.hunks import Hunk, joined
from penstock.core.channels.difference.noise.clocks import passed
from penstock.core.channels.difference.noise.heat import (
    COLD,
    NUMBER_MOVES,
    QUIET_LOOKS,
    WORD_MOVES,
    Heat,
    Timing,
)
from penstock.core.channels.difference.noise.lists import Churn, Lists
from penstock.core.channels.difference.noise.memory import (
    FORM,
    GONE,
    WHOLE,
    Memory,
    Slot,
    Stranger,
    bounded,
    hash_of,
    is_token_muted,
    need_of,
)
from penstock.core.channels.difference.noise.slots import ALIKE, LineBlock, aligned, moved_lines, tags_of
from penstock.core.channels.difference.noise.tokens import (
    column,
    deviation,
    is_mostly,
    is_number,
    is_stated,
    likeness,
    shape_of,
    skeleton,
    token_at,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_TEXT_CHARS: Final = 200
_PASSED: Final = 8
"""Moves of a price that are remembered until it is told."""


class Study:
    """Compares told lines with a look."""

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
        self._memory = memory
        self._told = told
        self._told_places = [self._named(place) for place in told_places]
        self._kinds = kinds
        self._now_us = now_us
        gap_us = max(0, now_us - memory.at_us) if memory.at_us else 0
        self._timing = Timing(now_us, gap_us, teaching, first=teaching or memory.looks == 0)
        self._lists = Lists(memory, self._timing, kinds)
        self._variants: dict[int, int] = {}
        """Lines that stood in place of told ones: their hashes, with the index of the told line."""
        self._learned: tuple[Sequence[str], list[LineBlock], dict[int, int]] | None = None
        """Lines that were learned from, and how they were aligned."""
        self._common: dict[int, dict[int, str]] = {}
        """Deviations of told lines that two fetches share."""
        self._slots = {slot.line: slot for slot in memory.slots}
        self._pool = memory.pool

    def _named(self, place: str) -> str:
        return tags_of(place) if self._memory.by_tags else place

    # -- learning ----------------------------------------------------------------------------------------

    def learn(self, lines: Sequence[str], places: Sequence[str]) -> None:
        """Count what moved since the last look."""
        places = [self._named(place) for place in places]
        blocks = self._aligned(lines, places)
        moved_away = self._moves(blocks, lines, places)
        self._learned = (lines, blocks, moved_away)
        churn = Churn()
        columns: dict[int, list[tuple[int, int]]] = {}
        slots: dict[int, Slot | None] = {}
        strangers: dict[int, Stranger] = {}
        for block in blocks:
            paired = dict(block.pairs)
            for i in range(block.hunk.old, block.hunk.old_end):
                j = paired.get(i, moved_away.get(i, -1))
                if j >= 0:
                    if lines[j] != self._told[i]:
                        slots[i] = self._deviates(i, lines[j], churn, columns)
                else:
                    slots[i] = self._moved_to(i, {GONE: ""}, churn)
            known = {*paired.values(), *moved_away.values()}
            for j in range(block.hunk.new, block.hunk.new_end):
                if j not in known:
                    self._came(lines[j], places[j], strangers, churn)
        for i in self._slots:
            if i not in slots and i < len(self._told):
                slots[i] = self._moved_to(i, {}, churn)
        for key in self._pool.keys() - strangers.keys():
            strangers[key] = self._left(self._pool[key])
        self._slots = {i: slot for i, slot in slots.items() if slot is not None}
        self._pool = strangers
        self._lists.count_places(churn, lines, places)
        self._lists.count_orders(places[j] for j in moved_away.values())
        for at, found in columns.items():
            is_sorted = any(i in moved_away for i, _ in found)
            self._lists.count_column(at, len(found), of=self._mates(*found[0]), is_sorted=is_sorted)
        self._remember_variants()

    def _aligned(
        self, lines: Sequence[str], places: Sequence[str], *, sure_only: bool = False
    ) -> list[LineBlock]:
        def lone(i: int) -> bool:
            slot = self._slots.get(i)
            return not sure_only or slot is None or WHOLE not in slot.heat

        return aligned(self._told, lines, self._told_places, places, lone=lone)

    def _deviates(
        self, i: int, text: str, churn: Churn, columns: dict[int, list[tuple[int, int]]]
    ) -> Slot | None:
        told = self._told[i]
        if not _is_same_line(told, text):
            key = hash_of(self._told_places[i], text)
            self._variants[key] = i
            return self._moved_to(i, {WHOLE: text[:_TEXT_CHARS]}, churn)
        before = self._slots.get(i)
        was = before.now if before is not None else {}
        slot = self._moved_to(i, deviation(told, text), churn)
        if slot is None:
            return None
        for key, value in slot.now.items():
            heat = slot.heat.get(key, COLD)
            if was.get(key) != value and heat.moves and not heat.sure and is_number(token_at(told, key)):
                columns.setdefault(self._column(i, key), []).append((i, key))
        return slot

    def _column(self, i: int, key: int) -> int:
        return hash_of(self._told_places[i], column(self._told[i], key))

    def _moved_to(self, i: int, now: dict[int, str], churn: Churn) -> Slot | None:
        """The slot of a told line after a look at which it deviates like this."""
        before = self._slots.get(i) or Slot(i, self._memory.at_us)
        if not now and not before.now and not before.heat:
            return None
        heat = dict(before.heat)
        calm: list[int] = []
        told = self._told[i]
        keys = {**before.now, **now}
        if WHOLE in keys or GONE in keys:  # the tokens of another line, or of none, say nothing of this one
            keys = {key: "" for key in keys if key < 0}
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
            if trusted and self._is_clock(old_text, new_text, since_us=before.at_us if before.now else None):
                calm.append(key)
                continue
            words = key < 0 or not is_number(token_at(told, key))
            heat[key] = self._timing.moved(heat.get(key, COLD), words=words)
            if self._muted(heat[key], told, key):
                calm.append(key)
            if key in (WHOLE, GONE):
                place = self._told_places[i]
                churn.lost[place] += new is not None
                churn.won[place] += new is None or key == WHOLE
                churn.back[place] += new is None
                if was is None:
                    churn.gone.setdefault(place, told)
        calm = [key for key in calm if key in now]
        return Slot(i, self._now_us, now, tuple(calm), heat, self._passed(before, now))

    def _passed(self, before: Slot, now: dict[int, str]) -> dict[int, tuple[str, ...]]:
        """What prices and versions of a line were since they were told, if it deviates like this now."""
        found = {key: values for key, values in before.passed.items() if key in now}
        for key, was in before.now.items():
            if now.get(key, was) != was and is_stated(self._told[before.line], key):
                found[key] = (*found.get(key, ()), was[:_TEXT_CHARS])[-_PASSED:]
        return found

    def _has_cooled(self, heat: Heat, told: str, key: int) -> bool:
        """Whether it was muted on weak evidence and has been still since: then it is told, late."""
        weak = heat.moves >= need_of(token_at(told, key), key) and (not heat.firm or is_stated(told, key))
        weak = weak or (heat.sure and heat.again < NUMBER_MOVES)
        return weak and not self._muted(heat, told, key)

    def _is_clock(self, old: str, new: str, *, since_us: int | None) -> bool:
        if "clocks" not in self._kinds or not self._memory.at_us:
            return False
        return passed(old, since_us or self._memory.at_us, new, self._now_us)

    def _muted(self, heat: Heat, told: str, key: int) -> bool:
        return is_token_muted(heat, told, key, now_us=self._now_us, gap_us=self._timing.gap_us)

    def _came(self, text: str, place: str, strangers: dict[int, Stranger], churn: Churn) -> None:
        key = hash_of(place, text)
        before = self._pool.get(key)
        if before is not None and before.here:
            heat = before.heat.rested()
            calm = before.calm and (not heat.sure or self._timing.mutes(heat, WORD_MOVES))
            strangers[key] = Stranger(here=True, heat=heat, calm=calm)
            return
        heat = self._timing.moved(before.heat if before else COLD, words=True)
        calm = self._timing.mutes(heat, WORD_MOVES)
        strangers[key] = Stranger(True, heat, calm)
        churn.won[place] += 1
        churn.back[place] += before is not None

    def _left(self, stranger: Stranger) -> Stranger:
        if not stranger.here:
            return stranger
        return Stranger(False, self._timing.moved(stranger.heat, words=True), False)

    def _moves(
        self, blocks: Sequence[LineBlock], lines: Sequence[str], places: Sequence[str]
    ) -> dict[int, int]:
        """Told lines that stand elsewhere at the same place of the page now, with their new index."""
        gone: list[tuple[int, tuple[str, str]]] = []
        came: list[tuple[int, tuple[str, str]]] = []
        for block in blocks:
            old, new = {i for i, _ in block.pairs}, {j for _, j in block.pairs}
            left = (i for i in range(block.hunk.old, block.hunk.old_end) if i not in old)
            gone += [(i, (self._told_places[i], self._told[i])) for i in left]
            left = (j for j in range(block.hunk.new, block.hunk.new_end) if j not in new)
            came += [(j, (places[j], lines[j])) for j in left]
        return moved_lines(gone, came)

    def _mates(self, i: int, key: int) -> int:
        """Lines of a column of prices or versions; 0 of others, in which a few lines are evidence enough."""
        if not is_stated(self._told[i], key):
            return 0
        place, shape = self._told_places[i], shape_of(self._told[i])
        return sum(
            at == place and shape_of(line) == shape
            for at, line in zip(self._told_places, self._told, strict=True)
        )

    def _remember_variants(self) -> None:
        """Put lines that stood in place of told ones into the pool: they may come back beside them."""
        for key, i in self._variants.items():
            heat = self._slots[i].heat.get(WHOLE, COLD) if i in self._slots else COLD
            known = self._pool.get(key)
            if known is None or known.heat.moves < heat.moves:
                calm = self._timing.mutes(heat, WORD_MOVES)
                self._pool = {**self._pool, key: Stranger(here=False, heat=heat, calm=calm)}
        self._variants = {}

    # -- pairs -------------------------------------------------------------------------------------------

    def contrast(self, one: Sequence[str], other: Sequence[str], *places: Sequence[str]) -> None:
        """Learn from two fetches of one moment: what differs was not written by the author of the page.

        If one of them shows what was told, the other may be the first sight of an edit that has not reached
        all servers: that counts as a move only.
        """
        here, there = ([self._named(place) for place in each] for each in places)
        a, b = self._sight(one, here), self._sight(other, there)
        slots = dict(self._slots)
        for i in a.slots | b.slots:
            mine, yours = a.slots.get(i, {}), b.slots.get(i, {})
            if mine == yours:
                continue
            self._common[i] = {key: value for key, value in mine.items() if yours.get(key) == value}
            slot = slots.get(i) or Slot(i, self._memory.at_us)
            heat = dict(slot.heat)
            differ = {key for key in {**mine, **yours} if mine.get(key) != yours.get(key)}
            for key in differ:
                both = bool(mine) and bool(yours)
                if both or key < 0 or self._timing.first:
                    heat[key] = self._timing.contrasted(heat.get(key, COLD), both)
            if is_mostly(self._told[i], differ) and (self._timing.first or (mine and yours)):
                heat[WHOLE] = heat.get(WHOLE, COLD).seen(now_us=self._now_us)
            slots[i] = msgspec.structs.replace(slot, heat=heat)
        self._slots = slots
        pool = dict(self._pool)
        for key in a.strangers.keys() ^ b.strangers.keys():
            known = pool.get(key) or Stranger(False, COLD, False)
            pool[key] = msgspec.structs.replace(
                known, heat=self._timing.contrasted(known.heat, self._timing.first)
            )
        self._pool = pool
        self._remember_variants()
        self._contrast_places(a, b, (Counter(here), Counter(there)))

    def _contrast_places(self, a: _Sight, b: _Sight, sizes: tuple[Counter[str], Counter[str]]) -> None:
        only_a = Counter(place for key, place in a.strangers.items() if key not in b.strangers)
        only_b = Counter(place for key, place in b.strangers.items() if key not in a.strangers)
        for i in a.slots | b.slots:
            mine, yours = a.slots.get(i, {}), b.slots.get(i, {})
            for key in (WHOLE, GONE):
                if mine.get(key) != yours.get(key):
                    only_a[self._told_places[i]] += key not in mine or key == WHOLE
                    only_b[self._told_places[i]] += key not in yours or key == WHOLE
        self._lists.contrast(only_a, only_b, sizes, a.moved ^ b.moved)

    def _sight(self, lines: Sequence[str], places: Sequence[str]) -> _Sight:
        blocks = self._aligned(lines, places)
        moved = self._moves(blocks, lines, places)
        sight = _Sight()
        sight.moved = {places[j] for j in moved.values()}
        for block in blocks:
            paired = dict(block.pairs)
            for i in range(block.hunk.old, block.hunk.old_end):
                j = paired.get(i, moved.get(i, -1))
                if j >= 0:
                    text = lines[j]
                    if text == self._told[i]:
                        continue
                    if _is_same_line(self._told[i], text):
                        sight.slots[i] = deviation(self._told[i], text)
                    else:
                        sight.slots[i] = {WHOLE: text[:_TEXT_CHARS]}
                        self._variants[hash_of(self._told_places[i], text)] = i
                else:
                    sight.slots[i] = {GONE: ""}
            came = set(paired.values()) | set(moved.values())
            for j in range(block.hunk.new, block.hunk.new_end):
                if j not in came:
                    sight.strangers[hash_of(places[j], lines[j])] = places[j]
        return sight

    # -- judging -----------------------------------------------------------------------------------------

    def news(self, lines: Sequence[str], places: Sequence[str], *, confirmed: bool = False) -> list[Hunk]:
        """The differences that are news; `confirmed`: the lines are those that two fetches share."""
        places = [self._named(place) for place in places]
        if not confirmed and self._learned is not None and self._learned[0] is lines:
            _, blocks, moved = self._learned
        else:
            blocks = self._aligned(lines, places, sure_only=confirmed)
            moved = self._moves(blocks, lines, places)
        arrived = {j: i for i, j in moved.items()}
        found: list[Hunk] = []
        for block in blocks:
            i, j = block.hunk.old, block.hunk.new
            for end_i, end_j in [*block.pairs, (block.hunk.old_end, block.hunk.new_end)]:
                found += [
                    Hunk(n, n + 1, j, j)
                    for n in range(i, end_i)
                    if not (self._may_move(n, lines[moved[n]]) if n in moved else self._may_go(n))
                ]
                for n in range(j, end_j):
                    if n in arrived and self._may_move(arrived[n], lines[n]):
                        continue
                    if not self._may_come(lines[n], places[n]):
                        found.append(Hunk(end_i, end_i, n, n + 1))
                if end_i < block.hunk.old_end and not self._may_differ(end_i, lines[end_j]):
                    found.append(Hunk(end_i, end_i + 1, end_j, end_j + 1))
                i, j = end_i + 1, end_j + 1
        return joined(found)

    def _may_move(self, i: int, text: str) -> bool:
        """Whether a told line may stand elsewhere, and look like this there."""
        place = self._told_places[i]
        if self._lists.is_silent(place):
            return True
        if not self._lists.is_shuffled(place):
            return False
        return self._may_differ(i, text)

    def _may_go(self, i: int) -> bool:
        place = self._told_places[i]
        if self._lists.is_silent(place) or self._is_calm(i, {GONE: ""}):
            return True
        slot = self._slots.get(i)  # where any line may stand, there may be none
        return (
            slot is not None
            and self._is_moving(place, WHOLE)
            and self._muted(slot.heat.get(WHOLE, COLD), self._told[i], WHOLE)
        )

    def _is_moving(self, place: str, key: int) -> bool:
        """Whether what was learned about a place, or about tokens at it, is to be used."""
        return ("rotating" if key < 0 else "moving") in self._kinds and place not in self._memory.unmuted

    def _may_come(self, text: str, place: str) -> bool:
        if self._lists.is_silent(place):
            return True
        if "rotating" not in self._kinds or place in self._memory.unmuted:
            return False
        stranger = self._pool.get(hash_of(place, text))
        return stranger is not None and (stranger.calm or self._timing.mutes(stranger.heat, WORD_MOVES))

    def _may_differ(self, i: int, text: str) -> bool:
        if self._lists.is_silent(self._told_places[i]):
            return True
        told = self._told[i]
        same = _is_same_line(told, text)
        now = deviation(told, text) if same else {WHOLE: text[:_TEXT_CHARS]}
        if i in self._common and self._told_places[i] not in self._memory.unmuted:  # only what both show
            now = {key: value for key, value in now.items() if self._common[i].get(key) == value}
        return self._is_calm(i, now)

    def _is_calm(self, i: int, now: dict[int, str]) -> bool:
        """Whether every deviation of a told line is noise."""
        slot = self._slots.get(i)
        told, place = self._told[i], self._told_places[i]
        is_unmuted = place in self._memory.unmuted
        if slot is not None and self._is_moving(place, WHOLE):
            whole = slot.heat.get(WHOLE, COLD)
            if whole.sure and self._muted(whole, told, WHOLE):
                return True  # every fetch shows another line
        for key, value in now.items():
            moving = "rotating" if key < 0 else "moving"
            if slot is not None and not is_unmuted and moving in self._kinds:
                heat = slot.heat.get(key, COLD)
                if (key in slot.calm and slot.now.get(key) == value and key in slot.heat) or self._muted(
                    heat, told, key
                ):
                    continue
            if slot is not None and key in slot.calm and slot.now.get(key) == value and key not in slot.heat:
                continue  # a clock
            is_number_here = key >= 0 and not is_unmuted and is_number(token_at(told, key))
            if is_number_here and self._lists.mutes_column(self._column(i, key)):
                continue
            if (
                key >= 0
                and (slot is None or key not in slot.now)
                and self._is_clock(token_at(told, key), value, since_us=None)
            ):
                continue
            return False
        return True

    def between(self, found: Sequence[Hunk]) -> tuple[Between, ...]:
        """What stood, since they were told last, where hunks change a price or a version."""
        slots = (self._slots.get(i) for hunk in found for i in range(hunk.old, hunk.old_end))
        return tuple(
            Between(slot.line, token_at(self._told[slot.line], key), values, slot.now[key])
            for slot in slots
            if slot is not None
            for key, values in sorted(slot.passed.items())
            if key in slot.now
        )

    # -- the result --------------------------------------------------------------------------------------

    def memory(self) -> Memory:
        """The memory after the look."""
        return bounded(
            msgspec.structs.replace(
                self._memory,
                form=FORM,
                looks=min(self._memory.looks + 1, QUIET_LOOKS + 1),
                at_us=self._now_us,
                slots=tuple(self._slots[i] for i in sorted(self._slots)),
                pool=self._pool,
                places=self._lists.places,
                orders=self._lists.orders,
                columns=self._lists.columns,
                tables=self._lists.tables,
            )
        )


class _Sight:
    """How one fetch deviates from what was told."""

    def __init__(self) -> None:
        self.slots: dict[int, dict[int, str]] = {}
        self.strangers: dict[int, str] = {}
        """Places of lines that were not told, by hash."""
        self.moved: set[str] = set()


def _is_same_line(told: str, text: str) -> bool:
    return skeleton(told) == skeleton(text) or likeness(told, text) >= ALIKE
