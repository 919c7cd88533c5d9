"""One look at a page against what was told: learns what moves, and says which differences are news.

`Study` aligns the told lines with those of the look, counts moves (`learning`, `pairs`), then judges each
difference (`judging`): noise if the part that differs is muted, or if it is a clock that moved by the time
that passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.channels.delta import Between
from penstock.core.channels.difference.noise.evidence import Alignment, Evidence
from penstock.core.channels.difference.noise.judging import Judge
from penstock.core.channels.difference.noise.learning import Learner
from penstock.core.channels.difference.noise.pairs import contrast
from penstock.core.channels.difference.noise.tokens import token_at

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.core.channels.difference.hunks import Hunk
    from penstock.core.channels.difference.noise.memory import Memory


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
        """What stood, since they were told last, where hunks change a price or a version."""
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
