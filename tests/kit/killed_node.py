"""A node that is killed and started again."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Killed:
    """`penstock up` with a stream `s`, and maybe `t`, always at the same address."""

    def __init__(self, folder: Path, *, streams: int = 1) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._config = folder / "penstock.yaml"
        settings = {
            "data": str(folder / "data"),
            "log": "warning",
            "listeners": [{"port": 0}],
            "http": {"enabled": False},
            "streams": {
                "host": [{"name": "s", "topics": ["a/#"]}, {"name": "t", "topics": ["t/#"]}][:streams],
                "listen": {"enabled": True, "port": self.port},
            },
        }
        self._config.write_text(json.dumps(settings))
        self._log = (folder / "log").open("a")
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"stream://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = (sys.executable, "-m", "penstock", "up", "--json", "--config", str(self._config))
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline()

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def close(self) -> None:
        self.kill()
        self._log.close()
