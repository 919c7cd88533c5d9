"""A cursor over the body of one packet; every value it cannot read is a malformed packet, said by name."""

from __future__ import annotations

from penstock.errors import MalformedPacket
from penstock.mqtt.text import check_name, decode_text
from penstock.mqtt.varint import decode_varint


class Reader:
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

    def inside(self, count: int, name: str) -> Reader:
        """A cursor over the next so many bytes, which this one skips."""
        start = self._pass(count, name)
        return Reader(self._data, packet=self.packet, at=start, end=self._at)

    def finish(self) -> None:
        """Nothing may be left."""
        if self.left:
            raise MalformedPacket(f"{self.left} bytes too many", where=self.packet)
