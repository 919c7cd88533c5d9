"""Fault runs as Spark tasks are the runs of one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock_lab.experiments.streams.sweep import here, on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_tasks_find_what_one_process_finds(spark: SparkSession) -> None:
    seeds = range(5, 30)
    assert on_spark(spark, seeds) == here(seeds, lambda *_: None)
