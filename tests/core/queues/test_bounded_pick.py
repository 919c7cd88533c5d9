"""Taking events out of their turn: the rest keeps its order, and the account adds up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.queues import BoundedQueue, DropNewestQueue, DropOldestQueue, PackingQueue, QueueOptions
from penstock.model.event import Event
from penstock.node.broker.runs import RunQueue
from penstock.policy.text.python_form import drop, policy

OPTIONS = QueueOptions(capacity_events=12)


def queue_of(kind: str) -> BoundedQueue:
    if kind == "packing":
        return PackingQueue(policy(drop.random(0.3), drop.random(0.6)), OPTIONS)
    if kind == "newest":
        return DropNewestQueue(OPTIONS)
    return RunQueue(OPTIONS) if kind == "runs" else DropOldestQueue(OPTIONS)


@pytest.mark.parametrize("kind", ["packing", "oldest", "newest", "runs"])
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60))
def test_picked_events_are_as_if_they_had_never_come(kind: str, steps: list[tuple[str, bool]]) -> None:
    queue = queue_of(kind)
    picked: list[Event] = []
    for seq, (topic, take) in enumerate(steps):
        queue.offer(Event(topic, b"x", seq, "s", seq), now_us=seq)
        if take:
            others = [item for item in queue.items() if not (isinstance(item, Event) and item.topic == "a")]
            found = queue.pick(lambda one: one.topic == "a")
            assert list(queue.items()) == others
            assert [one.seq for one in found] == sorted(one.seq for one in found)
            picked += found
        statistics = queue.statistics()
        assert statistics.conserved
        assert statistics.accepted == seq + 1 - len(picked)
    assert len({one.seq for one in picked}) == len(picked)
