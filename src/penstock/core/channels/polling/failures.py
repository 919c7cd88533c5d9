"""Pauses after failures: back-off after errors, pages that are gone, network outages, crash loops.

Back-off pauses grow and differ between channels. A page is gone after 410, or when it is not found for a long
time. If no host answers, the local network is down and no channel counts an error. A node that its supervisor
restarts every second would fetch the same pages every second, because the fetches just before a crash are not
yet on disk: so the pause before polling grows with each crash.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.core.backoff import doubled
from penstock.core.channels.polling.values import Hold
from penstock.model.instant import duration, moment

if TYPE_CHECKING:
    from penstock.core.channels.polling.values import FetchOutcome, Manners, PollState
    from penstock.model.instant import Instant


def pause_us(url: str, errors: int, *, manners: Manners) -> int:
    """Pause after `errors` errors in a row: doubles with each, then three quarters to all of that.

    The random part is a hash of the address and the number, so that runs are repeatable.
    """
    bound_us = doubled(manners.error_least_us, errors - 1, most=manners.error_most_us)
    word = blake2b(f"{errors} {url}".encode(), digest_size=4).digest()
    return bound_us - bound_us * int.from_bytes(word, "big") // (4 << 32)


def error_hold(state: PollState, *, url: str, manners: Manners, now_us: Instant) -> Hold | None:
    """Hold after failed fetches."""
    if not state.errors:
        return None
    pause = pause_us(url, state.errors, manners=manners)
    until_us = state.polled_us + pause
    if until_us <= now_us:
        return None
    times = "once" if state.errors == 1 else f"{state.errors} times in a row"
    return Hold(until_us, f"It failed {times}, so there is a pause of {duration(pause)}: {state.problem}")


def missing(
    state: PollState, outcome: FetchOutcome, *, manners: Manners, now_us: Instant
) -> dict[str, object]:
    """State fields that a response sets. Transport errors say nothing about the page itself."""
    if outcome.status == 410:
        return {"missing_since_us": state.missing_since_us or now_us, "gone": True}
    if outcome.status == 404:
        since_us = state.missing_since_us or now_us
        return {"missing_since_us": since_us, "gone": state.gone or now_us - since_us >= manners.missing_us}
    if outcome.status == 304 or 200 <= outcome.status < 300:
        return {"missing_since_us": 0, "gone": False}
    return {}


def gone_hold(state: PollState, *, manners: Manners, now_us: Instant) -> Hold | None:
    """Hold of a page that is gone: it is checked now and then, in case it comes back."""
    until_us = state.polled_us + manners.gone_us
    if not state.gone or until_us <= now_us:
        return None
    how = "says that it is gone" if state.status == 410 else "does not find it"
    return Hold(
        until_us,
        f"The server {how} since {moment(state.missing_since_us)}; "
        f"it is looked at again every {duration(manners.gone_us)}.",
    )


DOMAINS: Final = 10
"""Domains without a response, one after the other, that mean an outage: so many sites do not fail at once."""
DOMAINS_LEAST: Final = 2
"""Fewest domains that can mean an outage: with one, its own failure looks the same."""


class Outage:
    """Detects an outage of the local network: no domain answers."""

    __slots__ = ("_silent",)

    def __init__(self) -> None:
        self._silent: dict[str, None] = {}
        """Domains without a response since the last response of any domain."""

    def note(self, domain: str, *, answered: bool, domains: int) -> bool:
        """Record the end of a fetch; returns whether there is an outage. `domains`: how many are polled."""
        if answered:
            self._silent.clear()
        elif len(self._silent) < DOMAINS:
            self._silent[domain] = None
        return len(self._silent) >= max(DOMAINS_LEAST, min(DOMAINS, domains))


class Life(msgspec.Struct, frozen=True):
    """A run of the node that was not closed."""

    began_us: int
    """When it began to poll, after its pause."""
    crashes: int = 0
    """Consecutive runs before it that crashed soon."""


def begun(before: Life | None, *, manners: Manners, now_us: Instant) -> Life:
    """A run that starts now; `before` is the last one, None if it was closed properly."""
    crashes = 0
    if before is not None and now_us - before.began_us < limits.RESTART_SOON_US:
        # A run that ended within its pause fetched nothing, so it does not count.
        crashes = before.crashes + (now_us >= before.began_us)
    pause_us = doubled(manners.least_us, crashes - 2, most=limits.RESTART_MOST_US) if crashes > 1 else 0
    return Life(now_us + pause_us, crashes)


def restart_hold(life: Life, *, now_us: Instant) -> Hold | None:
    """Hold of all channels after crashes."""
    if life.began_us <= now_us:
        return None
    reason = f"This node crashed {life.crashes} times, so it fetches nothing until {moment(life.began_us)}."
    return Hold(life.began_us, reason, hard=True)
