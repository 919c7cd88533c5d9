"""Settings of channels: the section `channels` of the configuration, with the polling of pages."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from penstock.core.channels.polling import Manners
from penstock.model.instant import to_us
from penstock.node.config.amounts import (
    BYTES,
    SECONDS,
    Bytes,
    InMemory,
    Positive,
    Rate,
    Thousand,
    Timeout,
    UpToDay,
)

Pause = Annotated[float, msgspec.Meta(gt=0, le=31 * 86_400, extra={"unit": SECONDS})]
Interval = Annotated[float, msgspec.Meta(gt=0, le=30 * 86_400, extra={"unit": SECONDS})]


class Polling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How web pages are fetched."""

    robots: Literal["pages", "all", "off"] = "pages"
    """Where robots.txt is obeyed: for pages, for pages and feeds, or not at all."""
    networks: tuple[str, ...] = ()
    """Networks that may be fetched from although they are not public, as 192.168.0.0/16."""
    least_s: Pause = 60.0
    """Minimum gap between two fetches of one channel, even on demand."""
    most_s: Pause = 6 * 3_600.0
    """Longest interval between fetches of a channel without errors."""
    fresh_most_s: Pause = 3_600.0
    """Longest freshness (Cache-Control, Expires, a feed's ttl) that is respected; longer ones are cut to
    it."""
    retry_most_s: Pause = 86_400.0
    """Longest Retry-After that is respected."""
    error_least_s: Pause = 300.0
    """Pause after the first error; it doubles with each further error."""
    error_most_s: Pause = 12 * 3_600.0
    """Longest pause after errors."""
    missing_s: Pause = 7 * 86_400.0
    """A page that is not found for this time counts as gone."""
    gone_s: Pause = 30 * 86_400.0
    """Interval between fetches of a page that is gone."""
    host_polls: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] = 3_600
    """Fetches per hour from one registrable domain; an answer 429 halves the number, which then grows
    back."""
    host_bytes: Bytes = 256 << 20
    """Bytes per hour from one registrable domain."""
    host_fetches: Thousand = 2
    """Fetches from one registrable domain at the same time."""
    fetches: Thousand = 64
    """Fetches at the same time."""
    connect_s: Timeout = 10.0
    """Timeout of connecting to a server."""
    silence_s: Timeout = 20.0
    """Timeout for a server that sends nothing."""
    fetch_s: Timeout = 60.0
    """Timeout of a whole fetch, redirects included."""
    page_bytes: InMemory = 8 << 20
    """Largest page, decompressed; fetching a larger one is an error."""

    def manners(self) -> Manners:
        """Make the options of the core."""
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


class Browser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rendering of pages whose content is made by scripts: those added with `render: true`."""

    enabled: bool = False
    """Whether pages may be rendered; needs the extra `browser` and Chromium."""
    program: str = ""
    """Chromium: a path or the name of a program; empty: chromium, chromium-browser or google-chrome."""
    sandbox: bool = True
    """Whether Chromium's own sandbox is used; it does not start for root, nor in most containers."""
    pages: Annotated[int, msgspec.Meta(ge=1, le=64)] = 2
    """Pages rendered at the same time, each by a browser of its own."""
    wait_s: Timeout = 60.0
    """Longest time that a page waits for one of them."""
    timeout_s: Timeout = 30.0
    """Longest time that rendering a page may take, the start of the browser included."""
    settle_s: Timeout = 5.0
    """How long a loaded page may go on asking for things before it is taken as it is."""
    memory_bytes: Annotated[int, msgspec.Meta(ge=64 << 20, le=1 << 36, extra={"unit": BYTES})] = 512 << 20
    """Memory that one browser may take (on Linux; elsewhere only its scripts are bounded)."""
    requests: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 200
    """Requests that the scripts of one page may make; further ones are refused."""
    bytes: InMemory = 16 << 20
    """Bytes that they may load; further requests are refused."""


class ChannelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Channels: web pages and feeds as topics below web/."""

    enabled: bool = False
    """Whether a subscription to web/<url> makes the node fetch that page; otherwise it is an ordinary
    topic."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that may be fetched from, as example.org or *.example.org; empty: all that are not denied."""
    deny_hosts: tuple[str, ...] = ()
    """Hosts that may not be fetched from, in the same form; takes precedence over `allow_hosts`."""
    max_channels: Positive = 20_000
    """Largest number of channels; those without subscribers are kept for a day and count."""
    max_subscriptions: Positive = 200_000
    """Largest number of subscriptions to channels, of MQTT clients and of people together."""
    max_per_subscriber: Positive = 1_000
    """Largest number of channels of one MQTT client or one person."""
    scheme: Literal["lite", "fast", "fair", "fair-sqrt", "fair-log"] = "lite"
    """The aim of the schedule: least delay at the load of `interval_s`, or least load at `target_s`."""
    interval_s: Interval = 900.0
    """How often each subscriber would fetch alone; the load of all channels together is at most that."""
    target_s: Interval = 300.0
    """Mean delay that the scheme `fast` reaches."""
    polls_per_s: Rate = 0.0
    """Fetches of all channels together, on average; 0: as many as `interval_s` allows."""
    allocate_s: UpToDay = 300.0
    """Interval between allocations of polls to channels; changed subscriptions cause an earlier one."""
    table: str = ""
    """Folder of the control table `allocation`, which replaces the schedule for the channels it lists; below
    the folder of the file unless absolute. Empty: no table is read."""
    websub: bool = True
    """Whether the node subscribes at WebSub hubs that pages name; the hubs must reach `http.base_url`."""
    retain: bool = True
    """Whether the last change of a channel is a retained message, which new subscribers receive."""
    history: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 50
    """Changes kept of one channel."""
    log: bool = False
    """Whether polls and subscriptions are written to Parquet files for the Spark commands, in `polls` and
    `subscriptions` below the data folder, up to `recorder.keep_bytes`."""
    polling: Polling = Polling()
    """How pages are fetched."""
    browser: Browser = Browser()
    """How pages are rendered that scripts build."""
