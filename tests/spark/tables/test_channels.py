"""Web channels on Spark: factors as a node learns them, allocations as the solver that sees every channel."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.channels.allocation import Factors, Scheme, allocate
from penstock.core.channels.change_rate import Estimator
from penstock.errors import ChannelError, InputError
from penstock.model.instant import SECOND_US
from penstock.pipeline.jobs.allocation import ALLOCATION, AllocationTerms, allocated, allocation, read_factors
from penstock.pipeline.tables.channels import FACTORS, POLLS, SUBSCRIPTIONS, by_domain, channel_factors, need
from penstock.pipeline.tables.control_tables import publish, versions

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

TAU_US = 1_800 * SECOND_US
DAY_US = 86_400 * SECOND_US


@pytest.fixture(scope="module")
def columns() -> dict[str, Any]:
    """20,000 channels: a few very popular, some without subscribers, on hosts large and small."""
    rng = np.random.default_rng(4)
    rows = 20_000
    return {
        "url": [f"https://x.org/{row}" for row in range(rows)],
        "subscribers": np.minimum(rng.zipf(1.6, rows) - 1, 100_000).astype(np.int32),
        "cost": rng.lognormal(9, 1.5, rows),
        "update_interval_us": rng.lognormal(24, 2, rows).astype(np.int64) + 1,
        "host": [f"host{number}" for number in rng.zipf(1.4, rows) % 3_000],
    }


@pytest.fixture(scope="module")
def table(spark: SparkSession, columns: dict[str, Any]) -> DataFrame:
    return spark.createDataFrame(pa.table(columns)).persist()


CASES: dict[str, dict[str, Any]] = {
    "lite": {},
    "fair-sqrt within a budget": {"scheme": Scheme.FAIR_SQRT, "budget": 40_000.0},
    "fair-log": {"scheme": Scheme.FAIR_LOG},
    "fast": {"scheme": Scheme.FAST, "target_us": 40 * SECOND_US},
    "hosts": {"scheme": Scheme.FAIR, "budget": 60_000.0, "host_limit": 900.0, "host_limits": {"host1": 77.0}},
    "hosts, by cost": {"by_cost": True, "host_limit": 5e6},
    "too little": {"budget": 10.0},
    "more than enough": {"budget": 1e9},
}


@pytest.mark.parametrize("case", CASES)
def test_intervals_are_those_of_the_solver_that_sees_every_channel(
    table: DataFrame, columns: dict[str, Any], case: str
) -> None:
    asked = CASES[case]
    least_us, most_us = 60 * SECOND_US, DAY_US
    terms = AllocationTerms(tau_us=TAU_US, least_us=least_us, most_us=most_us, **asked)
    found = allocated(table, terms)
    numbers = {host: float(asked.get("host_limit", np.inf)) for host in columns["host"]}
    exact = allocate(
        Factors(
            columns["subscribers"],
            columns["cost"] if asked.get("by_cost") else None,
            columns["update_interval_us"],
            columns["host"],
        ),
        tau_us=TAU_US,
        least_us=least_us,
        most_us=most_us,
        scheme=asked.get("scheme", Scheme.LITE),
        budget=asked.get("budget"),
        target_us=asked.get("target_us"),
        host_limits=numbers | asked.get("host_limits", {}) if "host_limit" in asked else None,
    )
    assert found.frame.schema.simpleString() == ALLOCATION.simpleString()
    rows = {row["url"]: row["interval_us"] for row in found.frame.collect()}
    ours = np.array([rows[url] for url in columns["url"]])
    assert ours == pytest.approx(exact.interval_us, rel=1e-3)
    assert found.load == pytest.approx(exact.load, rel=1e-4)
    assert found.mean_delay_us == pytest.approx(exact.mean_delay_us, rel=1e-3)
    assert found.mean_delay_per_update_us == pytest.approx(exact.mean_delay_per_update_us, rel=1e-3)
    assert found.met == exact.met
    assert set(found.host_prices) == set(exact.host_prices)
    assert found.hosts_over == exact.hosts_over
    assert found.interval_us[0] == ours.min()
    assert found.interval_us[-1] == ours.max()
    solved_by_a_task = {
        row["url"]: row["interval_us"] for row in table.transform(allocation(terms)).collect()
    }
    assert solved_by_a_task == rows


def test_no_python_worker_takes_part(table: DataFrame, spark: SparkSession) -> None:
    polls = spark.createDataFrame([], POLLS)
    subscriptions = spark.createDataFrame([], SUBSCRIPTIONS)
    terms = AllocationTerms(tau_us=TAU_US, least_us=1, most_us=DAY_US, host_limit=100.0)
    for frame in (polls.transform(channel_factors(subscriptions)), allocated(table, terms).frame):
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert "Python" not in plan
        assert "Arrow" not in plan


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("subscribers = -1", "subscribers of channel https://x.org/7 is -1: .* at least 0"),
        ("subscribers = null", "subscribers of channel .* is null"),
        ("cost = double('NaN')", "cost of channel https://x.org/7 is NaN: .* above 0"),
        ("update_interval_us = 0", "update_interval_us of channel https://x.org/7 is 0"),
        ("host = null", "host of channel"),
    ],
)
def test_rows_that_cannot_be_are_named(table: DataFrame, change: str, said: str) -> None:
    name, _, value = change.partition(" = ")
    broken = table.withColumn(name, _when_7(value, name))
    with pytest.raises(InputError, match=said):
        allocated(broken, AllocationTerms(tau_us=TAU_US, least_us=1, most_us=DAY_US))


def _when_7(value: str, name: str) -> Any:
    from pyspark.sql import functions as sf  # noqa: PLC0415

    return sf.when(sf.col("url") == "https://x.org/7", sf.expr(value)).otherwise(sf.col(name))


def test_tables_and_terms_that_cannot_be_are_refused(table: DataFrame) -> None:
    good = AllocationTerms(tau_us=TAU_US, least_us=1, most_us=DAY_US)
    with pytest.raises(InputError, match="no column 'cost'; there are: url, subscribers"):
        allocated(table.drop("cost"), good)
    with pytest.raises(InputError, match="no channel"):
        allocated(table.limit(0), good)
    with pytest.raises(ChannelError, match="is for 'fast'"):
        allocated(table, AllocationTerms(tau_us=TAU_US, least_us=1, most_us=DAY_US, target_us=5))
    with pytest.raises(ChannelError, match="in this order"):
        allocated(table, AllocationTerms(tau_us=TAU_US, least_us=9, most_us=8))
    with pytest.raises(ChannelError, match="limit of every host"):
        allocated(table, AllocationTerms(tau_us=TAU_US, least_us=1, most_us=DAY_US, host_limit=0))
    with pytest.raises(InputError, match="the table polls has no column 'ts'"):
        need(table, POLLS, "polls")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "url,readers\nx,1\n", r"a\.csv: there is no column 'subscribers'; there are: url, readers"),
        ("a.csv", "url,subscribers\nx,many\n", r"the column 'subscribers' holds string, not numbers"),
        ("a.csv", "url,subscribers\nx,1\nx,2\n", r"duplicate channel x: 2 times"),
        ("a.jsonl", "what\n", r"no line is a JSON object"),
        ("none.csv", "", r"there is no such file or folder"),
    ],
)
def test_files_that_cannot_be_are_named(
    spark: SparkSession, tmp_path: Path, name: str, text: str, said: str
) -> None:
    if text:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=said):
        read_factors(spark, str(tmp_path / name), AllocationTerms(tau_us=TAU_US, least_us=1, most_us=DAY_US))


def test_a_file_needs_only_what_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "channels.jsonl"
    path.write_text('{"url": "https://a.Example.org/x", "subscribers": 4}\n')
    plain = AllocationTerms(tau_us=TAU_US, least_us=1, most_us=DAY_US)
    assert [row["host"] for row in read_factors(spark, str(path), plain).collect()] == ["a.example.org"]
    limited = AllocationTerms(tau_us=TAU_US, least_us=1, most_us=DAY_US, host_limit=9)
    factors = read_factors(spark, str(path), limited)
    assert [row["host"] for row in factors.collect()] == ["example.org"]
    assert allocated(factors, limited).load == pytest.approx(4)
    with pytest.raises(InputError, match="there is no column 'update_interval_us'"):
        read_factors(spark, str(path), replace(plain, scheme=Scheme.FAIR))


# -- factors -------------------------------------------------------------------------------------------------


def test_factors_are_what_a_node_would_have_learned(spark: SparkSession) -> None:
    rng = np.random.default_rng(6)
    polls, expected = [], {}
    for channel in range(60):
        url = f"https://Host{channel}.Example.com:8080/feed?{channel}"
        learned = Estimator(memory_us=2**62)
        ts, last_us, changes, told = 10**15, None, 0, 0
        for _ in range(int(rng.integers(1, 60))):
            ts += int(rng.lognormal(22, 1.5)) + 1
            failed = bool(rng.random() < 0.1)
            changed = bool(rng.random() < channel / 60)
            polls.append((url, ts, 500 if failed else 200, changed, 10_000, 5, "no answer" if failed else ""))
            if failed:
                continue
            told += 1
            if last_us is not None:
                learned.observe(ts - last_us, changed=changed)
                changes += changed
            last_us = ts
        expected[url] = (learned.update_interval_us if told else None, told, changes)
    subscriptions = [
        (url, "mqtt", ts, change, after)
        for url in expected
        for ts, change, after in ((5, 1, 2), (9, -1, 1), (7, 1, 3))
    ]
    subscriptions.append(("https://never.polled.org/", "xmpp", 1, 1, 4))
    frame = spark.createDataFrame(polls, POLLS).transform(
        channel_factors(spark.createDataFrame(subscriptions, SUBSCRIPTIONS))
    )
    assert frame.schema.simpleString() == FACTORS.simpleString()
    rows = {row["url"]: row for row in frame.collect()}
    assert len(rows) == 61
    for url, (update_us, told, changes) in expected.items():
        row = rows[url]
        assert row["subscribers"] == 1, "the latest counts"
        assert row["host"] == f"host{url[12:].partition('.')[0]}.example.com"
        if told:
            assert (row["polls"], row["changes"], row["cost"]) == (told, changes, 10_000.0)
        if update_us is not None:
            assert row["update_interval_us"] == pytest.approx(update_us, rel=1e-6)
    never = rows["https://never.polled.org/"]
    assert (never["subscribers"], never["polls"], never["update_interval_us"]) == (4, 0, DAY_US)


def test_hosts_of_one_domain_are_one(spark: SparkSession) -> None:
    rows = [("a.blog.example.co.uk", 1), ("b.example.co.uk", 2), ("10.0.0.1", 3), ("", 4)]
    found = spark.createDataFrame(rows, "host string, n int").transform(by_domain())
    assert {row["n"]: row["host"] for row in found.collect()} == {
        1: "example.co.uk",
        2: "example.co.uk",
        3: "10.0.0.1",
        4: "",
    }
    assert found.columns == ["host", "n"]


def test_an_allocation_is_published_as_a_new_version(table: DataFrame, tmp_path: Path) -> None:
    terms = AllocationTerms(tau_us=TAU_US, least_us=60 * SECOND_US, most_us=DAY_US)
    for number in (1, 2):
        version = publish(table.transform(allocation(terms)), tmp_path / "allocation", name="allocation")
        assert (version.version, version.rows) == (number, 20_000)
    assert versions(tmp_path / "allocation") == [1, 2]
