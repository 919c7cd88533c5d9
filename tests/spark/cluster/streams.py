"""Reads stream `s` of a node and writes stream `t` on a session elsewhere; see test_cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from penstock.pipeline.session import open_session


def main(kind: str, address: str, folder: str) -> int:
    """The node's address is in FOLDER/url."""
    url = Path(folder, "url").read_text()
    config = {"spark.driver.host": "127.0.0.1"} if kind == "master" else {}
    with open_session(app="penstock tests", config=config, **{kind: address}) as spark:
        source = {"url": url, "stream": "s", "startingOffsets": "earliest", "rowsPerPartition": "100"}
        found = spark.read.format("penstock").options(**source).load()
        rows = found.selectExpr("'t/b' as topic", "payload")
        rows.write.format("penstock").mode("append").options(url=url, stream="t").save()
        stream = spark.readStream.format("penstock").options(**source).load()
        query = (
            stream.selectExpr("'t/c' as topic", "payload")
            .writeStream.format("penstock")
            .options(url=url, stream="t", checkpointLocation=f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        counted = {
            "rows": found.count(),
            "parts": found.selectExpr("spark_partition_id()").distinct().count(),
        }
    sys.stdout.write(f"\n{json.dumps(counted)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
