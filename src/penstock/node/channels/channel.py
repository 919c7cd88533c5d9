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
    """Stored facts about a channel; subscriptions and versions are stored beside them."""

    since_us: int
    rules: Rules = Rules()
    every_us: int = 0
    """Poll interval set by an operator; 0: allocated by the node."""
    kept: bool = False
    """Whether it is polled without subscribers, until it is removed."""
    paused: bool = False
    """Whether an operator has paused it: it is not polled."""
    idle_us: int = 0
    """Since when it has no subscriber; 0: it has one."""
    tags: tuple[str, ...] = ()
    """Words by which an operator orders pages."""
    interval_us: int = 0
    """Poll interval allocated last; 0: none yet."""
    title: str = ""
    kind: str = ""
    """feed, html, json or text; empty: not read yet."""
    version: int = 0
    """Number of the last change, or of the first content."""
    changed_us: int = 0
    """When the last change was seen."""
    checked_us: int = 0
    """When an answer last showed whether the page had changed."""
    problem: str = ""
    """Why the last poll failed; empty: it succeeded."""
    barred: str = ""
    """Why robots.txt forbids fetching; empty: as far as is known, it allows it."""
    hub: str = ""
    """WebSub hub that the page names."""
    hub_topic: str = ""
    """URL of the page's topic at the hub."""
    hub_lease: HubLease | None = None
    """Lease granted by the hub."""
    unsettled: bool = False
    """Whether the next look only teaches what is noise, or a change waits to be told or confirmed: until then
    the page is fetched in full."""
    muted: int = 0
    """Parts of the page that are not told because they keep changing."""
    withheld: bool = False
    """Whether the page differs from what was told, and nothing was told yet."""
    doubts: int = 0
    """Consecutive candidate changes that could not be fetched again."""
    print: bytes = b""
    """Hash of the last body."""
    mean_bytes: float = 0.0
    """Mean size of a poll; recent polls count most."""
    dated_us: int = 0
    """Mean time between changes by the dates of a feed's items; 0: unknown."""
    found_us: int = 0
    """Mean time between changes by what polls found; 0: unknown yet."""
    counts: PollCounts = msgspec.field(default_factory=PollCounts)
    rate: Estimator = msgspec.field(default_factory=Estimator)
    poll: PollState = PollState()


@dataclass(slots=True)
class Channel:
    """A channel on this node."""

    url: str
    """Canonical URL of the page."""
    known: ChannelFacts
    clients: dict[str, int] = field(default_factory=dict)
    """MQTT clients by id, with the number of their filters for this page."""
    people: dict[str, ChannelSubscription] = field(default_factory=dict)
    """Subscribers other than MQTT clients, by name."""
    host: str = field(init=False)
    """Registrable domain of the page, for budgets."""

    def __post_init__(self) -> None:
        self.host = registrable(self.url)

    @property
    def subscribers(self) -> int:
        """Number of subscribers that are not paused."""
        return len(self.clients) + sum(not each.paused for each in self.people.values())

    @property
    def update_us(self) -> int | None:
        """Estimated mean time between changes: by dates if there are any, else by polls; 0: unknown."""
        return self.known.dated_us or self.known.found_us or None

    @property
    def problem(self) -> str:
        """Why the page cannot be read now; empty: the last poll succeeded."""
        return self.known.problem or self.known.barred

    @property
    def wanted(self) -> bool:
        """Whether it must be kept: an operator added it, or it has a subscriber."""
        return bool(self.known.kept or self.clients or self.people)

    @property
    def polled(self) -> bool:
        """Whether it is polled: it is not paused, and somebody waits for it."""
        return not self.known.paused and (self.known.kept or self.subscribers > 0)


def status_of(channel: Channel) -> ChannelStatus:
    """Take a snapshot of a channel."""
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
        tags=known.tags,
        counts=msgspec.structs.replace(known.counts),
    )


def state_of(channel: Channel) -> str:
    """State of a channel in one word: failing, idle, paused or polled."""
    if channel.known.paused:
        return "paused"
    if not channel.polled:
        return "idle"
    return "failing" if channel.problem else "polled"
