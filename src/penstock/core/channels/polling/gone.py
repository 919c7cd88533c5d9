"""Pages that are not coming back: 410, or not found for a long time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.channels.polling.intents import Hold
from penstock.core.channels.polling.words import duration, moment

if TYPE_CHECKING:
    from penstock.core.channels.polling.manners import Manners
    from penstock.core.channels.polling.outcome import Outcome
    from penstock.core.channels.polling.state import PollState
    from penstock.model.instant import Instant


def missing(state: PollState, outcome: Outcome, *, manners: Manners, now_us: Instant) -> dict[str, object]:
    """The fields of the state that an answer sets. Errors on the way say nothing about the page itself."""
    if outcome.status == 410:
        return {"missing_since_us": state.missing_since_us or now_us, "gone": True}
    if outcome.status == 404:
        since_us = state.missing_since_us or now_us
        return {"missing_since_us": since_us, "gone": state.gone or now_us - since_us >= manners.missing_us}
    if outcome.status == 304 or 200 <= outcome.status < 300:
        return {"missing_since_us": 0, "gone": False}
    return {}


def hold(state: PollState, *, manners: Manners, now_us: Instant) -> Hold | None:
    """It is looked at now and then, in case somebody put it back."""
    until_us = state.polled_us + manners.gone_us
    if not state.gone or until_us <= now_us:
        return None
    how = "says that it is gone" if state.status == 410 else "does not find it"
    return Hold(
        until_us,
        f"The server {how} since {moment(state.missing_since_us)}; "
        f"it is looked at again every {duration(manners.gone_us)}.",
    )
