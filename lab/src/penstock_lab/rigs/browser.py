"""A screenshot of the dashboard, taken by headless Chromium."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

TAKEN_S: Final = 60
"""Longest wait for a screenshot; on a busy machine the browser starts within ten seconds."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A screenshot, or the reason why none could be taken."""

    path: Path | None
    reason: str = ""


def browser() -> str | None:
    """Return the path of Chromium on this machine, if it is installed."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def take_picture(
    url: str, path: Path, *, width: int = 1440, height: int = 1500, follow_s: float = 4.0
) -> Picture:
    """Load a page, wait, and save a screenshot as PNG."""
    program = browser()
    if program is None:
        return Picture(None, f"no browser: none of {', '.join(BROWSERS)} is installed")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    # Chromium's sandbox does not start for root, as in containers.
    unboxed = ["--no-sandbox"] if os.geteuid() == 0 else []
    with TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as profile:
        command = [
            program,
            "--headless",
            *unboxed,
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
            f"--virtual-time-budget={round(follow_s * 1_000)}",
            f"--screenshot={path.absolute()}",
            url,
        ]
        try:
            done = subprocess.run(command, capture_output=True, timeout=TAKEN_S, check=False)  # noqa: S603
        except subprocess.TimeoutExpired:
            return Picture(None, f"{program} took no picture within {TAKEN_S} s")
        except OSError as error:
            return Picture(None, f"{program} cannot be started: {error.strerror}")
    if not path.is_file():
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return Picture(None, f"{program} took no picture: {said[-1] if said else f'exit {done.returncode}'}")
    return Picture(path)
