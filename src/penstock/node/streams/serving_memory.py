"""What all programs of a node together may have in memory: requests under way, answers on their way."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock import limits

if TYPE_CHECKING:
    from collections.abc import Iterator


class Requests:
    """Bytes of requests; whoever finds no room waits, and nobody overtakes.

    Small ones do not count: whoever reads, or says how far it has come, does not wait for those who write.
    """

    def __init__(self) -> None:
        self.taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        """Wait for room; `give` follows. One request always has room, however large it is."""
        if size <= limits.STREAM_REQUEST_SMALL_BYTES:
            return
        if not self._waiting and self._fits(size):
            self.taken += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._next()
            else:
                self.give(size)  # it came in the same moment
            raise

    def give(self, size: int) -> None:
        """A request is done."""
        if size > limits.STREAM_REQUEST_SMALL_BYTES:
            self.taken -= size
            self._next()

    def _fits(self, size: int) -> bool:
        return not self.taken or self.taken + size <= limits.STREAM_REQUESTS_BYTES

    def _next(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.cancelled():
                if not self._fits(size):
                    return
                self.taken += size
                turn.set_result(None)
            self._waiting.popleft()


class Answers:
    """Bytes of messages; the more programs do not take their answers, the smaller further ones are."""

    def __init__(self) -> None:
        self.taken = 0

    @contextmanager
    def helping(self, wanted: int) -> Iterator[int]:
        """How many an answer may have that is made and sent meanwhile; a single message may be larger."""
        left = limits.STREAM_ANSWERS_BYTES - self.taken
        size = min(wanted, limits.STREAM_FETCH_BYTES, max(limits.STREAM_FETCH_LEAST_BYTES, left // 8))
        self.taken += size
        try:
            yield size
        finally:
            self.taken -= size
