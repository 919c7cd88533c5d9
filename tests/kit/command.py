"""Runs the command line as a process of its own, as a user does."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.kit.paths import ROOT

EXAMPLES = ROOT / "examples" / "policies"


VITALS = str(EXAMPLES / "vitals.yaml")


def penstock(*arguments: str, stdin: str = "", ok: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command; it must exit as expected and never show a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=600,  # a Spark session may take a minute to start on a busy machine
        check=False,
    )
    assert done.returncode == ok, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


def answer(*arguments: str, stdin: str = "", ok: int = 0) -> dict[str, Any]:
    """The one JSON object a command prints under --json."""
    found = json.loads(penstock(*arguments, "--json", stdin=stdin, ok=ok).stdout)
    assert isinstance(found, dict)
    return found
