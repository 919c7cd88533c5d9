"""Settings of the poller: intervals, budgets of hosts, time limits, sizes, networks."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from penstock.core.channels.polling import Manners
from penstock.model.instant import to_us

Pause = Annotated[float, msgspec.Meta(gt=0, le=31 * 86_400, extra={"unit": "s"})]
Timeout = Annotated[float, msgspec.Meta(gt=0, le=600, extra={"unit": "s"})]


class Polling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How web pages are fetched."""

    robots: Literal["pages", "all", "off"] = "pages"
    """Whose robots.txt is obeyed: that of pages, of pages and feeds, of none."""
    networks: tuple[str, ...] = ()
    """Networks that may be fetched from although they are not public, as 192.168.0.0/16."""
    least_s: Pause = 60.0
    """Shortest time between two fetches of one channel, whatever happens and whoever asks."""
    most_s: Pause = 6 * 3_600.0
    """Longest interval of a channel that answers."""
    fresh_most_s: Pause = 3_600.0
    """So long an answer may call itself fresh, or a feed ask for rest; longer wishes are cut to this."""
    retry_most_s: Pause = 86_400.0
    """Longest Retry-After that is believed."""
    error_least_s: Pause = 300.0
    """Pause after the first error; it doubles with each further one."""
    error_most_s: Pause = 12 * 3_600.0
    """Longest pause after errors."""
    missing_s: Pause = 7 * 86_400.0
    """A page that is not found for so long is taken to be gone."""
    gone_s: Pause = 30 * 86_400.0
    """A page that is gone is looked at again after this."""
    host_polls: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] = 3_600
    """Fetches from one registrable domain in an hour; one that says 429 gets fewer, and slowly more again."""
    host_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 48, extra={"unit": "bytes"})] = 256 << 20
    """Bytes from one registrable domain in an hour."""
    host_fetches: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 2
    """Fetches from one registrable domain at the same time."""
    fetches: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 64
    """Fetches at the same time."""
    connect_s: Timeout = 10.0
    """A server that has not taken the connection by then is given up."""
    silence_s: Timeout = 20.0
    """A server that sends nothing for so long is given up."""
    fetch_s: Timeout = 60.0
    """A fetch that is not complete by then, redirects included, is given up."""
    page_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 30, extra={"unit": "bytes"})] = 8 << 20
    """Largest page, decompressed; larger ones are given up."""

    def manners(self) -> Manners:
        """The part that deciders keep to."""
        return Manners(
            least_us=to_us(self.least_s),
            most_us=to_us(self.most_s),
            fresh_most_us=to_us(self.fresh_most_s),
            retry_most_us=to_us(self.retry_most_s),
            error_least_us=to_us(self.error_least_s),
            error_most_us=to_us(self.error_most_s),
            missing_us=to_us(self.missing_s),
            gone_us=to_us(self.gone_s),
            host_polls=self.host_polls,
            host_bytes=self.host_bytes,
            robots=self.robots,
        )
