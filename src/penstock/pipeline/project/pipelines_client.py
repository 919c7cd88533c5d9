"""Runs Spark's own program for pipelines, `spark-pipelines`, as a child that ends with its parent.

    python -m penstock.pipeline.project.pipelines_client run --spec FILE

`bin/spark-pipelines` starts a JVM only to start the same Python program. Spark's client goes on asking for
ten minutes after its server has ended; here it ends as soon as its standard input does.
"""

from __future__ import annotations

import os
import sys
from threading import Thread


def main() -> None:
    """Be `spark-pipelines`, for as long as standard input is open."""
    from pyspark.pipelines.cli import main as spark_pipelines  # noqa: PLC0415  # tests replace it

    Thread(target=_end_with_parent, daemon=True).start()
    spark_pipelines()


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
