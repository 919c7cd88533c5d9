"""From payload bytes to something with attributes: JSON, MessagePack, CBOR, a plain number or text.

An event's payload is decoded at most once per format and remembered on the event, so all queues that hold
the event share the work. What cannot be decoded has no attributes; nothing here raises.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import cbor2
import msgspec

from penstock import limits
from penstock.policy.nodes import PayloadFormat

if TYPE_CHECKING:
    from penstock.model.event import Event

UNDECODABLE: Final = None
"""What the payload is when it cannot be decoded; JSON null has no attributes either."""

CONTENT_TYPES: Final = {
    "application/json": PayloadFormat.JSON,
    "text/json": PayloadFormat.JSON,
    "application/msgpack": PayloadFormat.MSGPACK,
    "application/vnd.msgpack": PayloadFormat.MSGPACK,
    "application/x-msgpack": PayloadFormat.MSGPACK,
    "application/cbor": PayloadFormat.CBOR,
    "text/plain": PayloadFormat.TEXT,
}

# JSON numbers, and those a sensor prints: +5, .5, 05, surrounding blanks.
_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)

_json = msgspec.json.Decoder()
_msgpack = msgspec.msgpack.Decoder()


def decoded(event: Event, given: PayloadFormat) -> Any:
    """The event's payload as Python values; `given` holds where the event names no content type."""
    kind = format_of(event, given)
    memo = event.memo
    if memo is not None and memo[0] is kind:
        return memo[1]
    root = decode(event.payload, kind)
    msgspec.structs.force_setattr(event, "memo", (kind, root))
    return root


def format_of(event: Event, given: PayloadFormat) -> PayloadFormat:
    """The format to decode an event with: its own word first, then the policy's."""
    if not event.content_type:
        return given
    plain = event.content_type.partition(";")[0].strip().lower()
    if plain.endswith("+json"):
        return PayloadFormat.JSON
    return CONTENT_TYPES.get(plain, given)


def decode(payload: bytes, kind: PayloadFormat) -> Any:
    """The payload as Python values, or UNDECODABLE."""
    if len(payload) > limits.DECODE_BYTES:
        return UNDECODABLE
    return _DECODERS[kind](payload)


def _auto(payload: bytes) -> Any:
    """Binary if the first byte begins a MessagePack or CBOR map and no UTF-8 text; else JSON, else text.

    Maps are what has attributes; 0x80 … 0x8f could be a short CBOR list too, 0xa0 … 0xaf a short MessagePack
    text. Whoever sends those bare says so by content type, or in the policy's `payload`.
    """
    first = payload[0] if payload else 0
    if 0x80 <= first <= 0x8F or first in (0xDE, 0xDF):
        return _from_msgpack(payload)
    if 0xA0 <= first <= 0xBF or payload.startswith(b"\xd9\xd9\xf7"):  # the last: CBOR's own magic
        return _from_cbor(payload)
    try:
        return _json.decode(payload)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _from_text(payload)


def _from_json(payload: bytes) -> Any:
    try:
        return _json.decode(payload)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return UNDECODABLE


def _from_msgpack(payload: bytes) -> Any:
    try:
        return _msgpack.decode(payload)
    except (msgspec.DecodeError, ValueError, RecursionError, TypeError):
        return UNDECODABLE


def _from_cbor(payload: bytes) -> Any:
    try:
        return cbor2.loads(payload)
    except (cbor2.CBORDecodeError, ValueError, RecursionError, OverflowError, TypeError):
        return UNDECODABLE


def _from_text(payload: bytes) -> Any:
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return UNDECODABLE
    return float(text) if _NUMBER.fullmatch(text) else text


_DECODERS: Final = {
    PayloadFormat.AUTO: _auto,
    PayloadFormat.JSON: _from_json,
    PayloadFormat.MSGPACK: _from_msgpack,
    PayloadFormat.CBOR: _from_cbor,
    PayloadFormat.TEXT: _from_text,
}
