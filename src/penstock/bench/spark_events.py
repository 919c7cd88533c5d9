"""The events that `bench.spark` packs: patients with a pulse, made by Spark itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUE: Final = 1_000
"""Events of one patient; more events are more patients."""


def events(spark: SparkSession, number: int) -> DataFrame:
    """Readings of `number / QUEUE` patients in the order of time, all patients mixed.

    `pulse` is normal three times in four; `drift` swings slowly by 15 with some noise; `step` changes every
    seventh reading of a patient.
    """
    patients = max(1, number // QUEUE)
    return spark.range(number).selectExpr(
        f"concat('patient-', lpad(cast(id % {patients} as string), 8, '0')) as patient",
        "id * 1000 as ts",
        "id as seq",
        "round(75 + (xxhash64(id) % 1000) / 1000 * 35, 1) as pulse",
        f"75 + 15 * sin(id div {patients} / 40) + (xxhash64(id, 1) % 1000) / 1000 as drift",
        f"cast(id div {patients} div 7 as int) as step",
        "concat('ward-', cast(id % 40 as string)) as ward",
    )
