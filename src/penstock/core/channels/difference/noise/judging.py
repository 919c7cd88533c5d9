"""Judging one look: which of its differences are news, after it was learned from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.channels.difference.hunks import Hunk, joined
from penstock.core.channels.difference.noise.heat import COLD, WORD_MOVES
from penstock.core.channels.difference.noise.memory import GONE, WHOLE, hash_of
from penstock.core.channels.difference.noise.tokens import is_number, is_word_for_number, token_at

if TYPE_CHECKING:
    from penstock.core.channels.difference.noise.evidence import Alignment, Evidence
    from penstock.core.channels.difference.noise.memory import Slot


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
        """Whether a told line may stand elsewhere, and look like this there."""
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
