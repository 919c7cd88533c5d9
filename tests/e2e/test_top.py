"""`penstock top` in a terminal: it draws, it waits for a node that went away, it ends on Ctrl-C."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING

import pytest

from tests.kit.dashboard_node import Node

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, *arguments: str, columns: int = 120) -> None:
        self._side, other = pty.openpty()
        environment = os.environ | {"TERM": "xterm", "COLUMNS": str(columns), "LINES": "30"}
        command = [sys.executable, "-m", "penstock", *arguments]
        self._process = subprocess.Popen(
            command,
            stdin=other,
            stdout=other,
            stderr=other,
            env=environment,
            start_new_session=True,
            # A test run in the background of a shell ignores SIGINT, and so would the program.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
        os.close(other)
        self.seen = b""

    def expect(self, text: str) -> None:
        """Wait until it has shown this, and forget what came before."""
        deadline_s = time.monotonic() + 120
        while text.encode() not in self.seen:
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"{text!r} is not in {self.seen[-2_000:]!r}"
            if select.select([self._side], [], [], min(left_s, 1))[0]:
                try:
                    self.seen += os.read(self._side, 65_536)
                except OSError:  # it has ended
                    pytest.fail(f"{text!r} is not in {self.seen[-2_000:]!r}")
        self.seen = self.seen.partition(text.encode())[2]

    def interrupt(self) -> int:
        """Ctrl-C; its exit code, after it has given back the screen."""
        self._process.send_signal(signal.SIGINT)
        self.expect("\x1b[?1049l")
        return self._process.wait(30)

    def press(self, key: str) -> int:
        """Type a key that ends the program; its exit code."""
        os.write(self._side, key.encode())
        self.expect("\x1b[?1049l")
        return self._process.wait(120)

    def echoes(self) -> bool:
        """Whether the terminal shows what is typed: a program that has ended must leave it so."""
        return bool(termios.tcgetattr(self._side)[3] & termios.ECHO)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._side)


def test_a_node_that_goes_away_is_waited_for(tmp_path: Path) -> None:
    node = Node(tmp_path)
    terminal = Terminal("top", "--node", node.url)
    try:
        terminal.expect("accepted 0 = delivered 0")
        terminal.expect("accepted 0 = delivered 0")
        node.close()
        terminal.expect("reconnecting")
        node = Node(tmp_path, http_port=node.http_port)
        terminal.expect("up ")
        terminal.seen = b""
        terminal.expect("accepted 0 = delivered 0")
        assert terminal.interrupt() == 0
    finally:
        terminal.close()
        node.close()


def test_q_ends_it_also_while_the_node_is_silent(tmp_path: Path) -> None:
    node = Node(tmp_path)
    terminal = Terminal("top", "--node", node.url, columns=60)
    try:
        terminal.expect("accepted 0 = delivered 0")
        assert not terminal.echoes()
        os.kill(node.pid, signal.SIGSTOP)  # top now waits for an answer
        try:
            assert terminal.press("q") == 0
        finally:
            os.kill(node.pid, signal.SIGCONT)
        assert terminal.echoes()
    finally:
        terminal.close()
        node.close()
