"""`penstock up` as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kit.service import wait

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def up(folder: Path, *arguments: str) -> Iterator[Up]:
    """A node in that folder, until it ends or is ended."""
    log = folder / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [*COMMAND, "up", "--json", "--http-port", "0", "--port", "0", *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, log.read_text()
        yield Up(process, json.loads(line), log)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


COMMAND = [sys.executable, "-m", "penstock"]


@dataclass
class Up:
    """A running node."""

    process: subprocess.Popen[str]
    about: dict[str, Any]
    log: Path

    @property
    def port(self) -> int:
        found: int = self.about["listeners"][0]["port"]
        return found

    def logged(self, text: str) -> None:
        wait(lambda: text in self.log.read_text())
