"""One channel: the facts stored about its page, its subscribers, and its state in one word."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from penstock.core.channels.address import registrable, topic_of
from penstock.core.channels.change_rate import Estimator
from penstock.core.channels.difference import Rules
from penstock.core.channels.polling import PollState
from penstock.core.channels.websub import HubLease  # noqa: TC001  # msgspec reads annotations at run time
from penstock.node.channels.status import ChannelStatus, PollCounts

if TYPE_CHECKING:
    from penstock.core.channels.subscriptions import ChannelSubscription


class ChannelFacts(msgspec.Struct):
    """What survives a restart, beside subscriptions and versions."""

    since_us: int
    rules: Rules = Rules()
    every_us: int = 0
    """Interval somebody asked for; 0: as allocated."""
    kept: bool = False
    """Whether it is polled without subscribers, until it is removed."""
    paused: bool = False
    """Nobody polls it for now."""
    idle_us: int = 0
    """Since when nobody wants it; 0: somebody does."""
    interval_us: int = 0
    """As allocated last; 0: not yet."""
    title: str = ""
    kind: str = ""
    """feed, html, json or text; empty: not read yet."""
    version: int = 0
    """Of the last change, or of the first content."""
    changed_us: int = 0
    """When the last change was seen."""
    checked_us: int = 0
    """Last answer that told whether there was a change."""
    problem: str = ""
    """Why the last poll told nothing; empty: it did."""
    barred: str = ""
    """Why robots.txt keeps us away; empty: it does not, as far as is known."""
    hub: str = ""
    """WebSub hub that the page names."""
    hub_topic: str = ""
    """By which name the hub knows the page."""
    hub_lease: HubLease | None = None
    """What the hub has agreed to."""
    streak: int = 0
    """Comparisons in a row that found a change: of a page, a sign of noise."""
    contrasted_us: int = 0
    """When noise was last learned from two fetches at once."""
    print: bytes = b""
    """Hash of the last body."""
    mean_bytes: float = 0.0
    """Of a poll, the last ones counting most."""
    dated_us: int = 0
    """Mean time between changes by the dates of a feed's items; 0: they do not tell."""
    found_us: int = 0
    """The same by what polls found; 0: not known yet."""
    counts: PollCounts = msgspec.field(default_factory=PollCounts)
    rate: Estimator = msgspec.field(default_factory=Estimator)
    poll: PollState = PollState()


@dataclass(slots=True)
class Channel:
    """A channel on this node."""

    url: str
    """Canonical."""
    known: ChannelFacts
    clients: dict[str, int] = field(default_factory=dict)
    """MQTT clients, with the number of filters by which they ask for it."""
    people: dict[str, ChannelSubscription] = field(default_factory=dict)
    """Other subscribers."""
    host: str = field(init=False)
    """Who is behind it: the registrable domain."""

    def __post_init__(self) -> None:
        self.host = registrable(self.url)

    @property
    def subscribers(self) -> int:
        """Those who wait for it now."""
        return len(self.clients) + sum(not each.paused for each in self.people.values())

    @property
    def update_us(self) -> int | None:
        """Mean time between two changes, by dates if there are some, else by what polls found."""
        return self.known.dated_us or self.known.found_us or None

    @property
    def problem(self) -> str:
        """Why nothing is known about its page now; empty: it was read when it was polled last."""
        return self.known.problem or self.known.barred

    @property
    def wanted(self) -> bool:
        """Whether it is to be remembered for as long as this lasts."""
        return bool(self.known.kept or self.clients or self.people)

    @property
    def polled(self) -> bool:
        """Whether it is to be polled."""
        return not self.known.paused and (self.known.kept or self.subscribers > 0)


def status_of(channel: Channel) -> ChannelStatus:
    """A channel at this moment."""
    known = channel.known
    return ChannelStatus(
        url=channel.url,
        topic=topic_of(channel.url),
        state=state_of(channel),
        title=known.title,
        kind=known.kind,
        clients=len(channel.clients),
        people=len(channel.people),
        kept=known.kept,
        interval_us=known.interval_us,
        every_us=known.every_us,
        update_us=channel.update_us or 0,
        since_us=known.since_us,
        polled_us=known.poll.polled_us,
        changed_us=known.changed_us,
        version=known.version,
        problem=channel.problem,
        counts=msgspec.structs.replace(known.counts),
    )


def state_of(channel: Channel) -> str:
    """In one word."""
    if channel.known.paused:
        return "paused"
    if not channel.polled:
        return "idle"
    return "failing" if channel.problem else "polled"
