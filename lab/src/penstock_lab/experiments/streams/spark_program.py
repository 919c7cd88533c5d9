"""The Spark query that `streams-kill` starts: it records what it reads of the stream, batch by batch.

Spark reads a batch that was not finished when the query was killed again; it must have the same rows, which
are recognised by their ticks.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.client import StreamReader
from penstock.pipeline.session import open_session
from penstock_lab.experiments.streams.programs import STREAM, Book, ready

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


CONSUMER: Final = "spark"


def main(told: dict[str, Any]) -> None:
    """Run until killed."""
    book = Book(Path(told["file"]))
    # Create the consumer now, so that the log keeps everything: the first trigger may come much later.
    StreamReader(told["url"], STREAM, consumer=CONSUMER, start="earliest").close()

    def write(batch: DataFrame, _: int) -> None:
        rows = batch.select("tick", "topic", "payload").orderBy("tick").collect()
        if rows:
            book.write((row.tick, row.topic, bytes(row.payload)) for row in rows)

    config = {"spark.sql.shuffle.partitions": "2"}
    with open_session(master="local[2]", app="streams-kill", config=config) as spark:
        frame = (
            spark.readStream.format("penstock")
            .options(url=told["url"], stream=STREAM, consumer=CONSUMER, startingOffsets="earliest")
            .load()
        )
        query = (
            frame.writeStream.foreachBatch(write)
            .option("checkpointLocation", told["checkpoint"])
            .trigger(processingTime="200 milliseconds")
            .start()
        )
        ready()
        query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
