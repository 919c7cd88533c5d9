"""Commands of a pipeline one after the other in one process, which keeps its JVM: a second one finds it warm.

A process of its own for each command costs a JVM that loads and compiles all of Spark again. Sessions are
opened and closed as in processes of their own; the JVM stays.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from tests.kit.command import answer_here
from tests.kit.jvm import SPARK_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NO_CONF = Path(pyspark.__file__).parent / "conf"
"""Spark's own folder for settings, not that of the project, whose settings a run gives by itself as well:
with another folder on the path of its classes, Java passes over the archive of `tests.kit.jvm`."""
READY = "answer: "
"""Begins a line with what a command said; whatever else is printed is of others."""


@contextmanager
def commands() -> Iterator[Callable[..., dict[str, Any]]]:
    """Give a function that runs a command with --json; it must end well. Returns what it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.kit.commands_in_one_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "SPARK_CONF_DIR": str(NO_CONF), "SPARK_SUBMIT_OPTS": SPARK_OPTIONS},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    given, said = process.stdin, process.stdout

    def run(*arguments: str) -> dict[str, Any]:
        given.write(json.dumps(arguments) + "\n")
        given.flush()
        for line in said:
            if line.startswith(READY):
                found = json.loads(line.removeprefix(READY))
                assert isinstance(found, dict), found
                return found
        raise AssertionError(f"the process has ended, code {process.wait()}")

    try:
        yield run
    finally:
        given.close()
        try:
            process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        said.close()


def main() -> None:
    """Run what standard input says, a list of arguments a line, until it ends."""
    for line in sys.stdin:
        try:
            found: object = answer_here(*json.loads(line))
        except AssertionError as error:
            found = str(error)
        sys.stdout.write(f"{READY}{json.dumps(found)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
