"""What the watch of a run takes for a standstill, and what it does then; processes stand in for Spark's."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import limits
from penstock.errors import InputError
from penstock.pipeline.project.standstill import Standstill, children, standing
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Watched = Callable[..., Any]

STILL_S = 1.0
SLEEPS = (sys.executable, "-c", "import time; time.sleep(600)")
WORK = """
import time
while True:
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass
    time.sleep(0.1)
"""
WORKS = (sys.executable, "-c", WORK)
"""A process that works a fifth of the time: more than enough, and other tests run beside it."""


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of a test, which are ended with it."""
    found: list[subprocess.Popen[bytes]] = []
    yield found
    for one in found:
        one.kill()
        one.wait()


@pytest.fixture
def watched() -> Watched:
    """Watch a block on `where`, and nothing that other tests of this process have started."""
    spared = {one.pid for one in children()}

    def begin(where: str | None = None, still_s: float = STILL_S) -> Any:
        return standing(None, where, lambda *_: None, still_s=still_s, spared=spared)

    return begin


def test_a_run_whose_processes_do_nothing_is_ended_and_says_at_what(
    started: list[subprocess.Popen[bytes]], watched: Watched, tmp_path: Path
) -> None:
    below = tmp_path / "pid"

    def run() -> None:
        with watched() as told:
            started.append(subprocess.Popen(["sh", "-c", f"sleep 600 & echo $! > {below}; wait"]))
            told(3, 9, "digests")
            assert started[0].wait() == -signal.SIGKILL
            raise ConnectionError("what Spark's client says of a dead server")

    with pytest.raises(Standstill, match=r"neither said nor did anything for 1 s .* at 'digests'"):
        run()
    left = Path(f"/proc/{below.read_text().strip()}/cmdline")
    asyncio.run(until(lambda: has_ended(left)))  # what a process had started was ended, too


def has_ended(command: Path) -> bool:
    """Whether the process of an entry in /proc has ended, which takes a moment after the signal."""
    try:
        return not command.read_bytes()
    except OSError:
        return True


def test_what_waits_for_another_machine_is_interrupted(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SPARK_LOOK_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        gone = f"sc://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(Standstill, match=f"Spark at {gone} neither said"), watched(gone):
        time.sleep(600)


@pytest.mark.slow
def test_work_words_and_a_server_that_answers_are_signs_of_life(
    started: list[subprocess.Popen[bytes]], watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SPARK_STIR_S", 0.01)
    with watched():
        started.append(subprocess.Popen(WORKS))
        time.sleep(3 * STILL_S)
    monkeypatch.setattr(limits, "SPARK_STIR_S", 1e9)
    with watched() as told:
        for _ in range(12):
            told(0, 1, "events")
            time.sleep(STILL_S / 4)
    server = socket.create_server(("127.0.0.1", 0), backlog=1_000)
    with server, watched(f"sc://127.0.0.1:{server.getsockname()[1]}"):
        time.sleep(3 * STILL_S)
    assert started[0].poll() is None


def test_a_process_that_ends_by_itself_ends_the_run_at_once(
    started: list[subprocess.Popen[bytes]], watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Spark's Java on a fatal error: its client would ask for ten minutes."""
    monkeypatch.setattr(limits, "SPARK_LOOK_S", 0.05)

    def run() -> None:
        with watched(still_s=600):
            started.append(subprocess.Popen(SLEEPS))
            started.append(subprocess.Popen(["true"]))
            assert started[0].wait() == -signal.SIGKILL
            raise ConnectionError

    with pytest.raises(Standstill, match=r"a process of Spark has ended by itself while .* at 'starting'"):
        run()


def test_errors_of_a_run_that_moves_pass(watched: Watched) -> None:
    with pytest.raises(InputError, match="wrong"), watched():
        raise InputError("wrong")
