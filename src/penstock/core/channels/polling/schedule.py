"""Even phases: the id of a channel gives it a fixed phase in each interval, so polls spread over time.

Several nodes that poll one channel share the interval evenly: n pollers with independent phases find a change
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
    """Interval and phase of a channel, which say when it is due."""

    url: str
    """The channel's own address."""
    wanted_us: int
    """Interval given by the allocation."""
    interval_us: int
    """Interval within the configured bounds."""
    phase_us: int
    """Offset within the interval."""
    since_us: Instant = 0
    """When polling began: turns before that are not made up for."""


def plan(
    url: str,
    *,
    interval_us: int,
    manners: Manners,
    since_us: Instant = 0,
    rank: int = 0,
    pollers: int = 1,
) -> PollPlan:
    """Plan of a channel; `rank` is this node's place among the nodes that poll it."""
    bounded_us = manners.bounded_us(interval_us)
    # The id, a hash of 160 bits, spreads channels evenly over the interval, the same after a restart.
    own_us = channel_id(url) * bounded_us >> 160
    phase_us = (own_us + rank * bounded_us // pollers) % bounded_us
    return PollPlan(url, interval_us, bounded_us, phase_us, since_us)


def next_us(plan: PollPlan, *, after_us: Instant) -> Instant:
    """First turn at or after an instant."""
    return after_us + (plan.phase_us - after_us) % plan.interval_us


def hold(state: PollState, plan: PollPlan, *, now_us: Instant) -> Hold | None:
    """Hold until the next turn. A late poll or a changed interval does not cause a poll at once."""
    if not state.polled_us:
        return None
    due_us = next_us(plan, after_us=max(state.polled_us + plan.interval_us // 2, plan.since_us))
    if due_us <= now_us:
        return None
    return Hold(due_us, f"It is polled every {duration(plan.interval_us)}, and its turn comes then.")
