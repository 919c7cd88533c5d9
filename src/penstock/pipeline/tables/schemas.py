"""Schemas of recorded events and of the pipeline's results; a digest has the fields of a node's digest."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)


def _struct(**fields: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])  # type: ignore[arg-type]


EVENTS: Final = _struct(
    topic=StringType(),
    ts=LongType(),
    seq=LongType(),
    sender=StringType(),
    payload=BinaryType(),
    properties=MapType(StringType(), StringType()),
    content_type=StringType(),
)
"""Events as nodes record them; `ts` in microseconds. Transforms take a frame to have these columns, unless
they are given its `schema`.
"""

SCALAR: Final = _struct(whole=LongType(), real=DoubleType(), text=StringType(), flag=BooleanType())
"""A value of any kind: at most one field is set."""

MARK: Final = _struct(ts_us=LongType(), seq=LongType(), tie=StringType(), value=SCALAR)
"""A value with its time; compared field by field, so `tie` decides between equal times."""

SUMMARY: Final = _struct(
    name=StringType(),
    n=LongType(),
    total=DoubleType(),
    squares=DoubleType(),
    least=DoubleType(),
    most=DoubleType(),
    first=MARK,
    last=MARK,
    distinct=BinaryType(),
    quantiles=BinaryType(),
)
"""Summary of one attribute of dropped events."""

CAUSE: Final = _struct(level=IntegerType(), position=IntegerType(), filter=StringType(), count=LongType())

DIGEST: Final = _struct(
    count=LongType(),
    from_us=LongType(),
    to_us=LongType(),
    seq_first=LongType(),
    seq_last=LongType(),
    causes=ArrayType(CAUSE),
    attributes=ArrayType(SUMMARY),
)
"""A digest; causes in order of (level, position, filter), attributes in order of their names."""

EFFECT: Final = _struct(
    level=IntegerType(),
    position=IntegerType(),
    filter=StringType(),
    seen=LongType(),
    dropped=LongType(),
    ratio=DoubleType(),
)
"""Effect of one filter."""

SOUND: Final = "it needs a count from 1, spans of time and of numbers, causes and attributes"
"""The parts of a valid digest, for the error about a damaged one."""
