"""What a message of a stream says: the bytes that logs keep and nodes pass on without reading them."""

from __future__ import annotations

import msgspec

from penstock.errors import StreamError


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


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)


def encode(record: Record) -> bytes:
    """The body of a message."""
    return _encoder.encode(record)


def decode(body: bytes) -> Record:
    """A message's record; StreamError if it has none."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise StreamError(f"this is no record of a stream: {error}") from None
