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
"""Largest variable byte integer: four bytes of seven bits."""

_ONE_BYTE: Final = tuple(bytes([value]) for value in range(128))


def encode_varint(value: int) -> bytes:
    """Encode a number from 0 to MOST_VARINT."""
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
    """Decode the number at `at`; returns it and the index behind it. IndexError if `data` ends inside it."""
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
    """Decode and check UTF-8 text."""
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
    """Return the text if it is fit to name something: no control characters, no noncharacters."""
    unfit = _UNFIT_IN_NAMES.search(text)
    if unfit:
        raise MalformedPacket(
            f"U+{ord(unfit[0]):04X} at character {unfit.start()}; names have no control characters",
            where=where,
            reason=reason,
        )
    return text


def encode_text(text: str, *, where: str) -> bytes:
    """Encode text with its length in front."""
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise MalformedPacket(f"a lone surrogate at character {error.start}", where=where) from None
    if "\0" in text:
        raise MalformedPacket(f"U+0000 at character {text.index(chr(0))}", where=where)
    return encode_binary(raw, where=where)


def encode_binary(raw: bytes, *, where: str) -> bytes:
    """Encode bytes with their length in front."""
    if len(raw) > TEXT_BYTES:
        raise MalformedPacket(f"{len(raw)} bytes; at most {TEXT_BYTES}", where=where)
    return len(raw).to_bytes(2, "big") + raw


class FieldReader:
    """Cursor that reads the fields of a packet one after the other."""

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
        """Name of a field together with its packet, for error messages."""
        return f"{self.packet} {name}"

    def _pass(self, count: int, name: str) -> int:
        """Advance by `count` bytes; returns the index they begin at."""
        start = self._at
        if start + count > self._end:
            raise MalformedPacket(f"{count} bytes wanted, {self.left} are left", where=self.where(name))
        self._at = start + count
        return start

    def take(self, count: int, name: str) -> bytes:
        """Read `count` bytes."""
        start = self._pass(count, name)
        return self._data[start : self._at]

    def u8(self, name: str) -> int:
        """Read one byte."""
        return self._data[self._pass(1, name)]

    def u16(self, name: str) -> int:
        """Read a two byte integer."""
        at = self._pass(2, name)
        return self._data[at] << 8 | self._data[at + 1]

    def u32(self, name: str) -> int:
        """Read a four byte integer."""
        return int.from_bytes(self.take(4, name), "big")

    def varint(self, name: str) -> int:
        """Read a variable byte integer."""
        try:
            value, at = decode_varint(self._data, self._at, where=self.where(name))
        except IndexError:
            at = self._end + 1
        if at > self._end:
            raise MalformedPacket("the packet ends inside it", where=self.where(name))
        self._at = at
        return value

    def binary(self, name: str) -> bytes:
        """Read binary data with its length in front."""
        # Without further calls: a message of a stream has five of these fields, and clients read each one.
        data, start = self._data, self._at + 2
        if start <= self._end:
            end = start + (data[start - 2] << 8 | data[start - 1])
            if end <= self._end:
                self._at = end
                return data[start:end]
        return self.take(self.u16(name), name)  # which says what is missing

    def text(self, name: str, *, reason: int = 0x81) -> str:
        """Read text with its length in front."""
        raw = self.binary(name)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = "\0"
        return text if "\0" not in text else decode_text(raw, where=self.where(name), reason=reason)

    def name(self, name: str, *, reason: int = 0x81) -> str:
        """Read text that names something: control characters are refused."""
        return check_name(self.text(name, reason=reason), where=self.where(name), reason=reason)

    def packet_id(self, *, reason: int = 0x81) -> int:
        """Read a packet identifier, which is never 0 [MQTT-2.2.1-3]."""
        found = self.u16("packet identifier")
        if not found:
            raise MalformedPacket(
                "0 is not a packet identifier", where=self.where("packet identifier"), reason=reason
            )
        return found

    def inside(self, count: int, name: str) -> FieldReader:
        """Skip the next `count` bytes and return a cursor over them."""
        start = self._pass(count, name)
        return FieldReader(self._data, packet=self.packet, at=start, end=self._at)

    def finish(self) -> None:
        """Check that every byte has been read."""
        if self.left:
            raise MalformedPacket(f"{self.left} bytes too many", where=self.packet)
