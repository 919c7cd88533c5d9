"""A node whose dashboard is looked at."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


class Node:
    """`penstock up` as its own process."""

    def __init__(self, folder: Path, *, token: str = "", http_port: int = 0, settings: str = "") -> None:
        (folder / "penstock.yaml").write_text(settings or SETTINGS % (http_port, token))
        command = [sys.executable, "-m", "penstock", "up", "--config", "penstock.yaml", "--json"]
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=self._log)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if b"ready" not in line:
            self.close(code=None)
            pytest.fail(f"the node did not start: {(folder / 'log').read_text()}")
        said = json.loads(line)
        self.pid: int = said["pid"]
        self.mqtt_port: int = said["listeners"][0]["port"]
        self.http_port: int = said["http"]["port"]
        self.url: str = said["http"]["url"]

    def close(self, *, code: int | None = 0) -> None:
        self._process.terminate()
        ended = self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()
        assert code is None or ended == code


SETTINGS = """
listeners: [{port: 0}]
http: {port: %d, token: "%s"}
data: ""
queues: {events: 200}
policies:
  vitals:
    attribute: pulse
    digest: [count, mean]
    levels:
      - drop: {delta: 5}
      - drop: {within: [50, 100]}
      - keep: {latest: 10}
"""
