"""The ladder and the predictive controller, with numbers worked out by hand."""

from __future__ import annotations

from random import Random

import pytest

from penstock.core.queues import Ladder, LadderState, Predictive, Smoothing
from penstock.core.queues.controllers import Controller, PackOutcome, PackRequest
from penstock.model import Cause
from penstock.policy.evaluate import FilterEffect


def choose(ladder: Controller, now_us: int, *, highest: int = 3, level: int | None = None) -> int:
    """A request, and the pack that follows it at the level chosen (or at the one it had to climb to)."""
    chosen = ladder.choose(PackRequest(now_us=now_us, highest=highest, arrived=10, departed=5))
    ladder.packed(PackOutcome(now_us, chosen if level is None else level, 10, ()))
    return chosen


@pytest.mark.parametrize(("smoothing", "expected"), [(Smoothing.LOW_PASS, 2), (Smoothing.PRINTED, 1)])
def test_two_readings_of_the_smoothing(smoothing: Smoothing, expected: int) -> None:
    """t₁ = 100, then 80 is seen: low-pass 0.1·80 + 0.9·100 = 98, as printed 0.9·80 + 0.1·100 = 82."""
    ladder = Ladder(smoothing=smoothing)
    assert ladder.level == 1
    assert choose(ladder, 0) == 1  # nothing to compare with
    assert choose(ladder, 100) == 1  # the first turnaround becomes t₁
    assert choose(ladder, 180) == 2  # 80: δ = −0.2
    assert choose(ladder, 270) == 2  # 90 is within a tenth of either
    assert choose(ladder, 410) == 1  # 140 is longer than either
    # 88 at level 1: (88 − 98)/98 = −0.102, but (88 − 82)/82 = +0.073
    assert choose(ladder, 498) == expected


def test_a_level_used_for_the_first_time_is_measured_against_the_one_before() -> None:
    for observed, expected in ((108, 1), (107, 2), (89, 2), (88, 3)):  # t₁ = 98 after 100 and 80
        ladder = Ladder()
        choose(ladder, 0)
        choose(ladder, 100)
        assert choose(ladder, 180) == 2
        assert choose(ladder, 180 + observed) == expected


def test_one_tenth_either_way_is_no_change() -> None:
    for observed, expected in ((90, 2), (110, 2), (89, 3), (111, 1)):
        ladder = Ladder()
        choose(ladder, 0, level=2)
        assert choose(ladder, 100) == 2
        assert choose(ladder, 100 + observed) == expected


def test_the_ladder_has_two_ends() -> None:
    ladder = Ladder()
    choose(ladder, 0)
    choose(ladder, 100)
    assert choose(ladder, 300) == 1  # longer than usual, but there is no level 0
    ladder = Ladder()
    choose(ladder, 0, highest=1)
    choose(ladder, 100, highest=1)
    assert choose(ladder, 101, highest=1) == 1


def test_no_time_at_all_between_packs() -> None:
    ladder = Ladder()
    assert [choose(ladder, 5, highest=9) for _ in range(5)] == [1] * 5  # 0 against 0: no change
    assert choose(ladder, 1000, highest=9) == 1
    ladder = Ladder()
    choose(ladder, 0)
    choose(ladder, 100)
    assert choose(ladder, 100) == 2


@pytest.mark.parametrize("smoothing", Smoothing)
def test_a_restored_ladder_goes_on_exactly_as_the_first_would(smoothing: Smoothing) -> None:
    dice = Random(5)
    first = Ladder(smoothing=smoothing)
    assert first.state() == LadderState()
    now_us, levels = 0, set()
    for _ in range(300):
        second = Ladder(smoothing=smoothing)
        second.restore(first.state())
        assert second.level == first.level
        now_us += dice.choice([80, 100, 120, 1_000])
        level = dice.choice([None, None, None, 0, 3])
        assert choose(second, now_us, level=level) == choose(first, now_us, level=level)
        assert second.state() == first.state()
        levels.add(first.level)
    assert levels == {1, 2, 3}


def test_a_climb_within_a_request_is_where_the_ladder_stands_then() -> None:
    ladder = Ladder()
    choose(ladder, 0, level=3)
    assert ladder.level == 3
    assert choose(ladder, 100) == 3
    choose(ladder, 200, level=0)  # the worst case is no level: the ladder stays
    assert ladder.level == 3


def test_alpha_and_threshold() -> None:
    ladder = Ladder(alpha=0.5, threshold=0.5)
    choose(ladder, 0, level=2)
    choose(ladder, 100)
    assert choose(ladder, 160) == 2  # −0.4
    # t₂ = 80 now; 39 is −0.51
    assert choose(ladder, 199) == 3


# -- predictive ----------------------------------------------------------------------------------------------


def request(arrived: int, departed: int, highest: int = 3) -> PackRequest:
    return PackRequest(now_us=0, highest=highest, arrived=arrived, departed=departed)


def outcome(level: int, *dropped: int, events: int = 100) -> PackOutcome:
    """Events of the queue that each level up to `level` dropped."""
    left, effects = events, []
    for number, count in enumerate(dropped, start=1):
        effects.append(FilterEffect(Cause(level=number, position=1, filter="f"), seen=left, dropped=count))
        left -= count
    return PackOutcome(0, level, events, tuple(effects))


def test_predictive_chooses_the_lowest_level_that_drops_the_excess() -> None:
    controller = Predictive()
    assert controller.level == 1
    assert controller.choose(request(100, 75)) == 1  # untried levels are tried from below
    controller.packed(outcome(1, 10))
    assert controller.choose(request(100, 75)) == 2  # 10 % is less than the 25 % in excess
    controller.packed(outcome(2, 10, 22))
    assert controller.choose(request(100, 75)) == 2  # 32 % is enough
    assert controller.level == 2


def test_predictive_follows_the_load_and_smooths_it() -> None:
    controller = Predictive()
    controller.choose(request(100, 75))
    controller.packed(outcome(3, 10, 22, 30))
    assert controller.choose(request(100, 75)) == 2
    # Excess 0.25, then 0.9: 0.3 · 0.9 + 0.7 · 0.25 = 0.445, which only level 3 (0.62) takes.
    assert controller.choose(request(100, 10)) == 3
    # Then nothing in excess: 0.3115, 0.218, 0.153, 0.107, 0.075.
    assert [controller.choose(request(100, 100)) for _ in range(5)] == [2, 2, 2, 2, 1]


def test_predictive_takes_the_highest_where_none_is_enough_and_survives_nothing() -> None:
    controller = Predictive()
    controller.choose(request(100, 0))
    controller.packed(outcome(0, 10, 10, 10))
    assert controller.choose(request(100, 0)) == 3
    assert controller.choose(request(0, 0)) == 3
    fresh = Predictive()
    fresh.packed(outcome(0, events=0))
    assert fresh.choose(request(0, 0)) == 1
    assert fresh.choose(request(10, 20, highest=1)) == 1  # more out than in: no excess


def test_predictive_learns_with_a_weight() -> None:
    controller = Predictive()
    controller.packed(outcome(1, 10))
    controller.packed(outcome(1, 50))  # 0.3 · 0.5 + 0.7 · 0.1 = 0.22
    assert controller.choose(request(100, 79)) == 1
    controller = Predictive()
    controller.packed(outcome(1, 10))
    controller.packed(outcome(1, 50))
    assert controller.choose(request(100, 77)) == 2
