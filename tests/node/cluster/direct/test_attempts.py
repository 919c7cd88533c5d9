"""Attempts go on in turn, with pauses that grow, and begin anew after a good connection."""

from __future__ import annotations

import asyncio
import itertools
from random import Random
from typing import TYPE_CHECKING

from penstock import limits
from penstock.node.cluster.direct.attempts import Attempts
from penstock_lab.rigs.moving_cluster.virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def play(story: Callable[[Attempts, list[tuple[str, float]]], Awaitable[None]]) -> list[tuple[str, float]]:
    """What was tried, and when."""
    tried: list[tuple[str, float]] = []

    async def told() -> None:
        loop = asyncio.get_running_loop()

        def note(what: str) -> Callable[[], None]:
            return lambda: tried.append((what, loop.time()))

        attempts = Attempts(Random(1), offer=note("offer"), ask=note("ask"))
        await story(attempts, tried)
        attempts.stop()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(told())
    return tried


def test_both_ways_are_tried_in_turn_with_growing_pauses() -> None:
    async def story(attempts: Attempts, _: list[tuple[str, float]]) -> None:
        attempts.begin()
        await asyncio.sleep(600)

    tried = play(story)
    assert [what for what, _ in tried[:4]] == ["offer", "ask", "offer", "ask"]
    pauses = [later - before for (_, before), (_, later) in itertools.pairwise(tried)]
    assert 1 <= pauses[0] <= limits.CLUSTER_DIRECT_RETRY_LEAST_S
    assert pauses[:4] == sorted(pauses[:4])
    assert max(pauses) <= limits.CLUSTER_DIRECT_RETRY_MOST_S
    assert len(tried) < 25


def test_a_connection_stops_attempts_and_a_good_one_forgets_past_failures() -> None:
    async def story(attempts: Attempts, tried: list[tuple[str, float]]) -> None:
        attempts.begin()
        await asyncio.sleep(600)
        attempts.stop()
        count = len(tried)
        await asyncio.sleep(600)
        assert len(tried) == count
        attempts.again(lasted_s=limits.CLUSTER_DIRECT_LASTING_S)
        await asyncio.sleep(limits.CLUSTER_DIRECT_RETRY_LEAST_S + 0.1)
        assert len(tried) == count + 1
        assert tried[-1][0] == "offer"

    play(story)


def test_a_connection_that_ended_at_once_is_a_failure_too() -> None:
    async def story(attempts: Attempts, tried: list[tuple[str, float]]) -> None:
        attempts.begin()
        for _ in range(8):
            attempts.again(lasted_s=1)
        await asyncio.sleep(limits.CLUSTER_DIRECT_RETRY_LEAST_S * 4)
        assert len(tried) == 1

    play(story)
