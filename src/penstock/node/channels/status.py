"""Snapshots of channels and of the poller, for the API, the dashboard, metrics and $SYS.

Every poll is counted once: polls = first + same + changes + noise + errors + looking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from penstock.node.outbound.fetch import FetchResult


class PollCounts(msgspec.Struct):
    """Polls of one channel, or of all: polls = first + same + changes + noise + errors + looking."""

    polls: int = 0
    first: int = 0
    """Polls that brought the first version of a page."""
    same: int = 0
    """Polls answered with 304, or with the same bytes as before."""
    changes: int = 0
    noise: int = 0
    """Polls that brought different bytes but no change: dates, counters, advertisements."""
    errors: int = 0
    looking: int = 0
    """Polls whose content is being compared now."""
    bytes: int = 0
    """Bytes received over the network."""

    def __add__(self, other: PollCounts) -> PollCounts:
        names = PollCounts.__struct_fields__
        return PollCounts(*(getattr(self, name) + getattr(other, name) for name in names))

    @property
    def balanced(self) -> bool:
        """Whether every poll is accounted for."""
        found = self.first + self.same + self.changes + self.noise + self.errors + self.looking
        return self.polls == found


class ChannelStatus(msgspec.Struct, frozen=True):
    """Snapshot of one channel."""

    url: str
    topic: str
    """Topic on which its changes are published."""
    state: str
    """polled, paused, idle (no subscribers) or failing (the last poll failed, or fetching is forbidden)."""
    title: str
    kind: str
    """feed, html, json or text; empty: not read yet."""
    clients: int
    """Number of MQTT clients that subscribe to it."""
    people: int
    """Number of other subscribers."""
    kept: bool
    """Whether it is polled without subscribers."""
    interval_us: int
    """Poll interval as allocated; 0: none yet."""
    every_us: int
    """Poll interval set by an operator; 0: none."""
    update_us: int
    """Mean time between changes, estimated; 0: not known."""
    since_us: int
    polled_us: int
    """When it was fetched last; 0: never."""
    changed_us: int
    """When it last changed; 0: never."""
    version: int
    problem: str
    """Why the last poll failed; empty: it succeeded."""
    tags: tuple[str, ...]
    """Words by which an operator orders pages."""
    counts: PollCounts


class ChannelsStatus(msgspec.Struct, frozen=True):
    """Snapshot of all channels together."""

    channels: int
    polled: int
    """Channels that are polled."""
    failing: int
    """Polled channels whose last poll failed."""
    subscriptions: int
    counts: PollCounts
    """Polls since the node started."""
    balanced: bool
    """Whether every poll is accounted for, and every change published or about to be."""
    published: int
    """Changes published on their topics since the node started."""
    handed: int
    """Changes passed to the notifier, counted once per subscriber."""
    untold: int
    """Changes found and not published yet."""
    confirming: int
    """Second fetches of new pages and of candidate changes, to tell news from noise."""
    fetching: int
    """Fetches under way."""
    due: int
    """Channels that wait for a fetch."""
    table_version: int
    """Version of the control table in use; 0: none."""
    faults: tuple[str, ...]
    """Parts that do not work: a store that cannot be written, a control table that is refused."""


@dataclass(frozen=True, slots=True)
class PollerStatistics:
    """Snapshot of the poller."""

    channels: int
    hosts: int
    """Registrable domains known to the poller."""
    active: int
    """Fetches under way."""
    ready: int
    """Channels that wait until fewer fetches are under way."""
    parked: int
    """Channels that wait for the budget of their host."""
    polls: int
    """Fetches of channels so far."""
    unchanged: int
    """Fetches answered with 304."""
    errors: int
    """Fetches that failed."""
    unused: int
    """Answers that could not be handled."""
    bytes_wire: int
    """Bytes of bodies so far."""
    robots: int
    """Fetches of robots.txt so far."""
    late_mean_us: int
    """Mean delay of a poll after it was due."""
    late_most_us: int


class PollerCounters:
    """Counts polls."""

    __slots__ = (
        "_bytes_wire",
        "_errors",
        "_late_most_us",
        "_late_us",
        "_planned",
        "_polls",
        "_unchanged",
        "_unused",
    )

    def __init__(self) -> None:
        self._polls = self._unchanged = self._errors = self._unused = self._bytes_wire = 0
        self._planned = self._late_us = self._late_most_us = 0

    def fetched(self, fetched: FetchResult, *, problem: bool) -> None:
        """Count a fetch."""
        self._polls += 1
        self._unchanged += fetched.status == 304
        self._errors += problem
        self._bytes_wire += fetched.bytes_wire

    def late(self, late_us: int) -> None:
        """Count the delay of a poll after it was due."""
        self._planned += 1
        self._late_us += late_us
        self._late_most_us = max(self._late_most_us, late_us)

    def failed(self) -> None:
        """Count an answer that could not be handled."""
        self._unused += 1

    def snapshot(
        self, *, channels: int, hosts: int, active: int, ready: int, parked: int, robots: int
    ) -> PollerStatistics:
        """Make a snapshot of the counts and of the numbers given."""
        return PollerStatistics(
            channels=channels,
            hosts=hosts,
            active=active,
            ready=ready,
            parked=parked,
            polls=self._polls,
            unchanged=self._unchanged,
            errors=self._errors,
            unused=self._unused,
            bytes_wire=self._bytes_wire,
            robots=robots,
            late_mean_us=self._late_us // max(1, self._planned),
            late_most_us=self._late_most_us,
        )
