"""Rows of the overloaded link: they fail where critical readings are lost, old, late or not accounted for."""

from __future__ import annotations

import pytest
from tests.kit.progress import silent

from penstock_lab.bench.node import overload
from penstock_lab.bench.result import BenchmarkRow
from penstock_lab.rigs.brokers import Broker

NAMES = ("mosquitto", "mosquitto, queue of 20")


def a_run() -> overload._Run:
    """A run as it should be: all critical readings at once, the others in time or in digests."""
    run = overload._Run((Broker("b", 0, 0),) * 3, 2, 20, silent)
    run.published, run.alarms = 1_000, 50
    for number, seen in enumerate(run.seen):
        slow = 1.0 if number == 0 else 6.0
        seen.readings, seen.digested, seen.alarms = 700, 300 * (number == 0), 50
        seen.stale_s = [slow * age for age in (0.5, 1.0, 2.0)]
        seen.alarm_delays_s = [0.1 * slow] * 50
        seen.bytes, seen.digest_bytes, seen.memory_bytes = 70_000, 1_000 * (number == 0), 1_000_000
    return run


def failed(run: overload._Run) -> list[str]:
    return [row.name.partition(": ")[2] for row in overload._rows(run, 2, NAMES) if row.ok is False]


def test_every_judged_row_holds_and_tells_where_it_fails() -> None:
    rows = overload._rows(a_run(), 2, NAMES)
    judged = [row for row in rows if row.ok is not None]
    assert len(judged) == 5
    assert all(row.ok for row in judged)
    assert all("fails if" in row.told for row in judged)


def test_a_critical_reading_that_is_dropped_fails_the_row() -> None:
    run = a_run()
    run.seen[0].alarms -= 1
    assert failed(run) == ["critical readings delivered"]


def test_a_reading_that_no_digest_counts_fails_the_row() -> None:
    run = a_run()
    run.seen[0].digested -= 1
    assert failed(run) == ["readings accounted for"]


@pytest.mark.parametrize(
    ("field", "names"),
    [
        (
            "stale_s",
            ["age of a sensor's newest reading, p50", "age of a sensor's newest reading, p99"],
        ),
        ("alarm_delays_s", ["delay of a critical reading, p99"]),
    ],
)
def test_what_is_as_old_or_late_as_without_a_policy_fails_the_rows(field: str, names: list[str]) -> None:
    run = a_run()
    setattr(run.seen[0], field, list(getattr(run.seen[1], field)))
    assert failed(run) == names


def test_nothing_that_arrives_is_no_success() -> None:
    run = a_run()
    run.seen[0].stale_s, run.seen[0].alarm_delays_s = [], []
    assert len(failed(run)) == 3
    assert isinstance(overload._rows(run, 2, NAMES)[0], BenchmarkRow)
