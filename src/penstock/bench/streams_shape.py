"""Messages by which a benchmark of streams sees what was lost, doubled or out of order."""

from __future__ import annotations

import struct
from typing import Final

from penstock.bench.load_process import Failed

PAYLOAD_BYTES: Final = 100
STREAM: Final = "bench"
TOPIC: Final = "bench/all"
WRITTEN: Final = "written"
WRITTEN_TOPIC: Final = "written/all"
"""What comes by a StreamWriter, whose messages have numbers of their own."""
SUBJECT: Final = "bench.all"
"""The same where it is a rival's."""

_HEAD: Final = struct.Struct(">QQ")
_PADDING: Final = bytes(PAYLOAD_BYTES - _HEAD.size)


def payload(number: int, due_ns: int = 0) -> bytes:
    """A message, its number, and when it was due."""
    return _HEAD.pack(number, due_ns) + _PADDING


def due_ns(body: bytes) -> int:
    """When a message was due."""
    found: int = _HEAD.unpack_from(body)[1]
    return found


class InOrder:
    """Counts messages; Failed at the first that is not the next one."""

    def __init__(self, first: int) -> None:
        self.next = first

    def take(self, body: bytes) -> None:
        """A message has come."""
        number: int = _HEAD.unpack_from(body)[0]
        if number != self.next:
            what = "came again" if number < self.next else "came early"
            raise Failed(f"message {number} {what}: {self.next} was the next")
        self.next += 1
