"""When, where and from what a run was made, and the files that keep runs.

A file is what the command printed with `--json`, so that `penstock bench node --json` into a file and
`--store` keep the same. `tools/measurements.py` makes pages of the files.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.output import finite
from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock_lab.runs.shows import Shows

SOURCES: Final = ("src", "lab", "pyproject.toml", "uv.lock")
"""Folders and files that a run depends on; other changes of a checkout do not matter to it."""
NOT_KEPT: Final = ("plots", "report")
"""Paths of the machine that the run was made on."""


class Begun:
    """Date, commit and load of the machine when a run begins: a checkout may change while it lasts."""

    def __init__(self) -> None:
        self._since_s = time.monotonic()
        self._date = datetime.now(UTC).strftime("%Y-%m-%d")
        self._commit = commit()
        self._load = round(os.getloadavg()[0], 1)

    @property
    def seconds(self) -> float:
        """How long the run has lasted."""
        return time.monotonic() - self._since_s

    def ended(self, command: str, *, quick: bool) -> dict[str, Any]:
        """Describe the run that ends now: command, date, commit, machine, its load before, and seconds."""
        return {
            "command": command,
            "quick": quick,
            "date": self._date,
            "commit": self._commit,
            "machine": machine(),
            "load": self._load,
            "seconds": round(self.seconds, 1),
        }


def described(
    result: dict[str, Any], shows: Shows, command: str, begun: Begun, *, quick: bool
) -> dict[str, Any]:
    """Return the JSON of a run that ends now: its result, the paper's figures, and how it was made."""
    figures = shows.figures_of(row.get("what") or row["name"] for row in result["rows"])
    rows = [row | {"figure": figure} for row, figure in zip(result["rows"], figures, strict=True)]
    run = begun.ended(command, quick=quick)
    return result | {"rows": rows, "paper": shows.paper, "how": shows.how, "run": run}


def machine() -> dict[str, Any]:
    """Describe the machine: system, processor, cores, memory, Python; not its name."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
    }


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return " ".join(value.split())
    return platform.processor() or "unknown"


def commit() -> str:
    """Return the commit of the checkout that runs, and whether its sources were changed since."""
    root = next((up for up in Path(__file__).resolve().parents if (up / ".git").exists()), None)
    git = shutil.which("git")
    if root is None or git is None:
        return "unknown"

    def said(*arguments: str) -> str | None:
        done = subprocess.run(  # noqa: S603  # found on the path of programs
            [git, "-C", str(root), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else None

    head = said("rev-parse", "--short=10", "HEAD")
    if not head:
        return "unknown"
    return f"{head} with changes" if said("status", "--porcelain", "--", *SOURCES) else head


def write(folder: Path, name: str, found: dict[str, Any]) -> Path:
    """Keep what a command found in `folder/name.json`: the old file stays until the new one is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {key: value for key, value in finite(found).items() if key not in NOT_KEPT}
    path = folder / f"{name}.json"
    beside = path.with_suffix(".json.new")
    beside.write_text(json.dumps(kept, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    beside.replace(path)
    return path


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the runs kept in a folder, by the names of their files."""
    return {path.stem: _run(path) for path in sorted(folder.glob("*.json"))}


def _run(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict) or not {"run", "rows"} <= found.keys():
        raise InputError(f"{path}: not a run of `penstock reproduce` or `penstock bench` with --json")
    return found
