"""Whether a packed stream has lost anything: events in = events out + events counted in digests + held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.errors import InputError
from penstock.pipeline.streaming import HELD

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_NOT_YET: Final = ("STDS_", "PATH_NOT_FOUND")
"""What Spark calls a checkpoint of which no trigger is finished."""


def stands_for(frame: DataFrame) -> Column:
    """How many events the rows of a frame stand for, as an aggregate: 1 for an event, `count` of a digest."""
    each = sf.lit(1)
    if "digest" in frame.columns:
        kind = frame.schema["digest"].dataType
        if not isinstance(kind, st.StructType) or "count" not in kind.names:
            raise InputError(
                f"column 'digest' is {kind.simpleString()}, expected digests as `penstock.pipeline` makes "
                "them; `with_digests` reads those of nodes"
            )
        each = sf.coalesce(sf.col("digest.count"), sf.lit(1))
    return sf.coalesce(sf.sum(each), sf.lit(0)).cast("bigint")


def held(spark: SparkSession, checkpoint: str) -> DataFrame:
    """What a packed stream has taken in and not given out yet, from the checkpoint of its query.

    A row for each key that holds something: the key, `count` (events it stands for), `until_us` (when it
    goes out at the latest, whatever comes).
    """
    state = spark.read.format("statestore").option("path", checkpoint).option("stateVarName", HELD).load()
    return state.select("key.*", "value.count", "value.until_us")


def held_count(spark: SparkSession, checkpoint: str) -> int:
    """How many events are held in a checkpoint; none before its first trigger is finished."""
    try:
        found = held(spark, checkpoint).agg(sf.coalesce(sf.sum("count"), sf.lit(0))).head()
    except PySparkException as error:
        if (error.getCondition() or "").startswith(_NOT_YET):
            return 0
        raise
    return 0 if found is None else int(found[0])
