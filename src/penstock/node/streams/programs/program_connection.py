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
    """Bounds the bytes of requests in memory; requests that find no room wait in order.

    Small requests do not count: programs that read, or store a position, do not wait for those that write.
    """

    def __init__(self) -> None:
        self.taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        """Wait for room and reserve it, until `give`. A single request has room however large it is."""
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
                self.give(size)  # room was assigned before the cancellation
            raise

    def give(self, size: int) -> None:
        """Return the room of a request that is answered."""
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
    """Bounds the bytes of answers in memory: the more answers wait to be sent, the smaller new ones are."""

    def __init__(self) -> None:
        self.taken = 0

    @contextmanager
    def reserve(self, wanted: int) -> Iterator[int]:
        """Reserve memory while an answer is made and sent; yields its bound, which one message may exceed."""
        left = limits.STREAM_ANSWERS_BYTES - self.taken
        size = min(wanted, limits.STREAM_FETCH_BYTES, max(limits.STREAM_FETCH_LEAST_BYTES, left // 8))
        self.taken += size
        try:
            yield size
        finally:
            self.taken -= size


if TYPE_CHECKING:
    AnswerRequest: TypeAlias = Callable[["ProgramConnection", Request], Awaitable[Answer | None]]
    """Makes the answer to a request; None: the answer has been sent already."""

log = logging.getLogger(__name__)


class ProgramConnection:
    """A connected program, and its requests that are not answered."""

    def __init__(
        self, writer: asyncio.StreamWriter, *, name: str, user: str, frame_bytes: int, requests: RequestMemory
    ) -> None:
        """`frame_bytes`: largest request; a program that sends a larger one is disconnected."""
        self._frame_bytes = frame_bytes
        self._requests = requests
        self.name = name
        self.user = user
        self.answering = asyncio.Lock()
        """Held while a large answer is made and sent, so that there is only one at a time."""
        self.consumers: set[tuple[str, str]] = set()
        """The consumers that it uses: stream and name."""
        self.tokens: dict[tuple[str, str], str] = {}
        """Tokens of the writers that it has begun, by stream and name."""
        self.broken: set[tuple[str, str]] = set()
        """Writers of which a message was refused: later messages are refused, too, until they begin again."""
        self._writer = writer
        self._tasks: dict[asyncio.Task[None], int] = {}
        """Requests that are being answered, and their size in memory."""
        self._freed = asyncio.Event()

    async def run(self, reader: asyncio.StreamReader, answer: AnswerRequest) -> None:
        """Read requests and answer them with `answer`, until the connection ends."""
        try:
            while True:
                size = frame_size(await reader.readexactly(HEAD_BYTES), most=self._frame_bytes)
                await self._room(size)
                self._begin(await self._request(reader, size), size, answer)  # no other reference is left
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            log.debug("program %r of streams has disconnected", self.name)
        except StreamError as error:
            log.warning("%s", printable(f"program '{self.name}' of streams disconnected: {error}"))
            await self._last_word(error)
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _request(self, reader: asyncio.StreamReader, size: int) -> Request:
        """Read a request; its memory is returned when it is answered."""
        await self._requests.take(size)
        within_s = limits.STREAM_REQUEST_S * max(1, size / (1 << 20))
        try:
            async with asyncio.timeout(within_s):
                return decode_request(await reader.readexactly(size))
        except BaseException as error:
            self._requests.give(size)
            if isinstance(error, TimeoutError):
                raise StreamError(
                    f"timeout: a request of {size:,} bytes was not complete within {within_s:g} s"
                ) from None
            raise

    def _begin(self, request: Request, size: int, answer: AnswerRequest) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(request, answer))
        self._tasks[task] = size
        task.add_done_callback(self._ended)

    async def _room(self, size: int) -> None:
        """Wait while too many requests, or too many bytes of them, are being answered."""
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
        """Return the memory of a request."""
        self._requests.give(self._tasks[task])
        self._tasks[task] = 0
        self._freed.set()

    async def _answer(self, request: Request, make: AnswerRequest) -> None:
        try:
            answer = await make(self, request)
            if answer is None:
                return
        except StreamRefused as error:
            answer = Failed(request.id, error.code, str(error), error.first)  # type: ignore[arg-type]
        except (StreamError, StoreError) as error:
            answer = Failed(request.id, "full", str(error))
        except PenstockError as error:
            answer = Failed(request.id, "refused", str(error))
        del request  # frees its memory before the answer is sent, which may take long
        task = asyncio.current_task()
        assert task is not None
        self._free(task)
        await self.send(answer)

    async def send(self, answer: Answer) -> None:
        """Send an answer, and wait while the buffer of the connection is full."""
        frame = encode(answer)
        if self._writer.transport.is_closing():
            return  # the program is gone; uvloop's transport would raise
        with suppress(ConnectionError):
            self._writer.write(frame)
            await self._writer.drain()

    async def _last_word(self, error: StreamError) -> None:
        await self.send(Failed(0, "broken", str(error)))
