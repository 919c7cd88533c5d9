"""Runs modules of this folder on a session elsewhere, one after the other, and prints what each found.

The first one opens the session, as it would by itself; the others find it open. Sessions of their own would
start a driver, executors and Python workers each time, and show nothing more. See test_cluster.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import session as classic
from pyspark.sql.connect import session as connect


def main(kind: str, address: str, folder: str, *modules: str) -> int:
    """`kind` is what `open_session` and the commands call the address: master or remote."""
    found = {}
    for name in modules:
        with ExitStack() as stack:
            # On a server, runs of a pipeline open a session each: one that is kept open remembers the files
            # of tables that another one has written since.
            if kind == "master" or name != "project":
                for session in (classic.SparkSession, connect.SparkSession):
                    stack.enter_context(patch.object(session, "stop", _stays))
            module = import_module(f"tests.spark.cluster.{name}")
            found[name] = module.found(kind, address, Path(folder, name))
    sys.stdout.write(f"\n{json.dumps(found)}\n")
    return 0


def _stays(session: object) -> None:
    """The end of the process ends it."""


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
