"""`decide` chooses between fetching a channel now and waiting; `learn` updates its state from the
response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.core.channels.polling import failures, http_rules, robots, schedule
from penstock.core.channels.polling.values import Fetch, Hold, PollIntent, Wait
from penstock.model.instant import duration, moment

if TYPE_CHECKING:
    from penstock.core.channels.polling.host_budget import HostBudget
    from penstock.core.channels.polling.http_rules import FeedSchedule
    from penstock.core.channels.polling.schedule import PollPlan
    from penstock.core.channels.polling.values import FetchOutcome, Manners, PollState
    from penstock.model.instant import Instant


def decide(
    state: PollState,
    plan: PollPlan,
    *,
    host: HostBudget,
    manners: Manners,
    now_us: Instant,
    rest: Hold | None = None,
    asked: bool = False,
) -> PollIntent:
    """Intent for a channel now: fetch or wait.

    `rest`: the node fetches nothing at all for now. `asked`: a person asked for it, so only holds set by the
    server or the operator (`Hold.hard`) count.
    """
    found = holds(state, plan, host=host, manners=manners, now_us=now_us, rest=rest)
    if asked:
        found = [hold for hold in found if hold.hard]
    # A channel with a hold of its own does not queue for its host's budget.
    own = [hold for hold in found if not hold.host] or found
    if own:
        longest = max(own, key=lambda hold: hold.until_us)
        return Wait(longest.until_us, longest.reason, host=longest.host)
    target = state.moved or plan.url
    if robots.needed(state, url=target, manners=manners, now_us=now_us):
        return Fetch(robots.address(target), {}, "What robots.txt says has to be known first.", robots=True)
    headers = http_rules.conditions(state, now_us=now_us)
    return Fetch(target, headers, _reason(state, plan, asked=asked))


def holds(
    state: PollState,
    plan: PollPlan,
    *,
    host: HostBudget,
    manners: Manners,
    now_us: Instant,
    rest: Hold | None = None,
) -> list[Hold]:
    """All holds of a channel now."""
    target = state.moved or plan.url
    found = (
        rest,
        _pause(state, manners=manners, now_us=now_us),
        schedule.hold(state, plan, now_us=now_us),
        http_rules.retry_hold(state, now_us=now_us),
        failures.error_hold(state, url=plan.url, manners=manners, now_us=now_us),
        failures.gone_hold(state, manners=manners, now_us=now_us),
        http_rules.fresh_hold(state, now_us=now_us),
        http_rules.rest_hold(state, manners=manners, now_us=now_us),
        http_rules.skip_hold(state, now_us=now_us),
        robots.hold(state, url=target, manners=manners, now_us=now_us),
        host.hold(manners=manners, now_us=now_us),
    )
    return [hold for hold in found if hold is not None]


def why(
    state: PollState,
    plan: PollPlan,
    *,
    host: HostBudget,
    manners: Manners,
    now_us: Instant,
    rest: Hold | None = None,
) -> str:
    """The holds and known facts in sentences, the deciding one first."""
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
    """Sentences about the last fetch and the server."""
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
    """Minimum gap between two fetches, even on demand."""
    until_us = state.polled_us + manners.least_us
    if not state.polled_us or until_us <= now_us:
        return None
    return Hold(until_us, f"No channel is fetched twice within {duration(manners.least_us)}.", hard=True)


def _reason(state: PollState, plan: PollPlan, *, asked: bool) -> str:
    if asked:
        return "Somebody asked for it."
    if not state.polled_us:
        return "It is new."
    if state.errors:
        return "The pause after the last error is over."
    return f"Its turn has come, as every {duration(plan.interval_us)}."


GOOD: Final = (200, 203, http_rules.DELTA_STATUS)
"""Statuses whose body is compared."""

_MEANINGS: Final = {
    204: "no content",
    206: "a partial response that was not requested",
    300: "several choices",
    **dict.fromkeys(http_rules.REDIRECT_STATUSES, "a redirect without a target"),
    401: "a password is needed",
    402: "payment is needed",
    403: "forbidden",
    404: "not found",
    410: "gone",
    429: "too many requests",
    451: "withheld for legal reasons",
    500: "an error of the server",
    502: "a bad gateway",
    503: "not available now",
    504: "a gateway that gave up",
}


def learn(
    state: PollState, outcome: FetchOutcome, *, url: str, manners: Manners, now_us: Instant
) -> PollState:
    """State after a fetch of the channel `url` that ended now."""
    problem = complaint(state, outcome)
    common: dict[str, object] = {
        "polled_us": now_us,
        "status": outcome.status,
        "problem": problem[: limits.PROBLEM_CHARS],
        "not_before_us": http_rules.asked_us(outcome, manners=manners, now_us=now_us),
        "moved": http_rules.moved(state, outcome, url=url),
        **({} if outcome.error else failures.missing(state, outcome, manners=manners, now_us=now_us)),
    }
    if problem:
        common["errors"] = min(state.errors + 1, limits.POLL_ERRORS)
        common["fresh_until_us"] = 0
        if outcome.status == 304:  # implausible 304: ask without conditions next time
            common |= {"etag": "", "last_modified": ""}
        return msgspec.structs.replace(state, **common)
    common |= {
        "errors": 0,
        "errors_before": state.errors,
        "answered_us": now_us,
        **http_rules.validators(state, outcome),
    }
    common["fresh_until_us"] = http_rules.fresh_us(outcome.headers, manners=manners, now_us=now_us)
    if outcome.status != 304:
        common["full_us"] = state.full_us if outcome.status == http_rules.DELTA_STATUS else now_us
        common["feed"] = robots.is_feed(outcome.headers.get("content-type", ""))
    return msgspec.structs.replace(state, **common)


def spare(state: PollState, outcome: FetchOutcome, *, now_us: Instant) -> PollState:
    """State after an unanswered fetch in an outage: the channel keeps its schedule, without an error."""
    problem = f"Nobody answers at present, so this node may be offline. {outcome.error}"
    return msgspec.structs.replace(
        state, polled_us=now_us, status=outcome.status, problem=problem[: limits.PROBLEM_CHARS]
    )


def anew(state: PollState) -> PollState:
    """State of a page that was refused before its server was asked, and may be asked now."""
    return msgspec.structs.replace(state, polled_us=state.answered_us, not_before_us=0, errors=0, robots=None)


def take_hints(state: PollState, said: FeedSchedule) -> PollState:
    """State after the body was read as a feed."""
    return msgspec.structs.replace(state, feed=True, **http_rules.hints(said))


def complain(state: PollState, problem: str) -> PollState:
    """State after a response whose body could not be read; the next request asks for it in full."""
    errors = min(max(state.errors, state.errors_before + 1), limits.POLL_ERRORS)
    problem = problem[: limits.PROBLEM_CHARS]
    return msgspec.structs.replace(state, errors=errors, problem=problem, etag="", last_modified="")


def complaint(state: PollState, outcome: FetchOutcome) -> str:
    """Say in a sentence why a fetch failed; empty if it did not."""
    if outcome.error:
        return outcome.error
    status = outcome.status
    if status in GOOD:
        return ""
    if status == 304:
        return http_rules.believed(state, outcome)
    meaning = _MEANINGS.get(status, "")
    return f"The server answered {status}, {meaning}." if meaning else f"The server answered {status}."
