"""WebSocket handshakes, and MQTT in frames: whole, fragmented, empty, masked or not, among control frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock_lab.experiments.fuzz.exchange import INTEGERS, damaged
from penstock_lab.experiments.fuzz.targets import mqtt

if TYPE_CHECKING:
    from random import Random

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
FINAL: Final = 0x80
MASKED: Final = 0x80

HANDSHAKE: Final = (
    b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)
TOKENS: Final = (
    b"\r\n",
    b"\r\n\r\n",
    b"Connection: close\r\n",
    b"Content-Length: 10\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Sec-WebSocket-Extensions: permessage-deflate\r\n",
    b"Origin: http://example.org\r\n",
    b"\x89\x80\0\0\0\0",
    b"\x8a\x00",
    b"\x88\x80\0\0\0\0",
    b"\x82\x80\0\0\0\0",
    b"\x00\x80\0\0\0\0",
    b"\x82\xff\0\0\0\0\xff\xff\xff\xff\0\0\0\0",
    b"\xf2\x80\0\0\0\0",
)


def frame(kind: int, data: bytes, dice: Random, *, final: bool = True, masked: bool = True) -> bytes:
    """Make a frame, now and then with more bytes of length than it needs."""
    size, spare = len(data), dice.random()
    if size < 126 and spare < 0.95:
        length = bytes((size | (MASKED if masked else 0),))
    elif size < 1 << 16 and spare < 0.98:
        length = bytes((126 | (MASKED if masked else 0),)) + size.to_bytes(2)
    else:
        length = bytes((127 | (MASKED if masked else 0),)) + size.to_bytes(8)
    head = bytes((kind | (FINAL if final else 0),)) + length
    if not masked:
        return head + data
    mask = dice.randbytes(4)
    key = (mask * (size // 4 + 1))[:size]
    return head + mask + bytes(one ^ other for one, other in zip(data, key, strict=True))


def valid(dice: Random) -> list[bytes]:
    """Return a handshake and frames with the packets of a client, which may be damaged themselves."""
    packets = mqtt.valid(dice)
    if dice.random() < 0.3:
        spot = dice.randrange(len(packets))
        packets[spot] = damaged(packets[spot], dice, mqtt.TOKENS)
    masked = dice.random() < 0.95
    found = [_handshake(dice)]
    if dice.random() < 0.3:
        packets = [b"".join(packets)]
    for packet in packets:
        found += _frames(packet, dice, masked=masked)
        if dice.random() < 0.2:
            found.append(_control(dice, masked=masked))
    return found


def _handshake(dice: Random) -> bytes:
    match dice.randrange(12):
        case 0:
            return HANDSHAKE.replace(b"/mqtt", dice.choice((b"/", b"/other", b"/mqtt?x=1", b"*", b"//mqtt")))
        case 1:
            return HANDSHAKE.replace(b"mqtt\r\n\r\n", dice.choice((b"mqttv3.1\r\n\r\n", b"a, mqtt\r\n\r\n")))
        case 2:
            return HANDSHAKE.replace(b"Version: 13", b"Version: 8")
        case 3:
            return HANDSHAKE.replace(b"GET", dice.choice((b"POST", b"HEAD", b"OPTIONS", b"PRI")))
        case _:
            return HANDSHAKE


def _frames(packet: bytes, dice: Random, *, masked: bool) -> list[bytes]:
    """One packet in one frame, or in several of one message."""
    if dice.random() < 0.7:
        kind = dice.choice((BINARY,) * 12 + (TEXT, CONTINUED))
        return [frame(kind, packet, dice, masked=masked)]
    parts = dice.randint(2, 5)
    cuts = sorted(dice.randrange(len(packet) + 1) for _ in range(parts - 1))
    pieces = [packet[a:b] for a, b in zip([0, *cuts], [*cuts, len(packet)], strict=True)]
    found = []
    for number, piece in enumerate(pieces):
        kind = CONTINUED if number else BINARY
        found.append(frame(kind, piece, dice, final=number == parts - 1, masked=masked))
        if dice.random() < 0.2:
            found.append(_control(dice, masked=masked))
    return found


def _control(dice: Random, *, masked: bool) -> bytes:
    kind = dice.choice((PING, PING, PONG, CLOSE, 3, 11))
    if kind == CLOSE:
        code = dice.choice((1000, 1001, 1002, 1005, 1006, 2999, 3000, 4999, 0, 65_535))
        data = dice.choice((b"", b"\x03", code.to_bytes(2), code.to_bytes(2) + b"bye \xff"))
    else:
        data = dice.choice((b"", b"?", b"p" * 125, b"p" * 126))
    return frame(kind, data, dice, final=dice.random() < 0.95, masked=masked)


def lengths(piece: bytes, dice: Random) -> bytes:
    """Give a frame another length."""
    if len(piece) < 2:
        return piece
    match dice.randrange(3):
        case 0:
            return piece[:1] + bytes((piece[1] & 0x80 | dice.choice((0, 1, 125, 126, 127)),)) + piece[2:]
        case 1:
            size = dice.choice(INTEGERS) & 0xFFFF
            return piece[:1] + b"\xfe" + size.to_bytes(2) + piece[2:]
        case _:
            size = dice.choice((*INTEGERS, (1 << 63) - 1, 1 << 63, (1 << 64) - 1))
            return piece[:1] + b"\xff" + size.to_bytes(8) + piece[2:]
