"""A short run of the fuzz target; a long one is a command (see `fuzz_codec.py`)."""

from __future__ import annotations

import pytest

from tests.kit.effort import seeds
from tests.mqtt.packets.fuzz_codec import fuzz


def test_damaged_packets_raise_nothing_but_mqtt_errors() -> None:
    assert fuzz(runs=3_000, seed=0) > 1_000, "some of it must be readable, or nothing is tried"


@pytest.mark.slow
def test_many_more_of_them() -> None:
    fuzz(runs=len(seeds(0, 60_000)), seed=1_000_000)
