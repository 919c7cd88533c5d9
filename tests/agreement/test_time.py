"""With `fresh` and `urgent`: node, backtest and `pack_stream` do the same with the same arrivals and drain.

All three use the queue core. What could differ is how each makes its queues and offers to them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.backtest.settings import Candidate, Settings
from penstock.core.queues import Ladder, PackingQueue, QueueOptions, Replay, drain
from penstock.model import Event
from penstock.mqtt.packets.subscribe import Subscription as Options
from penstock.node.broker.policies import Chosen, Queueing
from penstock.node.broker.subscription import Subscription
from penstock.node.config.schema import Queues
from penstock.policy.columns import Plan
from penstock.policy.text.python_form import drop, keep, policy, when
from tests.kit.effort import seeds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.queues import Drain, Pace, Replayed
    from penstock.policy.nodes import Policy, Step

SECOND = 1_000_000


@dataclass(frozen=True)
class Case:
    """A policy, what arrives, and how fast it is drained."""

    policy: Policy
    events: list[Event]
    capacity: int
    drain: Drain


def case(seed: int) -> Case:
    """The case of a seed."""
    dice = Random(seed)
    steps: list[Step] = [
        drop.within(0, dice.randint(1, 90)),
        drop.uniq(),
        drop.delta(dice.randint(1, 9)),
        drop.every(dice.randint(2, 4)),
        drop.older(dice.choice([0.1, 0.5, 2])),
        drop.random(dice.random()),
        keep.latest_by("$topic"),
        keep.latest(dice.randint(1, 9)),
    ]
    urgent: list[Sequence[Step]] = [
        [],
        [when.gt(80)],
        [when.lt(10), when(attribute="$topic").match("1$")],
    ]
    made = policy(
        *dice.sample(steps, dice.randint(1, 4)),
        digest=["mean", "max"] if dice.random() < 0.5 else [],
        fresh=dice.choice([None, 0.05, 0.3, 1, 4]),
        urgent=dice.choice(urgent),
    )
    now_us = 10 * SECOND
    events = []
    for seq in range(dice.randint(1, 90)):
        now_us += dice.choice([0, 1_000, 20_000, dice.randrange(300_000)])
        body = str(dice.randint(0, 99)).encode().ljust(dice.choice([2, 2, 30, 200]))
        events.append(Event(f"t/{dice.randint(0, 3)}", body, now_us, sender="s", seq=seq))
    rate = drain(dice.choice(["100B/s", "400B/s", "2kB/s", "5/s", "30/s"]))
    return Case(made, events, dice.choice([4, 10, 50, 1_000]), rate)


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


@pytest.mark.parametrize("block", seeds(0, 4))
def test_a_trigger_of_a_stream_does_what_a_queue_does(block: int) -> None:
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyspark")
    from penstock.pipeline.compile.events import EVENT  # noqa: PLC0415  # only where Spark is installed
    from penstock.pipeline.stream.key_queue import KeyQueue, QueueRules  # noqa: PLC0415

    for seed in range(100 * block, 100 * (block + 1)):
        one = case(seed)
        rules = QueueRules(
            policy=one.policy,
            capacity=one.capacity,
            key=("topic",),
            order=("ts",),
            events=(),
            hold_us=0,
            fresh_us=None,
        )
        rows = pa.table(
            {
                "topic": ["k"] * len(one.events),
                f"{EVENT}_topic": [event.topic for event in one.events],
                f"{EVENT}_payload": pa.array([event.payload for event in one.events], pa.binary()),
                f"{EVENT}_ts_us": [event.ts_us for event in one.events],
                f"{EVENT}_sender": [event.sender for event in one.events],
                f"{EVENT}_seq": [event.seq for event in one.events],
            }
        )
        now_us = one.events[-1].ts_us
        turn = KeyQueue(rules).turn(rows, now_us=now_us, held=None, ladder=lambda: None)
        whole = replace(one.policy, digest_share=1.0)  # a stream has no link for digests to share
        queue = PackingQueue(whole, QueueOptions(capacity_events=one.capacity), Ladder())
        queue.absorb(one.events, now_us=now_us)
        left = list(queue.items())
        if len(one.events) <= one.capacity:
            left = list(one.events)  # nothing is looked at, and all goes out
        assert turn.out is not None
        found = turn.out[f"{EVENT}_seq"].to_pylist()
        assert found == [item.seq if isinstance(item, Event) else None for item in left], f"case({seed})"
