"""Status of streams: frozen snapshots for the API, the dashboard, metrics and $SYS."""

from __future__ import annotations

import msgspec


class LogRow(msgspec.Struct, frozen=True, gc=False):
    """The log of a stream that is hosted here."""

    kind: str
    """file or nats."""
    messages: int
    bytes: int
    bytes_most: int
    """Beyond it nothing is accepted."""
    commits: int
    """Since the node started."""
    committed: int
    """Messages of those commits."""
    commits_per_s: float
    """Lately."""
    commit_us: int
    """What a commit takes on average."""
    fault: str
    """Why nothing is taken at the moment: a disk, a server, or the log is full; empty: it is."""

    @property
    def committing_us(self) -> int:
        """Time spent in commits."""
        return self.commits * self.commit_us


class ReaderFigures(msgspec.Struct, frozen=True, gc=False):
    """MQTT sessions that read a stream here."""

    live: int = 0
    """Get each message as it comes."""
    catching_up: int = 0
    """Get what they missed."""
    away: int = 0
    """Are not connected; what they miss is kept for them."""
    missed: int = 0
    """Times that one found messages gone that it should have got."""


class ConsumerRow(msgspec.Struct, frozen=True, gc=False):
    """A program's place in a stream, kept for it under a name."""

    stream: str
    name: str
    place: int
    """Everything before this tick is done."""
    connected: bool
    user: str = ""
    """Whose it is; empty: anybody's who may read the stream."""


class NeighbourRow(msgspec.Struct, frozen=True, gc=False):
    """Another node of the tree, and the link to it."""

    name: str
    state: str
    """up, down (the other end is not there, or refuses) or off (by the configuration)."""
    address: str
    since_us: int
    """When this state began."""
    queue_bytes: int
    """That wait for the link."""
    sent: int
    """Messages."""
    sent_bytes: int
    received: int
    received_bytes: int
    dropped: int
    """Messages that found the queue full; whoever needs them asks again."""
    reconnects: int
    fault: str
    """Why it is down; empty: it is not."""
    ignored: int = 0
    """Messages that came about streams which are not known here, or come from another neighbour."""

    @property
    def up(self) -> bool:
        """Whether the link is up."""
        return self.state == "up"


class StreamRow(msgspec.Struct, frozen=True):
    """One stream at this node. Places in it are ticks: a millisecond and a counter."""

    name: str
    topics: tuple[str, ...]
    host: str
    """The node it is published at."""
    hosted: bool
    """Whether that is this node."""
    upstream: str
    """The neighbour that it comes from; empty: hosted here."""
    state: str
    """live, catching up, waiting (nothing was heard of it yet) or stopped (its log takes nothing)."""
    position: int
    """Everything before this tick has been told here."""
    durable: int
    """The first tick that a restart would give out: what lies before it is settled; 0: hosted elsewhere."""
    acked: int
    """Everything before this tick has been processed by all who read it; 0: not known yet."""
    trimmed: int
    """Messages before this tick are gone from the log; 0: none, or hosted elsewhere."""
    published: int
    """Messages taken since the node started."""
    delivered: int
    """Messages that came to subscribers' side of this node since it started."""
    rate: float | None
    """Messages a second for which publishers are acknowledged; None: no bound, or hosted elsewhere."""
    waiting: int
    """Messages that are not durable yet."""
    held: int
    """Durable messages whose acknowledgement waits for its turn."""
    horizon: int
    """Everything before this tick is known here and has been handed on; 0: nobody here reads it."""
    lag_s: float
    """How far that is behind."""
    recovering: bool
    nack_window_ms: float
    """How much is asked for at once, while something is missing."""
    nacks: int
    """Times something was asked for again."""
    cached_messages: int
    cached_bytes: int
    readers: ReaderFigures
    consumers: tuple[ConsumerRow, ...]
    consumers_total: int
    log: LogRow | None
    """None: hosted elsewhere."""

    @property
    def stopped(self) -> bool:
        """Whether its log takes nothing."""
        return self.state == "stopped"


class StreamsStatus(msgspec.Struct, frozen=True):
    """All streams that this node hosts or follows, and its neighbours."""

    node: str
    """Its name in the tree."""
    streams: tuple[StreamRow, ...]
    neighbours: tuple[NeighbourRow, ...]
    faults: tuple[str, ...] = ()
    """What does not work: logs, the file of places, the clock."""
