"""Stream messages as frames (four bytes of length, then MessagePack, within bounds), and records as bytes.

A record is the content of a stream's message: logs store its bytes, and nodes forward them without decoding.
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
    """Bytes with their length in front; StreamError if too long."""
    if len(body) > limits.STREAM_FRAME_BYTES:
        raise StreamError(f"{what} of {len(body):,} bytes; at most {limits.STREAM_FRAME_BYTES:,}")
    return len(body).to_bytes(HEAD_BYTES) + body


def encode(message: Message) -> bytes:
    """Encode a frame."""
    return framed(_encoder.encode(message), what=f"a message in stream {message.pubend!r}")


def wire_bytes(message: Message) -> int:
    """Length of its frame, or slightly more, for queues and simulated links."""
    if isinstance(message, Data):
        return 38 + len(message.pubend) + len(message.body) + len(message.interest)
    spans = 19 * len(message.spans) if isinstance(message, Nack) else 0
    return 40 + len(message.pubend) + spans


def decode(body: bytes) -> Message:
    """Decode a message without its frame header; StreamError if invalid."""
    try:
        message: Message = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise StreamError(f"invalid stream message: {error}") from None
    return checked(message)


def checked(message: Message) -> Message:
    """Check a message decoded elsewhere; StreamError if its values are invalid."""
    if problem := _problem(message):
        raise StreamError(f"invalid stream message: {problem}")
    return message


class FrameReader(Generic[T]):
    """Collects bytes and decodes each complete frame."""

    __slots__ = ("_decode", "_most", "_rest")

    def __init__(self, decode: Callable[[bytes], T], *, most: int = limits.STREAM_FRAME_BYTES) -> None:
        self._decode = decode
        self._most = most
        self._rest = bytearray()

    @property
    def rest(self) -> int:
        """Bytes of an incomplete frame."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[T]:
        """Add bytes; returns the messages now complete. After a StreamError the connection must be closed."""
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
    """Bytes that follow a frame header; StreamError if too many."""
    size = int.from_bytes(head)
    if size > most:
        raise StreamError(f"frame of {size:,} bytes; at most {most:,}")
    return size


def _problem(message: Message) -> str:
    if not 0 < len(message.pubend) <= limits.STREAM_NAME_CHARS:
        return f"a name of {len(message.pubend)} characters"
    if isinstance(message, Nack):
        return _spans_problem(message)
    if isinstance(message, Alert):
        broken = any(isnan(rate) or rate < 0 for rate in (message.keeping, message.recovering))
        return (
            "an invalid rate" if broken else _ranges_problem(message.number, message.behind, message.reached)
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
        return f"{len(message.spans)} spans; 1 to {limits.STREAM_SPANS} are allowed"
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
    """A published message."""

    topic: str
    payload: bytes
    ts_us: int = 0
    """When the hosting node accepted it."""
    sender: str = ""
    """Client id of its publisher, or name of its writer."""
    seq: int = 0
    """Sequence number of the publisher."""
    qos: int = 1
    retain: bool = False
    properties: bytes = b""
    """Encoded MQTT 5 properties with their length; empty: none."""
    expires_us: int = 0
    """When it expires; 0: never."""
    origin: str = ""
    """Publisher that may repeat it under the same number; a repeated pair of origin and number is not logged
    again."""
    number: int = 0


_record_encoder = msgspec.msgpack.Encoder()
_record_decoder = msgspec.msgpack.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """Encode the body of a message."""
    return _record_encoder.encode(record)


def decode_record(body: bytes) -> Record:
    """Decode a message's record; StreamError if invalid."""
    try:
        return _record_decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise StreamError(f"invalid stream record: {error}") from None
