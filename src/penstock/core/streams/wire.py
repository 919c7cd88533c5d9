"""Stream messages as frames (four bytes of length, then MessagePack, within bounds), and records as bytes.

A record is what a message of a stream says: logs keep its bytes and nodes pass them on without reading them.
"""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Generic, TypeVar
from typing import Final as Constant

import msgspec

from penstock import limits
from penstock.core.streams.messages import Ack, Alert, Data, FinalTicks, Message, Nack, Query, Silence
from penstock.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

HEAD_BYTES: Constant = 4

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Data | Silence | FinalTicks | Query | Nack | Ack | Alert)


def framed(body: bytes, *, what: str = "a message") -> bytes:
    """Bytes with their length before them; StreamError if they are too many."""
    if len(body) > limits.STREAM_FRAME_BYTES:
        raise StreamError(
            f"{what} of {len(body):,} bytes: up to {limits.STREAM_FRAME_BYTES:,} can be sent at once"
        )
    return len(body).to_bytes(HEAD_BYTES) + body


def encode(message: Message) -> bytes:
    """A frame."""
    return framed(_encoder.encode(message), what=f"a message in stream {message.pubend!r}")


def wire_bytes(message: Message) -> int:
    """The length of its frame, or a little more: what queues and simulated links reckon with."""
    if isinstance(message, Data):
        return 38 + len(message.pubend) + len(message.body) + len(message.interest)
    spans = 19 * len(message.spans) if isinstance(message, Nack) else 0
    return 40 + len(message.pubend) + spans


def decode(body: bytes) -> Message:
    """The message of a frame without its head; StreamError if it is none."""
    try:
        message: Message = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise StreamError(f"this is no message of a stream: {error}") from None
    return checked(message)


def checked(message: Message) -> Message:
    """A message that was decoded elsewhere; StreamError if it says what cannot be."""
    if problem := _problem(message):
        raise StreamError(f"this is no message of a stream: {problem}")
    return message


class FrameReader(Generic[T]):
    """Bytes as they come, whatever `decode` makes of each frame as they are complete."""

    __slots__ = ("_decode", "_most", "_rest")

    def __init__(self, decode: Callable[[bytes], T], *, most: int = limits.STREAM_FRAME_BYTES) -> None:
        self._decode = decode
        self._most = most
        self._rest = bytearray()

    @property
    def rest(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[T]:
        """Take bytes; the messages that are whole now. After a StreamError the connection is of no use."""
        self._rest += data
        found: list[T] = []
        at = 0
        while len(self._rest) - at >= HEAD_BYTES:
            size = frame_size(self._rest[at : at + HEAD_BYTES], most=self._most)
            if len(self._rest) - at - HEAD_BYTES < size:
                break
            at += HEAD_BYTES
            found.append(self._decode(bytes(self._rest[at : at + size])))
            at += size
        del self._rest[:at]
        return found


def frame_size(head: bytes | bytearray, *, most: int = limits.STREAM_FRAME_BYTES) -> int:
    """The bytes that follow a head; StreamError if they are too many."""
    size = int.from_bytes(head)
    if size > most:
        raise StreamError(f"a frame of {size:,} bytes: up to {most:,} are allowed")
    return size


def _problem(message: Message) -> str:
    if not 0 < len(message.pubend) <= limits.STREAM_NAME_CHARS:
        return f"a name of {len(message.pubend)} characters"
    if isinstance(message, Nack):
        return _spans_problem(message)
    if isinstance(message, Alert):
        broken = any(isnan(rate) or rate < 0 for rate in (message.keeping, message.recovering))
        return (
            "a rate that is none"
            if broken
            else _ranges_problem(message.number, message.behind, message.reached)
        )
    if isinstance(message, Query):
        return _ranges_problem(message.number, message.position)
    if isinstance(message, Data):
        problem = _interest_problem(message.interest) or _range_problem(message.since, message.tick)
        return problem or _range_problem(message.tick, message.tick + 1)
    if isinstance(message, Silence):
        return _interest_problem(message.interest) or _range_problem(message.since, message.until)
    return _range_problem(0, message.until)


def _spans_problem(message: Nack) -> str:
    if not 0 < len(message.spans) <= limits.STREAM_SPANS:
        return f"{len(message.spans)} spans; 1 to {limits.STREAM_SPANS} can be asked for"
    at = 0
    for since, until in message.spans:
        if since < at or until <= since or until > limits.STREAM_TICKS:
            return "spans that are not in order"
        at = until
    return _interest_problem(message.interest)


def _interest_problem(interest: str) -> str:
    return "an interest with too long a name" if len(interest) > limits.STREAM_NAME_CHARS else ""


def _range_problem(since: int, until: int) -> str:
    return "" if 0 <= since <= until <= limits.STREAM_TICKS else f"ticks from {since} to {until}"


def _ranges_problem(*places: int) -> str:
    return next((problem for place in places if (problem := _range_problem(0, place))), "")


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A publication."""

    topic: str
    payload: bytes
    ts_us: int = 0
    """When the node that hosts the stream accepted it."""
    sender: str = ""
    """Client id of its publisher, or name of its writer."""
    seq: int = 0
    """The publisher's count."""
    qos: int = 1
    retain: bool = False
    properties: bytes = b""
    """MQTT 5 properties as they are on the wire, their length included; empty: none."""
    expires_us: int = 0
    """When it is of no use any more; 0: never."""
    origin: str = ""
    """Whoever may send it again and knows it by its number; the same of both is not logged twice."""
    number: int = 0


_record_encoder = msgspec.msgpack.Encoder()
_record_decoder = msgspec.msgpack.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """The body of a message."""
    return _record_encoder.encode(record)


def decode_record(body: bytes) -> Record:
    """A message's record; StreamError if it has none."""
    try:
        return _record_decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise StreamError(f"this is no record of a stream: {error}") from None
