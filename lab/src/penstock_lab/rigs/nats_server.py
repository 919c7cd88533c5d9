"""A NATS server with JetStream as a process on this machine, for tests and benchmarks."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from penstock.errors import MissingTool, NodeError
from penstock_lab.rigs.local_node import stop
from penstock_lab.rigs.ports import HOST, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM: Final = "nats-server"
START_S: Final = 60
"""Longest wait until the server listens, on a busy machine."""


def find_nats_server() -> tuple[str, str]:
    """Return path and version of nats-server; MissingTool says how to install it."""
    program = shutil.which(PROGRAM) or shutil.which(PROGRAM, path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise MissingTool(
            "this needs nats-server, which is not installed; on Debian: apt install nats-server"
        )
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r"v(\d\S*)", said.stdout)
    return program, found[1] if found else "of unknown version"


class NatsServer:
    """A NATS server with its streams in a folder; it can be killed and started again on the same port."""

    def __init__(self, folder: Path, *options: str, streams: bool = True) -> None:
        """`streams`: with JetStream, whose data are in the folder."""
        self._program, self.version = find_nats_server()
        self._options = (*(("-js", "-sd", str(folder)) if streams else ()), *options)
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """URL for NATS clients."""
        return f"nats://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """Process id; 0 if the server does not run."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the server and wait until it listens; NodeError if it does not."""
        command = [self._program, "-a", HOST, "-p", str(self.port)]
        self._process = subprocess.Popen(  # noqa: S603  # found on the path of programs
            [*command, *self._options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline_s = time.monotonic() + START_S
        while time.monotonic() < deadline_s and self._process.poll() is None:
            try:
                socket.create_connection((HOST, self.port), timeout=1).close()
            except (ConnectionRefusedError, TimeoutError):
                time.sleep(0.02)
            else:
                return
        self.kill()
        raise NodeError(f"nats-server does not listen on port {self.port} of {HOST}")

    def kill(self) -> None:
        """Kill the server, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Terminate the server in the regular way."""
        if self._process is not None:
            stop(self._process)
            self._process = None


@contextmanager
def nats_server(*options: str) -> Iterator[NatsServer]:
    """Run a server on a free port of loopback for the length of the block; its data are temporary."""
    with TemporaryDirectory(prefix="penstock-nats-") as folder:
        server = NatsServer(Path(folder), *options)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def nats_cluster() -> Iterator[tuple[NatsServer, NatsServer]]:
    """Run two servers without JetStream that are a cluster, for the length of the block."""
    with TemporaryDirectory(prefix="penstock-nats-") as folder:
        routes = free_port(), free_port()
        config = Path(folder, "nats.conf")
        config.write_text('ping_interval: "1h"\n')  # clients of the load generator count bytes: no pings
        servers = []
        try:
            for own, other in (routes, routes[::-1]):
                options = ("-c", str(config), "--cluster_name", "lab", "--cluster", f"nats://{HOST}:{own}")
                routed = ("--routes", f"nats://{HOST}:{other}")
                servers.append(NatsServer(Path(folder), *options, *routed, streams=False))
                servers[-1].start()
            yield servers[0], servers[1]
        finally:
            for server in servers:
                server.stop()
