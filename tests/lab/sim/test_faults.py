"""Fault options: what is refused, and with which words."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import SimulationError
from penstock_lab.sim.faults import FaultOptions


def test_the_default_has_no_faults() -> None:
    assert not FaultOptions().by_chance


@pytest.mark.parametrize(
    "chance",
    [{"loss": 0.1}, {"duplication": 0.1}, {"jitter_us": 1}, {"reordering": 1, "reordering_delay_us": 1}],
)
def test_some_faults_need_dice(chance: dict[str, Any]) -> None:
    assert FaultOptions(**chance).by_chance


def test_schedules_need_no_dice() -> None:
    assert not FaultOptions(partitions=((0, 5), (5, 9)), bandwidth_schedule=((0, 0), (7, 100))).by_chance


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": 1.5}, "faults.loss is 1.5: a probability lies between 0 and 1"),
        ({"duplication": -0.1}, "faults.duplication is -0.1"),
        ({"loss": float("nan")}, "faults.loss is nan"),
        ({"reordering": 0.1}, "needs a positive reordering_delay_us"),
        ({"jitter_us": -1}, "faults.jitter_us is -1: give a whole number"),
        ({"jitter_us": 0.5}, "faults.jitter_us is 0.5: give a whole number"),
        ({"clock_drift_ppm": 1_000_000}, "faults.clock_drift_ppm is 1000000"),
        ({"partitions": ((5, 5),)}, r"faults.partitions\[0\] is empty: 5 to 5 µs"),
        ({"partitions": ((0, 5), (4, 9))}, r"faults.partitions\[1\] starts at 4 µs, before .* ends at 5 µs"),
        ({"partitions": ((-1, 5),)}, r"faults.partitions\[0\] from_us is -1"),
        (
            {"bandwidth_schedule": ((5, 1), (5, 2))},
            r"faults.bandwidth_schedule\[1\] starts at 5 µs, not after",
        ),
        ({"bandwidth_schedule": ((5, -1),)}, r"faults.bandwidth_schedule\[0\] bytes_per_s is -1"),
    ],
)
def test_bad_values_are_refused_with_their_place(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        FaultOptions(**options)
