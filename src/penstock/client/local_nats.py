"""A NATS server with JetStream as a process of its own on this machine, for whoever wants to try one."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from penstock.client.local_node import stop
from penstock.errors import MissingTool, NodeError

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST: Final = "127.0.0.1"
START_S: Final = 30
"""How long it may take until it listens, on a machine that is busy with other things."""


@dataclass(frozen=True, slots=True)
class LocalNats:
    """Where it is."""

    url: str
    pid: int
    version: str


def free_port() -> int:
    """A port of loopback that nobody uses at the moment."""
    with socket.create_server((HOST, 0)) as found:
        return int(found.getsockname()[1])


def find_nats() -> tuple[str, str]:
    """Where the program is, and its version; MissingTool if it is not installed."""
    program = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise MissingTool("there is no nats-server; on Debian: apt install nats-server")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r"v(\d\S*)", said.stdout + said.stderr)
    return program, found[1] if found else "of unknown version"


@contextmanager
def local_nats(*arguments: str) -> Iterator[LocalNats]:
    """`nats-server -js` on a free port, with its files in a folder of its own; stopped after the block."""
    program, version = find_nats()
    port = free_port()
    with TemporaryDirectory(prefix="penstock-nats-") as folder:
        log = Path(folder, "log")
        command = [program, "-js", "-a", HOST, "-p", str(port), "-sd", folder, "-l", str(log), *arguments]
        with subprocess.Popen(  # noqa: S603  # found on the path of programs
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                _await_listener(port, process, log)
                yield LocalNats(f"nats://{HOST}:{port}", process.pid, version)
            finally:
                stop(process)


def _await_listener(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s and process.poll() is None:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
        else:
            return
    said = log.read_text()[-400:] if log.exists() else ""
    raise NodeError(f"nats-server does not listen on port {port} of {HOST}: {said.strip()}")
