"""How polite to be: the numbers the deciders keep to."""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock import limits
from penstock.model.instant import SECOND_US


class Manners(msgspec.Struct, frozen=True):
    """Bounds on polling, all in microseconds unless the name says otherwise."""

    least_us: int = 60 * SECOND_US
    """Between two fetches of one channel, whatever happens and whoever asks."""
    most_us: int = 6 * 3_600 * SECOND_US
    """Longest interval of a channel that answers."""
    fresh_most_us: int = 3_600 * SECOND_US
    """So long an answer may call itself fresh, and a feed ask for rest: a max-age of 7 days freezes none."""
    retry_most_us: int = 86_400 * SECOND_US
    """Longest Retry-After that is believed."""
    error_least_us: int = 300 * SECOND_US
    """Pause after the first error; it doubles with each further one."""
    error_most_us: int = 12 * 3_600 * SECOND_US
    """Longest pause after errors."""
    missing_us: int = 7 * 86_400 * SECOND_US
    """A page not found for so long is taken to be gone."""
    gone_us: int = 30 * 86_400 * SECOND_US
    """A channel that is gone is looked at again after this."""
    host_polls: int = 3_600
    """Fetches from one registrable domain in an hour."""
    host_bytes: int = 256 << 20
    """Bytes from one registrable domain in an hour."""
    robots: Literal["pages", "all", "off"] = "pages"
    """Whose robots.txt is obeyed: feeds are made to be fetched by programs, pages are not."""

    def bounded_us(self, interval_us: int) -> int:
        """The interval, within the bounds."""
        return min(max(interval_us, self.least_us), max(self.least_us, self.most_us))

    def obeys_robots(self, *, feed: bool) -> bool:
        """Whether robots.txt decides about a page or feed."""
        return self.robots == "all" or (self.robots == "pages" and not feed)


assert Manners().gone_us <= limits.POLL_LATEST_US
