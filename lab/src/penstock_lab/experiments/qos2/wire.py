"""MQTT 3.1.1 and 5 as bytes, as far as two QoS 2 exchanges need them."""

from __future__ import annotations

from typing import Final, NamedTuple

CONNECT: Final = 1
CONNACK: Final = 2
PUBLISH: Final = 3
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
SUBACK: Final = 9
NAMES: Final = {
    CONNECT: "CONNECT",
    CONNACK: "CONNACK",
    PUBLISH: "PUBLISH",
    PUBREC: "PUBREC",
    PUBREL: "PUBREL",
    PUBCOMP: "PUBCOMP",
    SUBSCRIBE: "SUBSCRIBE",
    SUBACK: "SUBACK",
}
V5: Final = 5
KEPT_S: Final = 3_600
"""Session expiry that MQTT 5 clients ask for."""


class Seen(NamedTuple):
    """The fields of a packet by which the test judges it."""

    kind: int
    packet_id: int = 0
    topic: str = ""
    payload: bytes = b""
    dup: bool = False
    present: bool = False
    """CONNACK: the node has the session."""
    reason: int = 0
    """CONNACK: why the client is refused; an acknowledgement: what is wrong with its packet identifier."""


def cut(buffer: bytearray) -> list[bytes]:
    """Take the whole frames at the beginning of a buffer."""
    found = []
    while len(buffer) >= 2:
        length, at = _varint(buffer, 1)
        if at < 0 or len(buffer) < at + length:
            break
        found.append(bytes(buffer[: at + length]))
        del buffer[: at + length]
    return found


def read(frame: bytes, version: int) -> Seen:
    """Read a frame."""
    kind = frame[0] >> 4
    at = _varint(frame, 1)[1]
    if kind == CONNACK:
        return Seen(kind, present=bool(frame[at] & 1), reason=frame[at + 1])
    if kind == PUBLISH:
        size = int.from_bytes(frame[at : at + 2], "big")
        topic = frame[at + 2 : at + 2 + size].decode()
        at += 2 + size
        packet_id = 0
        if frame[0] & 6:
            packet_id, at = int.from_bytes(frame[at : at + 2], "big"), at + 2
        if version == V5:
            length, at = _varint(frame, at)
            at += length
        return Seen(kind, packet_id, topic, frame[at:], bool(frame[0] & 8))
    if kind in (PUBREC, PUBREL, PUBCOMP, SUBACK):
        reason = frame[at + 2] if kind != SUBACK and len(frame) > at + 2 else 0
        return Seen(kind, int.from_bytes(frame[at : at + 2], "big"), reason=reason)
    return Seen(kind)


def connect(client_id: str, version: int) -> bytes:
    """A client whose session is kept and continued."""
    properties = b"\x05\x11" + KEPT_S.to_bytes(4, "big") if version == V5 else b""
    return _frame(
        0x10, _text("MQTT"), bytes((version, 0)), (60).to_bytes(2, "big"), properties, _text(client_id)
    )


def subscribe(packet_id: int, filter_: str, version: int) -> bytes:
    """Subscribe with QoS 2."""
    return _frame(
        0x82, packet_id.to_bytes(2, "big"), b"\0" if version == V5 else b"", _text(filter_), b"\x02"
    )


def publish(packet_id: int, topic: str, payload: bytes, version: int, *, dup: bool) -> bytes:
    """A message of QoS 2."""
    first = 0x3C if dup else 0x34
    return _frame(first, _text(topic), packet_id.to_bytes(2, "big"), b"\0" if version == V5 else b"", payload)


def ack(kind: int, packet_id: int) -> bytes:
    """PUBREC, PUBREL or PUBCOMP."""
    return _frame(kind << 4 | (2 if kind == PUBREL else 0), packet_id.to_bytes(2, "big"))


def _frame(first: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    length, left = bytearray(), len(body)
    while True:
        left, digit = left >> 7, left & 127
        length.append(digit | (128 if left else 0))
        if not left:
            return bytes((first,)) + bytes(length) + body


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def _varint(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """A number and where it ends; -1: it is not complete."""
    value = shift = 0
    while at < len(data):
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
        shift += 7
    return 0, -1
