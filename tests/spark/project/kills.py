"""A run of a project by a process of its own, killed on its way."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from penstock.pipeline.project.database import checkpoint_of
from tests.kit.effort import LONG

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.pipeline.project.settings import Project

WITHIN_S = 600


def kill_runs(project: Project) -> None:
    """Run the project by the plain engine, and kill the process with SIGKILL in the middle of gold."""
    if LONG:
        _kill(project, checkpoint_of(project, "arrivals") / "commits" / "0")  # packed is next
    _kill(project, project.folder / "tables" / "report" / "_SUCCESS")


def _kill(project: Project, when: Path) -> None:
    """Kill a run as soon as a file is there."""
    assert not when.exists()
    words = ["pipeline", "run", str(project.folder), "--engine", "plain", "--master", "local[2]"]
    process = subprocess.Popen([sys.executable, "-m", "penstock", *words])
    try:
        until = time.monotonic() + WITHIN_S
        while not when.exists():
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
