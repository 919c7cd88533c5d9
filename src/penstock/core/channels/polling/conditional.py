"""Conditional requests: the server's own validators, byte for byte (RFC 9110, 13).

If-Modified-Since never carries a date of ours: servers compare it by text, and clocks are wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock import limits

if TYPE_CHECKING:
    from penstock.core.channels.polling.outcome import Outcome
    from penstock.core.channels.polling.state import PollState
    from penstock.model.instant import Instant

DELTA_STATUS: Final = 226
"""IM Used: the body holds only the new items of the feed (RFC 3229)."""


def conditions(state: PollState, *, now_us: Instant) -> dict[str, str]:
    """Headers of the next request; none if a body is wanted in any case."""
    if not state.full_us or now_us - state.full_us >= limits.POLL_FULL_US:
        return {}  # some servers say 304 for ever
    found = {}
    if state.etag:
        found["If-None-Match"] = state.etag
        if state.feed is not False:
            found["A-IM"] = "feed"
    if state.last_modified:
        found["If-Modified-Since"] = state.last_modified
    return found


def validators(state: PollState, outcome: Outcome) -> dict[str, str]:
    """The fields of the state that an answer sets. A 304 refreshes what it names and leaves the rest."""
    fresh = {
        "etag": _usable(outcome.headers.get("etag", "")),
        "last_modified": _usable(outcome.headers.get("last-modified", "")),
    }
    if outcome.status == 304:
        return {name: value or getattr(state, name) for name, value in fresh.items()}
    return {**fresh, "source": outcome.url[: limits.URL_CHARS]}


def believed(state: PollState, outcome: Outcome) -> str:
    """What is wrong with a 304, as a sentence; empty if it can be believed."""
    if not outcome.conditional:
        return "The server answered 304 (not modified) to a request without conditions."
    if outcome.url and state.source and outcome.url != state.source:
        return "The server answered 304 (not modified) at another address than before."
    return ""


def _usable(text: str) -> str:
    """What can be sent back as it came: not what is no text, nor what would bloat every request."""
    return text if len(text) <= limits.VALIDATOR_CHARS and text.isprintable() else ""
