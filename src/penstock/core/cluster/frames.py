"""Frames between two nodes, and their bytes.

A frame is data with a number, or an acknowledgement. Data is a sequence of items, each with its length in
front, so that the bytes of an event are made once for all links it goes over.

    data             kind 1 | number (8 bytes) | items: length (4 bytes) and MessagePack
    acknowledgement  kind 2 | number of the last frame taken in order (8) | window in bytes (4) | flags (1)
                     and, with flag 1, the numbers of the first and of the last missing frame (8 each)

Flag 1 says that a later frame has come while earlier ones have not, flag 2 that the node takes no more.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec

from penstock import limits
from penstock.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION: Final = 5
"""Version of the protocol between nodes; nodes of different versions do not talk to each other."""

DATA: Final = 1
ACK: Final = 2

_DATA_HEAD: Final = Struct(">BQ")
_ACK: Final = Struct(">BQIB")
_MISSING: Final = Struct(">QQ")
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
    to: Natural = 0
    """Number of the class of receivers that it is for."""
    upto: Natural = 0
    """No event in it has a higher number than this; 0: not known."""


class Wants(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=3):
    """Filters that the sending node wants messages of: all of them, or what has changed."""

    version: Natural
    """Counts changes; a change is valid for the version before."""
    full: bool
    """Whether `added` and `began` are all there are."""
    added: list[Text]
    """Filters with receivers that have no policy."""
    removed: list[Text] = []
    began: list[tuple[Natural, Text, Text]] = []
    """Classes of receivers with a policy: number, filter, and hash of the policy."""
    ended: list[Natural] = []
    """Classes without receivers."""
    moved: list[Natural] = []
    """Classes whose receivers are in others now: they still get what waits for them."""
    policies: list[tuple[Text, Text]] = []
    """Hash and text of policies that the receiving node does not know."""
    plain: Natural = 0
    """Number of the class of all receivers without a policy."""


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
    draining: bool = False
    """Whether it sends its clients away, and takes no new ones."""
    leaving: bool = False
    """Whether it is not expected back when it goes."""
    sessions: tuple[Natural, Natural, Natural, Natural, Natural, Natural, Natural, Natural] = (
        *(0, 0, 0, 0),
        *(0, 0, 0, 0),
    )
    """Its sessions: held, known as a root, standing in; those that came, went, were recalled or came while
    nobody answered; and events abandoned."""


class Ask(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=5):
    """A question of the sending node."""

    number: Natural
    kind: Text
    """Names what is asked; the body's form follows from it."""
    body: bytes = b""


class Answer(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=6):
    """The answer to a question of the receiving node."""

    number: Natural
    """The number of the question."""
    body: bytes = b""
    problem: Text = ""
    """Why there is no answer; empty: there is one."""


class For(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=7):
    """Says that the item behind it, an event, is only for some classes of receivers."""

    classes: list[Natural]


class Ahead(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=11):
    """Says that the item behind it, an event, has overtaken others of the link."""


class Groups(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=8):
    """Shared groups of the sending node whose members have changed."""

    changed: list[tuple[Text, Natural, Natural]]
    """Name with filter, connected members, all members."""


class Shared(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=9):
    """An event for one member at the receiving node of each of some shared groups, and for nobody else."""

    groups: tuple[Text, ...]
    tried: tuple[Text, ...]
    """Nodes that had it for these groups and had nobody for it."""
    carried: Carried


class CarriedRun(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=10):
    """Plain messages of one publisher and one QoS for all subscribers at the receiving node, as they came."""

    number: Natural
    """Number of the first event; the others follow it without a gap."""
    count: Annotated[int, msgspec.Meta(ge=1)]
    data: bytes
    """PUBLISH packets without properties, one behind the other."""
    version: Annotated[int, msgspec.Meta(ge=4, le=5)]
    """Version of MQTT of the packets."""
    ts_us: int
    sender: Text = ""
    seq: Natural = 0
    """Sequence number of the first event at its publisher."""


Item: TypeAlias = Carried | Told | Wants | About | Ask | Answer | For | Groups | Shared | CarriedRun | Ahead

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Item] = msgspec.msgpack.Decoder(
    Carried | Told | Wants | About | Ask | Answer | For | Groups | Shared | CarriedRun | Ahead
)


def encode_item(item: Item) -> bytes:
    """Encode an item with its length in front."""
    body = _encoder.encode(item)
    return _LENGTH.pack(len(body)) + body


AHEAD: Final = encode_item(Ahead())


def split_items(body: bytes) -> list[bytes]:
    """Cut a body that was made here into its items, each with its length in front."""
    items: list[bytes] = []
    at = 0
    while at < len(body):
        after = at + _LENGTH.size + _LENGTH.unpack_from(body, at)[0]
        items.append(body[at:after])
        at = after
    return items


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
    missing: tuple[int, int] | None = None
    """First and last of some frames that have not come, while the one behind them has."""
    closed: bool = False
    """The node stops: it has not taken, and will not take, any frame after this one."""


def data_frame(number: int, body: bytes) -> bytes:
    """Encode a frame with items."""
    return _DATA_HEAD.pack(DATA, number) + body


def ack_frame(ack: Ack) -> bytes:
    """Encode an acknowledgement."""
    missing = ack.missing is not None
    head = _ACK.pack(ACK, ack.upto, ack.window_bytes, missing | ack.closed << 1)
    return head if ack.missing is None else head + _MISSING.pack(*ack.missing)


def is_data(frame: bytes) -> bool:
    """Whether a frame brings items, and is not only an acknowledgement."""
    return frame[:1] == bytes((DATA,))


def decode_frame(frame: bytes) -> Data | Ack:
    """Decode the head of a frame; ClusterError if it is none."""
    kind = frame[0] if frame else 0
    if kind == DATA and len(frame) >= _DATA_HEAD.size:
        return Data(_DATA_HEAD.unpack_from(frame)[1], frame[_DATA_HEAD.size :])
    if kind == ACK and len(frame) >= _ACK.size:
        _, upto, window, flags = _ACK.unpack_from(frame)
        if len(frame) == _ACK.size + (_MISSING.size if flags & 1 else 0):
            missing = _MISSING.unpack_from(frame, _ACK.size) if flags & 1 else None
            return Ack(upto, window, missing, bool(flags & 2))
    raise ClusterError(f"{len(frame)} bytes that begin with {frame[:4].hex() or 'nothing'} are not a frame")
