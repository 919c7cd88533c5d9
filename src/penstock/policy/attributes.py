"""Attributes of an event: decodes the payload (JSON, MessagePack, CBOR, number, text) and reads a path.

A payload is decoded at most once per format and cached on the event, so all queues that hold the event share
the work. A payload that cannot be decoded has no attributes: they read as None. Nothing here raises.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import cbor2
import msgspec

from penstock import limits
from penstock.model.values import value
from penstock.policy.nodes import PayloadFormat
from penstock.policy.paths import Path, Source

if TYPE_CHECKING:
    from penstock.model.event import Event
    from penstock.model.values import Value

UNDECODABLE: Final = b""
"""Decoded form of a payload that cannot be decoded: without attributes, but not None, so that it is not tried
again.
"""

CONTENT_TYPES: Final = {
    "application/json": PayloadFormat.JSON,
    "text/json": PayloadFormat.JSON,
    "application/msgpack": PayloadFormat.MSGPACK,
    "application/vnd.msgpack": PayloadFormat.MSGPACK,
    "application/x-msgpack": PayloadFormat.MSGPACK,
    "application/cbor": PayloadFormat.CBOR,
    "text/plain": PayloadFormat.TEXT,
}

# JSON numbers, and those a sensor prints: +5, .5, 05, surrounding blanks. No two parts that follow
# one another can match the same character, so a failed match is found in linear time.
_NUMBER = re.compile(r"\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)

_CBOR_MAGIC: Final = b"\xd9\xd9\xf7"
"""Tag that marks data as CBOR (RFC 8949 §3.4.6)."""


def _content(tagged: Any, _: bool) -> Any:
    return tagged


def _nothing(*_: Any) -> None:
    return None


def _bignum(tagged: Any, _: bool) -> Any:
    return int.from_bytes(tagged) if isinstance(tagged, bytes) and len(tagged) <= _BIGNUM_BYTES else tagged


def _negative_bignum(tagged: Any, _: bool) -> Any:
    found = _bignum(tagged, _)
    return -1 - found if isinstance(found, int) else found


_BIGNUM_BYTES: Final = 128
"""Longest bignum that is read: the largest float has 1,024 bits."""

_CBOR_TAGS: Final = {
    **dict.fromkeys((0, 1, 4, 5, 28, 30, 35, 36, 37, 100), _content),
    **dict.fromkeys((256, 258, 260, 261, 1004, 43000, 55799), _content),
    **dict.fromkeys((25, 29), _nothing),
    2: _bignum,
    3: _negative_bignum,
}
"""How CBOR tags are treated: ignored except for short bignums. A date is its text or number, a fraction its
two parts, a pattern its text. Obeying tags (arithmetic, compiling patterns, parsing mail) took up to 9 s for
one payload. A reference to another part (25, 29) reads as missing.
"""

_json = msgspec.json.Decoder()
_msgpack = msgspec.msgpack.Decoder()


def decoded(event: Event, given: PayloadFormat) -> Any:
    """The event's payload as Python values; `given` is the format for events without a known content type."""
    own = own_format(event)
    if own is None and given is not PayloadFormat.AUTO:
        memo = event.other
        if memo is None or memo[0] is not given:
            memo = (given, decode(event.payload, given))
            msgspec.structs.force_setattr(event, "other", memo)
        return memo[1]
    root = event.root
    if root is None:
        root = decode(event.payload, own or PayloadFormat.AUTO)
        msgspec.structs.force_setattr(event, "root", root)
    return root


def decode_all(events: list[Event]) -> None:
    """Decode the payloads that are not decoded yet, for policies with `payload: auto`.

    Same result as `decoded` for each. A JSON object without a content type, the most common payload, goes
    straight to its decoder: half the time of the calls between.
    """
    from_json, remember = _json.decode, msgspec.structs.force_setattr
    for event in events:
        if event.root is not None:
            continue
        payload = event.payload
        if payload[:1] == b"{" and not event.content_type and len(payload) <= limits.DECODE_BYTES:
            try:
                remember(event, "root", from_json(payload))
                continue
            except (msgspec.DecodeError, ValueError, RecursionError):
                pass  # plain text that begins like JSON
        decoded(event, PayloadFormat.AUTO)


def own_format(event: Event) -> PayloadFormat | None:
    """Format named by an event's content type; None if unknown."""
    if not event.content_type:
        return None
    plain = event.content_type.partition(";")[0].strip().lower()
    return PayloadFormat.JSON if plain.endswith("+json") else CONTENT_TYPES.get(plain)


def decode(payload: bytes, kind: PayloadFormat) -> Any:
    """The payload as Python values, or UNDECODABLE."""
    if len(payload) > limits.DECODE_BYTES:
        return UNDECODABLE
    match kind:  # not a table by kind: hashing an Enum member takes as long as decoding a short payload
        case PayloadFormat.AUTO:
            root = _auto(payload)
        case PayloadFormat.JSON:
            root = _from_json(payload)
        case PayloadFormat.MSGPACK:
            root = _from_msgpack(payload)
        case PayloadFormat.CBOR:
            root = _from_cbor(payload)
        case PayloadFormat.TEXT:
            root = _from_text(payload)
    return UNDECODABLE if root is None else root


def _auto(payload: bytes) -> Any:
    """Binary if the first byte begins a MessagePack or CBOR map but no UTF-8 text; else JSON, else text.

    Only maps have attributes. 0x80 … 0x8f could also be a short CBOR list, 0xa0 … 0xaf a short MessagePack
    text: publishers of such bare values must set the content type, or the policy its `payload`.
    """
    first = payload[0] if payload else 0
    if 0x80 <= first <= 0x8F or first in (0xDE, 0xDF):
        return _from_msgpack(payload)
    if 0xA0 <= first <= 0xBF or payload.startswith(_CBOR_MAGIC):
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
        # Other kinds of keys can be made to collide in a hash table: a map of 14,000 such keys took 1.6 s.
        return cbor2.loads(
            payload.removeprefix(_CBOR_MAGIC), semantic_decoders=_CBOR_TAGS, strict_hashable_types=True
        )
    except (cbor2.CBORError, ValueError, RecursionError, OverflowError, TypeError):
        return UNDECODABLE


def _from_text(payload: bytes) -> Any:
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return UNDECODABLE
    return float(text) if _NUMBER.fullmatch(text) else text


_INDEX = re.compile("[0-9]{1,9}")


def read(event: Event, path: Path, given: PayloadFormat) -> Value | None:
    """Value at `path` in an event; `given` is the payload format for events without a known content type."""
    match path.source:
        case Source.PAYLOAD:
            return value(descend(decoded(event, given), path.segments))
        case Source.TOPIC:
            return event.topic
        case Source.TS:
            return event.ts_us
        case Source.SIZE:
            return len(event.payload) + len(event.topic)
        case Source.SENDER:
            return event.sender
        case Source.PROPERTY:
            return next((found for name, found in event.properties if name == path.segments[0]), None)


def descend(root: Any, segments: tuple[str, ...]) -> Any:
    """Object at the end of a path through maps (by key) and lists (by index from 0)."""
    for segment in segments:
        if isinstance(root, dict):
            root = root.get(segment)
        elif isinstance(root, list | tuple) and _INDEX.fullmatch(segment):
            index = int(segment)
            root = root[index] if index < len(root) else None
        else:
            return None
    return root
