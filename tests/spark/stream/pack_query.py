"""Packs FOLDER/in into FOLDER/out, one file a trigger, and ends; test_streaming_killed kills it before."""

from __future__ import annotations

import sys
from typing import Final

from penstock.pipeline.session import open_session
from penstock.pipeline.stream.pack_stream import pack_stream
from penstock.pipeline.tables.folders import folder_stream, write_folder
from penstock.policy.text.forms import parse

POLICY: Final = parse("""
attribute: v
digest: [count, mean, min, max]
levels:
  - drop: {delta: 3}
  - drop: {within: [20, 80]}
  - keep: {latest: 8}
""")
CAPACITY: Final = 20


def main(folder: str) -> int:
    """Two cores, two partitions of state."""
    config = {"spark.sql.shuffle.partitions": "2"}
    with open_session(master="local[2]", app="penstock tests", config=config) as spark:
        stream = folder_stream(spark, f"{folder}/in", files_per_trigger=1)
        packed = stream.transform(
            pack_stream(POLICY, capacity=CAPACITY, key="room", order="ts", schema=stream.schema)
        )
        query = write_folder(packed, f"{folder}/out", checkpoint=f"{folder}/checkpoint")
        query.awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
