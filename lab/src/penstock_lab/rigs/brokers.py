"""Brokers as processes on loopback: a node of ours, and Debian's Mosquitto as its rival."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from resource import getpagesize
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import MissingTool, NodeError
from penstock_lab.rigs.local_node import local_node, stop
from penstock_lab.rigs.ports import HOST, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

START_S: Final = 60
"""How long a broker may take until it listens, on a machine that is busy with other things."""

OURS: Final = "penstock"
RIVAL: Final = "mosquitto"


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker process that is running."""

    name: str
    """Name for tables; with the version for brokers other than ours."""
    port: int
    pid: int
    http: str = ""
    """URL of the HTTP API; empty if the broker has none."""

    def cpu_ns(self) -> int:
        """Return the time that the threads of the process have spent on processors."""
        found = 0
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                found += int((thread / "schedstat").read_text().split()[0])
        return found

    def memory_bytes(self) -> int:
        """Return the resident memory of the process."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * getpagesize()


@contextmanager
def our_node(config: dict[str, Any] | None = None) -> Iterator[Broker]:
    """Run `penstock up` with this configuration for the length of the block."""
    with local_node(config) as node:
        yield Broker(OURS, node.port, node.pid, node.http)


@contextmanager
def mosquitto(*settings: str) -> Iterator[Broker]:
    """Run Mosquitto with these configuration lines during the block; MissingTool if it is not installed."""
    program, version = find_mosquitto()
    with TemporaryDirectory(prefix="penstock-bench-") as folder:
        port = free_port()
        path = Path(folder, "mosquitto.conf")
        lines = [f"listener {port} {HOST}", "allow_anonymous true", "persistence false", *settings]
        path.write_text("\n".join(lines) + "\n")
        with subprocess.Popen(  # noqa: S603  # found on the path of programs
            [program, "-c", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                _await_listener(port, process)
                yield Broker(f"{RIVAL} {version}", port, process.pid)
            finally:
                stop(process)


@contextmanager
def mosquitto_bridge(*settings: str) -> Iterator[tuple[Broker, Broker]]:
    """Run two Mosquittos, the first of which passes everything on to the second, during the block."""
    with mosquitto(*settings) as second:
        bridge = (
            "connection onward",
            f"address {HOST}:{second.port}",
            "topic # out 2",  # at most QoS 2: messages keep theirs
            "notifications false",
            "try_private false",
        )
        with mosquitto(*settings, *bridge) as first:
            yield first, second


def find_mosquitto() -> tuple[str, str]:
    """Return path and version of Mosquitto; MissingTool if it is not installed."""
    program = shutil.which(RIVAL) or shutil.which(RIVAL, path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise MissingTool(
            "this benchmark needs mosquitto as its rival, which is not installed; "
            "on Debian: apt install mosquitto"
        )
    said = subprocess.run([program, "-h"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r"version (\S+)", said.stdout + said.stderr)
    return program, found[1] if found else "of unknown version"


def _await_listener(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s and process.poll() is None:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except (ConnectionRefusedError, TimeoutError):
            time.sleep(0.05)
        else:
            return
    raise NodeError(f"mosquitto does not listen on port {port} of {HOST}")
