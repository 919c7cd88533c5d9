"""The process that reads pages: started when the first page comes, limited, killed when it takes too long.

Whatever a page does to its parser, it does to a process without connections and secrets: the event loop never
waits for a page, and a page that crashes its reader fails alone, with a reason that `channels why` tells.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.errors import ChannelError, StoreError
from penstock.node.channels.compare import (
    HEAD_BYTES,
    CompareAnswer,
    CompareRequest,
    lines_of,
    muted,
    restored,
    unmuted,
)

if TYPE_CHECKING:
    from penstock.core.channels.delta import Delta
    from penstock.core.channels.difference import MutedPlace, Rules
    from penstock.model.instant import Instant
    from penstock.node.channels.compare import Comparison, PageBody
    from penstock.node.channels.store import ChannelStore
    from penstock.node.channels.writer import ChannelWriter

log = logging.getLogger(__name__)

_COMMAND: Final = (sys.executable, "-P", "-m", "penstock.node.channels.compare")
_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "SYSTEMROOT")
"""Variables that the process needs to start; others may be secrets."""


class ReadingProcess:
    """One process that compares pages; `ask` is called once at a time.

    Requests and answers may have megabytes, so a thread sends and receives them, not the event loop.
    """

    def __init__(self, *, cpu_s: int = limits.READER_CPU_S) -> None:
        """`cpu_s`: computing time that one page may take."""
        self._cpu_s = cpu_s
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self.started = 0
        """Processes started so far."""

    @property
    def pid(self) -> int | None:
        """Id of the process; None if there is none."""
        return self._process.pid if self._process is not None else None

    async def ask(self, asked: CompareRequest) -> CompareAnswer:
        """Have one body compared; ChannelError says why it ended the process."""
        work = asyncio.get_running_loop().run_in_executor(None, self._ask, asked)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self._kill()  # the thread gets no answer and returns; nobody else gets this one
            await asyncio.wait({work})
            raise

    async def close(self) -> None:
        """End the process."""
        self._kill()
        await asyncio.to_thread(self._end)

    # -- in a thread -----------------------------------------------------------------------------------

    def _ask(self, asked: CompareRequest) -> CompareAnswer:
        data = msgspec.msgpack.encode(asked)
        while True:
            is_new = self._socket is None
            if is_new:
                self._start()
            try:
                return self._exchange(data)
            except TimeoutError:
                self._kill()
                self._end()
                raise ChannelError(f"reading it was not done after {limits.READER_ANSWER_S:g} s") from None
            except OSError:
                code = self._end()
                if is_new or code:
                    raise ChannelError(self._reason(code)) from None
                # It had ended after the request before this one, so a new one is asked.

    def _exchange(self, data: bytes) -> CompareAnswer:
        ours = self._socket
        assert ours is not None
        deadline_s = time.monotonic() + limits.READER_ANSWER_S
        ours.settimeout(limits.READER_ANSWER_S)
        ours.sendall(len(data).to_bytes(HEAD_BYTES))
        ours.sendall(data)
        size = int.from_bytes(_received(ours, HEAD_BYTES, deadline_s))
        if size > limits.READER_ANSWER_BYTES:
            self._kill()
            self._end()
            raise ChannelError(f"what was read of it has over {limits.READER_ANSWER_BYTES >> 20} MB")
        return msgspec.msgpack.decode(_received(ours, size, deadline_s), type=CompareAnswer)

    def _start(self) -> None:
        known = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603
                    (*_COMMAND, str(self._cpu_s)),
                    env=known,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                )
            except OSError as error:
                ours.close()
                raise ChannelError(f"the process that reads pages cannot be started: {error}") from None
        self._socket = ours
        self.started += 1

    def _kill(self) -> None:
        process = self._process
        if process is not None:
            process.kill()

    def _end(self) -> int:
        """Let go of the process; return how it ended."""
        process, self._process = self._process, None
        ours, self._socket = self._socket, None
        if ours is not None:
            ours.close()
        if process is None:
            return 0
        try:
            # It has closed the socket, so it is about to end by itself, and its exit code says why.
            return process.wait(limits.READER_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _reason(self, code: int) -> str:
        if code == -getattr(signal, "SIGXCPU", 0):
            return f"reading it took more than {self._cpu_s} s of computing"
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return f"reading it ended the process that reads pages, {how}"


def _received(ours: socket.socket, size: int, deadline_s: float) -> bytearray:
    """Read so many bytes; OSError if the other end closes before."""
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        ours.settimeout(max(deadline_s - time.monotonic(), 0.001))
        got = ours.recv_into(rest)
        if not got:
            raise ConnectionResetError
        rest = rest[got:]
    return data


class Comparer:
    """Compares bodies with the stored versions of pages, one page at a time.

    So each body is compared with what the one before it left, and fetching waits while the disk refuses.
    """

    def __init__(self, store: ChannelStore, writer: ChannelWriter) -> None:
        self._store = store
        self._writer = writer
        self.process = ReadingProcess()
        self.one = asyncio.Lock()
        """Held from reading the last version until the next one is written."""

    async def look(
        self,
        url: str,
        rules: Rules,
        body: PageBody,
        *,
        beside: PageBody | None = None,
        alone: bool = False,
        now_us: Instant,
    ) -> Comparison:
        """Compare a body while `one` is held. What differs from `beside`, fetched at the same time, is noise.

        `alone`: there can be no second fetch. ChannelError says why the body cannot be read.
        """
        stored = await self._writer.run(partial(self._store.version, url, rules))
        asked = CompareRequest(url, rules, now_us, body, beside, stored, alone)
        try:
            answer = await self.process.ask(asked)
        except ChannelError as error:
            log.warning("%s: %s", url, error)
            raise
        if answer.damage:
            raise StoreError(
                f"damaged: {answer.damage}; move the file away to start without it, or restore it",
                self._store.path,
            )
        if answer.bug:
            log.error("%s cannot be read: %s", url, answer.bug)
            raise ChannelError(f"an error of this program: {answer.bug.strip().splitlines()[-1][:200]}")
        if answer.found is None:
            raise ChannelError(answer.problem)
        return answer.found

    async def tried(
        self, url: str, rules: Rules, body: PageBody, *, now_us: Instant
    ) -> list[tuple[str, str]]:
        """Read a body by other rules, while `one` is held: its lines, each with its place."""
        answer = await self.process.ask(CompareRequest(url, rules, now_us, body, alone=True))
        if answer.found is None:
            reason = answer.problem or "an error of this program: see the log"
            if answer.bug:
                log.error("%s cannot be read: %s", url, answer.bug)
            raise ChannelError(reason.removeprefix(f"{url}: "))
        return await asyncio.to_thread(lines_of, answer.found.state)

    async def muted(self, url: str, rules: Rules, *, now_us: Instant) -> list[MutedPlace]:
        """List the places of a page whose changes are not told because they keep changing."""
        stored = await self._writer.run(partial(self._store.version, url, rules))
        return await asyncio.to_thread(muted, stored, rules, url=url, now_us=now_us)

    async def lines(self, url: str, rules: Rules) -> list[tuple[str, str]]:
        """The lines of the stored version of a page, each with its place."""
        stored = await self._writer.run(partial(self._store.version, url, rules))
        return await asyncio.to_thread(lines_of, stored)

    async def unmuted(self, url: str, rules: Rules, place: str) -> bytes:
        """The stored version with a place that is told again; `one` is held. ChannelError: no such place."""
        stored = await self._writer.run(partial(self._store.version, url, rules))
        return await asyncio.to_thread(unmuted, stored, rules, place, url=url)

    async def restored(self, url: str, rules: Rules, version: int, *, now_us: Instant) -> tuple[bytes, Delta]:
        """The version after an older one was restored, and its delta; `one` is held. Or ChannelError."""
        stored = await self._writer.run(partial(self._store.version, url, rules))
        reading = partial(self._store.deltas, url, most=limits.RESTORED_CHANGES, after=version)
        deltas = await self._writer.run(reading)
        return await asyncio.to_thread(restored, stored, rules, version, deltas, url=url, now_us=now_us)

    async def close(self) -> None:
        """End the process that reads pages."""
        await self.process.close()
