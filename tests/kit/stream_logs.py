"""A log as a node drives it, for tests."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

from penstock.node.config.streams import Nats, Streams
from penstock.node.streams.log.factory import open_log
from penstock.node.streams.log.jetstream.log import NatsLog

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.node.streams.log.protocol import DurableLog, LoggedMessages
    from penstock_lab.rigs.nats_server import NatsServer


class Logged:
    """A log that was started, and what it said."""

    def __init__(self, log: DurableLog) -> None:
        self.log = log
        self.commits: list[tuple[int, int]] = []
        self.last = -1
        self.claimed = 0
        self._news = asyncio.Event()
        self._ready = asyncio.Event()
        log.start(committed=self._committed, ready=self._ready.set)

    def _committed(self, until: int, claimed: int) -> None:
        self.commits.append((until, claimed))
        self._news.set()

    def append(self, *ticks: int, size: int = 5) -> None:
        for tick in ticks:
            self.log.append(tick, body(tick, size))
            self.last = tick

    def claim(self, tick: int) -> None:
        self.claimed = max(self.claimed, tick)
        self.log.claim(tick)

    async def durable(self) -> None:
        """Wait until everything is."""
        async with asyncio.timeout(120):
            while not self.commits or self.commits[-1][0] <= self.last or self.commits[-1][1] < self.claimed:
                self._news.clear()
                await self._news.wait()

    async def read(self, since: int, until: int, most: int) -> LoggedMessages:
        """As somebody does who comes again when the log is ready."""
        async with asyncio.timeout(120):
            while True:
                self._ready.clear()
                found = self.log.read(since, until, most)
                if found is not None:
                    return found
                await self._ready.wait()

    async def all(self, most: int = 100) -> list[int]:
        """The ticks of all messages, read piece by piece, each looked at."""
        found: list[int] = []
        since = 0
        while more := await self.read(since, 1 << 62, most):
            assert all(text == body(tick, len(text)) for tick, text in more)
            found += [tick for tick, _ in more]
            since = found[-1] + 1
        return found

    async def until(self, what: str) -> str:
        """Wait until the log's fault says something; empty: until there is none."""
        async with asyncio.timeout(120):
            while what not in self.log.fault or (not what and self.log.fault):
                await asyncio.sleep(0.005)
        return self.log.fault


def body(tick: int, size: int) -> bytes:
    """That can be told from all others."""
    return f"{tick}-".encode().ljust(size, b".")


class Disk:
    """Where the log of a kind is: opened, closed, crashed and opened again."""

    def __init__(self, kind: str, folder: Path, server: NatsServer | None = None) -> None:
        self.kind = kind
        self.folder = folder / "0"
        self.server = server
        self._images = 0
        self._open: list[DurableLog] = []

    @property
    def settings(self) -> Streams:
        if self.server is None:
            return Streams()
        return Streams(log="nats", nats=Nats(servers=(self.server.url,)))

    async def open(self, name: str = "orders") -> Logged:
        log = await open_log(self.settings, name, None if self.kind == "memory" else self.folder)
        self._open.append(log)
        return Logged(log)

    async def close(self, logged: Logged) -> None:
        self._open.remove(logged.log)
        await logged.log.close()

    async def crash(self, logged: Logged) -> None:
        """As a power cut would: what the disk has at this moment is what the next `open` finds."""
        self._open.remove(logged.log)
        log = logged.log
        if isinstance(log, NatsLog):
            await abandon(log)
            return
        self._images += 1
        image = self.folder.with_name(str(self._images))
        shutil.copytree(self.folder, image)
        self.folder = image
        await log.close()

    async def end(self) -> None:
        for log in self._open:
            await log.close()


async def abandon(log: NatsLog) -> None:
    """The process is gone: whatever it has on its way may arrive or not."""
    for task in log._tasks:
        task.cancel()
    await asyncio.gather(*log._tasks, return_exceptions=True)
    await log._stream.close()
