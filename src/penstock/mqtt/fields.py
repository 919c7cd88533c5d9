"""The fields of a packet: variable byte integers, text and binary data, and the cursor that reads them.

A variable byte integer has seven bits a byte, low bits first, four bytes at most, no byte more than needed.
Text is well-formed UTF-8 without U+0000. The specification lets a receiver refuse control characters and
noncharacters (section 1.5.4). Names (topics, filters, client identifiers, user names) end up in logs, access
rules and paths, so there they are refused; elsewhere they are let through, because a policy in a user
property has line breaks. A field that cannot be read raises MalformedPacket with its name.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import MalformedPacket

MOST_VARINT: Final = 268_435_455
"""Four bytes of seven bits."""

_ONE_BYTE: Final = tuple(bytes([value]) for value in range(128))


def encode_varint(value: int) -> bytes:
    """A number from 0 to MOST as its bytes."""
    if value < 128:
        return _ONE_BYTE[value]
    if value < 16_384:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value > MOST_VARINT:
        raise MalformedPacket(f"{value} does not fit a variable byte integer; at most {MOST_VARINT}")
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


TEXT_BYTES: Final = 65_535
"""Longest text or binary value: its length field has 16 bits."""

_NONCHARACTERS: Final = "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
_UNFIT_IN_NAMES: Final = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef{_NONCHARACTERS}]")


def decode_text(raw: bytes, *, where: str, reason: int = 0x81) -> str:
    """Text from its bytes."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedPacket(
            f"not UTF-8 at byte {error.start} of {len(raw)}", where=where, reason=reason
        ) from None
    if "\0" in text:
        raise MalformedPacket(f"U+0000 at character {text.index(chr(0))}", where=where, reason=reason)
    return text


def check_name(text: str, *, where: str, reason: int = 0x81) -> str:
    """The same text, if it may name something."""
    unfit = _UNFIT_IN_NAMES.search(text)
    if unfit:
        raise MalformedPacket(
            f"U+{ord(unfit[0]):04X} at character {unfit.start()}; names have no control characters",
            where=where,
            reason=reason,
        )
    return text


def encode_text(text: str, *, where: str) -> bytes:
    """Text with its length in front."""
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise MalformedPacket(f"a lone surrogate at character {error.start}", where=where) from None
    if "\0" in text:
        raise MalformedPacket(f"U+0000 at character {text.index(chr(0))}", where=where)
    return encode_binary(raw, where=where)


def encode_binary(raw: bytes, *, where: str) -> bytes:
    """Bytes with their length in front."""
    if len(raw) > TEXT_BYTES:
        raise MalformedPacket(f"{len(raw)} bytes; at most {TEXT_BYTES}", where=where)
    return len(raw).to_bytes(2, "big") + raw


class FieldReader:
    """Reads the values of a packet one after the other."""

    __slots__ = ("_at", "_data", "_end", "packet")

    def __init__(self, data: bytes, *, packet: str, at: int = 0, end: int | None = None) -> None:
        self._data = data
        self._at = at
        self._end = len(data) if end is None else end
        self.packet = packet
        """The packet's name, for messages."""

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return self._end - self._at

    def where(self, name: str) -> str:
        """A value's place in the packet, for messages."""
        return f"{self.packet} {name}"

    def _pass(self, count: int, name: str) -> int:
        """Go on by so many bytes; the place they begin at."""
        start = self._at
        if start + count > self._end:
            raise MalformedPacket(f"{count} bytes wanted, {self.left} are left", where=self.where(name))
        self._at = start + count
        return start

    def take(self, count: int, name: str) -> bytes:
        """So many bytes."""
        start = self._pass(count, name)
        return self._data[start : self._at]

    def u8(self, name: str) -> int:
        """One byte."""
        return self._data[self._pass(1, name)]

    def u16(self, name: str) -> int:
        """A two byte integer."""
        at = self._pass(2, name)
        return self._data[at] << 8 | self._data[at + 1]

    def u32(self, name: str) -> int:
        """A four byte integer."""
        return int.from_bytes(self.take(4, name), "big")

    def varint(self, name: str) -> int:
        """A variable byte integer."""
        try:
            value, at = decode_varint(self._data, self._at, where=self.where(name))
        except IndexError:
            at = self._end + 1
        if at > self._end:
            raise MalformedPacket("the packet ends within it", where=self.where(name))
        self._at = at
        return value

    def binary(self, name: str) -> bytes:
        """Bytes with their length in front."""
        return self.take(self.u16(name), name)

    def text(self, name: str, *, reason: int = 0x81) -> str:
        """Text with its length in front."""
        return decode_text(self.binary(name), where=self.where(name), reason=reason)

    def name(self, name: str, *, reason: int = 0x81) -> str:
        """Text that names something: no control characters."""
        return check_name(self.text(name, reason=reason), where=self.where(name), reason=reason)

    def packet_id(self, *, reason: int = 0x81) -> int:
        """A packet identifier, which is never 0."""
        found = self.u16("packet identifier")
        if not found:
            raise MalformedPacket("0 is not one", where=self.where("packet identifier"), reason=reason)
        return found

    def inside(self, count: int, name: str) -> FieldReader:
        """A cursor over the next so many bytes, which this one skips."""
        start = self._pass(count, name)
        return FieldReader(self._data, packet=self.packet, at=start, end=self._at)

    def finish(self) -> None:
        """Nothing may be left."""
        if self.left:
            raise MalformedPacket(f"{self.left} bytes too many", where=self.packet)
