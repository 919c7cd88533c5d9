"""Gryphon's experiments between real nodes: what is judged, without the nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock_lab.experiments.gryphon.e1 import rows
from penstock_lab.experiments.gryphon.e2 import follows
from penstock_lab.experiments.gryphon.live import e1, e2
from penstock_lab.experiments.gryphon.live.tree import MESSAGE_BYTES, RATE, problems_of
from penstock_lab.sim.streams.gryphon import Played, Sample

SAMPLE = Sample(
    second=0,
    published=(50, 50, 50, 50),
    delivered={"SB1": 200, "SB2": 200},
    delivered_by_pubend={"SB1": (50,) * 4, "SB2": (50,) * 4},
    queues={"IB": 0, "SB1": 0, "SB2": 0},
    horizon_rate={"SB1": (1.0,) * 4, "SB2": (1.0,) * 4},
    lag={"SB1": (0.1,) * 4, "SB2": (0.1,) * 4},
    recovering={"SB1": 0, "SB2": 0},
    nack_window={"SB1": (0.1,) * 4, "SB2": (0.1,) * 4},
    refused=0,
)


def test_numbers_in_order_are_no_problem() -> None:
    assert problems_of("reader", "p0", [0, 1, 2, 3], 3) == []


@pytest.mark.parametrize(
    ("got", "problem"),
    [
        ([0, 1], "never got 1 acknowledged"),
        ([0, 1, 1, 2], "message 1 of p0 twice"),
        ([0, 2, 1], "message 2 of p0 out of order"),
        ([1, 2, 3], "message 1 of p0 out of order"),
    ],
)
def test_what_is_missing_twice_or_out_of_order_is_told(got: list[int], problem: str) -> None:
    (found,) = problems_of("reader", "p0", got, 3)
    assert problem in found


def test_a_run_in_which_nothing_happens_does_not_hold() -> None:
    samples = [replace(SAMPLE, second=second) for second in range(60)]
    found = {row.what: row.ok for row in rows(Played(samples, [], {}, []), fails=15, back=35)}
    assert found["then it returns"]
    assert not found["publication gives way meanwhile"]
    assert not found["the NACK window grows to an operating point"]


def test_publication_that_ignores_the_bottleneck_does_not_hold() -> None:
    phases = e2.phases(quick=True)
    everything = [replace(SAMPLE, second=second) for second in range(phases[-1][1])]
    assert not follows(Played(everything, [], {}, []), phases, settled_s=10).ok
    fits = {second: fit for since, until, fit in phases for second in range(since, until)}
    follow = [
        replace(SAMPLE, second=second, published=(round(fits.get(second, 200)), 0, 0, 0))
        for second in range(phases[-1][1])
    ]
    assert follows(Played(follow, [], {}, []), phases, settled_s=10).ok


@pytest.mark.parametrize("quick", [False, True])
def test_settings_are_the_papers_scaled_down(quick: bool) -> None:
    one = e1.setting(quick=quick)
    assert one.links["PB", "IB"] / (RATE * MESSAGE_BYTES) == pytest.approx(250 / 195, rel=0.01)
    down, up = one.changes
    assert up.second - down.second > 10
    two = e2.setting(quick=quick)
    rates = [change.settings["bytes_per_s"] for change in two.changes]
    assert rates[1] / rates[0] == pytest.approx(2.5, rel=0.01)
    assert rates[0] == rates[2]
    assert two.seconds <= 180
