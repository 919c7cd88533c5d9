"""A queue that takes runs does what one that takes events does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.queues import DropOldestQueue, QueueOptions
from penstock.mqtt.codes import V4, V5
from penstock.mqtt.packets.fanout import frame_qos0
from penstock.node.broker.runs import Run, RunQueue

PAYLOAD = b"x" * 10
"""All of one size, so that a run's average is exact but for headers."""


def run_of(count: int, *, seq: int, now_us: int, version: int = V5) -> Run:
    tail = (b"\0" if version == V5 else b"") + PAYLOAD
    return Run(frame_qos0(b"a/b", tail) * count, count, version=version, sender="s", seq=seq, now_us=now_us)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(1, 30)),
        st.tuples(st.just("event"), st.just(1)),
        st.tuples(st.just("take"), st.integers(1, 10)),
        st.tuples(st.just("head"), st.just(1)),
        st.tuples(st.just("take-run"), st.just(1)),
        st.tuples(st.just("take-part"), st.integers(1, 200)),
    ),
    max_size=60,
)


@given(steps, st.integers(3, 25), st.sampled_from([V4, V5]))
def test_runs_and_events_are_dropped_alike(script: list[tuple[str, int]], most: int, version: int) -> None:
    options = QueueOptions(capacity_events=most)
    ours, model = RunQueue(options), DropOldestQueue(options)
    seq = 1
    for now_us, (what, count) in enumerate(script):
        if what == "take":
            assert ours.take(count) == model.take(count)
        elif what in {"take-run", "take-part"}:
            found = ours.take_run(most_bytes=count if what == "take-part" else None)
            if found is not None:
                assert what == "take-run" or found.count <= max(1, count // found.each_bytes)
                assert found.events() == model.take(found.count)
        elif what == "head":
            assert ours.head() == model.head()
        else:
            run = run_of(count, seq=seq, now_us=now_us, version=version)
            seq += count
            if what == "run":
                ours.offer_run(run)
            else:
                ours.offer(run.events()[0], now_us=now_us)
            for event in run.events():
                model.offer(event, now_us=now_us)
        assert ours.statistics().conserved
        assert len(ours) <= most
        assert len(ours) == len(model)
    assert ours.items() == model.items()
    assert ours.statistics() == model.statistics()


def test_bytes_are_bounded_too() -> None:
    queue = RunQueue(QueueOptions(capacity_events=1000, capacity_bytes=500))
    for number in range(20):
        queue.offer_run(run_of(10, seq=10 * number + 1, now_us=number))
        assert queue.statistics().bytes <= 500
        assert queue.statistics().conserved
    last = queue.items()[-1]
    assert getattr(last, "seq", 0) == 200


def test_one_event_larger_than_the_queue_is_still_taken() -> None:
    queue = RunQueue(QueueOptions(capacity_bytes=5))
    queue.offer_run(run_of(1, seq=1, now_us=0))
    assert len(queue.items()) == 1
