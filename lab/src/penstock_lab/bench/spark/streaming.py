"""Packing a stream on Spark: `pack_stream` against the unpacked stream and a stateful pandas function.

All read the same folder, file by file, and do not store the rows. Every trigger brings more rows of each
patient than fit. The function by hand packs at one level: it knows no ladder and holds nothing back.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyspark.sql.types as st
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from penstock.pipeline.session import cores
from penstock.pipeline.stream.pack_stream import pack_stream
from penstock.pipeline.tables.folders import folder_stream
from penstock.policy.text.python_form import drop, policy
from penstock_lab.bench.result import BenchmarkRow
from penstock_lab.bench.spark import pandas_rivals
from penstock_lab.bench.spark.pandas_rivals import QUEUE, events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

NAME: Final = "stream: drop within [50, 100]"
TRIGGERS: Final = 4
GOAL: Final = 0.3
"""Million events per second on two cores."""
CAPACITY: Final = QUEUE // TRIGGERS * 4 // 5
"""A trigger brings QUEUE / TRIGGERS rows of a patient: a quarter more than fits."""
POLICY: Final = policy(drop.within(50, 100), attribute="pulse", digest=("count", "mean", "min", "max"))
UNPACKED: Final = "the stream as it is"
BY_HAND: Final = "transformWithStateInPandas"
_PARTS: Final = "spark.sql.shuffle.partitions"


def write_events(spark: SparkSession, number: int, folder: Path) -> None:
    """The events as files, one for each trigger."""
    events(spark, number).repartitionByRange(TRIGGERS, "ts").write.parquet(str(folder / "in"))


def contestants(spark: SparkSession, folder: Path) -> dict[str, Callable[[], None]]:
    """Return three functions that run the whole stream: ours, by hand, unpacked."""
    run = count()

    def through(made: Callable[[DataFrame], DataFrame]) -> Callable[[], None]:
        def go() -> None:
            before = spark.conf.get(_PARTS)
            spark.conf.set(_PARTS, cores(spark))  # parts of the state, as `penstock shed` has them
            try:
                query = (
                    made(folder_stream(spark, str(folder / "in"), files_per_trigger=1))
                    .writeStream.format("noop")
                    .option("checkpointLocation", str(folder / f"checkpoint{next(run)}"))
                    .trigger(availableNow=True)
                    .start()
                )
                query.awaitTermination()
            finally:
                spark.conf.set(_PARTS, before or "")

        return go

    return {"ours": through(packed), BY_HAND: through(by_hand), UNPACKED: through(lambda stream: stream)}


def packed(stream: DataFrame) -> DataFrame:
    """Ours."""
    return stream.transform(
        pack_stream(
            POLICY,
            capacity=CAPACITY,
            key="patient",
            order=["ts", "seq"],
            schema=stream.schema,
            hold_s=0,
            forget_s=0,
        )
    )


def by_hand(stream: DataFrame) -> DataFrame:
    """Pack the stream with the function written by hand; its columns are those of `pack_stream`."""
    shape = st.StructType(packed(stream).schema.fields)
    return stream.groupBy("patient").transformWithStateInPandas(_ByHand(), shape, "append", "none")


class _ByHand(StatefulProcessor):
    """Packs the rows of a patient where they are too many, and counts how often."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._pack = pandas_rivals.packing(pandas_rivals.within, "pulse", ((1, "within"),))
        self._packs = handle.getValueState("packs", "packs long")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        queue = pd.concat(list(rows))
        if len(queue) <= CAPACITY:
            kept = queue.assign(place=range(1, len(queue) + 1), kind="event", digest=None)
            yield kept[["patient", "place", "kind", *pandas_rivals.EVENT, "digest"]]
            return
        before = self._packs.get()
        self._packs.update((1 if before is None else before[0] + 1,))
        yield self._pack(queue)

    def close(self) -> None:
        pass


def rows_of(taken: Mapping[str, float], number: int) -> list[BenchmarkRow]:
    """Return the rows for seconds by contestant."""
    rates = {name: number / seconds / 1e6 for name, seconds in taken.items()}
    ours = rates["ours"]
    return [
        *(
            BenchmarkRow(
                f"{NAME}, {number:,} events", ours, "M events/s", rival, rates[rival], ours / rates[rival]
            )
            for rival in (BY_HAND, UNPACKED)
        ),
        BenchmarkRow(
            f"{NAME}, {number:,} events",
            ours,
            "M events/s",
            "the goal on two cores",
            GOAL,
            ours / GOAL,
            1.0,
            fails_if="rows cross between Java and Python one by one, or state is read for every key",
        ),
    ]
