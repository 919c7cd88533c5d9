"""An event, a control item, and the stamp that says from which stream and tick a message comes.

The stamp is the user properties `stream` and `tick`, behind all others. Only a node sets them: it removes
properties of that form that a publisher sends, so a receiver may trust the stamp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from penstock.model.digest import Digest

if TYPE_CHECKING:
    from penstock.model.instant import Instant

User: TypeAlias = tuple[tuple[str, str], ...]
"""MQTT user properties in order."""

STREAM: Final = "stream"
TICK: Final = "tick"

_DIGITS: Final = 19
"""Digits of the largest tick."""


def stamped(user: User, stream: str, tick: int) -> User:
    """User properties with the stamp appended."""
    return (*unstamped(user), (STREAM, stream), (TICK, str(tick)))


def unstamped(user: User) -> User:
    """User properties without a stamp."""
    while stamp_of(user) is not None:
        user = user[:-2]
    return user


def stamp_of(user: User) -> tuple[str, int] | None:
    """Stream and tick of a message, if its user properties end with a stamp."""
    if len(user) < 2:
        return None
    (first, stream), (second, tick) = user[-2:]
    if first != STREAM or second != TICK or not stream or len(tick) > _DIGITS:
        return None
    return (stream, int(tick)) if tick.isascii() and tick.isdigit() else None


class Event(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One published message; all queues that hold it share the object.

        event = Event("ward/1", b'{"pulse": 71}', ts_us=1_700_000_000_000_000, seq=1)

    A msgspec Struct and not a dataclass: 0.1 µs to make against 0.9 µs, and untracked by the garbage
    collector (a full collection over a million queued events took 64 ms). The fields from `root` on are
    caches and are not part of the event's value: equality and hash leave them out.
    """

    topic: str
    payload: bytes
    ts_us: Instant
    """Event time: the publisher's time if given, else the time of admission."""
    sender: str = ""
    seq: int = 0
    """Sequence number among the events of its sender."""
    properties: tuple[tuple[str, str], ...] = ()
    """MQTT user properties in order; a name may repeat."""
    content_type: str = ""
    """MQTT content type, which names the payload's encoding; empty: the encoding is detected."""
    root: object = None
    """Decoded payload, cached by `policy.attributes`."""
    cells: bytes | None = None
    """Numeric attributes as one row of bytes, cached by `policy.columns.frame`."""
    other: tuple[object, object] | None = None
    """Payload decoded by a policy's `payload` setting, cached by `policy.attributes`."""
    beside: int = 0
    """Bytes held besides payload and topic, by a subclass that carries more."""

    @property
    def size(self) -> int:
        """Approximate bytes on the wire, as byte capacities count them.

        `$size` counts payload and topic only.
        """
        return len(self.payload) + len(self.topic) + self.beside

    @property
    def stream(self) -> str:
        """Name of the reliable stream the event came from; empty if none."""
        stamp = stamp_of(self.properties)
        return "" if stamp is None else stamp[0]

    @property
    def tick(self) -> int:
        """Tick of the event in its stream; 0 if it came from none."""
        stamp = stamp_of(self.properties)
        return 0 if stamp is None else stamp[1]

    def _identity(self) -> tuple[object, ...]:
        return (
            self.topic,
            self.payload,
            self.ts_us,
            self.sender,
            self.seq,
            self.properties,
            self.content_type,
        )

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, Event) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())


class Control(msgspec.Struct, frozen=True, gc=False):
    """A message about the stream itself, placed in the stream; no policy drops it."""

    kind: str
    body: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of the payload, without headers."""
        return len(self.kind) + len(self.body)


Item: TypeAlias = Event | Digest | Control
"""An item of a queue."""
