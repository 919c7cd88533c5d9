"""Status of streams: frozen snapshots for the API, the dashboard, metrics and $SYS."""

from __future__ import annotations

import msgspec


class LogRow(msgspec.Struct, frozen=True, gc=False):
    """The log of a stream hosted here."""

    kind: str
    """`file` or `nats`."""
    messages: int
    """Messages in the log."""
    bytes: int
    """Bytes of these messages."""
    bytes_most: int
    """Bound on `bytes`; a log that is full accepts nothing."""
    commits: int
    """Commits since the node started."""
    committed: int
    """Messages written by these commits."""
    commits_per_s: float
    """Present rate of commits."""
    commit_us: int
    """Average duration of a commit."""
    fault: str
    """Why nothing is accepted at the moment (disk, server, log full); empty if there is no fault."""

    @property
    def committing_us(self) -> int:
        """Time spent in commits."""
        return self.commits * self.commit_us


class ReaderFigures(msgspec.Struct, frozen=True, gc=False):
    """MQTT sessions that read a stream here."""

    live: int = 0
    """Sessions that get each message when it arrives."""
    catching_up: int = 0
    """Sessions that get what they missed."""
    away: int = 0
    """Sessions that are not connected; messages are kept for them."""
    missed: int = 0
    """Times that a session found messages trimmed that it should have got."""


class ConsumerRow(msgspec.Struct, frozen=True, gc=False):
    """A position in a stream that is kept for programs under a name."""

    stream: str
    name: str
    place: int
    """Everything before this tick is processed."""
    connected: bool
    """Whether a program that uses it is connected."""
    user: str = ""
    """The owner; empty: everybody who may read the stream."""


class NeighbourRow(msgspec.Struct, frozen=True, gc=False):
    """A neighbour node of the tree, and the link to it."""

    name: str
    state: str
    """`up`, `down` (the neighbour cannot be reached, or refuses) or `off` (by the configuration)."""
    address: str
    since_us: int
    """When this state began."""
    queue_bytes: int
    """Bytes that wait to be sent."""
    sent: int
    """Messages sent."""
    sent_bytes: int
    received: int
    received_bytes: int
    dropped: int
    """Messages dropped because the queue was full; the neighbour asks for them again."""
    reconnects: int
    fault: str
    """Why the link is down; empty if it is not."""
    ignored: int = 0
    """Messages received about streams that are not known here, or that come from another neighbour."""

    @property
    def up(self) -> bool:
        """Whether the link is up."""
        return self.state == "up"


class StreamRow(msgspec.Struct, frozen=True):
    """One stream at this node. Positions are ticks: a millisecond and a counter."""

    name: str
    topics: tuple[str, ...]
    host: str
    """The node that the stream is published at."""
    hosted: bool
    """Whether the host is this node."""
    upstream: str
    """The neighbour that the stream comes from; empty if it is hosted here."""
    state: str
    """`live`, `catching up`, `waiting` (nothing received yet) or `stopped` (its log accepts nothing)."""
    position: int
    """Everything before this tick is known here."""
    durable: int
    """The first tick that a restart would give out; 0: hosted elsewhere."""
    acked: int
    """Everything before this tick has been processed by all readers; 0: not known yet."""
    trimmed: int
    """Messages before this tick are deleted from the log; 0: none, or hosted elsewhere."""
    published: int
    """Messages accepted since the node started."""
    delivered: int
    """Messages that reached the subscribers' side of this node since it started."""
    rate: float | None
    """Messages per second that publishers are acknowledged at most; None: no bound, or hosted elsewhere."""
    waiting: int
    """Messages that are not durable yet."""
    held: int
    """Durable messages whose acknowledgement waits for its turn."""
    horizon: int
    """Everything before this tick has been delivered to live readers; 0: nobody here reads the stream."""
    lag_s: float
    """How far `horizon` is behind."""
    recovering: bool
    nack_window_ms: float
    """How much is requested at once while messages are missing."""
    nacks: int
    """Requests for missing messages."""
    cached_messages: int
    cached_bytes: int
    readers: ReaderFigures
    consumers: tuple[ConsumerRow, ...]
    consumers_total: int
    log: LogRow | None
    """None: hosted elsewhere."""

    @property
    def stopped(self) -> bool:
        """Whether the log accepts nothing."""
        return self.state == "stopped"


class StreamsStatus(msgspec.Struct, frozen=True):
    """All streams that this node hosts or follows, and its neighbours."""

    node: str
    """The name of this node in the tree."""
    streams: tuple[StreamRow, ...]
    neighbours: tuple[NeighbourRow, ...]
    faults: tuple[str, ...] = ()
    """Present faults of logs, offers, the state file and the clock."""
