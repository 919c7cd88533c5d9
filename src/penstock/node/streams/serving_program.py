"""One connection of a program: requests as they come, answers as they are ready, neither without bound."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.streams.requests import Failed, decode_request, encode
from penstock.core.streams.wire import HEAD_BYTES, frame_size
from penstock.errors import PenstockError, StoreError, StreamError, StreamRefused, printable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from penstock.core.streams.requests import Answer, Request
    from penstock.node.streams.serving_memory import Requests

    Deal: TypeAlias = Callable[["Program", Request], Awaitable[Answer | None]]
    """Makes the answer; None: it has been said."""

log = logging.getLogger(__name__)


class Program:
    """Whoever connected, and what it has under way."""

    def __init__(
        self, writer: asyncio.StreamWriter, *, name: str, user: str, frame_bytes: int, requests: Requests
    ) -> None:
        """`frame_bytes`: of a request; whoever sends a larger one is disconnected."""
        self._frame_bytes = frame_bytes
        self._requests = requests
        self.name = name
        self.user = user
        self.answering = asyncio.Lock()
        """Who holds it may make a large answer: one at a time waits to be sent."""
        self.consumers: set[tuple[str, str]] = set()
        """Streams and consumers that it speaks for."""
        self.tokens: dict[tuple[str, str], str] = {}
        """Of the writers that it has begun, by stream and name."""
        self.broken: set[tuple[str, str]] = set()
        """Writers of whose messages one was not taken: nothing that follows it may be, either."""
        self._writer = writer
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._freed = asyncio.Event()

    async def run(self, reader: asyncio.StreamReader, deal: Deal) -> None:
        """Until the connection ends."""
        try:
            while True:
                size = frame_size(await reader.readexactly(HEAD_BYTES), most=self._frame_bytes)
                await self._room(size)
                self._begin(await self._request(reader, size), size, deal)  # nobody else holds it in memory
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            log.debug("a program of streams has gone")
        except StreamError as error:
            log.warning("%s", printable(f"program '{self.name}' of streams: {error}; it is disconnected"))
            await self._last_word(error)
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _request(self, reader: asyncio.StreamReader, size: int) -> Request:
        """The next one; its room is given back when it is answered."""
        await self._requests.take(size)
        within_s = limits.STREAM_REQUEST_S * max(1, size / (1 << 20))
        try:
            async with asyncio.timeout(within_s):
                return decode_request(await reader.readexactly(size))
        except BaseException as error:
            self._requests.give(size)
            if isinstance(error, TimeoutError):
                raise StreamError(f"a request of {size:,} bytes did not come within {within_s:g} s") from None
            raise

    def _begin(self, request: Request, size: int, deal: Deal) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(request, deal))
        self._tasks[task] = size
        task.add_done_callback(self._ended)

    async def _room(self, size: int) -> None:
        """Read no more while too much is under way."""
        while self._tasks and (
            len(self._tasks) >= limits.STREAM_REQUESTS
            or sum(self._tasks.values()) + size > limits.STREAM_REQUEST_BYTES
        ):
            self._freed.clear()
            await self._freed.wait()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._free(task)
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a request of program %r of streams failed", self.name, exc_info=error)
            self._writer.transport.abort()

    def _free(self, task: asyncio.Task[None]) -> None:
        """Its request is in memory no more."""
        self._requests.give(self._tasks[task])
        self._tasks[task] = 0
        self._freed.set()

    async def _answer(self, request: Request, deal: Deal) -> None:
        try:
            answer = await deal(self, request)
            if answer is None:
                return
        except StreamRefused as error:
            answer = Failed(request.id, error.code, str(error), error.first)  # type: ignore[arg-type]
        except (StreamError, StoreError) as error:
            answer = Failed(request.id, "full", str(error))
        except PenstockError as error:
            answer = Failed(request.id, "refused", str(error))
        del request  # it takes no room while its answer waits to be taken
        task = asyncio.current_task()
        assert task is not None
        self._free(task)
        await self.say(answer)

    async def say(self, answer: Answer) -> None:
        """Send an answer, and wait while too much waits to be sent."""
        with suppress(ConnectionError):
            self._writer.write(encode(answer))
            await self._writer.drain()

    async def _last_word(self, error: StreamError) -> None:
        await self.say(Failed(0, "broken", str(error)))
