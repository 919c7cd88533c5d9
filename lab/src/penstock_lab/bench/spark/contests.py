"""The contests of `bench.spark`: a policy each, compiled, as SQL and as a pandas function; and the floor.

All get the same frame and must give the same rows, digests included (`check_same`). The floor only shuffles
the frame by queue and sorts it: nobody who packs can be faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import isclose
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyspark.sql.types as st

from penstock.pipeline import pack
from penstock.policy.text.python_form import drop, keep, policy
from penstock_lab.bench.spark import pandas_rivals, sql_rivals
from penstock_lab.bench.spark.pandas_rivals import QUEUE, events, recorded

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from penstock.policy.nodes import Policy

SUMMARY: Final = ("count", "mean", "min", "max")


@dataclass(frozen=True, slots=True)
class SparkContest:
    """A policy, and the queries and functions written by hand for it."""

    name: str
    policy: Policy
    sql: str
    pandas: Callable[[pd.DataFrame], pd.DataFrame]
    key: str = "patient"
    large: bool = False
    """Whether it is run at the larger sizes, too."""

    def frame(self, spark: SparkSession, number: int) -> DataFrame:
        """Events for it."""
        return (recorded if self.key == "topic" else events)(spark, number)


CONTESTS: Final = (
    SparkContest(
        "stateless: drop within [50, 100]",
        policy(drop.within(50, 100), attribute="pulse", digest=SUMMARY),
        sql_rivals.WITHIN,
        pandas_rivals.packing(pandas_rivals.within, "pulse", ((1, "within"),)),
        large=True,
    ),
    SparkContest(
        "windowed: drop uniq",
        policy(drop.uniq(), attribute="step", digest={"pulse": SUMMARY}),
        sql_rivals.UNIQ,
        pandas_rivals.packing(pandas_rivals.uniq, "pulse", ((1, "uniq"),)),
    ),
    SparkContest(
        "windowed: keep latest 100",
        policy(keep.latest(100), attribute="pulse", digest=SUMMARY),
        sql_rivals.LATEST,
        pandas_rivals.packing(pandas_rivals.latest, "pulse", ((1, "latest"),)),
    ),
    SparkContest(
        "dead band: drop delta 5",
        policy(drop.delta(5), attribute="drift", digest=SUMMARY),
        sql_rivals.BAND,
        pandas_rivals.packing(pandas_rivals.band, "drift", ((1, "delta"),)),
        large=True,
    ),
    SparkContest(
        "chain: delta, within, latest 10",
        policy(
            drop.delta(5),
            drop(attribute="pulse").within(50, 100),
            keep.latest(10),
            attribute="drift",
            digest=SUMMARY,
        ),
        sql_rivals.CHAIN,
        pandas_rivals.packing(pandas_rivals.chain, "drift", ((1, "delta"), (2, "within"), (3, "latest"))),
    ),
    SparkContest(
        "recorded, stateless: drop within [50, 100]",
        policy(drop.within(50, 100), attribute="pulse", digest=SUMMARY),
        sql_rivals.RECORDED_WITHIN,
        pandas_rivals.packing(pandas_rivals.within, "pulse", ((1, "within"),), in_payload=True),
        key="topic",
        large=True,
    ),
    SparkContest(
        "recorded, dead band: drop delta 5",
        policy(drop.delta(5), attribute="drift", digest=SUMMARY),
        sql_rivals.RECORDED_BAND,
        pandas_rivals.packing(pandas_rivals.band, "drift", ((1, "delta"),), in_payload=True),
        key="topic",
    ),
)


def contestants(frame: DataFrame, contest: SparkContest) -> dict[str, Callable[[], DataFrame]]:
    """Return functions that make the packed frame: ours, SQL, pandas; and the floor, which packs nothing."""

    view = f"penstock_bench_{contest.key}_{uuid4().hex}"
    frame.createOrReplaceTempView(view)  # it stays: Spark forgets the rows it holds of a view that is dropped
    query = contest.sql.replace("from events", f"from {view}")

    packed = pack(
        contest.policy,
        key=contest.key,
        order=["ts", "seq"],
        level=contest.policy.highest,
        schema=frame.schema,
    )
    shape = st.StructType(frame.transform(packed).schema.fields)
    return {
        "ours": lambda: frame.transform(packed),
        "sql": lambda: frame.sparkSession.sql(query),
        "pandas": lambda: frame.groupBy(contest.key).applyInPandas(contest.pandas, shape),
        "floor": lambda: frame.repartition(contest.key).sortWithinPartitions(contest.key, "ts", "seq"),
    }


def check_same(spark: SparkSession, contest: SparkContest) -> None:
    """Fail unless all contestants give the same rows: timing different work would mean nothing."""
    frame = contest.frame(spark, 3 * QUEUE)
    found = {
        name: sorted((row.asDict(recursive=True) for row in made().collect()), key=partial(_place, contest))
        for name, made in contestants(frame, contest).items()
        if name != "floor"
    }
    for rival in ("sql", "pandas"):
        ours, theirs = found["ours"], found[rival]
        assert len(ours) == len(theirs), f"{contest.name}, {rival}: {len(theirs)} rows, ours {len(ours)}"
        for a, b in zip(ours, theirs, strict=True):
            assert _rounded(a) == _rounded(b), f"{contest.name}, {rival}: {b} is not {a}"
            assert _totals_agree(a, b), f"{contest.name}, {rival}: {b} is not {a}"


def _place(contest: SparkContest, row: dict[str, Any]) -> tuple[str, int]:
    return row[contest.key], row["place"]


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with sums of fractions rounded, since they depend on the order of addition."""
    if row["digest"] is None:
        return row
    parts = [{**part, "total": None} for part in row["digest"]["attributes"]]
    return {**row, "digest": {**row["digest"], "attributes": parts}}


def _totals_agree(a: dict[str, Any], b: dict[str, Any]) -> bool:
    if a["digest"] is None:
        return True
    pairs = zip(a["digest"]["attributes"], b["digest"]["attributes"], strict=True)
    return all(isclose(x["total"], y["total"], rel_tol=1e-9) for x, y in pairs)
