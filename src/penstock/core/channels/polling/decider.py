"""Fetch now, or wait until when, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.channels.polling import (
    backoff,
    conditional,
    freshness,
    gone,
    retry_after,
    robots,
    schedule,
)
from penstock.core.channels.polling.intents import Fetch, Hold, Intent, Wait
from penstock.core.channels.polling.words import duration, moment

if TYPE_CHECKING:
    from penstock.core.channels.polling.host_budget import HostBudget
    from penstock.core.channels.polling.manners import Manners
    from penstock.core.channels.polling.schedule import Plan
    from penstock.core.channels.polling.state import PollState
    from penstock.model.instant import Instant


def decide(
    state: PollState,
    plan: Plan,
    *,
    host: HostBudget,
    manners: Manners,
    now_us: Instant,
    rest: Hold | None = None,
    asked: bool = False,
) -> Intent:
    """What to do with a channel now.

    `rest`: the node fetches nothing at all for now. `asked`: a person wants it now, so only what the server
    or the operator asked for counts.
    """
    found = holds(state, plan, host=host, manners=manners, now_us=now_us, rest=rest)
    if asked:
        found = [hold for hold in found if hold.hard]
    # While the channel itself has to wait, it does not stand in the queue of its host.
    own = [hold for hold in found if not hold.host] or found
    if own:
        longest = max(own, key=lambda hold: hold.until_us)
        return Wait(longest.until_us, longest.reason, host=longest.host)
    target = state.moved or plan.url
    if robots.needed(state, url=target, manners=manners, now_us=now_us):
        return Fetch(robots.address(target), {}, "What robots.txt says has to be known first.", robots=True)
    headers = conditional.conditions(state, now_us=now_us)
    return Fetch(target, headers, _reason(state, plan, asked=asked))


def holds(
    state: PollState,
    plan: Plan,
    *,
    host: HostBudget,
    manners: Manners,
    now_us: Instant,
    rest: Hold | None = None,
) -> list[Hold]:
    """Everything that keeps a channel from being fetched now."""
    target = state.moved or plan.url
    found = (
        rest,
        _pause(state, manners=manners, now_us=now_us),
        schedule.hold(state, plan, now_us=now_us),
        retry_after.hold(state, now_us=now_us),
        backoff.hold(state, url=plan.url, manners=manners, now_us=now_us),
        gone.hold(state, manners=manners, now_us=now_us),
        freshness.fresh_hold(state, now_us=now_us),
        freshness.rest_hold(state, manners=manners, now_us=now_us),
        freshness.skip_hold(state, now_us=now_us),
        robots.hold(state, url=target, manners=manners, now_us=now_us),
        host.hold(manners=manners, now_us=now_us),
    )
    return [hold for hold in found if hold is not None]


def why(
    state: PollState,
    plan: Plan,
    *,
    host: HostBudget,
    manners: Manners,
    now_us: Instant,
    rest: Hold | None = None,
) -> str:
    """All of it in sentences, what decides first."""
    found = holds(state, plan, host=host, manners=manners, now_us=now_us, rest=rest)
    found.sort(key=lambda hold: hold.until_us, reverse=True)
    if found:
        left = duration(found[0].until_us - now_us)
        lines = [f"It is polled next at {moment(found[0].until_us)}, in {left}."]
    else:
        lines = ["It is polled as soon as a fetch is free."]
    lines += [hold.reason for hold in found]
    if plan.interval_us != plan.wanted_us:
        wanted, given = duration(plan.wanted_us), duration(plan.interval_us)
        lines.append(f"The allocation gives it {wanted} between polls; the bounds make that {given}.")
    lines += _facts(state)
    return "\n".join(dict.fromkeys(lines))


def _facts(state: PollState) -> list[str]:
    """What is known about it otherwise."""
    found = []
    if not state.polled_us:
        found.append("It has not been fetched yet.")
    elif state.problem:
        found.append(f"The last fetch, at {moment(state.polled_us)}, failed: {state.problem}")
    else:
        unchanged = " (not modified)" if state.status == 304 else ""
        found.append(f"The last fetch, at {moment(state.polled_us)}, was answered {state.status}{unchanged}.")
    if state.moved:
        found.append(f"It has moved for good, and is fetched from {state.moved}.")
    if state.etag or state.last_modified:
        known = " and ".join(
            name for name, value in (("ETag", state.etag), ("Last-Modified", state.last_modified)) if value
        )
        found.append(f"The server gives {known}, so it is asked only for what is newer.")
    return found


def _pause(state: PollState, *, manners: Manners, now_us: Instant) -> Hold | None:
    """Whatever anybody wants, not so soon again."""
    until_us = state.polled_us + manners.least_us
    if not state.polled_us or until_us <= now_us:
        return None
    return Hold(until_us, f"No channel is fetched twice within {duration(manners.least_us)}.", hard=True)


def _reason(state: PollState, plan: Plan, *, asked: bool) -> str:
    if asked:
        return "Somebody asked for it."
    if not state.polled_us:
        return "It is new."
    if state.errors:
        return "The pause after the last error is over."
    return f"Its turn has come, as every {duration(plan.interval_us)}."
