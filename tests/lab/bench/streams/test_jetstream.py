"""`penstock bench streams` with little of everything; and whatever comes twice, early or never is noticed."""

from __future__ import annotations

import pytest

from penstock.errors import GoalMissed
from penstock_lab.bench.streams import jetstream
from penstock_lab.bench.streams.publishers import WRITTEN, Audit, NumberCheck, WriterPublisher, payload
from penstock_lab.rigs.worker import Worker, WorkerFailed

pytestmark = pytest.mark.e2e

LITTLE = jetstream.StreamEffort(one_by_one=5, batched=200, rounds=1, paced=50, missed=500, subscribers=5)


def test_the_benchmark_has_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jetstream, "QUICK", LITTLE)
    outcome = jetstream.measure(quick=True, progress=lambda *_: None)
    rows = {row.name: row for row in outcome.rows}
    goals = {name: row.goal for name, row in rows.items() if row.goal is not None}
    batched = [name for name, goal in goals.items() if goal == jetstream.BATCHED]
    assert len(batched) == 4
    assert [name for name, goal in goals.items() if goal == jetstream.CATCH_UP] == [
        "catching up 500 messages while 1,000 msg/s come in, where it is published, times real time",
        "catching up 500 messages while 1,000 msg/s come in, at another node, times real time",
    ]
    assert rows["messages per commit, one by one, MQTT QoS 1"].value == pytest.approx(1.0, abs=0.2)
    assert rows["messages per commit, 1,000 under way, MQTT QoS 1"].value > 1.5
    assert all(row.value > 0 for row in outcome.rows if "memory for each" not in row.name)


def test_an_audit_finds_what_is_missing() -> None:
    with jetstream.node() as ours:
        with Worker("writer", WriterPublisher, ours.streams_port) as writer:
            writer.ask((50, 10))
            writer.answer()
        with Worker("audit", Audit, ours.streams_port) as audit:
            audit.ask((WRITTEN, 50))
            assert audit.answer() == 50
        with Worker("audit", Audit, ours.streams_port) as audit:
            audit.ask((WRITTEN, 51))
            with pytest.raises(GoalMissed, match="50 of 51 messages are in the stream"):
                audit.answer()


def test_order_is_watched() -> None:
    seen = NumberCheck(1)
    seen.take(payload(1))
    with pytest.raises(WorkerFailed, match="message 1 came again: 2 was the next"):
        seen.take(payload(1))
    with pytest.raises(WorkerFailed, match="message 3 came early"):
        seen.take(payload(3))
