"""Constant-rate flows and bursts on one link: what is kept, what is accounted for, and that runs repeat."""

from __future__ import annotations

import pytest

from penstock.core.slots.options import ControlOptions
from penstock.errors import SimulationError
from penstock.policy.text.python_form import drop, policy
from penstock_lab.sim import World
from penstock_lab.sim.constant_rate import VOICE, ConstantRateRun, ConstantRateSetting, run

POLICY = policy(drop.lt(3), drop.lt(6), drop.lt(9), attribute="urgency")


def played(**setting: object) -> ConstantRateRun:
    short = {"seconds": 3, "periods_us": (20_000, 40_000), "capacity": 150} | setting
    return run(World(7, keep_trace=False), ConstantRateSetting(**short), POLICY)  # type: ignore[arg-type]


def late_loss(seen: ConstantRateRun) -> float:
    """Of packets sent after a second and a half, when all flows are known."""
    sent = [one for one in seen.events if one.topic.startswith(VOICE) and 1_500_000 < one.ts_us < 2_800_000]
    came = {(event.sender, event.seq) for _, event in seen.voice}
    return sum((one.sender, one.seq) not in came for one in sent) / len(sent)


@pytest.mark.slow
def test_flows_lose_nothing_on_an_overloaded_link_and_best_effort_is_packed() -> None:
    kept, plain = played(load=3.0), played(load=3.0, reserve=False)
    assert kept.served == 8
    assert late_loss(kept) == 0
    assert late_loss(plain) > 0.3
    assert kept.packs > 0
    for seen in (kept, plain):
        assert seen.accounted
        assert seen.in_order


def test_the_same_seed_is_the_same_run() -> None:
    one, other = played(load=1.5), played(load=1.5)
    assert [(at_us, event.sender, event.seq) for at_us, event in one.voice + one.bursts] == [
        (at_us, event.sender, event.seq) for at_us, event in other.voice + other.bursts
    ]


def test_a_link_whose_slots_are_few_serves_some_and_keeps_order() -> None:
    options = ControlOptions(slot_us=10_000, capacity=4, share=0.5)
    seen = played(load=2.0, options=options)
    assert 0 < seen.served < 8
    assert seen.accounted
    assert seen.in_order


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(SimulationError, match="leaves nothing for best effort"):
        ConstantRateSetting(load=0.1)
    with pytest.raises(SimulationError, match="seconds"):
        ConstantRateSetting(seconds=0)
