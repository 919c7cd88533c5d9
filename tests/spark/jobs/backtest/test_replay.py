"""Backtests on Spark: what the queue cores say when they are run directly, queue by queue."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from penstock.core.backtest.account import Account, account
from penstock.core.backtest.measures import Recorded, normal_range, quartiles
from penstock.core.backtest.settings import BASELINES, Candidate, Controllers, RecordedStream, Settings
from penstock.core.queues import Replay, drain
from penstock.errors import InputError, PolicyError, QueueError
from penstock.model import Event
from penstock.pipeline.jobs.backtest.replay import backtested
from penstock.pipeline.tables.recorded import read
from penstock.policy.text.forms import parse
from tests.kit.backtest import same

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from penstock.core.backtest.settings import Backtest

VITALS = parse("attribute: pulse\nlevels: [drop: {delta: 5}, drop: {within: [50, 100]}, keep: {latest: 3}]")
LOTS = parse("attribute: pulse\nlevels: [drop: {random: 0.3}, drop: {random: 0.6}]")
TYPO = parse("attribute: pulze\nlevels: [drop: {gt: 1}]")
CANDIDATES = (Candidate("vitals", VITALS), Candidate("lots", LOTS), *BASELINES)
Row = tuple[str, int, int, float | None]


def rows(number: int = 3_000, queues: int = 7) -> list[Row]:
    """(bed, ts, seq, pulse), shuffled; queues differ in length."""
    dice = Random(1)
    found: list[Row] = []
    pulse = dict.fromkeys(range(queues), 72.0)
    for seq in range(number):
        bed = min(dice.randrange(queues), dice.randrange(queues))
        pulse[bed] += dice.gauss(0, 3) - (pulse[bed] - 72) / 20
        found.append(
            (f"bed-{bed}", seq * 10_000, seq, None if dice.random() < 0.02 else round(pulse[bed], 1))
        )
    dice.shuffle(found)
    return found


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(rows(), "bed string, ts bigint, seq bigint, pulse double").cache()


def directly(found: list[Row], settings: Settings, candidate: Candidate, *, by_bed: bool) -> Account:
    """The same without Spark."""
    queues: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(found, key=lambda row: row[1]):
        queues[row[0] if by_bed else ""].append(row)
    accounts = []
    middle = quartiles(np.array([np.nan if row[3] is None else row[3] for row in found]))
    assert middle is not None
    stream = RecordedStream(
        len(found), len(queues), 0, (len(found) - 1) * 10_000, {"pulse": normal_range(*middle)}
    )
    for name, own in queues.items():
        replay = Replay(
            candidate.queue(candidate.plan(), settings),
            settings.drain,
            digests_on_wire=candidate.drops is None,
        )
        for _, ts_us, seq, pulse in own:
            payload = {} if pulse is None else {"pulse": pulse}
            replay.offer(Event("", msgspec.json.encode(payload), ts_us, seq=seq))
        accounts.append(
            account(
                replay.finish(),
                Recorded(
                    published_us=np.array([row[1] for row in own]),
                    series=np.array([hash(row[0]) if not by_bed else 0 for row in own]),
                    values={"pulse": np.array([np.nan if row[3] is None else row[3] for row in own])},
                ),
                stream,
                queue=f'{{"bed":"{name}"}}' if by_bed else "",
                window_us=settings.window_us,
            )
        )
    return reduce(Account.merge, accounts)


@pytest.mark.parametrize("controller", Controllers)
def test_queues_by_key_are_those_the_cores_give(frame: DataFrame, controller: Controllers) -> None:
    settings = Settings(
        candidates=CANDIDATES,
        capacity=20,
        drain=drain("6/s"),
        key=("bed",),
        measured=("pulse",),
        controller=controller,
    )
    found = backtested(frame, settings)
    assert (found.stream.queues, found.stream.events) == (7, 3_000)
    assert found.silent == {"drop-newest", "drop-oldest"}
    for candidate in CANDIDATES:
        ours = found.accounts[candidate.name]
        same(ours, directly(rows(), settings, candidate, by_bed=True))
        assert ours.is_conserved
        assert 0 < ours.loss < 1


def test_without_a_key_all_is_one_queue_and_values_are_held_by_series(frame: DataFrame) -> None:
    settings = Settings(
        candidates=CANDIDATES, capacity=50, drain=drain("1kB/s"), series=("bed",), measured=("pulse",)
    )
    found = backtested(frame, settings)
    assert found.stream.queues == 1
    for candidate in CANDIDATES:
        same(found.accounts[candidate.name], directly(rows(), settings, candidate, by_bed=False))


def test_a_fast_drain_loses_nothing_and_knows_everything_later(frame: DataFrame) -> None:
    settings = Settings(
        candidates=CANDIDATES, capacity=100, drain=drain("10000/s"), key=("bed",), measured=("pulse",)
    )
    for found in backtested(frame, settings).accounts.values():
        assert (found.loss, found.packs, found.digests) == (0, 0, 0)
        assert found.latency.largest == 100
        assert found.errors["pulse"].later.rmse == 0
        assert found.errors["pulse"].live.rmse != 0  # an event is on its way when the next value is true


def test_events_without_numbers_are_numbered_as_they_come(frame: DataFrame) -> None:
    def lost(frame: DataFrame) -> float:
        settings = Settings(
            candidates=(Candidate("lots", LOTS),), capacity=20, drain=drain("6/s"), key=("bed",)
        )
        return backtested(frame, settings).accounts["lots"].loss

    assert 0.2 < lost(frame.drop("seq")) < 0.9  # with one number for all, lots would take all or none


def test_json_payloads_and_typed_columns_are_one(frame: DataFrame) -> None:
    def run(frame: DataFrame) -> Backtest:
        settings = Settings(
            candidates=CANDIDATES[:2], capacity=20, drain=drain("6/s"), key=("bed",), measured=("pulse",)
        )
        return backtested(frame, settings)

    text = frame.selectExpr("bed", "ts", "seq", "to_json(struct(pulse)) as payload")
    assert run(text).accounts == run(frame).accounts


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"key": ("bad",)}, "no column 'bad' to make queues by .did you mean 'bed'"),
        ({"measured": ("puls",)}, "attribute 'puls': there is no such column .did you mean 'pulse'"),
        ({"measured": ("bed.x",)}, "column 'bed' is string, expected something with 'x'"),
        ({"attributes": {"$seq": "pulse"}}, "column 'pulse' is double, expected whole numbers"),
        ({"candidates": (Candidate("a", TYPO),)}, "did you mean 'pulse'"),
    ],
)
def test_what_is_not_there_is_named(frame: DataFrame, settings: dict[str, Any], said: str) -> None:
    usual: dict[str, Any] = {"candidates": CANDIDATES, "capacity": 20, "drain": drain("6/s")}
    with pytest.raises(InputError, match=said):
        backtested(frame, Settings(**(usual | settings)))


def test_streams_that_cannot_be_replayed_are_refused(spark: SparkSession, frame: DataFrame) -> None:
    settings = Settings(candidates=CANDIDATES, capacity=20, drain=drain("6/s"), measured=("pulse",))
    with pytest.raises(InputError, match="there is no event to replay"):
        backtested(frame.where("ts < 0"), settings)
    with pytest.raises(InputError, match="attribute 'pulse': none of 3,000 events has it"):
        backtested(frame.selectExpr("ts", "'{}' as payload"), settings)
    with pytest.raises(InputError, match="column '__x'"):
        backtested(frame.selectExpr("ts", "pulse", "1 as __x"), settings)


def test_settings_without_sense_are_refused() -> None:
    with pytest.raises(QueueError, match="capacity_events 2"):
        Settings(candidates=CANDIDATES, capacity=2, drain=drain("1/s"))
    with pytest.raises(InputError, match="duplicate candidate name 'vitals'"):
        Settings(candidates=(*CANDIDATES, CANDIDATES[0]), capacity=20, drain=drain("1/s"))
    text = Candidate("text", parse("payload: text\nlevels: [keep: {latest: 1}]"))
    with pytest.raises(PolicyError, match="read payloads differently: auto, text"):
        _ = Settings(candidates=(*CANDIDATES, text), capacity=20, drain=drain("1/s")).payload


def test_files_are_replayed(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    settings = Settings(
        candidates=CANDIDATES[:1], capacity=20, drain=drain("6/s"), key=("bed",), measured=("pulse",)
    )
    expected = backtested(frame, settings).accounts
    for form in ("parquet", "json", "csv"):
        path = str(tmp_path / f"events.{form}")
        frame.write.format(form).option("header", True).save(path)
        assert backtested(read(spark, path), settings).accounts == expected
