"""A part of a load in a process of its own: it takes requests, works, and answers.

The processes are started without `multiprocessing`, which would load the whole command line into each.
"""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
from contextlib import suppress
from mmap import mmap
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, Self

from penstock.errors import GoalMissed, PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

GIVE_UP_S: Final = 30.0
"""A run in which nothing happens for this long has failed; nothing takes so long on a working machine."""
ANSWER_S: Final = 300
"""Longest wait for an answer: by then the worker has given up, or its process is dead."""
MAIN: Final = f"import sys; from {__name__} import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
"""The program of such a process."""


class WorkerFailed(Exception):
    """A run failed in its process; the message says why."""


class WorkerPart(Protocol):
    """The work that a process does when it is asked."""

    def run(self, asked: Any) -> Any:
        """Do the work for one request and return the result."""
        ...


class Counters:
    """Integer counters in memory shared by processes."""

    def __init__(self, count: int, fd: int | None = None) -> None:
        self.count = count
        self.fd = os.memfd_create("penstock-counters") if fd is None else fd
        if fd is None:
            os.truncate(self.fd, 8 * count)
        self.values = memoryview(mmap(self.fd, 8 * count)).cast("Q")

    def __reduce__(self) -> tuple[type[Counters], tuple[int, int]]:
        return Counters, (self.count, self.fd)

    def close(self) -> None:
        """Free the memory, in the process that made it; others that have it mapped are not affected."""
        os.close(self.fd)


class Worker:
    """A part of the generator in its own process, started on entry and ended on exit."""

    def __init__(self, what: str, make: Callable[..., WorkerPart], *arguments: Any) -> None:
        self._what = what
        self._make = make
        self._arguments = arguments

    def __enter__(self) -> Self:
        shared = [one.fd for one in self._arguments if isinstance(one, Counters)]
        self._process = subprocess.Popen(  # noqa: S603  # our own program
            [sys.executable, "-c", MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=shared,
        )
        try:
            self.ask((self._make, self._arguments))
            self.answer()  # wait until the part is ready
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.kill()
        with suppress(BrokenPipeError):
            self._process.communicate()

    def ask(self, asked: Any) -> None:
        """Send a request without waiting for its answer."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the process is gone: `answer` reports it
            _put(self._process.stdin, asked)

    def answer(self) -> Any:
        """Wait for the answer to the last request; GoalMissed if the run failed or the process ended."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], ANSWER_S)[0]:
            raise GoalMissed(f"{self._what}: no answer within {ANSWER_S} s")
        try:
            good, said = pickle.load(self._process.stdout)  # noqa: S301  # from our own process
        except EOFError:
            raise GoalMissed(f"{self._what}: its process has ended") from None
        if not good:
            raise GoalMissed(f"{self._what}: {said}")
        return said


def serve(asked: BinaryIO, answers: BinaryIO) -> None:
    """Read the part to run from standard input, then serve its requests until the input ends."""
    try:
        make, arguments = pickle.load(asked)  # noqa: S301  # from the process that started this one
        part = make(*arguments)
        _put(answers, (True, None))
        while True:
            _put(answers, (True, part.run(pickle.load(asked))))  # noqa: S301
    except EOFError:
        return
    except (WorkerFailed, PenstockError, OSError) as error:
        _put(answers, (False, str(error)))


def _put(stream: Any, said: Any) -> None:
    pickle.dump(said, stream)
    stream.flush()
