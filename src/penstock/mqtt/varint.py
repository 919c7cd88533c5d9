"""Variable byte integers: seven bits a byte, low bits first, four bytes at most, no byte more than needed."""

from __future__ import annotations

from typing import Final

from penstock.errors import MalformedPacket

MOST: Final = 268_435_455
"""Four bytes of seven bits."""

_ONE_BYTE: Final = tuple(bytes([value]) for value in range(128))


def encode_varint(value: int) -> bytes:
    """A number from 0 to MOST as its bytes."""
    if value < 128:
        return _ONE_BYTE[value]
    if value < 16_384:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value > MOST:
        raise MalformedPacket(f"{value} does not fit a variable byte integer; at most {MOST}")
    digits = bytearray()
    while value > 127:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def decode_varint(data: bytes, at: int, *, where: str) -> tuple[int, int]:
    """The number at a place, and the place behind it; raises IndexError where the bytes end too soon."""
    value = shift = 0
    for place in range(at, at + 4):
        digit = data[place]
        value |= (digit & 0x7F) << shift
        if digit < 128:
            if digit == 0 and shift:
                raise MalformedPacket("a variable byte integer longer than needed", where=where)
            return value, place + 1
        shift += 7
    raise MalformedPacket("a variable byte integer of more than four bytes", where=where)
