"""Packs a small frame on a Spark Connect session of its own and prints what is left; run by test_connect."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from penstock.pipeline import effect, pack, with_digests, with_wire
from penstock.policy.read import parse

POLICY = """
attribute: v
digest: [count, mean, last, distinct, quantiles]
levels:
  - drop: {delta: 2}
  - drop: {within: [0, 3]}
  - keep: {latest: 2}
"""


def main() -> int:
    """Values 0 … 9 and a null in one queue, at all levels."""
    builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2")
    spark = builder.getOrCreate()
    values = [("a", spot, float(spot)) for spot in range(10)]
    frame = spark.createDataFrame([*values, ("a", 10, None)], "queue string, ts bigint, v double")
    policy = parse(POLICY)
    packed = frame.transform(pack(policy, key=["queue"], order=["ts"], level=3))
    rows = packed.transform(with_wire()).transform(with_digests()).orderBy("place").collect()
    effects = frame.transform(effect(policy, key=["queue"], order=["ts"])).collect()
    found = {
        "queue": [row["v"] if row["kind"] == "event" else row["digest"]["count"] for row in rows],
        "effects": [[row["filter"], row["seen"], row["dropped"]] for row in effects],
    }
    sys.stdout.write(f"\n{json.dumps(found)}\n")
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
