"""A body as it comes: counted, decompressed, and refused as soon as it is too much."""

from __future__ import annotations

import zlib
from typing import Final

from penstock import limits

ENCODINGS: Final = "gzip, deflate"
"""What we ask for: what can be decompressed piece by piece within a bound."""


class BadBody(Exception):
    """A body that is not taken; the text is a sentence."""


class Body:
    """Takes the pieces of one body."""

    def __init__(self, encoding: str, *, most_bytes: int) -> None:
        self._encoding = encoding.strip().lower()
        self._packed = self._encoding not in ("", "identity")
        self._inflater: zlib._Decompress | None = None
        self._most_bytes = most_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self.wire_bytes = 0
        """Bytes that came over the network."""

    def take(self, piece: bytes) -> None:
        """The next piece; BadBody if it is too much, or broken."""
        self.wire_bytes += len(piece)
        if self._encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise BadBody(f"The answer is encoded as {self._encoding[:40]}, which was not asked for.")
        if self.wire_bytes > self._most_bytes:
            raise BadBody(f"The page has more than {self._most_bytes:,} bytes.")
        if not self._packed:
            self._keep(piece)
            return
        try:
            self._inflate(piece)
        except zlib.error:
            raise BadBody(f"The answer says it is {self._encoding}, but it cannot be unpacked.") from None

    def whole(self) -> bytes:
        """All of it; BadBody if it ends in the middle."""
        if self._inflater is not None and not self._inflater.eof:
            raise BadBody("The answer was broken off: its compressed body has no end.")
        return b"".join(self._parts)

    def _inflate(self, piece: bytes) -> None:
        while piece:
            if self._inflater is None or self._inflater.eof:  # gzip may have several members
                self._inflater = self._begin(piece)
            room = self._most_bytes - self._size + 1
            self._keep(self._inflater.decompress(piece, room))
            piece = self._inflater.unconsumed_tail or self._inflater.unused_data
            if self._inflater.eof and self._encoding == "deflate":
                return  # what follows is not part of it

    def _begin(self, piece: bytes) -> zlib._Decompress:
        if self._encoding != "deflate":
            return zlib.decompressobj(16 + zlib.MAX_WBITS)
        # RFC 9110 means zlib's format; some servers send the bare stream, which never begins with its mark.
        zlib_marked = piece[0] & 0x0F == 8 and piece[0] >> 4 <= 7
        return zlib.decompressobj(zlib.MAX_WBITS if zlib_marked else -zlib.MAX_WBITS)

    def _keep(self, found: bytes) -> None:
        self._size += len(found)
        if self._size > self._most_bytes:
            raise BadBody(f"The page has more than {self._most_bytes:,} bytes when decompressed.")
        if self._size > limits.BOMB_RATIO * self.wire_bytes + limits.BOMB_SPARE_BYTES:
            raise BadBody(
                f"The page grows more than {limits.BOMB_RATIO} times when decompressed: that is a trap."
            )
        self._parts.append(found)
