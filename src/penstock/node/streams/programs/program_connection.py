"""One connection of a program: reads requests, sends answers when they are ready, both within bounds.

`RequestMemory` and `AnswerMemory` bound the bytes that all programs of a node have in memory together.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.streams.requests import Failed, decode_request, encode
from penstock.core.streams.wire import HEAD_BYTES, frame_size
from penstock.errors import PenstockError, StoreError, StreamError, StreamRefused, printable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import TypeAlias

    from penstock.core.streams.requests import Answer, Request


class RequestMemory:
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


class AnswerMemory:
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


if TYPE_CHECKING:
    Deal: TypeAlias = Callable[["ProgramConnection", Request], Awaitable[Answer | None]]
    """Makes the answer to a request; None: the answer has been sent already."""

log = logging.getLogger(__name__)


class ProgramConnection:
    """Whoever connected, and what it has under way."""

    def __init__(
        self, writer: asyncio.StreamWriter, *, name: str, user: str, frame_bytes: int, requests: RequestMemory
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
