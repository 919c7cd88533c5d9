"""Frames between two nodes, and their bytes.

A frame is data with a number, or an acknowledgement. Data is a sequence of items, each with its length in
front, so that the bytes of an event are made once for all links it goes over.

    data             kind 1 | number (8 bytes) | items: length (4 bytes) and MessagePack
    acknowledgement  kind 2 | number of the last frame taken in order (8) | window in bytes (4) | flags (1)

Flag 1 says that a later frame has come while an earlier one has not, flag 2 that the node takes no more.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec

from penstock import limits
from penstock.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION: Final = 1
"""Version of the protocol between nodes; nodes of different versions do not talk to each other."""

DATA: Final = 1
ACK: Final = 2

_DATA_HEAD: Final = Struct(">BQ")
_ACK: Final = Struct(">BQIB")
_LENGTH: Final = Struct(">I")

Natural: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=65_535)]
Qos: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2)]


class Carried(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=1):
    """An event for all subscribers at the receiving node."""

    number: Natural
    """Number of the event among those of its origin, the sending node."""
    topic: Text
    payload: bytes
    ts_us: int
    sender: Text = ""
    seq: Natural = 0
    qos: Qos = 0
    retain: bool = False
    properties: bytes = b""
    """MQTT properties as they are encoded in a PUBLISH."""
    expires_us: Natural = 0
    stamp: tuple[Natural, Text, Natural] | None = None
    """Of a retained message: time, origin and number, by which the last writer is found."""
    kept_only: bool = False
    """A retained message that was published earlier: it is kept, and nobody is told of it."""


class Told(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=2):
    """A digest of events that were dropped on the way, for the subscriptions to one filter."""

    filter: Text
    digest: bytes


class Wants(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=3):
    """Filters that the sending node wants messages of: all of them, or what has changed."""

    version: Natural
    """Counts changes; a change is valid for the version before."""
    full: bool
    """Whether `added` are all filters there are."""
    added: list[Text]
    removed: list[Text] = []


class About(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=4):
    """A node's own description."""

    zone: Text
    clients: tuple[Text, ...]
    """Addresses at which MQTT clients reach the node."""
    api: Text
    """Address of its API; empty if it has none."""
    load: Natural
    """Attached clients."""
    program: Text
    """Version of the program."""
    links: tuple[Natural, Natural, Natural, Natural, Natural, Natural, Natural] = (0, 0, 0, 0, 0, 0, 0)
    """Events of all its links: accepted, handed, digested, queued, in flight, abandoned; and received."""


Item: TypeAlias = Carried | Told | Wants | About

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Item] = msgspec.msgpack.Decoder(Carried | Told | Wants | About)


def encode_item(item: Item) -> bytes:
    """Encode an item with its length in front."""
    body = _encoder.encode(item)
    return _LENGTH.pack(len(body)) + body


def decode_items(body: bytes) -> Iterator[Item]:
    """Decode the items of a data frame one by one; ClusterError where they are damaged."""
    at, end = 0, len(body)
    view = memoryview(body)
    while at < end:
        if at + _LENGTH.size > end:
            raise ClusterError("a frame ends in the middle of a length")
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        if length > limits.CLUSTER_ITEM_BYTES:
            raise ClusterError(f"an item of {length} bytes; at most {limits.CLUSTER_ITEM_BYTES} are accepted")
        if at + length > end:
            raise ClusterError("a frame ends in the middle of an item")
        try:
            yield _decoder.decode(view[at : at + length])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ClusterError(f"a damaged item: {error}") from None
        at += length


class Data(msgspec.Struct, frozen=True, gc=False):
    """A frame with items."""

    number: int
    body: bytes


class Ack(msgspec.Struct, frozen=True, gc=False):
    """Tells a sender how far the other end has received."""

    upto: int
    """All frames up to this one."""
    window_bytes: int
    """Bytes that it takes without acknowledgement."""
    missing: bool = False
    """A later frame has come while the next one has not."""
    closed: bool = False
    """The node stops: it has not taken, and will not take, any frame after this one."""


def data_frame(number: int, body: bytes) -> bytes:
    """Encode a frame with items."""
    return _DATA_HEAD.pack(DATA, number) + body


def ack_frame(ack: Ack) -> bytes:
    """Encode an acknowledgement."""
    return _ACK.pack(ACK, ack.upto, ack.window_bytes, ack.missing | ack.closed << 1)


def is_data(frame: bytes) -> bool:
    """Whether a frame brings items, and is not only an acknowledgement."""
    return frame[:1] == bytes((DATA,))


def decode_frame(frame: bytes) -> Data | Ack:
    """Decode the head of a frame; ClusterError if it is none."""
    kind = frame[0] if frame else 0
    if kind == DATA and len(frame) >= _DATA_HEAD.size:
        return Data(_DATA_HEAD.unpack_from(frame)[1], frame[_DATA_HEAD.size :])
    if kind == ACK and len(frame) == _ACK.size:
        _, upto, window, flags = _ACK.unpack(frame)
        return Ack(upto, window, bool(flags & 1), bool(flags & 2))
    raise ClusterError(f"{len(frame)} bytes that begin with {frame[:4].hex() or 'nothing'} are not a frame")
