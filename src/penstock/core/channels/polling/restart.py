"""A node that ends again and again soon after it began: the pauses before it polls grow.

What was fetched in the last seconds before a crash is not on disk. Once, that costs a server a fetch or two;
a node that its supervisor starts again every second would ask the same pages every second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock import limits
from penstock.core.channels.polling.intents import Hold
from penstock.core.channels.polling.words import moment

if TYPE_CHECKING:
    from penstock.core.channels.polling.manners import Manners
    from penstock.model.instant import Instant


class Life(msgspec.Struct, frozen=True):
    """What is known of a run that was not closed."""

    began_us: int
    """When it polled, or would have: after its pause."""
    crashes: int = 0
    """Runs just before it that ended soon, without being closed."""


def begun(before: Life | None, *, manners: Manners, now_us: Instant) -> Life:
    """A run that starts now; `before` is the last one, None if it was closed."""
    crashes = 0
    if before is not None and now_us - before.began_us < limits.RESTART_SOON_US:
        crashes = before.crashes + (now_us >= before.began_us)  # one that ended in its pause asked nobody
    pause_us = min(manners.least_us << min(crashes - 2, 30), limits.RESTART_MOST_US) if crashes > 1 else 0
    return Life(now_us + pause_us, crashes)


def hold(life: Life, *, now_us: Instant) -> Hold | None:
    """Why nothing is fetched yet."""
    if life.began_us <= now_us:
        return None
    reason = f"This node crashed {life.crashes} times, so it fetches nothing until {moment(life.began_us)}."
    return Hold(life.began_us, reason, hard=True)
