"""Reads spans of a stream for programs: small reads of the log, one at a time for all programs together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.streams.log import cut_short
from penstock.core.streams.requests import Cuts, Fetched
from penstock.errors import StreamRefused

if TYPE_CHECKING:
    from penstock.core.streams.requests import Fetch, Split
    from penstock.node.streams.tree.hosted import HostedStream


class SpanReads:
    """Reads one stream hosted here; `turn` is a lock that the readers of all streams share."""

    def __init__(self, hosted: HostedStream, turn: asyncio.Lock) -> None:
        self._hosted = hosted
        self._turn = turn
        self._for_end: set[asyncio.Future[None]] = set()
        """Requests that wait for new messages."""
        self._ready: set[asyncio.Future[None]] = set()
        """Requests that wait until the log has read something."""
        hosted.on_end.append(lambda _: _wake(self._for_end))
        hosted.on_ready.append(lambda: _wake(self._ready))

    async def wait(self, request: Fetch) -> None:
        """Wait until there may be new messages for a request, at most as long as it asks for."""
        hosted = self._hosted
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + min(request.wait_ms, limits.STREAM_WAIT_MS) / 1_000
        since = request.since
        while hosted.end < request.until:
            end = hosted.end
            if since < end and await self._read(since, end, 1):
                return
            since = max(since, end)
            left_s = deadline_s - loop.time()
            if left_s <= 0:
                return
            if hosted.end == end:
                await _woken(self._for_end, left_s)

    async def fetch(self, request: Fetch, most_bytes: int) -> Fetched:
        """The first messages of a span, `most_bytes` or a single larger one; StreamRefused if trimmed."""
        hosted = self._hosted
        end = max(request.since, min(request.until, hosted.end))
        at, size = request.since, 0
        ticks: list[int] = []
        bodies: list[bytes] = []
        most = min(request.most, limits.STREAM_FETCH)
        while at < end:
            step = min(limits.STREAM_READ, most - len(ticks))
            found = await self._read(at, end, step)
            for tick, body in found:
                if ticks and size + len(body) > most_bytes:
                    return Fetched(request.id, request.since, at, tuple(ticks), tuple(bodies))
                ticks.append(tick)
                bodies.append(body)
                size += len(body)
                at = tick + 1
            if not cut_short(found, step):
                at = end
            elif len(ticks) == most:
                break
        return Fetched(request.id, request.since, at, tuple(ticks), tuple(bodies))

    async def split(self, request: Split) -> Cuts:
        """Ticks that cut a span into parts of the size asked for; StreamRefused if some of it is trimmed."""
        end = max(request.since, min(request.until, self._hosted.end))
        parts = min(request.parts, limits.STREAM_PARTS)
        at, rows, size = request.since, 0, 0
        ends: list[int] = []
        counts: list[int] = []
        while at < end:
            found = await self._read(at, end, limits.STREAM_READ)
            for tick, body in found:
                if rows and (rows == request.rows or size + len(body) > request.bytes):
                    ends.append(tick)
                    counts.append(rows)
                    rows = size = 0
                    if len(ends) == parts:
                        return Cuts(request.id, tuple(ends), tuple(counts))
                rows += 1
                size += len(body)
                at = tick + 1
            if not cut_short(found, limits.STREAM_READ):
                at = end
        return Cuts(request.id, (*ends, end), (*counts, rows))

    async def _read(self, since: int, until: int, most: int) -> list[tuple[int, bytes]]:
        hosted = self._hosted
        loop = asyncio.get_running_loop()
        patient_s = loop.time() + limits.STREAM_WAIT_MS / 1_000
        while True:
            async with self._turn:
                await asyncio.sleep(0)
                found = hosted.read(since, until, most)
            begin = hosted.begin
            if since < begin:
                raise StreamRefused(
                    f"messages of stream '{hosted.name}' before tick {begin} are no longer in the log "
                    f"({since} requested)",
                    code="trimmed",
                    first=begin,
                )
            if found is not None:
                return found
            if hosted.log.fault and loop.time() > patient_s:
                raise StreamRefused(
                    f"stream '{hosted.name}' cannot be read at the moment: {hosted.log.fault}", code="full"
                )
            await _woken(self._ready, 1.0 if hosted.log.fault else limits.STREAM_WAIT_MS / 1_000)


async def _woken(waiting: set[asyncio.Future[None]], timeout_s: float) -> None:
    """Wait for `_wake`, at most `timeout_s`."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting.add(future)
    try:
        await asyncio.wait((future,), timeout=timeout_s)
    finally:
        waiting.discard(future)
        future.cancel()


def _wake(waiting: set[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)
