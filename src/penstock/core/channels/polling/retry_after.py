"""Retry-After: seconds or a date, on 429 and 503 (RFC 9110, 10.2.3; RFC 6585, 4), believed up to a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.channels.polling.headers import date_us, seconds
from penstock.core.channels.polling.intents import Hold
from penstock.core.channels.polling.words import moment
from penstock.model.instant import SECOND_US, Instant

if TYPE_CHECKING:
    from penstock.core.channels.polling.manners import Manners
    from penstock.core.channels.polling.outcome import Outcome
    from penstock.core.channels.polling.state import PollState

STATUSES: Final = (429, 503)


def asked_us(outcome: Outcome, *, manners: Manners, now_us: Instant) -> Instant:
    """Until when the server wants to be left alone; 0: it does not say, or says it wrongly."""
    text = outcome.headers.get("retry-after", "")
    if outcome.status not in STATUSES or not text:
        return 0
    wait_s = seconds(text)
    if wait_s is not None:
        wait_us = wait_s * SECOND_US
    else:
        at_us = date_us(text)
        if at_us is None:
            return 0
        # The server's clock may be wrong, but by its own clock it means this long.
        wait_us = at_us - (date_us(outcome.headers.get("date", "")) or now_us)
    return now_us + min(wait_us, manners.retry_most_us) if wait_us > 0 else 0


def hold(state: PollState, *, now_us: Instant) -> Hold | None:
    """The server asked for it, so not even a person's wish counts more."""
    if state.not_before_us <= now_us:
        return None
    reason = f"The server asked to be left alone until {moment(state.not_before_us)} (Retry-After)."
    return Hold(state.not_before_us, reason, hard=True)
