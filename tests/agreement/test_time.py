"""With `fresh` and `urgent`: node, backtest and `pack_stream` do the same with the same arrivals and drain.

All three use the queue core. What could differ is how each makes its queues and offers to them.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.backtest.settings import Candidate, Settings
from penstock.core.queues import Ladder, PackingQueue, QueueOptions, Replay
from penstock.model import Digest, Event
from penstock.mqtt.packets.subscribe import Subscription as Options
from penstock.node.broker.policies import Chosen, Queueing
from penstock.node.broker.subscription import Subscription
from penstock.node.config.schema import Queues
from penstock.policy.columns import Plan
from tests.agreement.timed_cases import case
from tests.kit.effort import LONG, seeds

if TYPE_CHECKING:
    from penstock.core.queues import Pace, Replayed
    from penstock.model import Item
    from tests.agreement.timed_cases import Case

STREAMED = 250 if LONG else 80
"""Cases of a block on a stream: each is cut into triggers, whose state is encoded and decoded."""


def outcome(found: Replayed) -> tuple[Any, ...]:
    return (list(found.delivered_us), found.digests, found.packs, found.statistics)


def by_backtest(one: Case) -> tuple[Any, ...]:
    """As `penstock backtest` replays a candidate."""
    candidate = Candidate("policy", one.policy)
    settings = Settings(candidates=(candidate,), capacity=one.capacity, drain=one.drain)
    return outcome(_replayed(candidate.queue(candidate.plan(), settings), one))


class NodeQueue:
    """A subscription of a node in the place of a queue."""

    def __init__(self, one: Case) -> None:
        self._subscription = Subscription(
            "client",
            Options("t/#"),
            subscription_id=0,
            chosen=Chosen(Plan(one.policy), "policy"),
            content=None,
            queueing=Queueing(Queues(events=one.capacity)),
        )
        self.pace: Pace | None = None
        self._subscription.begin(self)  # type: ignore[arg-type]  # the pace is the drain's, not a connection's
        self._queue = self._subscription._new_queue()
        self._subscription.queue = self._queue

    def paced(self) -> NodeQueue:
        return self

    def glance(self, now_us: int) -> None:
        pass

    def follow(self, pace: Pace) -> None:
        self.pace = pace
        self._queue.follow(pace)

    def offer(self, item: Event, *, now_us: int) -> None:
        self._subscription.offer(item, now_us=now_us)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


def by_node(one: Case) -> tuple[Any, ...]:
    return outcome(_replayed(NodeQueue(one), one))


def _replayed(queue: Any, one: Case) -> Replayed:
    replay = Replay(queue, one.drain)
    for event in one.events:
        replay.offer(event)
    return replay.finish()


def served(queue: Any, one: Case) -> list[Item]:
    """The items that the drain takes from a queue, in order."""
    replay = Replay(queue, one.drain)
    out = replay.collect()
    replay.offer_all(one.events)
    replay.finish()
    return out


@pytest.mark.slow
@pytest.mark.parametrize("block", seeds(0, 40))
def test_a_node_does_what_a_backtest_says(block: int) -> None:
    """10,000 cases in a long run."""
    in_time = urgent = 0
    for seed in range(250 * block, 250 * (block + 1)):
        one = case(seed)
        expected, found = by_backtest(one), by_node(case(seed))
        assert found == expected, f"case({seed})"
        statistics = found[3]
        assert statistics.conserved, f"case({seed})"
        in_time += statistics.packs_in_time
        urgent += bool(one.policy.urgent)
    assert in_time > 10
    assert urgent > 50


@pytest.mark.slow
@pytest.mark.parametrize("block", seeds(0, 40))
def test_a_stream_with_a_drain_does_what_a_backtest_says(block: int) -> None:
    """10,000 cases in a long run, each cut into triggers somewhere else."""
    pytest.importorskip("pyspark")
    from tests.agreement.triggers import by_stream  # noqa: PLC0415  # only where Spark is installed

    held = packed = 0
    for seed in range(STREAMED * block, STREAMED * (block + 1)):
        one = case(seed)
        candidate = Candidate("policy", one.policy)
        settings = Settings(candidates=(candidate,), capacity=one.capacity, drain=one.drain)
        expected = served(candidate.queue(candidate.plan(), settings), one)
        found = by_stream(one, Random(seed))
        assert found.items == expected, f"case({seed})"
        held += found.held
        packed += any(isinstance(item, Digest) for item in expected)
    assert held > STREAMED // 3
    assert packed > STREAMED // 5


@pytest.mark.parametrize("block", seeds(0, 4))
def test_a_trigger_without_a_drain_does_what_a_queue_does(block: int) -> None:
    pytest.importorskip("pyspark")
    from penstock.pipeline.stream.key_queue import KeyQueue  # noqa: PLC0415  # only where Spark is installed
    from tests.agreement.triggers import rows_of, rules_of, seqs  # noqa: PLC0415

    for seed in range(100 * block, 100 * (block + 1)):
        one = case(seed)
        rules = rules_of(one, drain=None)
        now_us = one.events[-1].ts_us
        turn = KeyQueue(rules).turn(rows_of(one.events), now_us=now_us, held=None, ladder=lambda: None)
        whole = replace(one.policy, digest_share=1.0)  # a stream has no link for digests to share
        queue = PackingQueue(whole, QueueOptions(capacity_events=one.capacity), Ladder())
        queue.absorb(one.events, now_us=now_us)
        left = list(queue.items())
        if len(one.events) <= one.capacity:
            left = list(one.events)  # nothing is looked at, and all goes out
        assert turn.out is not None
        found = seqs(turn.out)
        assert found == [item.seq if isinstance(item, Event) else None for item in left], f"case({seed})"
