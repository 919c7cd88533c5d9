"""Reads from a log in JetStream for those who cannot wait: what is at hand is theirs, the rest is fetched.

What cannot be read is asked for again until it can, and disturbs nobody who asks for something else.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.streams.log import Found
    from penstock.node.streams.nats_reading import Reading
    from penstock.node.streams.nats_stream import NatsStream

log = logging.getLogger(__name__)

WANTS: Final = 256
"""Readings that may wait; whoever asks beyond that asks again when another one is done."""


class Asking:
    """Of one log; `within` cuts a span to what the log has."""

    def __init__(
        self, stream: NatsStream, reading: Reading, *, within: Callable[[int, int], tuple[int, int]]
    ) -> None:
        self._stream = stream
        self._reading = reading
        self._within = within
        self._wants: dict[tuple[int, int, int], None] = {}
        self._asked = asyncio.Event()
        self._damage: dict[tuple[int, int, int], str] = {}
        """Of readings that cannot be done, why."""
        self.on_ready: Callable[[], None] = lambda: None
        """What was not at hand may be now."""

    @property
    def damage(self) -> str:
        """Why not all can be read; empty: it can."""
        return next(iter(self._damage.values()), "")

    def read(self, since: int, until: int, most: int) -> Found | None:
        """See Log."""
        since, until = self._within(since, until)
        if since >= until:
            return []
        found = self._reading.cached(since, until, most)
        if found is None and len(self._wants) < WANTS:
            self._wants[since, until, most] = None
            self._asked.set()
        return found

    async def fetch(self, since: int, until: int, most: int) -> Found:
        """See DurableLog."""
        since, until = self._within(since, until)
        if since >= until:
            return []
        found = self._reading.cached(since, until, most)
        return await self._reading.collect(since, until, most) if found is None else found

    def wake(self) -> None:
        """The server is back."""
        self._asked.set()

    async def run(self) -> None:
        """Fetch what was asked for and not at hand."""
        failed = 0
        while True:
            await self._asked.wait()
            self._asked.clear()
            while self._wants:
                want = next(iter(self._wants))
                del self._wants[want]
                try:
                    await self.fetch(*want)
                except StoreError as error:
                    self._wants[want] = None
                    failed += 1
                    if str(error) not in self._damage.values() and self._stream.connected:
                        log.error("%s", error)  # noqa: TRY400  # the sentence says it all
                    self._damage[want] = str(error)
                    if failed >= len(self._wants):
                        await asyncio.sleep(limits.JOURNAL_RETRY_S)
                        failed = 0
                else:
                    failed = 0
                    self._damage.pop(want, None)
                    self.on_ready()
