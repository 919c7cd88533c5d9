"""The next state of a channel, from what its server answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.core.channels.polling import conditional, freshness, gone, redirects, retry_after, robots

if TYPE_CHECKING:
    from penstock.core.channels.polling.freshness import Hints
    from penstock.core.channels.polling.manners import Manners
    from penstock.core.channels.polling.outcome import Outcome
    from penstock.core.channels.polling.state import PollState
    from penstock.model.instant import Instant

GOOD: Final = (200, 203, conditional.DELTA_STATUS)
"""Statuses that bring a body to compare."""

_MEANINGS: Final = {
    204: "no content",
    206: "a part that was not asked for",
    300: "several choices",
    **dict.fromkeys(redirects.STATUSES, "a redirect that leads nowhere"),
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


def learn(state: PollState, outcome: Outcome, *, url: str, manners: Manners, now_us: Instant) -> PollState:
    """After a fetch of the channel `url` that ended now."""
    problem = complaint(state, outcome)
    common: dict[str, object] = {
        "polled_us": now_us,
        "status": outcome.status,
        "problem": problem[: limits.PROBLEM_CHARS],
        "not_before_us": retry_after.asked_us(outcome, manners=manners, now_us=now_us),
        "moved": redirects.moved(state, outcome, url=url),
        **({} if outcome.error else gone.missing(state, outcome, manners=manners, now_us=now_us)),
    }
    if problem:
        common["errors"] = min(state.errors + 1, limits.POLL_ERRORS)
        common["fresh_until_us"] = 0
        if outcome.status == 304:  # not believed: ask without conditions next time
            common |= {"etag": "", "last_modified": ""}
        return msgspec.structs.replace(state, **common)
    common |= {
        "errors": 0,
        "errors_before": state.errors,
        "answered_us": now_us,
        **conditional.validators(state, outcome),
    }
    common["fresh_until_us"] = freshness.fresh_us(outcome.headers, manners=manners, now_us=now_us)
    if outcome.status != 304:
        common["full_us"] = state.full_us if outcome.status == conditional.DELTA_STATUS else now_us
        common["feed"] = robots.is_feed(outcome.headers.get("content-type", ""))
    return msgspec.structs.replace(state, **common)


def spare(state: PollState, outcome: Outcome, *, now_us: Instant) -> PollState:
    """After a fetch without an answer while nobody answers: its next turn comes as if nothing was wrong."""
    problem = f"Nobody answers at present, so this node may be offline. {outcome.error}"
    return msgspec.structs.replace(
        state, polled_us=now_us, status=outcome.status, problem=problem[: limits.PROBLEM_CHARS]
    )


def take_hints(state: PollState, said: Hints) -> PollState:
    """After the body was read as a feed."""
    return msgspec.structs.replace(state, feed=True, **freshness.hints(said))


def complain(state: PollState, problem: str) -> PollState:
    """After a good answer whose body could not be read; it is asked for in full next time."""
    errors = min(max(state.errors, state.errors_before + 1), limits.POLL_ERRORS)
    problem = problem[: limits.PROBLEM_CHARS]
    return msgspec.structs.replace(state, errors=errors, problem=problem, etag="", last_modified="")


def complaint(state: PollState, outcome: Outcome) -> str:
    """What was wrong with a fetch, as a sentence; empty if nothing was."""
    if outcome.error:
        return outcome.error
    status = outcome.status
    if status in GOOD:
        return ""
    if status == 304:
        return conditional.believed(state, outcome)
    meaning = _MEANINGS.get(status, "")
    return f"The server answered {status}, {meaning}." if meaning else f"The server answered {status}."
