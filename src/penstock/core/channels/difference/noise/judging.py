"""One look at a page against what was told: which of the differences are news.

`Study` aligns the told lines with those of the look and has moves counted (`learning`). Then `Judge` decides
about each difference: noise if the part that differs is muted, or if it is a clock that moved by the time
that passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.channels.delta import Between
from penstock.core.channels.difference.hunks import Hunk, joined
from penstock.core.channels.difference.noise.evidence import Alignment, Evidence
from penstock.core.channels.difference.noise.heat import COLD, WORD_MOVES
from penstock.core.channels.difference.noise.learning import Learner, contrast
from penstock.core.channels.difference.noise.memory import GONE, WHOLE, hash_of
from penstock.core.channels.difference.noise.tokens import is_number, is_word_for_number, token_at

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.core.channels.difference.noise.memory import Memory, Slot


class Judge:
    """Says of each difference whether it is noise."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._lists = evidence.lists
        self._unmuted = evidence.before.unmuted

    def news(self, look: Alignment) -> list[Hunk]:
        """The differences that are news."""
        arrived = {j: i for i, j in look.moved.items()}
        lines, moved = look.lines, look.moved
        found: list[Hunk] = []
        for block in look.blocks:
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
                    if not self._may_come(lines[n], look.places[n]):
                        found.append(Hunk(end_i, end_i, n, n + 1))
                if end_i < block.hunk.old_end and not self._may_differ(end_i, lines[end_j]):
                    found.append(Hunk(end_i, end_i + 1, end_j, end_j + 1))
                i, j = end_i + 1, end_j + 1
        return joined(found)

    def _may_move(self, i: int, text: str) -> bool:
        """Whether it is no news if a told line stands at another place with this text."""
        place = self._evidence.places[i]
        if self._lists.is_silent(place):
            return True
        if not self._lists.is_shuffled(place) and not self._roles_mute(place):
            return False
        return self._may_differ(i, text)

    def _may_go(self, i: int) -> bool:
        evidence = self._evidence
        place = evidence.places[i]
        if self._lists.is_silent(place) or self._is_calm(i, {GONE: ""}):
            return True
        slot = evidence.slots.get(i)  # where any line may stand, there may be none
        return (
            slot is not None
            and self._is_moving(place, WHOLE)
            and evidence.is_muted(slot.heat.get(WHOLE, COLD), evidence.told[i], WHOLE)
        ) or (self._is_moving(place, WHOLE) and evidence.roles.may_go(i))

    def _may_come(self, text: str, place: str) -> bool:
        if self._lists.is_silent(place):
            return True
        if not self._is_moving(place, WHOLE):
            return False
        stranger = self._evidence.pool.get(hash_of(place, text))
        if stranger is not None and (stranger.calm or self._evidence.timing.mutes(stranger.heat, WORD_MOVES)):
            return True
        return self._evidence.roles.may_come(place, text)

    def _may_differ(self, i: int, text: str) -> bool:
        evidence = self._evidence
        place = evidence.places[i]
        if self._lists.is_silent(place):
            return True
        now = evidence.deviation(i, text)
        if i in evidence.common and place not in self._unmuted:  # only what both show
            now = {key: value for key, value in now.items() if evidence.common[i].get(key) == value}
        if self._is_calm(i, now):
            return True
        return self._is_moving(place, WHOLE) and evidence.roles.may_differ(i, text, now)

    def _roles_mute(self, place: str) -> bool:
        return self._is_moving(place, WHOLE) and self._evidence.roles.mutes(place)

    def _is_moving(self, place: str, key: int) -> bool:
        """Whether what was learned about a place, or about tokens at it, is to be used."""
        return ("rotating" if key < 0 else "moving") in self._evidence.kinds and place not in self._unmuted

    def _is_calm(self, i: int, now: dict[int, str]) -> bool:
        """Whether every deviation of a told line is noise."""
        evidence = self._evidence
        slot, told, place = evidence.slots.get(i), evidence.told[i], evidence.places[i]
        if slot is not None and self._is_moving(place, WHOLE):
            whole = slot.heat.get(WHOLE, COLD)
            if whole.sure and evidence.is_muted(whole, told, WHOLE):
                return True  # every fetch shows another line
        return all(self._is_noise(i, slot, key, value) for key, value in now.items())

    def _is_noise(self, i: int, slot: Slot | None, key: int, value: str) -> bool:
        """Whether one deviation of a told line is noise."""
        evidence = self._evidence
        told, place = evidence.told[i], evidence.places[i]
        is_moving = self._is_moving(place, key)
        if slot is not None:
            heat = slot.heat.get(key, COLD)
            is_known = key in slot.calm and slot.now.get(key) == value
            if is_known and key not in slot.heat:
                return True  # a clock
            if not heat.sure and key >= 0 and is_word_for_number(token_at(told, key), value):
                return False  # a count that moves says nothing about "none" or "closed" in its place
            if is_moving and (is_known or evidence.is_muted(heat, told, key)):
                return True
        if key < 0:
            return False
        token = token_at(told, key)
        if is_moving and is_number(token) and self._lists.mutes_column(evidence.column(i, key)):
            return True
        return (slot is None or key not in slot.now) and evidence.is_clock(token, value, since_us=None)


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
        self._evidence = Evidence(memory, told, told_places, kinds=kinds, now_us=now_us, teaching=teaching)
        self._learned: Alignment | None = None

    def contrast(self, one: Sequence[str], other: Sequence[str], *places: Sequence[str]) -> None:
        """Learn from two fetches of one moment."""
        contrast(self._evidence, one, other, *places)

    def learn(self, lines: Sequence[str], places: Sequence[str]) -> None:
        """Count what moved since the last look."""
        self._learned = Alignment(self._evidence, lines, self._evidence.named(places))
        Learner(self._evidence).learn(self._learned)

    def news(self, lines: Sequence[str], places: Sequence[str], *, confirmed: bool = False) -> list[Hunk]:
        """The differences that are news; `confirmed`: the lines are those that two fetches share."""
        look = self._learned
        if confirmed or look is None or look.lines is not lines:
            look = Alignment(self._evidence, lines, self._evidence.named(places), sure_only=confirmed)
        return Judge(self._evidence).news(look)

    def between(self, found: Sequence[Hunk]) -> tuple[Between, ...]:
        """List the values, since the last message, of each price or version that hunks change."""
        evidence = self._evidence
        slots = (evidence.slots.get(i) for hunk in found for i in range(hunk.old, hunk.old_end))
        return tuple(
            Between(slot.line, token_at(evidence.told[slot.line], key), values, slot.now[key])
            for slot in slots
            if slot is not None
            for key, values in sorted(slot.passed.items())
            if key in slot.now
        )

    def memory(self) -> Memory:
        """The memory after the look."""
        return self._evidence.memory()
