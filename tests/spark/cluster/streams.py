"""Reads stream `s` of a node and writes stream `t` on a session elsewhere; see test_cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipeline.session import open_session

if TYPE_CHECKING:
    from pathlib import Path


def found(kind: str, address: str, folder: Path) -> dict[str, int]:
    """Count the rows read, and their partitions; the node's address is in FOLDER/url."""
    url = (folder / "url").read_text()
    config = {"spark.driver.host": "127.0.0.1"} if kind == "master" else {}
    with open_session(app="penstock tests", config=config, **{kind: address}) as spark:
        source = {"url": url, "stream": "s", "startingOffsets": "earliest", "rowsPerPartition": "100"}
        read = spark.read.format("penstock").options(**source).load()
        rows = read.selectExpr("'t/b' as topic", "payload")
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
        return {
            "rows": read.count(),
            "parts": read.selectExpr("spark_partition_id()").distinct().count(),
        }
