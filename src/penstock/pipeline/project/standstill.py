"""Ends a run that has come to a standstill, instead of waiting for ever.

Calls of Spark wait without a bound: for a Python process that does not come up, for a server that has ended,
for a lock. A thread looks for signs of life: what the run tells, the processor time of its processes, and, of
a cluster or a server, whether it can be reached. Without any for `limits.SPARK_STILL_S`, or if a process that
the run has started has ended without anybody's notice, as Spark's Java on a fatal error, the processes that
the run has started are killed, and the main thread is interrupted if it waits for others. The call that
waited fails, and `standing` says why.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread, main_thread
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock import limits
from penstock.errors import SparkFailed
from penstock.pipeline.session import is_local, unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

_PROCESSES: Final = Path("/proc")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_INTERRUPT: Final = signal.SIGUSR2
"""Wakes the main thread; a process in the background ignores what the keyboard sends."""


class Standstill(SparkFailed):
    """Nothing has moved for a long time; what was begun has been ended, and may be tried again."""


class Watch:
    """Looks for signs of life of a run."""

    def __init__(self, where: str | None, still_s: float, spared: Container[int]) -> None:
        """`where` is the address of a cluster or server, None for Spark on this machine."""
        self._where = where
        self._spared = spared
        self._still_s = still_s
        self._what = "starting"
        self._moved_s = time.monotonic()
        self._used_s = 0.0
        self._known_dead = self._dead()  # of an earlier try
        self._ended = Event()
        self.stands: str | None = None
        """Why the run was ended."""

    def told(self, what: str) -> None:
        """Note what the run does now."""
        self._what = what
        self._moved_s = time.monotonic()

    def run(self) -> None:
        """Look until the run ends, or stands still."""
        suspects: set[int] = set()
        while not self._ended.wait(min(limits.SPARK_LOOK_S, self._still_s / 4)):
            dead = self._dead() - self._known_dead
            if dead & suspects:  # at two looks: whoever waits for a process has noticed by then
                return self._stand("a process of Spark has ended by itself")
            suspects = dead
            if self._stirs():
                self._moved_s = time.monotonic()
            elif time.monotonic() - self._moved_s > self._still_s:
                where = "Spark's processes" if self._where is None else f"Spark at {self._where}"
                return self._stand(f"{where} neither said nor did anything for {self._still_s:g} s")
        return None

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()

    def _stirs(self) -> bool:
        """Whether there is a sign of life that the run itself does not tell."""
        if not _PROCESSES.is_dir():  # a system that does not show its processes
            return True
        used_s = sum(one.used_s for one in children(self._spared))
        if abs(used_s - self._used_s) >= limits.SPARK_STIR_S:
            self._used_s = used_s
            return True
        return self._where is not None and unreachable(self._where) is None

    def _dead(self) -> set[int]:
        """Processes that this one has started, that have ended, and whose end nobody has asked for."""
        found = children(self._spared)
        return {one.pid for one in found if one.parent == os.getpid() and one.state == "Z"}

    def _stand(self, why: str) -> None:
        self.stands = why
        for one in children(self._spared):
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
        if not self._ended.wait(limits.SPARK_LOOK_S):  # it waits for something on another machine
            signal.pthread_kill(main_thread().ident or 0, _INTERRUPT)

    def error(self) -> Standstill:
        """Why the run was ended, and what to do."""
        return Standstill(
            f"{self.stands} while the pipeline was at '{self._what}'; what this run had started was ended. "
            "The next run goes on where this one stopped; with PENSTOCK_DEBUG=1 it shows what Spark says"
        )


@contextmanager
def standing(
    master: str | None,
    remote: str | None,
    step: Callable[[int, int, str], None],
    *,
    still_s: float = limits.SPARK_STILL_S,
    spared: Container[int] = (),
) -> Iterator[Callable[[int, int, str], None]]:
    """Watch a block of the main thread; give the function by which it tells its steps.

    `spared` are processes that this one has started and that are none of the run's.
    """
    watch = Watch(None if is_local(master, remote) else remote or master, still_s, spared)

    def told(place: int, count: int, what: str) -> None:
        watch.told(what)
        step(place, count, what)

    def interrupt(*_: object) -> None:
        raise InterruptedError

    before = signal.signal(_INTERRUPT, interrupt)
    thread = Thread(target=watch.run, name="standstill", daemon=True)
    thread.start()
    try:
        yield told
    except Exception as error:
        if watch.stands:
            raise watch.error() from error
        raise
    finally:
        watch.end()
        thread.join()
        signal.signal(_INTERRUPT, before)


class Process(NamedTuple):
    """A process of this machine."""

    pid: int
    parent: int
    state: str
    used_s: float
    """Processor time, with that of those of its children that have ended."""


def children(spared: Container[int] = ()) -> list[Process]:
    """Processes below this one; without those spared, and those below them."""
    below: dict[int, list[Process]] = {}
    for folder in _PROCESSES.iterdir() if _PROCESSES.is_dir() else ():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):
            # The name of the program, in brackets, may have blanks and brackets in it.
            _, _, rest = (folder / "stat").read_text(errors="replace").rpartition(")")
            state, parent, *more = rest.split()
            used_s = sum(int(field) for field in more[9:13]) / _TICKS_PER_S
            below.setdefault(int(parent), []).append(Process(int(folder.name), int(parent), state, used_s))
    found: list[Process] = []
    waiting = [os.getpid()]
    while waiting:
        own = [one for one in below.get(waiting.pop(), []) if one.pid not in spared]
        found += own
        waiting += [one.pid for one in own]
    return found
