"""Even phases: the id of a channel gives it a fixed phase in each interval, so polls spread over time.

Several nodes that poll one channel share the interval evenly: n pollers at independent phases find a change
after interval/(n+1) on average, evenly spread ones after interval/2n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.channels.address import channel_id
from penstock.core.channels.polling.values import Hold
from penstock.model.instant import duration

if TYPE_CHECKING:
    from penstock.core.channels.polling.values import Manners, PollState
    from penstock.model.instant import Instant


@dataclass(frozen=True, slots=True)
class PollPlan:
    """When a channel is to be polled, as far as that is ours to choose."""

    url: str
    """The channel's own address."""
    wanted_us: int
    """Interval that the allocation gives it."""
    interval_us: int
    """The same within the bounds."""
    phase_us: int
    """Its place in the interval."""
    since_us: Instant = 0
    """When we began to poll it: turns before that are not made up for."""


def plan(
    url: str,
    *,
    interval_us: int,
    manners: Manners,
    since_us: Instant = 0,
    rank: int = 0,
    pollers: int = 1,
) -> PollPlan:
    """Give a channel its turns; `rank` is our place among the nodes that poll it."""
    bounded_us = manners.bounded_us(interval_us)
    own_us = channel_id(url) * bounded_us >> 160
    phase_us = (own_us + rank * bounded_us // pollers) % bounded_us
    return PollPlan(url, interval_us, bounded_us, phase_us, since_us)


def next_us(plan: PollPlan, *, after_us: Instant) -> Instant:
    """The first turn at or after a moment."""
    return after_us + (plan.phase_us - after_us) % plan.interval_us


def hold(state: PollState, plan: PollPlan, *, now_us: Instant) -> Hold | None:
    """Its turn has not come. A poll that was late, or an interval that changed, brings none at once."""
    if not state.polled_us:
        return None
    due_us = next_us(plan, after_us=max(state.polled_us + plan.interval_us // 2, plan.since_us))
    if due_us <= now_us:
        return None
    return Hold(due_us, f"It is polled every {duration(plan.interval_us)}, and its turn comes then.")
