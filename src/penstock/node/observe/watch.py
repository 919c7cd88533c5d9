"""Samples a node once a second for its history and rates; one snapshot is shared by all who ask for one."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.node.observe import rows
from penstock.node.observe.history import History

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from penstock.node.broker.status import SubscriptionStatus
    from penstock.node.observe.status import NodeStatus, Observed

INTERVAL_S: Final = 1.0
"""Time between two samples."""

SHARE: Final = 0.02
"""Share of the event loop's time that taking snapshots may use: a node of many thousands of clients is
sampled less often. Snapshots are frozen, so they are sorted and encoded in a thread."""


class Watch:
    """Takes snapshots of a node, and shares them among all who ask."""

    def __init__(self, observed: Observed, history: History | None = None) -> None:
        self.history = history or History()
        self.viewers = 0
        """Live views that are open; without any, no live snapshot is made."""
        self._observed = observed
        self._status: NodeStatus | None = None
        self._rates = rows.Rates()
        self._before: rows.Grown | None = None
        self._looked_s = float("-inf")
        self._latest = b""
        self._made = 0
        """How many live snapshots were made for all viewers together."""
        self._news = asyncio.Condition()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether the node is being stopped."""
        return self._closed

    def status(self) -> NodeStatus:
        """Return a snapshot that is at most `limits.HTTP_FRESH_S` old."""
        now_s = asyncio.get_running_loop().time()
        found = self._status
        if found is None or now_s - self._looked_s >= limits.HTTP_FRESH_S:
            self._status = None  # before there are two
            found = self._status = self._observed.status()
            self._looked_s = now_s
        return found

    def changed(self) -> None:
        """Take a new snapshot for the next answer: something was done to the node."""
        self._looked_s = float("-inf")

    async def overview(self) -> rows.Overview:
        """Return the node in figures."""
        return await asyncio.to_thread(rows.overview, self.status(), rates=self._rates)

    # -- once a second ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Sample until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began_s, busy_s = loop.time(), time.thread_time()
            self._sample()
            busy_s = time.thread_time() - busy_s
            if self.viewers:
                await self._tell()
            await asyncio.sleep(max(INTERVAL_S - (loop.time() - began_s), busy_s / SHARE))

    def _sample(self) -> None:
        """Look at one subscription after the other: a snapshot of thousands would take megabytes."""
        broker = self._observed.broker
        now_us = broker.clock()
        total = broker.sessions.departed

        def seen() -> Iterator[tuple[str, SubscriptionStatus]]:
            nonlocal total
            for client_id, one in broker.subscription_statuses(now_us=now_us):
                if one.account.accepted:
                    total += one.account
                yield client_id, one

        self.history.sample(seen(), now_us=now_us)
        grown = rows.Grown(
            now_us=now_us,
            messages_received=broker.messages_received,
            messages_sent=broker.messages_sent,
            bytes_received=broker.bytes_received,
            bytes_sent=broker.bytes_sent,
            accepted=total.accepted,
            delivered=total.delivered,
            digested=total.digested,
            counted=total.counted,
        )
        self._rates = rows.rates(self._before, grown)
        self._before = grown
        self.changed()
        if not self.viewers:
            self._status = None

    async def _tell(self) -> None:
        """Encode one live snapshot for all viewers, and wake them."""
        self._latest = await self._encoded()
        self._made += 1
        async with self._news:
            self._news.notify_all()

    async def _encoded(self) -> bytes:
        status, rates = self.status(), self._rates
        return await asyncio.to_thread(lambda: msgspec.json.encode(rows.snapshot(status, rates=rates)))

    async def snapshots(self) -> AsyncIterator[bytes]:
        """Yield live snapshots as JSON, the first at once; a slow viewer misses those in between."""
        yield await self._encoded()
        seen = self._made
        while True:
            async with self._news:
                await self._news.wait_for(lambda: self._closed or self._made > seen)  # noqa: B023
            if self._closed:
                return
            seen = self._made
            yield self._latest

    async def close(self) -> None:
        """End all live views."""
        self._closed = True
        async with self._news:
            self._news.notify_all()
