"""Uses Spark as the tests do; its JVM writes the archive of `tests.kit.jvm` when it ends."""

from __future__ import annotations

import sys

from pyspark import SparkContext

from penstock.pipeline.session import open_session


def main(folder: str) -> int:
    parts = {"spark.sql.shuffle.partitions": "2"}
    with open_session(app="penstock tests", master="local[2]", config=parts) as spark:
        spark.range(100).selectExpr("id", "cast(id as string) as text").write.parquet(f"{folder}/numbers")
        spark.read.parquet(f"{folder}/numbers").groupBy("text").count().orderBy("text").collect()
    gateway = SparkContext._gateway
    assert gateway is not None
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()  # which tells the JVM to end
    return int(process.wait(timeout=300))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
