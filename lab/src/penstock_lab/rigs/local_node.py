"""A node (`penstock up`) as a process on free ports of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import NodeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STOP_S: Final = 20
"""Longest wait for a node to end before it is killed."""


@dataclass(frozen=True, slots=True)
class LocalNode:
    """Addresses of a running node."""

    port: int
    pid: int
    http: str
    """URL of dashboard and HTTP API."""
    config: Path
    """The node's configuration."""
    log: Path
    """The file that has the node's standard error."""
    streams: int = 0
    """Port of the listener for streams; 0: it has none."""
    websocket: int = 0
    """Port of the first WebSocket listener; 0: it has none."""

    @property
    def url(self) -> str:
        """URL for MQTT clients."""
        return f"mqtt://127.0.0.1:{self.port}"

    def reload(self, config: Mapping[str, Any]) -> None:
        """Replace the node's configuration file and reload it."""
        _write(self.config, config)
        os.kill(self.pid, signal.SIGHUP)


@contextmanager
def local_node(config: Mapping[str, Any] | None = None) -> Iterator[LocalNode]:
    """Run `penstock up` on free ports of loopback with these settings for the length of the block.

    Unless the settings name a `data` folder, the node keeps nothing on disk.
    """
    with TemporaryDirectory(prefix="penstock-") as folder:
        path, log = Path(folder, "penstock.yaml"), Path(folder, "log")
        _write(path, config or {})
        command = [sys.executable, "-m", "penstock", "up", "--json", "--config", str(path)]
        with (
            log.open("w") as errors,
            subprocess.Popen(  # noqa: S603  # our own command
                [*command, "--port", "0", "--http-port", "0"],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as process,
        ):
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                if not line:
                    raise NodeError(f"`penstock up` did not start: {log.read_text().strip()}")
                about = json.loads(line)
                yield LocalNode(
                    about["listeners"][0]["port"],
                    process.pid,
                    about["http"]["url"],
                    path,
                    log,
                    streams=_streams_port(about["streams"]),
                    websocket=_websocket_port(about["listeners"]),
                )
            finally:
                stop(process)


def _streams_port(streams: dict[str, Any] | None) -> int:
    listener = None if streams is None else streams["listener"]
    return 0 if listener is None else int(listener["port"])


def _websocket_port(listeners: list[dict[str, Any]]) -> int:
    return next((int(one["port"]) for one in listeners if one["kind"] == "websocket"), 0)


def _write(path: Path, config: Mapping[str, Any]) -> None:
    path.write_text(json.dumps({"data": "", "log": "warning", **config}))  # JSON is YAML


def stop(process: subprocess.Popen[Any]) -> None:
    """Terminate a process; kill it if it does not end in time."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
