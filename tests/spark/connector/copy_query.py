"""Copies stream `s` of a node into its stream `t`; test_stream_source kills it."""

from __future__ import annotations

import sys

from penstock.pipeline.session import open_session


def main(url: str, folder: str, now: str = "") -> int:
    """Ends only if told `now`, with what is there."""
    with open_session(master="local[2]", app="penstock tests") as spark:
        stream = (
            spark.readStream.format("penstock")
            .options(url=url, stream="s", consumer="copy", startingOffsets="earliest")
            .options(maxRowsPerTrigger="400", rowsPerPartition="150", patience="60")
            .load()
        )
        rows = stream.selectExpr("replace(topic, 'a/', 't/') as topic", "payload", "ts")
        writer = rows.writeStream.format("penstock").options(url=url, stream="t", patience="60")
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
        if now:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime="50 milliseconds")
        writer.start().awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
