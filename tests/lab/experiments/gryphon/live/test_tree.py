"""The experiments' tree of four real nodes, for a few seconds: a bottleneck slows publishers."""

from __future__ import annotations

import pytest

from penstock_lab.experiments.gryphon.live.tree import MESSAGE_BYTES, RATE, LiveSetting, play
from penstock_lab.experiments.gryphon.measures import mean_published

pytestmark = pytest.mark.e2e


def test_a_bottleneck_slows_publishers_and_loses_nothing() -> None:
    seconds: list[int] = []
    half = LiveSetting(seconds=12, links={("IB", "SB1"): 0.3 * RATE * MESSAGE_BYTES})
    played = play(half, told=seconds.append)
    assert seconds == list(range(12))
    assert played.problems == []
    assert mean_published(played.samples[-4:]) < 0.8 * RATE
    assert max(sample.queues["SB1"] for sample in played.samples) > 0
    assert sum(sample.delivered["SB2"] for sample in played.samples) > RATE
