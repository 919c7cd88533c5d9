"""What one message of a JetStream log says: messages of ours that were appended together, and where they are.

Each batch proves the ticks from `after` to its end: none of them is in another, so a reader that finds the
end of one batch where the next begins knows that nothing between has been lost.
"""

from __future__ import annotations

import msgspec

from penstock.errors import StreamError


class Batch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Messages, in the order of their ticks; none: a claim."""

    writer: str
    """Which opening of the log has written it."""
    after: int
    """Behind the last message before it."""
    ticks: tuple[int, ...]
    bodies: tuple[bytes, ...]
    claim: int
    trimmed: int
    messages: int
    """That the log has ever had before it, and their bytes."""
    total_bytes: int

    @property
    def until(self) -> int:
        """Behind its last message."""
        return self.ticks[-1] + 1 if self.ticks else self.after

    @property
    def size(self) -> int:
        """Of its messages."""
        return sum(map(len, self.bodies))

    @property
    def behind(self) -> tuple[int, int]:
        """Messages that the log has ever had before its end, and their bytes."""
        return self.messages + len(self.ticks), self.total_bytes + self.size


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Batch)


def encode(batch: Batch) -> bytes:
    """For JetStream."""
    return _encoder.encode(batch)


def decode(data: bytes) -> Batch:
    """From there; StreamError if it is not one of ours."""
    try:
        found = _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise StreamError(f"this is no batch of a stream's log: {error}") from None
    if len(found.ticks) != len(found.bodies):
        raise StreamError(
            f"a batch of a stream's log has {len(found.ticks)} ticks and {len(found.bodies)} bodies"
        )
    return found
