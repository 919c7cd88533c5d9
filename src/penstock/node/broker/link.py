"""Connects a session and its connection: what each needs of the other, and the messages in flight."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from penstock import limits
from penstock.model.event import Event

if TYPE_CHECKING:
    from penstock.errors import MqttError
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.packet import Packet
    from penstock.node.config.schema import Listener


class Latency:
    """The last samples of a latency; quantiles are computed on demand."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[int] | None = None

    def add(self, took_us: int) -> None:
        """A message was sent."""
        if self._samples is None:
            self._samples = deque(maxlen=limits.LATENCY_SAMPLES)
        self._samples.append(took_us)

    def quantiles(self) -> tuple[int, int]:
        """Median and 99th percentile of the last samples; 0 if there are none."""
        if not self._samples:
            return 0, 0
        ordered = sorted(self._samples)
        last = len(ordered) - 1
        return ordered[last // 2], ordered[last * 99 // 100]


class Sampled(Protocol):
    """Something whose latency is measured: a subscription."""

    latency: Latency


class Writer(Protocol):
    """Takes the messages for a client: its connection, or an outbox in front of it."""

    sampled: Sampled | None
    """The subscription whose latency is measured when the next bytes written leave."""

    def write(self, data: bytes) -> None:
        """Send in order; may turn `paused` on."""
        ...

    def write_now(self, data: bytes) -> None:
        """Send at once, unless something waits already."""
        ...


class Outlet(Writer, Protocol):
    """The output of a connection, as a session uses it."""

    paused: bool
    """The transport takes nothing at the moment."""

    def keep_little(self) -> None:
        """Have little wait outside the queues, which keep a time; until the client proves to be fast."""
        ...

    @property
    def full(self) -> bool:
        """Whether enough waits outside the queues of a session for which time counts; it is told when not."""
        ...

    def unsent(self) -> int:
        """Bytes that were written and wait for the link, not counting those on the way."""
        ...

    def be_slow(self) -> None:
        """Have as little as possible wait outside the queues, until the client proves to be fast."""
        ...

    def progress(self) -> tuple[int, int]:
        """Bytes that the other end has taken so far, and bytes that were written and not taken yet."""
        ...

    def write_late(self, data: bytes, *, since_us: Instant) -> None:
        """Send what has waited for the disk since then, and what waits behind it."""
        ...


class Link(Protocol):
    """A connection, as a session uses it."""

    address: str
    listener: Listener
    """Where the client came in."""
    why: str
    """Why the connection ended, for the log."""

    @property
    def output(self) -> Outlet:
        """Where bytes for the client are written."""
        ...

    @property
    def maximum_packet_bytes(self) -> int:
        """Largest packet the client takes."""
        ...

    def send(self, packet: Packet) -> None:
        """Send a packet, without reason strings if the client wants none or the packet would be too large."""
        ...

    def end(self, error: MqttError) -> None:
        """Say why, and close."""
        ...


class AckReceiver(Protocol):
    """Follows what becomes of messages of its own: a reader of a stream."""

    def acknowledged(self, tick: int, packet_id: int) -> None:
        """The client has this message: PUBACK, or it does not want it."""
        ...

    def received(self, tick: int, packet_id: int) -> bool:
        """The client has the message (QoS 2); returns whether the PUBREL must wait for the disk."""
        ...

    def completed(self, tick: int, packet_id: int) -> None:
        """The client has answered the PUBREL."""
        ...


class Sent(msgspec.Struct, frozen=True):
    """A QoS 1 or 2 message in flight, as it would be sent again."""

    event: Event
    retain: bool = False
    ids: tuple[int, ...] = ()
    place: int = 0
    """Place of the message in the journal; 0: it is not there."""
    reader: AckReceiver | None = None
    """The reader of the stream that the message comes from; None: it comes from no stream."""
    tick: int = 0
    """The message's tick in the stream."""
    filter: str = ""
    """Filter of the subscription that the message was sent for."""


PASSING: Final = Sent(Event("", b"", 0))
"""Stands for messages in flight to a session that ends with its connection: they are never sent again."""
