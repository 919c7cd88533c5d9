"""One pack of a queue: begins at the level that the controller chooses, and climbs until enough is gone.

A pack for room ends in the worst case, one digest of everything, if no level makes enough room. A pack for
time spares what still fits, and ends with what the highest level left: only the capacity calls for the worst
case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.queues.controllers import PackRequest
from penstock.core.queues.gathering import gathering_of
from penstock.core.queues.sparing import Fitting
from penstock.model.event import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.core.queues.controllers import Controller
    from penstock.core.queues.gathering import Gathering
    from penstock.core.queues.pace import Pace
    from penstock.core.queues.sparing import Sparing
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.policy.columns import Plan
    from penstock.policy.evaluate import FilterEffect
    from penstock.policy.nodes import Policy

_SPARE: Final = 4
"""Where events are spared, a quarter of the time stays free: a pack looks at all that waits, so it should
not be needed again at once."""

_HOLD: Final = 8
"""The controller asks for a level that holds for an eighth of `fresh`."""


@dataclass(frozen=True, slots=True)
class Climbed:
    """The items that a pack left, and how it came to them."""

    items: Sequence[Item]
    level: int
    """The last level; 0: the worst case, or no level was tried."""
    effects: tuple[FilterEffect, ...]
    collapsed: int | None = None
    """Events that the worst case dropped; None: it was not needed."""
    spared_bytes: int = 0
    """Bytes of the events that the level would have dropped and that were kept."""


class Climber:
    """Packs the items of one queue by its policy; the queue counts what went."""

    __slots__ = ("controller", "gathering", "highest", "marks", "plan")

    def __init__(
        self, policy: Policy | Plan | None, controller: Controller, *, digests_at_once: bool
    ) -> None:
        self.plan = None if policy is None else _plan_of(policy)
        self.highest = 0 if self.plan is None else self.plan.highest
        self.controller = controller
        own = None if self.plan is None else self.plan.policy
        self.gathering: Gathering | None = None if own is None or digests_at_once else gathering_of(own)

        self.marks = (0, 0)
        """Bytes held after the last pack, and bytes that had left the queue until then."""

    def choose(
        self,
        now_us: Instant,
        *,
        held: int,
        departed: int,
        last_us: Instant | None,
        fresh_us: int,
        amount: int,
        most: float | None,
    ) -> int:
        """Ask the controller for a level; 0 without a policy.

        The queue holds so many bytes, and so many have left it; the last pack was at `last_us`. For time, the
        queue holds this `amount` in the unit of the pace, of which at most `most` may stay.
        """
        if not self.highest:
            return 0
        before, until = self.marks
        left = departed - until
        request = PackRequest(
            now_us=now_us,
            highest=self.highest,
            arrived=max(0, held - before + left),
            departed=left,
            over_us=0 if last_us is None else now_us - last_us,
            held=amount,
            most=most,
            hold_us=fresh_us // _HOLD,
        )
        return self.controller.choose(request)

    def climb(
        self, items: Sequence[Item], level: int, *, now_us: Instant, enough: Callable[[Sequence[Item]], bool]
    ) -> Climbed:
        """Pack from this level on until what is left is few enough, in the worst case to one digest."""
        effects: list[FilterEffect] = []
        done = 0
        while level and level <= self.highest:
            assert self.plan is not None
            # The next level goes on with what is packed so far; no step runs twice (decision 0006).
            packed = self.plan.pack(items, level=level, above=done, now_us=now_us)
            items = self._gathered(packed.items)
            effects += packed.effects
            if enough(items):
                return Climbed(items, level, tuple(effects))
            done, level = level, level + 1
        left = sum(isinstance(item, Event) for item in items)
        return Climbed(self.collapse(items), 0, tuple(effects), collapsed=left)

    def climb_in_time(  # the queue's own parts
        self,
        items: Sequence[Item],
        level: int,
        *,
        ahead: Iterable[Item],
        pace: Pace,
        sparing: Sparing,
        most: float,
        now_us: Instant,
    ) -> Climbed:
        """Pack from this level on until what is left takes at most so much of the pace, and spare what fits.

        `ahead` waits before the items, in the lane of urgent events.
        """
        assert self.plan is not None
        effects: list[FilterEffect] = []
        spared_bytes = done = 0
        spared_most = most - most / _SPARE  # or the next event would find the queue late again
        while level and level <= self.highest:
            fitting = Fitting(sparing, ahead, items, pace=pace, gathered=self._gathered, most=spared_most)
            packed, items = fitting.packed(self.plan, level=level, above=done, now_us=now_us)
            spared_bytes = fitting.spared_bytes
            effects += packed.effects
            done, level = level, level + 1
            if pace.total(items) <= most:
                break
        return Climbed(items, done, tuple(effects), spared_bytes=spared_bytes)

    def collapse(self, items: Sequence[Item]) -> list[Item]:
        """Merge items, control items aside, into one digest: the worst case."""
        return (self.plan or _plan_of(None)).collapse(items)

    def _gathered(self, items: list[Item]) -> list[Item]:
        return items if self.gathering is None else self.gathering.merged(items)


def _plan_of(policy: Policy | Plan | None) -> Plan:
    """Compile a policy. Imports it here: a queue without a policy that never fills needs no numpy."""
    from penstock.policy.columns import Plan  # noqa: PLC0415

    return policy if isinstance(policy, Plan) else Plan(policy)
