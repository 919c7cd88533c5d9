"""What can be known about channels: frozen snapshots for the API, the dashboard, metrics and $SYS."""

from __future__ import annotations

import msgspec


class Counts(msgspec.Struct):
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

    def __add__(self, other: Counts) -> Counts:
        names = Counts.__struct_fields__
        return Counts(*(getattr(self, name) + getattr(other, name) for name in names))

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
    counts: Counts


class WebStatus(msgspec.Struct, frozen=True):
    """All channels together."""

    channels: int
    polled: int
    """Channels that are polled."""
    failing: int
    """Of those, whose last poll told nothing."""
    subscriptions: int
    counts: Counts
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
