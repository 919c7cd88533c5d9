"""The event loop in virtual time: waiting takes none, and a loop that nothing can wake says so."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import SimulationError
from penstock_lab.rigs.moving_cluster.virtual_loop import BEGIN_US, VirtualLoop


def test_time_goes_on_when_everything_waits() -> None:
    async def wait() -> tuple[list[str], int]:
        said: list[str] = []

        async def say(word: str, after_s: float) -> None:
            await asyncio.sleep(after_s)
            said.append(word)

        await asyncio.gather(say("late", 3_600), say("early", 1), say("middle", 60.5))
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return said, loop.now_us()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(wait()) == (["early", "middle", "late"], BEGIN_US + 3_600_000_000)


def test_a_loop_that_nothing_can_wake_says_so() -> None:
    async def stuck() -> None:
        await asyncio.get_running_loop().create_future()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.raises(SimulationError, match="waits"):
        runner.run(stuck())
