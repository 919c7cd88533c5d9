"""Files of channels and their factors, as somebody else may have made them, read on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.errors import InputError
from penstock.pipeline.channels import FACTORS, by_domain, host_of
from penstock.pipeline.recorded import CORRUPT, checked, format_of, load

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.pipeline.channels_prices import Terms


def read_factors(spark: SparkSession, path: str, terms: Terms) -> DataFrame:
    """The channels at a path; columns that the terms do not ask for may be missing."""
    frame = load(spark, path, format_of(path))
    _check(frame, path, terms)
    frame = checked(frame, path)
    twice = frame.groupBy("url").count().where("count > 1").head()
    if twice is not None:
        raise InputError(f"the channel {twice['url']} stands there {twice['count']} times", path=path)
    given = "host" in frame.columns
    absent = {"cost": sf.lit(1.0), "update_interval_us": sf.lit(1), "host": host_of(sf.col("url"))}
    columns: list[Column] = []
    for field in FACTORS.fields[:5]:
        found = sf.col(field.name) if field.name in frame.columns else absent[field.name]
        columns.append(found.alias(field.name))
    factors = frame.select(*columns)
    return factors if given or not terms.has_limits else factors.transform(by_domain)


def _check(frame: DataFrame, path: str, terms: Terms) -> None:
    if frame.columns == [CORRUPT]:
        raise InputError("no line of it is a JSON object", path=path)
    needed = ["url", "subscribers"]
    needed += ["cost"] if terms.by_cost else []
    needed += ["update_interval_us"] if terms.scheme.value.startswith("fair") else []
    kinds = {field.name: field.dataType for field in frame.schema}
    for name in needed:
        if name not in kinds:
            there = ", ".join(kinds) or "none"
            raise InputError(f"there is no column '{name}'; there are: {there}", path=path)
    if not isinstance(kinds["url"], st.StringType):
        raise InputError(f"the column 'url' holds {kinds['url'].simpleString()}, not texts", path=path)
    for name in ("subscribers", "cost", "update_interval_us"):
        kind = kinds.get(name)
        if kind is not None and not isinstance(kind, st.NumericType):
            raise InputError(f"the column '{name}' holds {kind.simpleString()}, not numbers", path=path)
