"""Longer and longer pauses after errors, and not for all channels alike."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from penstock.core.channels.polling.intents import Hold
from penstock.core.channels.polling.words import duration

if TYPE_CHECKING:
    from penstock.core.channels.polling.manners import Manners
    from penstock.core.channels.polling.state import PollState
    from penstock.model.instant import Instant

_DOUBLINGS: Final = 40
"""Any pause is at its longest by then."""


def pause_us(url: str, errors: int, *, manners: Manners) -> int:
    """After so many errors in a row: doubled with each, and between three quarters and the whole of that.

    The dice are a hash of the address and the number, so the same run is the same again.
    """
    bound_us = min(manners.error_least_us << min(errors - 1, _DOUBLINGS), manners.error_most_us)
    word = blake2b(f"{errors} {url}".encode(), digest_size=4).digest()
    return bound_us - bound_us * int.from_bytes(word, "big") // (4 << 32)


def hold(state: PollState, *, url: str, manners: Manners, now_us: Instant) -> Hold | None:
    """The last fetches went wrong."""
    if not state.errors:
        return None
    pause = pause_us(url, state.errors, manners=manners)
    until_us = state.polled_us + pause
    if until_us <= now_us:
        return None
    times = "once" if state.errors == 1 else f"{state.errors} times in a row"
    return Hold(until_us, f"It failed {times}, so there is a pause of {duration(pause)}: {state.problem}")
