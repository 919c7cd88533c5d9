"""Many random fault runs of simulated reliable streams: one after the other here, or as Spark tasks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock_lab.sim.streams.random_faults import FaultRun, fault_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

SCHEMA: Final = (
    "seed bigint, published bigint, delivered bigint, crashes bigint, lost bigint, trimmed bigint, "
    "seconds bigint, problems array<string>, fingerprint string"
)

TASK_RUNS: Final = 20
"""Runs in one Spark task: about two seconds of work."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Totals of all runs."""

    runs: int
    published: int
    delivered: int
    crashes: int
    lost: int
    failures: tuple[FaultRun, ...]


def here(seeds: range, told: Callable[[int, int], None]) -> Sweep:
    """Run in this process; `told` is called with the runs done and the runs failed."""
    found: list[FaultRun] = []
    failed = 0
    for done, seed in enumerate(seeds):
        told(done, failed)
        found.append(fault_run(seed))
        failed += bool(found[-1].problems)
    return summed(found)


def on_spark(spark: SparkSession, seeds: range) -> Sweep:
    """Run as Spark tasks of TASK_RUNS runs each."""
    import pyarrow as pa  # noqa: PLC0415  # comes with Spark

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows: list[dict[str, Any]] = [asdict(fault_run(seed)) for seed in batch.column(0).to_pylist()]
            if rows:
                yield pa.RecordBatch.from_pylist(
                    [row | {"problems": list(row["problems"])} for row in rows],
                    schema=batch_schema(),
                )

    parts = -(-len(seeds) // TASK_RUNS)
    frame = spark.range(seeds.start, seeds.stop, 1, parts)
    rows = frame.mapInArrow(work, SCHEMA).collect()
    return summed([FaultRun(**row.asDict() | {"problems": tuple(row.problems)}) for row in rows])


def batch_schema() -> pa.Schema:
    """Return the schema of what a task returns."""
    import pyarrow as pa  # noqa: PLC0415  # comes with Spark

    whole = ("seed", "published", "delivered", "crashes", "lost", "trimmed", "seconds")
    fields: list[tuple[str, Any]] = [(name, pa.int64()) for name in whole]
    return pa.schema([*fields, ("problems", pa.list_(pa.string())), ("fingerprint", pa.string())])


def summed(found: list[FaultRun]) -> Sweep:
    """Return the totals, and the failed runs in order of their seeds."""
    return Sweep(
        runs=len(found),
        published=sum(run.published for run in found),
        delivered=sum(run.delivered for run in found),
        crashes=sum(run.crashes for run in found),
        lost=sum(run.lost for run in found),
        failures=tuple(sorted((run for run in found if run.problems), key=lambda run: run.seed)),
    )
