"""Runs the command line: as a process of its own, as a user does, or in this process, in a tenth of the time.

Each command has at least one test with a process. Tests of its answers and of what it refuses can do without.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any
from unittest.mock import patch

from penstock.cli.app import main
from tests.kit.paths import ROOT

EXAMPLES = ROOT / "examples" / "policies"


VITALS = str(EXAMPLES / "vitals.yaml")


def penstock(*arguments: str, stdin: str = "", ok: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command as a process; it must exit as expected and never show a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=600,  # a Spark session may take a minute to start on a busy machine
        check=False,
    )
    return _checked(done, ok)


def here(*arguments: str, stdin: str = "", ok: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, with standard streams of its own."""
    given, out, err = (
        io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8") for text in (stdin, "", "")
    )
    line = ["penstock", *arguments]
    code: object = None
    with patch.multiple(sys, argv=line, stdin=given, stdout=out, stderr=err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        said = [_written(stream) for stream in (out, err)]
    assert isinstance(code, int)
    return _checked(subprocess.CompletedProcess(line, code, *said), ok)


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()


def _checked(done: subprocess.CompletedProcess[str], ok: int) -> subprocess.CompletedProcess[str]:
    assert done.returncode == ok, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


def answer(*arguments: str, stdin: str = "", ok: int = 0) -> dict[str, Any]:
    """The one JSON object a command prints under --json, as a process."""
    return _object(penstock(*arguments, "--json", stdin=stdin, ok=ok).stdout)


def answer_here(*arguments: str, stdin: str = "", ok: int = 0) -> dict[str, Any]:
    """The one JSON object a command prints under --json, in this process."""
    return _object(here(*arguments, "--json", stdin=stdin, ok=ok).stdout)


def _object(text: str) -> dict[str, Any]:
    found = json.loads(text)
    assert isinstance(found, dict)
    return found
