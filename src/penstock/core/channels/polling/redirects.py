"""Redirects: 301 and 308 are remembered as the new address, 302, 303 and 307 are not (RFC 9110, 15.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.channels.address import canonical
from penstock.errors import BadAddress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.channels.polling.outcome import Hop, Outcome
    from penstock.core.channels.polling.state import PollState

STATUSES: Final = (301, 302, 303, 307, 308)
_LASTING: Final = (301, 308)


def problem(visited: Sequence[str], target: str) -> str:
    """Why a redirect is not followed, as a sentence; empty: it is."""
    if target in visited:
        return f"The redirects go in a circle, through {target}."
    if len(visited) > limits.REDIRECTS:
        return f"There are more than {limits.REDIRECTS} redirects; the last one leads to {target}."
    return ""


def lasting(hops: Sequence[Hop]) -> str:
    """How far the page has moved for good: up to the first redirect meant for now; empty: not at all."""
    found = ""
    for hop in hops:
        if hop.status not in _LASTING:
            break
        found = hop.url
    return found


def moved(state: PollState, outcome: Outcome, *, url: str) -> str:
    """Where to fetch it next time; empty: where it always was.

    Only a good answer at the new address counts. A new address that keeps failing is forgotten.
    """
    if outcome.error or not (outcome.status == 304 or 200 <= outcome.status < 300):
        return "" if state.errors + 1 >= limits.MOVED_ERRORS else state.moved
    led = lasting(outcome.hops)
    if not led:
        return state.moved
    try:
        found = canonical(led)
    except BadAddress:
        return state.moved
    return "" if found == url else found
