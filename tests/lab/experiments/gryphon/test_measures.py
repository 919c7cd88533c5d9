"""Gryphon's experiments: their figures are what they say, and the shortened runs hold."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite
from typing import TYPE_CHECKING

import pytest
from tests.kit.progress import silent

from penstock.core.streams.options import StreamOptions
from penstock_lab.experiments.gryphon import e1, e2
from penstock_lab.experiments.gryphon.e1 import window_row
from penstock_lab.experiments.gryphon.e3 import _rows as e3_rows
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
from penstock_lab.sim.streams.gryphon import COMPLEX, KB, AlertSeen, GryphonSetting, Played, Sample, play
from penstock_lab.sim.streams.node import Subscriber

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


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
    row = checked([Played([], [], {}, ["got tick 5 twice", "got tick 6 twice"])])
    assert row.ok is False
    assert row.ours == "no, 2 times: got tick 5 twice"


def test_a_message_that_a_subscriber_never_gets_fails_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Subscriber.take

    def take(self: Subscriber, pubend: str, tick: int, body: bytes) -> None:
        if body[:4] == (30).to_bytes(4) and self.node == "SB2":
            self.position[pubend] = tick + 1  # the stream goes on without it
        else:
            taken(self, pubend, tick, body)

    monkeypatch.setattr(Subscriber, "take", take)
    for drain_s, row in ((60, "each subscriber got"), (0, "what subscribers got")):
        played = play(GryphonSetting(seconds=2, drain_s=drain_s), seed=3)
        found = checked([played], collapsed=not drain_s)
        assert found.what.startswith(row)
        assert found.ok is False
        assert "no, 4 times: SB2/all never got tick" in found.ours


def test_what_is_on_the_way_is_waited_for_and_then_missing() -> None:
    slow = GryphonSetting(seconds=3, bandwidth={"SB1": ((1, 98),)})
    played = play(slow, seed=3)
    assert played.on_the_way > 100
    assert played.undelivered == 0
    assert checked([played]).ok
    assert f"{played.on_the_way:,} were on the way" in checked([played]).note
    stopped = play(GryphonSetting(seconds=3, down={"SB2": (2, 1_000)}, drain_s=5), seed=3)
    assert stopped.on_the_way == pytest.approx(500, abs=20)
    assert stopped.undelivered == pytest.approx(500, abs=20)
    row = checked([stopped])
    assert row.ok is False
    assert "SB2/all never got tick" in row.ours
    collapsed = play(GryphonSetting(seconds=3, down={"SB2": (2, 1_000)}, drain_s=0), seed=3)
    assert checked([collapsed], collapsed=True).ok
    assert (
        f"{collapsed.undelivered:,} wait where streams have stopped"
        in checked([collapsed], collapsed=True).note
    )


def test_e4_fails_if_times_rise_or_hardly_fall_or_somebody_never_recovers_or_it_is_unfair() -> None:
    def found(gain: float, took_s: int | None, *, fair: bool = True) -> RecoveryRun:
        shares = (9, 9, 9, 9) if fair else (9, 1, 9, 1)
        return RecoveryRun(RecoveryPoint(gain, fair=fair, down_s=60, seed=1), took_s, shares, ())

    falling = [found(0.0, 100), found(1.0, 80), found(2.0, 74)]
    first_come = [found(1.0, 50, fair=False)]
    assert [row.ok for row in e4_rows(falling, first_come)] == [True, True, True]
    assert not e4_rows([falling[0], falling[1], found(2.0, 75)], first_come)[0].ok
    assert not e4_rows([found(0.0, None), *falling[1:]], first_come)[0].ok
    assert not e4_rows([found(0.0, 74), falling[1], found(2.0, 100)], first_come)[0].ok
    assert not e4_rows([replace(falling[0], published=(9, 1, 1, 1)), *falling[1:]], first_come)[1].ok


def test_e4_does_not_judge_a_gain_below_zero() -> None:
    def found(gain: float, took_s: int | None) -> RecoveryRun:
        return RecoveryRun(RecoveryPoint(gain, fair=True, down_s=60, seed=1), took_s, (9, 9, 9, 9), ())

    hardly = [found(-0.2, 70), found(0.0, 38), found(2.0, 30)]
    row = e4_rows(hardly, [replace(found(1.0, 50), published=(9, 1, 9, 1))])[0]
    assert row.ours == "38 s at 0 → 30 s at 2"
    assert row.ok is False
    assert "not judged: -0.2: 70 s" in row.note


def recovering(rate: float) -> Played:
    """Return a recovery of SB5 from second 140 on, from 30 s behind, at one smoothed rate."""
    leaves = COMPLEX.leaves
    four = (0.0,) * 4
    samples = [
        Sample(
            second,
            (50, 50, 50, 50),
            dict.fromkeys(leaves, 80),
            dict.fromkeys(leaves, (20,) * 4),
            dict.fromkeys(COMPLEX.parents, 0),
            dict.fromkeys(leaves, four) | {"SB5": (rate,) * 4},
            dict.fromkeys(leaves, four) | {"SB5": (max(30.0 - 0.6 * (second - 140), 0.0),) * 4},
            dict.fromkeys(leaves, 0) | {"SB5": 4 if 140 <= second < 190 else 0},
            dict.fromkeys(leaves, four),
            0,
        )
        for second in range(200)
    ]
    return Played(samples, [], {}, [])


@pytest.mark.parametrize(("rate", "holds"), [(1.37, False), (1.5, True)])
def test_e3_is_judged_by_its_lowest_rate_too(rate: float, holds: bool) -> None:
    rows = {row.what: row for row in e3_rows(recovering(rate), 100, 140)}
    assert rows["recovery rate, mean of the recovery"].ok
    assert rows["recovery rate at every moment"].ok is holds


def test_the_nack_window_of_figure_8_has_a_band() -> None:
    def row(window: float) -> bool | None:
        samples = [
            replace(sample(second, 9.0, 4), nack_window={"SB2": (window,) * 4}) for second in range(20)
        ]
        return window_row(Played(samples, [], {}, []), 2).ok

    assert [row(window) for window in (0.44, 0.46, 1.34, 1.36)] == [False, True, True, False]


def test_without_control_publication_does_not_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that does nothing: rows of E1 fail."""
    monkeypatch.setattr(e1, "FAILS_S", 5)
    monkeypatch.setattr(e1, "QUICK_DOWN_S", 12)
    one = e1.setting(quick=True)
    off = StreamOptions(publisher_control="off", cache_us=5_000_000)
    played = play(replace(one, seconds=25, streams=off, drain_s=0), seed=7)
    found = {row.what: row.ok for row in e1.rows(played, fails=5, back=17)}
    assert found["publication gives way meanwhile"] is False


PHASES = [(20, 60, 60), (60, 100, 150), (100, 140, 60)]


def alerts_of(*seen: tuple[float, float]) -> list[bool | None]:
    """The verdicts of Figure 11 for alerts of (second, doubt horizon rate)."""
    played = Played([], [AlertSeen(second, "p0", rate, inf) for second, rate in seen], {}, [])
    return [row.ok for row in e2.alerts(played, PHASES)]


USUAL = ((1.0, 0.1), (22, 0.5), (50, 0.95), (90, 0.95), (103, 0.6), (130, 0.9))


def test_alerts_of_figure_11_come_with_the_bottleneck() -> None:
    assert alerts_of(*USUAL) == [True, True, True]
    assert alerts_of() == [True, False, False]
    assert alerts_of((7, 0.9), *USUAL) == [False, True, True]
    assert alerts_of((23, 0.1), *USUAL) == [True, False, True]
    assert alerts_of(USUAL[0], *USUAL[2:]) == [True, False, True]
    assert alerts_of(*USUAL[:5]) == [True, True, False]
    assert alerts_of(*USUAL, (55, 0.3), (56, 0.3)) == [True, True, False]


def test_rows_of_e2_fail_where_publication_ignores_alerts() -> None:
    one = e2.setting("off", quick=True)
    played = play(replace(one, seconds=45, drain_s=0), seed=7)
    assert e2.follows(played, [(20, 45, 150)], settled_s=10).ok is False
    _, narrow, stays = e2.alerts(played, [(20, 45, 60)])
    assert narrow.ok
    assert stays.ok is False


@pytest.mark.slow
def test_a_shortened_e1_misses_only_what_its_note_explains(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(e1, "QUICK_WINDOW_DOWN_S", 40)
    outcome = e1.reproduce(seed=7, quick=True, out=tmp_path, progress=silent)
    assert [row.what for row in outcome.rows if row.ok is False] == ["the NACK window at 500 KB/s"]
    near, far = outcome.rows[-3:-1]
    assert "a window is the rate of recovery times a round trip" in near.note
    assert far.ok is None
    assert int(far.ours.split()[0]) > 1.5 * int(near.ours.split()[0]), (
        "a longer round trip has a wider window"
    )
    assert "--quick" in outcome.setting
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in outcome.plots)


@pytest.mark.slow
def test_every_row_of_a_shortened_e2_holds(tmp_path: Path) -> None:
    outcome = e2.reproduce(seed=7, quick=True, out=tmp_path, progress=silent)
    assert [(row.what, row.ours) for row in outcome.rows if not row.ok] == []
    assert "--quick" in outcome.setting
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in outcome.plots)
