"""Starts nodes fast: a process that has everything loaded forks one for each start.

The node is `penstock up`, with a disk as slow as the caller says: each transaction takes some milliseconds
longer before it is committed, so that a kill meets every state that is not on disk yet.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from penstock.cli import main
from penstock.errors import NodeError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

START_S: Final = 120.0
"""Longest wait for a node."""
PR_SET_PDEATHSIG: Final = 1
"""Option of Linux's prctl: which signal a process gets when its parent ends."""


class Nodes:
    """One node at a time, always with the same data folder."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "log"
        self._config = folder / "penstock.yaml"
        self._config.write_text(
            json.dumps(
                {
                    "data": str(folder / "data"),
                    "log": "warning",
                    "sys_interval_s": 0,
                    "http": {"enabled": False},
                    "listeners": [{"port": 0}],
                }
            )
        )
        with self._log.open("w") as errors:
            self._forker = subprocess.Popen(  # noqa: S603  # our own command
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._node = 0
        """Process of the node; 0: there is none."""

    def start(self, *, disk_ms: int = 0) -> int:
        """Start a node; its port."""
        assert not self._node
        assert self._forker.stdin is not None
        assert self._forker.stdout is not None
        print(json.dumps([str(self._config), disk_ms]), file=self._forker.stdin, flush=True)
        ready, _, _ = select.select([self._forker.stdout], [], [], START_S)
        line = self._forker.stdout.readline() if ready else ""
        if not line:
            raise NodeError(f"the node did not start: {self._log.read_text(errors='replace')[-600:].strip()}")
        about = json.loads(line)
        self._node = about["pid"]
        return int(about["listeners"][0]["port"])

    def kill(self) -> None:
        """Kill the node with SIGKILL; when this returns it does nothing more."""
        node, self._node = self._node, 0
        os.kill(node, signal.SIGKILL)
        with suppress(ProcessLookupError):
            while True:  # until the forker's kernel has cleared it away, and with it the lock of its folder
                os.kill(node, 0)
                time.sleep(0.001)

    def close(self) -> None:
        """Kill the node, and end the process that forks."""
        if self._node:
            self.kill()
        assert self._forker.stdin is not None
        assert self._forker.stdout is not None
        self._forker.stdin.close()
        self._forker.wait()
        self._forker.stdout.close()


def _slow(disk_ms: int) -> None:
    """Have each transaction take longer before it is committed."""
    from penstock.node.store.database import Database  # noqa: PLC0415

    plain = Database.transact

    def transact(self: Database, work: Callable[[sqlite3.Connection], Any]) -> Any:
        def slower(connection: sqlite3.Connection) -> Any:
            answer = work(connection)
            time.sleep(disk_ms / 1_000)
            return answer

        return plain(self, slower)

    Database.transact = transact  # type: ignore[method-assign]


def fork_nodes() -> None:
    """Fork a node for each line of the input: its configuration file, and how slow its disk is."""
    for module in ("penstock.cli.up", "penstock.node.service", "penstock.node.observe.logs"):
        import_module(module)  # once, for all nodes
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # killed nodes are cleared away at once
    for line in sys.stdin:
        config, disk_ms = json.loads(line)
        if not os.fork():
            break
    else:
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with suppress(AttributeError):  # Linux: the node ends with this process, which ends with the experiment
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if disk_ms:
        _slow(disk_ms)
    sys.argv = ["penstock", "up", "--json", "--config", config]
    main()


if __name__ == "__main__":
    fork_nodes()
