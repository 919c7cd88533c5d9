"""Fates of messages: frequencies by a fixed seed, and independence of one fault from another."""

from __future__ import annotations

from math import sqrt
from random import Random

import pytest

from penstock_lab.sim.faults import Fate, FaultOptions, WireOutcome

MESSAGES = 20_000
GAP_US = 100


def outcomes(faults: FaultOptions, *, seed: int = 7, delay_us: int = 1_000) -> list[list[WireOutcome]]:
    fate = Fate(faults, delay_us=delay_us, dice=Random(seed))
    return [fate.draw(start_us=number * GAP_US, end_us=(number + 1) * GAP_US) for number in range(MESSAGES)]


def near(count: int, *, of: int, probability: float) -> bool:
    """Within four standard deviations of the binomial."""
    return abs(count - of * probability) <= 4 * sqrt(of * probability * (1 - probability))


@pytest.mark.slow
@pytest.mark.parametrize("probability", [0.01, 0.1, 0.5])
def test_losses_come_as_often_as_asked(probability: float) -> None:
    lost = sum(fate[0].arrival_us is None for fate in outcomes(FaultOptions(loss=probability)))
    assert near(lost, of=MESSAGES, probability=probability)


@pytest.mark.slow
@pytest.mark.parametrize("probability", [0.01, 0.1, 0.5])
def test_copies_come_as_often_as_asked(probability: float) -> None:
    copies = sum(len(fate) == 2 for fate in outcomes(FaultOptions(duplication=probability)))
    assert near(copies, of=MESSAGES, probability=probability)


@pytest.mark.slow
@pytest.mark.parametrize("probability", [0.01, 0.1, 0.5])
def test_messages_are_held_back_as_often_as_asked(probability: float) -> None:
    faults = FaultOptions(reordering=probability, reordering_delay_us=777)
    delays = [
        (fate[0].arrival_us or 0) - (number + 1) * GAP_US for number, fate in enumerate(outcomes(faults))
    ]
    assert set(delays) == {1_000, 1_777}
    assert near(delays.count(1_777), of=MESSAGES, probability=probability)


@pytest.mark.slow
def test_certain_faults_always_happen() -> None:
    assert all(fate == [WireOutcome(None)] for fate in outcomes(FaultOptions(loss=1.0)))
    assert all(len(fate) == 2 for fate in outcomes(FaultOptions(duplication=1.0)))


@pytest.mark.slow
def test_jitter_fills_its_range_evenly() -> None:
    delays = [
        (fate[0].arrival_us or 0) - (number + 1) * GAP_US
        for number, fate in enumerate(outcomes(FaultOptions(jitter_us=GAP_US - 1)))
    ]
    assert min(delays) == 1_000
    assert max(delays) == 1_000 + GAP_US - 1
    assert abs(sum(delays) / MESSAGES - 1_000 - (GAP_US - 1) / 2) < 1.0


def test_jitter_alone_keeps_the_order() -> None:
    arrivals = [fate[0].arrival_us or 0 for fate in outcomes(FaultOptions(jitter_us=50 * GAP_US))]
    assert arrivals == sorted(arrivals)


@pytest.mark.slow
def test_a_higher_loss_loses_the_same_messages_and_more() -> None:
    few, many = (
        {
            number
            for number, fate in enumerate(outcomes(FaultOptions(loss=loss)))
            if fate[0].arrival_us is None
        }
        for loss in (0.05, 0.1)
    )
    assert few < many


@pytest.mark.slow
def test_one_fault_leaves_the_draws_of_another_alone() -> None:
    alone = outcomes(FaultOptions(jitter_us=GAP_US - 1))
    both = outcomes(FaultOptions(jitter_us=GAP_US - 1, duplication=0.3))
    assert [fate[0] for fate in alone] == [fate[0] for fate in both]


@pytest.mark.parametrize(
    ("start_us", "end_us", "lost"),
    [
        (0, 10, False),  # arrives at 19, one microsecond before the cut
        (0, 11, True),  # arrives with the cut
        (25, 26, True),  # begins and leaves within it
        (0, 100, True),  # the cut comes and goes during the transmission
        (29, 40, True),  # its first microsecond is the cut's last
        (30, 40, False),  # begins when the cut has ended
    ],
)
def test_a_partition_takes_what_is_on_the_wire(start_us: int, end_us: int, lost: bool) -> None:
    fate = Fate(FaultOptions(partitions=((20, 30),)), delay_us=9, dice=Random(0))
    outcome = WireOutcome(None, partition=True) if lost else WireOutcome(end_us + 9)
    assert fate.draw(start_us=start_us, end_us=end_us) == [outcome]
