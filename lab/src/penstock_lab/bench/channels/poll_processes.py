"""The processes of `bench poller`: a web server, our poller, and a loop with a task for each channel.

The server has every page, unchanged, and times the requests. Each poller runs in its own process and measures
its memory and processor time.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from resource import getpagesize
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import uvloop
from aiohttp import web

from penstock.core.channels.address import registrable
from penstock.core.channels.polling import PollState
from penstock.model.instant import SECOND_US
from penstock.node.channels.poller import Poller
from penstock.node.config.channels import Polling
from penstock.node.outbound.fetch import Fetcher
from penstock_lab.rigs.web_site import Names, WebServer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

    from penstock.node.outbound.fetch import FetchResult

BODY: Final = b"<title>A page</title>" + b"<p>A line of text that does not change.</p>\n" * 50
ETAG: Final = f'"{hashlib.sha256(BODY).hexdigest()[:16]}"'
BIN_S: Final = 0.5
"""Requests are counted in bins of this length."""


class PollerServer:
    """The web server process: answers with its port, or with the requests per bin since the last question."""

    def __init__(self) -> None:
        self._bins: Counter[int] = Counter()
        self._server = _Pages(self._note)
        self._loop = uvloop.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        started: Future[None] = asyncio.run_coroutine_threadsafe(self._server.start(), self._loop)
        started.result()

    def run(self, asked: str) -> Any:
        """Return the port for the request `port`, the counts of requests for `bins`."""
        if asked == "port":
            return self._server.port
        bins, self._bins = self._bins, Counter()
        return dict(bins)

    def _note(self, path: str) -> None:
        if path != "/robots.txt":
            self._bins[int(self._loop.time() / BIN_S)] += 1


class _Pages(WebServer):
    """Serves the same page under any path; robots.txt is missing."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self._note(request.path)
        if request.path == "/robots.txt":
            return web.Response(status=404)
        if request.headers.get("If-None-Match") == ETAG:
            return web.Response(status=304, headers={"ETag": ETAG})
        return web.Response(body=BODY, headers={"ETag": ETAG, "Content-Type": "text/html; charset=utf-8"})


HOSTS: Final = 500
"""Names that the channels are spread over: 40 pages each of 20,000."""
FETCHES: Final = 64
"""Concurrent fetches that either poller may have under way."""


@dataclass(frozen=True, slots=True)
class PollerFigures:
    """Polls of one poller in the measured time, and what they cost."""

    polls: int
    errors: int
    seconds: float
    cpu_s: float
    channel_bytes: int
    """Memory of the process per channel, beyond what it held without channels."""
    late_mean_ms: float = 0.0
    late_most_ms: float = 0.0


def urls(port: int, channels: int) -> list[str]:
    """Return the addresses of the channels."""
    return [f"http://h{number % HOSTS}.example:{port}/page/{number}" for number in range(channels)]


class OurPoller:
    """Fetcher and poller as on a node, with robots.txt, budgets and all."""

    def __init__(self, port: int, channels: int, interval_s: float) -> None:
        self._urls = urls(port, channels)
        self._interval_us = round(interval_s * SECOND_US)

    def run(self, asked: tuple[float, float]) -> PollerFigures:
        """Poll for the warm-up, then measure; both in seconds."""
        return _run(self._poll(*asked))

    async def _poll(self, warm_s: float, seconds: float) -> PollerFigures:
        options = Polling(networks=("127.0.0.0/8",), fetches=FETCHES, least_s=1)
        fetcher = Fetcher(options, resolver=Names())
        registrable(self._urls[0])  # loads the public suffix list: no channel's memory
        meter = _Meter()

        def count(_url: str, _fetched: FetchResult, state: PollState) -> None:
            meter.polls += 1
            meter.errors += bool(state.problem)

        poller = Poller(fetcher, options=options, on_fetched=count, subscribers=lambda _: 10)
        then_us = time.time_ns() // 1_000 - self._interval_us
        for url in self._urls:
            # Known already, as after a restart: channels start at their turns, not all at once.
            known = PollState(
                etag=ETAG, source=url, polled_us=then_us, answered_us=then_us, full_us=then_us, status=200,
                feed=False,
            )  # fmt: skip
            poller.add(url, interval_us=self._interval_us, state=known)
        task = asyncio.create_task(poller.run())
        found = await meter.measure(warm_s, seconds, channels=len(self._urls))
        statistics = poller.statistics()
        await poller.close()
        await task
        await fetcher.close()
        return PollerFigures(
            found.polls,
            found.errors,
            found.seconds,
            found.cpu_s,
            found.channel_bytes,
            late_mean_ms=statistics.late_mean_us / 1_000,
            late_most_ms=statistics.late_most_us / 1_000,
        )


class PlainLoop:
    """The simplest poller: one task per channel that fetches, remembers the ETag and sleeps."""

    def __init__(self, port: int, channels: int, interval_s: float) -> None:
        self._urls = urls(port, channels)
        self._interval_s = interval_s

    def run(self, asked: tuple[float, float]) -> PollerFigures:
        """Poll for the warm-up, then measure; both in seconds."""
        return _run(self._poll(*asked))

    async def _poll(self, warm_s: float, seconds: float) -> PollerFigures:
        meter = _Meter()
        dice = Random(1)  # noqa: S311  # phases
        connector = aiohttp.TCPConnector(resolver=Names(), limit=FETCHES)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def watch(url: str, delay_s: float) -> None:
                etag = ETAG
                await asyncio.sleep(delay_s)
                while True:
                    try:
                        async with session.get(url, headers={"If-None-Match": etag}) as answer:
                            await answer.read()
                            etag = answer.headers.get("ETag", etag)
                            meter.errors += answer.status not in (200, 304)
                    except (aiohttp.ClientError, TimeoutError):
                        meter.errors += 1
                    meter.polls += 1
                    await asyncio.sleep(self._interval_s)

            tasks = [asyncio.create_task(watch(url, dice.random() * self._interval_s)) for url in self._urls]
            found = await meter.measure(warm_s, seconds, channels=len(self._urls))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return found


class _Meter:
    """Counts polls, and measures memory and processor time from before the first channel on."""

    def __init__(self) -> None:
        gc.collect()
        self.polls = 0
        self.errors = 0
        self._memory_before = _memory_bytes()

    async def measure(self, warm_s: float, seconds: float, *, channels: int) -> PollerFigures:
        """Wait for the warm-up to end and return what was done in the time after it."""
        await asyncio.sleep(warm_s)
        self.polls = self.errors = 0
        start, cpu = time.perf_counter(), time.process_time()
        await asyncio.sleep(seconds)
        polls, errors = self.polls, self.errors
        taken, cpu = time.perf_counter() - start, time.process_time() - cpu
        gc.collect()
        held = (_memory_bytes() - self._memory_before) // channels
        return PollerFigures(polls, errors, taken, cpu, held)


def _memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


def _run(main: Coroutine[None, None, PollerFigures]) -> PollerFigures:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
