"""Runs modules of this folder on a session elsewhere, one after the other, and prints what each found.

The first one opens the session, as it would by itself; the others find it open. Sessions of their own would
start a driver, executors and Python workers each time, and show nothing more. See test_cluster.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

from pyspark.sql import session as classic
from pyspark.sql.connect import session as connect


def main(kind: str, address: str, folder: str, *modules: str) -> int:
    """`kind` is what `open_session` and the commands call the address: master or remote."""
    for session in (classic.SparkSession, connect.SparkSession):
        session.stop = _stays  # type: ignore[method-assign, assignment]
    found = {
        name: import_module(f"tests.spark.cluster.{name}").found(kind, address, Path(folder, name))
        for name in modules
    }
    sys.stdout.write(f"\n{json.dumps(found)}\n")
    return 0


def _stays(session: object) -> None:
    """The end of the process ends it."""


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
