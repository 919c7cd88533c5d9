"""The Spark benchmark compares equals, and reports in the agreed shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.bench import spark as bench
from penstock.bench.spark_events import QUEUE, events
from penstock.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("contest", bench.CONTESTS, ids=lambda contest: contest.name)
def test_rivals_give_the_same_rows(spark: SparkSession, contest: bench.Contest) -> None:
    bench.check_same(spark, contest)


def test_every_policy_keeps_and_drops_something(spark: SparkSession) -> None:
    frame = events(spark, QUEUE)
    for contest in bench.CONTESTS:
        kinds = {row["kind"] for row in bench.contestants(frame, contest)["ours"]().select("kind").collect()}
        assert kinds == {"event", "digest"}, contest.name


def test_figures_become_rows_with_ratios_in_which_larger_is_better() -> None:
    slow = {"ours": 2.0, "sql": 2.0, "pandas": 20.0}
    taken = {1_000: {contest.name: slow for contest in bench.CONTESTS}, 10_000: {}}
    taken[10_000] = {contest.name: {"ours": 40.0, "sql": 20.0} for contest in bench.CONTESTS}
    sql, pandas, _, more, growth = bench.rows_of(taken, cores=2)[:5]
    assert (sql.ratio, pandas.ratio, more.ratio, growth.ratio) == (1.0, 10.0, 0.5, 0.5)
    assert (sql.ok, pandas.ok, more.ok, growth.ok) == (True, True, False, False)


@pytest.mark.parametrize("text", ["", "many", "1e6,", "1", "1e12", "inf", "-1e6"])
def test_sizes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--events"):
        bench.sizes(text)
    assert bench.sizes("1e4,2000") == (2_000, 10_000)
