"""The process under test as the judge sees it: its doors, its log, its memory and its open files."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from resource import getpagesize
from typing import TYPE_CHECKING, Any, Final

from penstock_lab.experiments.fuzz.targets.stream import NEIGHBOUR, STREAM
from penstock_lab.rigs.local_node import local_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock_lab.experiments.fuzz.exchange import Door

CONFIG: Final[dict[str, Any]] = {
    "data": "store",
    "listeners": [{"port": 0}, {"kind": "websocket", "port": 0}],
    "streams": {
        "node": "fuzzed",
        "host": [{"name": STREAM, "topics": [f"{STREAM}/#"], "bytes": 64 << 20}],
        "neighbours": [{"name": NEIGHBOUR}],
        "listen": {"enabled": True, "port": 0},
        "cache_bytes": 1 << 20,
    },
}
"""Every door open, all else as by default; a small cache, since its filling is no leak."""

_COMPLAINT: Final = re.compile(
    r"Traceback \(most recent|\S+Z (error: (a bug|internal error)|critical: )"
    r"|.* was never (retrieved|awaited)"
)
"""How lines begin that must not be in the log of a node, whatever strangers send."""
_ENTRY: Final = re.compile(r"\d{4}-\d\d-\d\dT")
"""How an entry of the log begins."""


@dataclass(frozen=True, slots=True)
class Vitals:
    """Memory and open files of a process at one moment."""

    resident_bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class Subject:
    """A server process under test."""

    pid: int
    ports: dict[Door, int]
    log: Path
    http: str = ""
    """URL of its HTTP API, to find what a run has left behind; empty: there is none."""

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        return state not in "ZX"

    def vitals(self) -> Vitals:
        """Return the memory and the open files of the process at this moment; OSError if it has ended."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return Vitals(pages * getpagesize(), len(list(Path(f"/proc/{self.pid}/fd").iterdir())))

    def complaint(self, since: int = 0) -> str:
        """Return the first entry of the log behind this offset that must not be there; empty: none."""
        with self.log.open("rb") as file:
            file.seek(since)
            lines = file.read().decode(errors="replace").splitlines()
        for number, line in enumerate(lines):
            if _COMPLAINT.match(line):
                begin = number if _ENTRY.match(line) else max(0, number - 1)
                end = next(
                    (at for at in range(number + 1, len(lines)) if _ENTRY.match(lines[at])), len(lines)
                )
                return "\n".join(lines[begin:end])
        return ""

    def log_bytes(self) -> int:
        """Length of the log."""
        return self.log.stat().st_size


@contextmanager
def node() -> Iterator[Subject]:
    """Run a node with all doors open on free ports of loopback, for the length of the block."""
    with local_node(CONFIG) as found:
        assert found.websocket
        yield Subject(
            pid=found.pid,
            ports={
                "mqtt": found.port,
                "websocket": found.websocket,
                "http": int(found.http.rstrip("/").rpartition(":")[2]),
                "stream": found.streams,
            },
            log=found.log,
            http=found.http,
        )
