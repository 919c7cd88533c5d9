"""Advice: what is proposed for streams of known kinds, and that its figures are those of the reference."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from math import sqrt
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from pyspark.sql import functions as sf

from penstock.errors import GoalMissed, InputError
from penstock.model import Event
from penstock.pipeline.jobs.advise.advice import Advice, advise
from penstock.pipeline.jobs.advise.levels import bands, rounded, usual
from penstock.pipeline.jobs.advise.measure import measure
from penstock.pipeline.jobs.advise.profile import BLOCK, LEARN, RANKS, AdviceRequest, Profile, split
from penstock.policy import evaluate, filters
from penstock.policy.lint import lint
from penstock.policy.predicates import predicate
from penstock.policy.text.forms import parse, to_yaml

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.policy.nodes import Policy


def no_step(done: int, total: int, what: str) -> None:
    """Nobody watches."""


def walk(events: int = 2_000, beds: int = 3) -> list[tuple[str, int, float]]:
    """A pulse that wanders, one event a second and bed."""
    dice = Random(2)
    pulse = [72.0] * beds
    found = []
    for place in range(events):
        bed = place % beds
        pulse[bed] += dice.gauss(0, 2) - (pulse[bed] - 72) / 30
        found.append((f"bed-{bed}", place // beds * 1_000_000, round(pulse[bed], 1)))
    return found


@pytest.fixture(scope="module")
def vitals(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(walk(), "bed string, ts bigint, pulse double").cache()


def asked(*attributes: str, **more: Any) -> AdviceRequest:
    usual: dict[str, Any] = {"budget": 0.3, "capacity": 100, "key": ("bed",), "columns": {}}
    return AdviceRequest(attributes=attributes, **(usual | more))


def kinds(policy: Policy) -> list[str]:
    return [placed.step.filter.name for placed in policy.steps(policy.highest)]


def sound(found: Advice) -> None:
    """The policy is one that `penstock policy check --strict` passes, and its figures are of one kind."""
    assert parse(to_yaml(found.policy)) == found.policy
    assert lint(found.policy) == []
    assert len(found.reasons) == len(found.expected) == len(found.measured) == found.policy.highest
    for reached in (found.expected, found.measured):
        kept = [one.kept for one in reached]
        assert kept == sorted(kept, reverse=True)
    assert all(account.is_conserved for account in found.replayed.accounts.values())


@pytest.fixture(scope="module")
def advice(vitals: DataFrame) -> Advice:
    return advise(vitals, asked("pulse"), no_step)


def test_a_wandering_number_gets_dead_bands_and_a_normal_range(advice: Advice) -> None:
    sound(advice)
    assert kinds(advice.policy) == ["delta", "delta", "within"]
    assert advice.needed is not None
    assert advice.measured[advice.needed - 1].kept <= 0.3
    for expected, measured in zip(advice.expected, advice.measured, strict=True):
        assert measured.kept == pytest.approx(expected.kept, abs=0.08)
    (level, *_), band = advice.policy.levels, advice.measured[0].errors["pulse"]
    assert isinstance(level[0].filter, filters.Delta)
    assert band.largest < level[0].filter.change  # what a dead band promises


def test_the_rest_is_replayed_so_that_queues_overflow(advice: Advice) -> None:
    accounts = advice.replayed.accounts
    assert list(accounts) == ["advised", "drop-newest", "drop-oldest"]
    assert accounts["advised"].packs > 0
    assert all(account.loss > 0.1 for account in accounts.values())
    ours, theirs = accounts["advised"].latency.mean, accounts["drop-newest"].latency.mean
    assert ours is not None
    assert theirs is not None
    assert ours < theirs


def test_what_is_unusual_matters_and_is_compared_on_what_was_held_out(advice: Advice) -> None:
    assert advice.tried.keys() >= {"levels only", "urgent"}
    predicates = [type(step.filter).__name__ for step in advice.policy.matters]
    assert predicates
    assert set(predicates) <= {"Gt", "Lt"}
    for account in advice.replayed.accounts.values():
        assert len(account.matters) == len(predicates)
    if advice.policy.urgent:
        assert advice.policy.urgent == advice.policy.matters
    assert {*advice.verdict.beaten, *advice.verdict.unbeaten} == {"drop-newest", "drop-oldest"}


def test_what_the_receiver_says_matters_is_kept_and_beats_the_baselines(vitals: DataFrame) -> None:
    found = advise(vitals, asked("pulse", matters=(predicate("pulse > 80"),)), no_step)
    sound(found)
    assert [step.filter for step in found.policy.urgent] == [filters.Gt(value=80)]
    shares = {
        name: account.matters["pulse > 80"].kept.share or 0
        for name, account in found.replayed.accounts.items()
    }
    assert shares["advised"] > max(shares["drop-newest"], shares["drop-oldest"]) + 0.1
    assert found.verdict.good
    assert found.verdict.sentence.startswith("keeps ")
    assert "of the events with pulse > 80 instead of" in found.verdict.sentence


def test_kept_shares_and_errors_are_those_of_the_reference(vitals: DataFrame, advice: Advice) -> None:
    parts = split(vitals, asked("pulse"))
    blocks: dict[tuple[str, int], list[tuple[int, float]]] = defaultdict(list)
    for row in parts.where(~sf.col(LEARN)).collect():
        blocks[row["bed"], row[BLOCK]].append((row["ts"], row["pulse"]))
    levels = replace(advice.policy, urgent=())  # measured before it is known what is urgent
    learned, found = measure(parts, levels, asked("pulse"), ["pulse"])
    assert (learned, found) == (advice.expected, advice.measured)
    for level, reached in enumerate(found, start=1):
        kept = events = items = 0
        apart: list[float] = []
        for rows in blocks.values():
            queue = [Event("", msgspec.json.encode({"pulse": value}), at) for at, value in sorted(rows)]
            packed = evaluate.pack(levels, queue, level=level, now_us=0).items
            stay = {item.ts_us for item in packed if isinstance(item, Event)}
            items += len(packed)
            held = None
            for at, value in sorted(rows):
                held = value if at in stay else held
                apart += [] if held is None else [abs(value - held)]
            kept, events = kept + len(stay), events + len(rows)
        error = reached.errors["pulse"]
        assert reached.kept == pytest.approx(kept / events)
        assert reached.items == pytest.approx(items / events)
        assert error.n == len(apart)
        assert error.largest == pytest.approx(max(apart))
        assert error.rmse == pytest.approx(sqrt(sum(one * one for one in apart) / len(apart)))


def test_the_parts_are_the_beginning_and_the_end_of_every_queue(vitals: DataFrame) -> None:
    rows = split(vitals, asked("pulse")).groupBy("bed", LEARN).agg(sf.count("*"), sf.min("ts"), sf.max("ts"), sf.max(BLOCK)).collect()  # fmt: skip  # noqa: E501
    found = {(row[0], row[1]): row[2:] for row in rows}
    for bed in ("bed-0", "bed-1", "bed-2"):
        (learned, _, learned_to, block), (checked, checked_from, _, _) = found[bed, True], found[bed, False]
        assert learned / (learned + checked) == pytest.approx(0.7, abs=0.01)
        assert learned_to < checked_from
        assert block == (learned - 1) // 100


def test_states_get_repeats_dropped_and_then_the_usual_ones(spark: SparkSession) -> None:
    dice = Random(3)
    state, rows = "ok", []
    for place in range(1_500):
        if dice.random() < 0.4:
            state = dice.choices(["ok", "busy", "late", "broken"], [80, 10, 8, 2])[0]
        rows.append(("bed-1", place * 1_000_000, state))
    frame = spark.createDataFrame(rows, "bed string, ts bigint, state string")
    found = advise(frame, asked("state", budget=0.1), no_step)
    sound(found)
    assert kinds(found.policy)[:2] == ["uniq", "inset"]
    assert found.needed is not None
    assert found.measured[0].errors == {}
    usual = found.policy.levels[1][0].filter
    assert isinstance(usual, filters.Inset)
    assert "ok" in usual.values
    assert "broken" not in usual.values


def test_a_queue_of_many_sources_gets_conflation(spark: SparkSession) -> None:
    rows = [(f"room/{place % 20}", place * 100_000, float(place * 7919 % 100)) for place in range(2_000)]
    frame = spark.createDataFrame(rows, "topic string, ts bigint, v double")
    found = advise(frame, asked("v", key=(), capacity=200), no_step)
    sound(found)
    by = found.policy.levels[0][0].filter
    assert isinstance(by, filters.LatestBy)
    assert by.by == "$topic"
    assert found.needed is not None
    assert found.measured[found.needed - 1].kept <= 0.3


def test_a_budget_that_leaves_nothing_is_said_to_be_missed(spark: SparkSession) -> None:
    frame = spark.range(400).selectExpr("id * 1000 as ts", "concat('text ', id) as v")
    with pytest.raises(GoalMissed, match="nothing to propose"):
        advise(frame, asked("v", key=(), budget=0.005), no_step)


@pytest.mark.parametrize(
    ("attributes", "more", "said"),
    [
        (("pulse",), {"budget": 0.0}, "budget 0; a share between 0 and 1"),
        (("pulse",), {"budget": 1.5}, "budget 1.5; a share between 0 and 1"),
        ((), {}, "no attribute given"),
        (("puls",), {}, "did you mean 'pulse'"),
        (("pulse",), {"key": ("ward",)}, "there is no column 'ward'"),
    ],
)
def test_what_cannot_be_advised_on_is_refused(
    vitals: DataFrame, attributes: tuple[str, ...], more: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        advise(vitals, asked(*attributes, **more), no_step)


def test_bands_are_numbers_people_write_and_stay_within_the_values() -> None:
    profile = Profile(
        "v", True, tuple(10 * rank for rank in RANKS), tuple(3.14159 * rank for rank in RANKS), 0.0, ()
    )
    found = bands(profile)
    assert found == sorted(found)
    assert len(found) <= 10
    assert max(found) <= 7
    assert all(f"{one:g}" == f"{rounded(one):g}" for one in found)
    assert [rounded(one) for one in (0.0, 1234.0, 0.001264, -77.7)] == [0.0, 1200.0, 0.0013, -78.0]


def test_rare_values_are_never_among_the_usual_ones() -> None:
    profile = Profile("v", False, (), (), 0.0, ((True, 0.7), (False, 0.3)))
    choice = usual(profile, 0.1)
    assert choice is not None
    assert choice.step.filter == filters.Inset(values=(True,))
    assert usual(Profile("v", False, (), (), 0.0, (("only", 1.0),)), 0.1) is None
