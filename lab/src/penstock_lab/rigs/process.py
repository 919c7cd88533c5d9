"""A process of our own that says when it is ready, and can be killed, frozen and started again."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.errors import NodeError
from penstock_lab.rigs.local_node import stop

if TYPE_CHECKING:
    from pathlib import Path

READY_S: Final = 300.0
"""Longest wait for a process to be ready; one that ends early is noticed at once."""


class Process:
    """A process that prints a line when it is ready."""

    def __init__(self, name: str, command: list[str], log: Path, *, alone: bool = True) -> None:
        self.name = name
        self.kills = 0
        self._alone = alone
        """Whether the process is killed alone; otherwise with its process group."""
        self._command = command
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """Process id; 0 if the process does not run."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process and wait until it is ready; NodeError if it ends or prints nothing."""
        with self._log.open("a") as errors:
            self._process = subprocess.Popen(  # noqa: S603  # our own commands
                [sys.executable, "-m", *self._command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=not self._alone,
            )
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], READY_S)[0]:
            raise NodeError(f"{self.name} printed nothing for {READY_S:g} s: {self.said()}")
        if "ready" not in self._process.stdout.readline():
            raise NodeError(f"{self.name} did not start: {self.said()}")

    def kill(self) -> None:
        """Kill the process with SIGKILL, as a crash would."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise NodeError(f"{self.name} ended before it was killed: {self.said()}")
        self._kill()
        self.kills += 1
        self._gone()

    def freeze(self) -> None:
        """Stop the process where it is, as a machine that hangs; `thaw` lets it go on."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        os.kill(self.pid, signal.SIGCONT)

    def finish(self, seconds: float) -> bool:
        """Ask the process to finish; return whether it did."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write("stop\n")
            self._process.stdin.flush()
        try:
            return self._process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            return False

    def end(self) -> None:
        """End the process, whatever its state."""
        if self._process is not None:
            if self._process.poll() is None:
                if self._alone:
                    stop(self._process)
                else:
                    self._kill()
            self._gone()

    def _kill(self) -> None:
        assert self._process is not None
        if self._alone:
            self._process.kill()
        else:
            os.killpg(self._process.pid, signal.SIGKILL)

    def said(self) -> str:
        """Return the end of the process's log."""
        return self._log.read_text(errors="replace")[-600:].strip() if self._log.exists() else ""

    def _gone(self) -> None:
        assert self._process is not None
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._process = None
