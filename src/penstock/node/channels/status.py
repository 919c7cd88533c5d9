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
    """Polls of one channel, or of all. Always: polls = first + same + changes + noise + errors + looking."""

    polls: int = 0
    first: int = 0
    """Brought the first version, with which nothing could be compared."""
    same: int = 0
    """Not modified, or the same bytes again."""
    changes: int = 0
    noise: int = 0
    """Brought other bytes but no change: dates, counters, advertisements."""
    errors: int = 0
    looking: int = 0
    """Brought what is being compared now."""
    bytes: int = 0
    """As they came over the network."""

    def __add__(self, other: PollCounts) -> PollCounts:
        names = PollCounts.__struct_fields__
        return PollCounts(*(getattr(self, name) + getattr(other, name) for name in names))

    @property
    def balanced(self) -> bool:
        """Whether no poll is unaccounted for."""
        found = self.first + self.same + self.changes + self.noise + self.errors + self.looking
        return self.polls == found


class ChannelStatus(msgspec.Struct, frozen=True):
    """One channel."""

    url: str
    topic: str
    """Where its changes are published."""
    state: str
    """polled, paused, idle (nobody wants it) or failing (the last poll told nothing, or none is allowed)."""
    title: str
    kind: str
    """feed, html, json or text; empty: not read yet."""
    clients: int
    """MQTT clients that subscribe to it."""
    people: int
    """Other subscribers."""
    kept: bool
    """Whether it is polled without subscribers."""
    interval_us: int
    """Between polls, as allocated; 0: not yet."""
    every_us: int
    """Interval that was asked for; 0: none was."""
    update_us: int
    """Mean time between changes, estimated; 0: not known."""
    since_us: int
    polled_us: int
    """Last fetch; 0: none yet."""
    changed_us: int
    """Last change; 0: none yet."""
    version: int
    problem: str
    """Why the last poll told nothing; empty: it did."""
    counts: PollCounts


class ChannelsStatus(msgspec.Struct, frozen=True):
    """All channels together."""

    channels: int
    polled: int
    """Channels that are polled."""
    failing: int
    """Of those, whose last poll told nothing."""
    subscriptions: int
    counts: PollCounts
    """Of all polls since the node started."""
    balanced: bool
    """Whether every poll is accounted for, and every change told or on its way."""
    published: int
    """Changes told on their topics, since the node started."""
    handed: int
    """Changes handed on to single subscribers."""
    untold: int
    """Changes found and not told yet."""
    contrasted: int
    """Pages fetched twice at once, to learn their noise."""
    fetching: int
    """Fetches under way."""
    due: int
    """Channels that wait for a fetch."""
    table_version: int
    """Of the control table in force; 0: none."""
    faults: tuple[str, ...]
    """What does not work: a store that cannot be written, a control table that is refused."""


@dataclass(frozen=True, slots=True)
class PollerStatistics:
    """A snapshot."""

    channels: int
    hosts: int
    """Registrable domains that are known."""
    active: int
    """Fetches under way."""
    ready: int
    """Channels that wait for a free fetch."""
    parked: int
    """Channels that wait for the budget of their host."""
    polls: int
    """Fetches of channels so far."""
    unchanged: int
    """Those answered with 304."""
    errors: int
    """Those that went wrong."""
    unused: int
    """Answers that could not be handed over."""
    bytes_wire: int
    """Bytes of bodies so far."""
    robots: int
    """Fetches of robots.txt so far."""
    late_mean_us: int
    """How long after its turn a poll begins, on average."""
    late_most_us: int


class PollerCounters:
    """What has been counted so far."""

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
        """A fetch of a channel is over."""
        self._polls += 1
        self._unchanged += fetched.status == 304
        self._errors += problem
        self._bytes_wire += fetched.bytes_wire

    def late(self, late_us: int) -> None:
        """A poll begins so long after its turn."""
        self._planned += 1
        self._late_us += late_us
        self._late_most_us = max(self._late_most_us, late_us)

    def failed(self) -> None:
        """What was fetched could not be handed over."""
        self._unused += 1

    def snapshot(
        self, *, channels: int, hosts: int, active: int, ready: int, parked: int, robots: int
    ) -> PollerStatistics:
        """The counts, with what is held now."""
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
