"""Frames in a stream of bytes: each has its length in front, in four bytes."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from penstock.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTH: Final = Struct(">I")
_HEAD: Final = LENGTH.size


def framed(frame: bytes) -> bytes:
    """A frame with its length in front."""
    return LENGTH.pack(len(frame)) + frame


class FrameReader:
    """Cuts a stream of bytes into frames."""

    __slots__ = ("_missing", "_parts", "most")

    def __init__(self, *, most: int) -> None:
        self.most = most
        """Bytes of the largest frame that is accepted; it may be changed between two frames."""
        self._parts: list[bytes] = []
        """The beginning of a frame that has not come whole."""
        self._missing = 0
        """Bytes without which there is no use in looking at the parts."""

    @property
    def partial(self) -> bool:
        """Whether a frame has come in part."""
        return bool(self._parts)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames that end in these bytes; ClusterError if a length is not allowed.

        Parts of a large frame are kept as they came and joined once: a frame of 100 MB comes in 400 parts.
        """
        if self._parts:
            self._parts.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._parts)
            self._parts = []
        at, end, missing = 0, len(data), 0
        while at < end:
            begin = at + _HEAD
            if begin > end:
                missing = begin - end
                break
            size: int = LENGTH.unpack_from(data, at)[0]
            if not 0 < size <= self.most:
                raise ClusterError(f"a frame of {size} bytes; 1 to {self.most} are accepted")
            if begin + size > end:
                missing = begin + size - end
                break
            at = begin + size
            yield data[begin:at]
        if at < end:
            self._parts = [data[at:]]
            self._missing = missing
