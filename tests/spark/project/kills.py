"""A run of a project by a process of its own, killed on its way."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING

from penstock.pipeline.project.database import checkpoint_of
from tests.kit.effort import LONG
from tests.kit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.pipeline.project.settings import Project


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
        asyncio.run(until(lambda: when.exists() or process.poll() is not None, within_s=600))
        assert process.poll() is None, "the run ended before it could be killed"
    finally:
        process.kill()
        process.wait()
