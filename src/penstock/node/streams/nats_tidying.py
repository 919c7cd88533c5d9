"""Lets the JetStream server forget what a log needs no more: trimmed messages, claims that others follow.

Nothing waits for it, and what fails is tried again: a log that keeps more than it must is no fault.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from penstock.errors import StoreError

if TYPE_CHECKING:
    from penstock.node.streams.nats_batch import Batch
    from penstock.node.streams.nats_reading import Reading
    from penstock.node.streams.nats_stream import NatsStream

log = logging.getLogger(__name__)

TIDY_S: Final = 1.0
"""Between two purges."""


class Tidying:
    """Of one log; `first` and `last` are the batches that it begins and ends with when it is opened."""

    def __init__(self, stream: NatsStream, reading: Reading, first: Batch | None, last: Batch | None) -> None:
        self._stream = stream
        self._reading = reading
        self.trimmed = 0 if last is None or first is None else max(last.trimmed, first.after)
        """Messages before this tick may go."""
        self.gone = (0, 0) if first is None else (first.messages, first.total_bytes)
        """Messages and bytes that are gone, of all that the log has ever had."""
        self._purged = self.trimmed
        self._claim = reading.last if last is not None and not last.ticks else 0
        """Where a batch without messages is that may go when the next one is stored; 0: nowhere."""
        self._idle_claims: list[int] = []
        self._untidy = asyncio.Event()

    def trim(self, until: int) -> None:
        """Messages before a tick may go."""
        if until > self.trimmed:
            self.trimmed = until
            self._untidy.set()

    def claimed(self, sequence: int) -> None:
        """A batch without messages is stored: the one before it says nothing more."""
        if self._claim:
            self._idle_claims.append(self._claim)
            self._untidy.set()
        self._claim = sequence

    def wake(self) -> None:
        """The server is back."""
        self._untidy.set()

    async def run(self) -> None:
        """Tidy whenever there is something to do, now and then."""
        while True:
            await self._untidy.wait()
            self._untidy.clear()
            try:
                await self._purge()
                while self._idle_claims:
                    await self._stream.delete(self._idle_claims[0])
                    del self._idle_claims[0]
            except StoreError as error:
                log.debug("%s", error)
                self._untidy.set()
            await asyncio.sleep(TIDY_S)

    async def _purge(self) -> None:
        until = self.trimmed
        if until <= self._purged or not self._reading.last:
            return
        found = await self._stream.batch(min(await self._reading.locate(until), self._reading.last))
        if found is None:
            return
        sequence, batch = found
        if sequence > max(1, self._reading.first):
            await self._stream.purge(sequence)
            self._reading.first = sequence
        self.gone = batch.behind if batch.until <= until else (batch.messages, batch.total_bytes)
        self._purged = until
        self._idle_claims = [one for one in self._idle_claims if one > sequence]
