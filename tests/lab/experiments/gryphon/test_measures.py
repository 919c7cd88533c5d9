"""Gryphon's experiments: their figures are what they say, and the shortened runs hold."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from math import isfinite
from typing import TYPE_CHECKING

import pytest
from tests.kit.progress import silent

from penstock.core.streams.options import StreamOptions
from penstock_lab.experiments.gryphon.e4 import RecoveryPoint, RecoveryRun
from penstock_lab.experiments.gryphon.e4 import _rows as e4_rows
from penstock_lab.experiments.gryphon.measures import (
    MESSAGE_BYTES,
    caught_up,
    checked,
    goodput,
    jain,
    variation,
)
from penstock_lab.sim.streams.gryphon import COMPLEX, KB, GryphonSetting, Played, Sample, play

if TYPE_CHECKING:
    from pathlib import Path

    from penstock_lab.experiments.result import ExperimentResult


@pytest.fixture(scope="module")
def bottleneck() -> Played:
    """Ten seconds; from the fourth on SB1's link carries half of what is published."""
    streams = StreamOptions(publisher_control="steady")
    return play(GryphonSetting(seconds=10, bandwidth={"SB1": ((4, 98),)}, streams=streams), seed=3)


def test_a_run_is_sampled_each_second(bottleneck: Played) -> None:
    assert [sample.second for sample in bottleneck.samples] == list(range(10))
    assert sum(bottleneck.samples[2].published) == pytest.approx(500, abs=5)
    assert bottleneck.samples[2].delivered == {"SB1": 500, "SB2": 500}
    assert bottleneck.problems == []
    assert goodput(bottleneck.between(5, 8), "SB1", 98) == pytest.approx(1, abs=0.02)
    assert bottleneck.samples[4].queues["SB1"] > 20 * KB
    assert max(bottleneck.samples[4].lag["SB1"]) > max(bottleneck.samples[4].lag["SB2"])


def test_alerts_reach_the_pubends_and_publication_gives_way(bottleneck: Played) -> None:
    assert {alert.pubend for alert in bottleneck.alerts} == {"p0", "p1", "p2", "p3"}
    assert all(isfinite(alert.keeping) for alert in bottleneck.alerts)
    assert sum(bottleneck.samples[-1].published) < 300


def test_leaves_of_the_larger_tree_get_two_fifths() -> None:
    played = play(GryphonSetting(seconds=3, tree=COMPLEX), seed=3)
    assert played.samples[-1].delivered == {f"SB{leaf}": pytest.approx(200, abs=5) for leaf in range(1, 6)}
    assert played.problems == []


def test_a_message_has_four_hundred_bytes() -> None:
    assert MESSAGE_BYTES == 400


def test_fairness_and_variation() -> None:
    assert jain([5, 5, 5, 5]) == 1
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([0, 0]) == 1
    assert variation([10, 10]) == 0
    assert variation([5, 15]) == 0.5


def sample(second: int, lag: float, recovering: int) -> Sample:
    four = (0.0,) * 4
    return Sample(
        second,
        (1, 1, 1, 1),
        {"SB2": 4},
        {"SB2": (1, 1, 1, 1)},
        {"IB": 0},
        {"SB2": four},
        {"SB2": (lag, 0.0, 0.0, 0.0)},
        {"SB2": recovering},
        {"SB2": four},
        0,
    )


def test_who_is_behind_or_recovers_has_not_caught_up() -> None:
    samples = [sample(0, 0.0, 0), sample(1, 9.0, 4), sample(2, 0.5, 1), sample(3, 1.5, 0), sample(4, 0.5, 0)]
    assert caught_up(Played(samples, [], {}, []), "SB2", since=1) == 3
    assert caught_up(Played(samples[:4], [], {}, []), "SB2", since=1) is None


def test_a_broken_history_fails_the_row() -> None:
    assert checked([Played([], [], {}, [])]).ok
    row = checked([Played([], [], {}, ["got tick 5 twice"])])
    assert row.ok is False
    assert "twice" in row.ours


def test_e4_fails_if_times_rise_or_somebody_never_recovers_or_it_is_unfair() -> None:
    def found(gain: float, took_s: int | None, *, fair: bool = True) -> RecoveryRun:
        shares = (9, 9, 9, 9) if fair else (9, 1, 9, 1)
        return RecoveryRun(RecoveryPoint(gain, fair=fair, down_s=60, seed=1), took_s, shares, ())

    falling = [found(-0.2, 100), found(1.0, 60), found(2.0, 40)]
    first_come = [found(1.0, 50, fair=False)]
    assert [row.ok for row in e4_rows(falling, first_come)] == [True, True, True]
    assert not e4_rows([found(-0.2, None), *falling[1:]], first_come)[0].ok
    assert not e4_rows([falling[2], falling[1], falling[0]], first_come)[0].ok
    assert not e4_rows([replace(falling[0], published=(9, 1, 1, 1)), *falling[1:]], first_come)[1].ok


@pytest.mark.slow
@pytest.mark.parametrize("name", ["e1", "e2"])
def test_every_row_of_a_shortened_run_holds(name: str, tmp_path: Path) -> None:
    module = import_module(f"penstock_lab.experiments.gryphon.{name}")
    outcome: ExperimentResult = module.reproduce(seed=7, quick=True, out=tmp_path, progress=silent)
    assert [(row.what, row.ours) for row in outcome.rows if not row.ok] == []
    assert "--quick" in outcome.setting
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in outcome.plots)
