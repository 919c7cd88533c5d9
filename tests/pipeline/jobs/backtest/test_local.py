"""The engine without Spark: streams that cannot be replayed, and what it leaves to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.core.backtest.settings import BASELINES, Candidate, Settings
from penstock.core.queues import drain
from penstock.errors import InputError
from penstock.pipeline.jobs.backtest import local
from penstock.pipeline.jobs.backtest.rows import java_number
from penstock.pipeline.tables.files import NeedsSpark
from penstock.policy.predicates import predicate
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from pathlib import Path

WARD = parse("attribute: pulse\nmatters: {gt: 90}\nlevels: [drop: {delta: 5}, drop: {within: [50, 100]}]")
CANDIDATES = (Candidate("ward", WARD), *BASELINES)


def rows(number: int) -> list[dict[str, Any]]:
    """A pulse that rises by one from 60 on, in two beds."""
    return [
        {
            "ts": place * 10_000,
            "topic": f"ward/{place % 2}",
            "bed": place % 2,
            "spo2": 97.5,
            "pulse": 60.0 + place,
        }
        for place in range(number)
    ]


def test_figures_by_hand() -> None:
    """Two queues of 30; a link that carries all of it, each event in 10 ms."""
    found = local.backtest(pa.Table.from_pylist(rows(60)), usual(key=("bed",), drain=drain("100/s")))
    assert (found.stream.events, found.stream.queues) == (60, 2)
    assert found.stream.normal["pulse"] == (74 - 1.5 * 30, 104 + 1.5 * 30)
    for account in found.accounts.values():
        assert account.delivered == 60
        assert (account.matters["pulse > 90"].kept.n, account.matters["pulse > 90"].kept.kept) == (29, 29)
        assert account.matters["pulse > 90"].delay.largest == 10_000
        assert account.age.largest == 20_000  # the newest known is the one before, 20 ms ago
        assert account.extremes["pulse"].n == 4  # two of each bed in one window


def test_numbers_are_written_as_java_writes_them() -> None:
    written = {
        1e7: "1.0E7",
        12_345_678.0: "1.2345678E7",
        -1.5e-5: "-1.5E-5",
        1e300: "1.0E300",
        0.00012: "1.2E-4",
    }
    assert {number: java_number(number) for number in written} == written


def usual(**more: Any) -> Settings:
    given: dict[str, Any] = {"candidates": CANDIDATES, "capacity": 20, "drain": drain("6/s")}
    given["measured"] = ("pulse",)
    return Settings(**(given | more))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"key": ("bad",)}, "no column 'bad' to make queues by .did you mean 'bed'"),
        ({"measured": ("puls",)}, "attribute 'puls': there is no such column .did you mean 'pulse'"),
        ({"attributes": {"pulse": "x"}}, "attribute 'pulse': there is no column 'x'"),
        ({"attributes": {"$seq": "spo2"}}, "column 'spo2' is double, expected whole numbers"),
        ({"matters": (predicate("weight > 1"),)}, "attribute 'weight': there is no such column"),
        ({"measured": ("topic.x",)}, "column 'topic' is string, expected something with 'x'"),
    ],
)
def test_what_is_not_there_is_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        local.backtest(pa.Table.from_pylist(rows(60)), usual(**settings))


def test_streams_that_cannot_be_replayed_are_refused() -> None:
    table = pa.Table.from_pylist(rows(60))
    nothing = table.select(["ts", "topic"]).append_column("payload", pa.array([b"{}"] * 60))
    with pytest.raises(InputError, match="attribute 'pulse': none of 60 events has it"):
        local.backtest(nothing, usual())
    words = table.set_column(4, "pulse", pa.array(["71", "ill"] * 30))
    with pytest.raises(
        InputError, match="a number, which the filter 'within' needs; 30 of the values are numb"
    ):
        local.backtest(words, usual())
    with pytest.raises(InputError, match="column 'digest': a stream with digests"):
        local.backtest(table.append_column("digest", pa.array([""] * 60)), usual())
    with pytest.raises(InputError, match="column '__x'"):
        local.backtest(table.append_column("__x", pa.array([""] * 60)), usual())


def test_what_only_spark_can_read_says_so(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(rows(60))
    mapped = table.append_column("m", pa.array([[("a", 1.0)]] * 60, pa.map_(pa.string(), pa.float64())))
    with pytest.raises(NeedsSpark, match=r"attribute 'm\.a' in a column of the kind map"):
        local.backtest(mapped, usual(matters=(predicate("m.a > 1"),)))
    mixed = table.append_column("payload", pa.array([b'{"weight": 1}'] * 60))
    with pytest.raises(NeedsSpark, match="attribute 'weight' beside others is read by Spark only"):
        local.backtest(mixed, usual(matters=(predicate("weight > 1"),)))
    (tmp_path / "day=1").mkdir()
    parquet.write_table(table, tmp_path / "day=1" / "a.parquet")
    with pytest.raises(NeedsSpark, match="folders inside it, as 'day=1'"):
        local.read(str(tmp_path))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"at": 1}], "there is no column 'ts'.*name it with --ts; there are: at"),
        ([{"ts": 1.5}], "column 'ts' is double, expected whole microseconds"),
        ([{"ts": "2026-01-01T00:00:00"}, {"ts": "soon"}], "an event without a time: column 'ts' of .*soon"),
    ],
)
def test_times_that_cannot_be_read_are_refused(tmp_path: Path, rows: list[dict[str, Any]], said: str) -> None:
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=said):
        local.read(str(tmp_path / "a.parquet"))
