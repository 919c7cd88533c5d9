"""The slow-link scenario: arithmetic, replay, and independence of hash seeds."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from random import Random
from typing import Any

import msgspec
import pytest

from penstock.core.queues import DropNewestQueue, PackingQueue, QueueOptions
from penstock.errors import SimulationError
from penstock.policy.text.python_form import drop, keep, policy
from penstock_lab.sim import World
from penstock_lab.sim.pack_queue import Figure8Setting, QueueRun, run
from penstock_lab.sim.traffic import is_alarm, readings

LOTS = policy(drop.random(0.1), drop.random(0.25), drop.random(0.5))
SECOND = 1_000_000


def packed(seed: int, seconds: int = 60) -> QueueRun:
    queue = PackingQueue(LOTS, QueueOptions(capacity_events=50))
    return run(World(seed), queue, Figure8Setting(seconds=seconds))


def test_before_the_queue_fills_each_event_waits_for_those_before_it() -> None:
    queue = DropNewestQueue(QueueOptions(capacity_events=1000))
    seen = run(World(1), queue, Figure8Setting(seconds=10))
    assert [at_us for at_us, _ in seen.arrivals[:50]] == [40_000 * (place + 1) for place in range(50)]
    assert seen.first_overflow_us is None


def test_a_run_is_replayed_by_its_seed() -> None:
    first, second, other = packed(3), packed(3), packed(4)
    assert first.fingerprint == second.fingerprint
    assert first.packs == second.packs
    assert first.fingerprint != other.fingerprint


def test_nothing_is_lost_unaccounted() -> None:
    seen = packed(3)
    assert seen.statistics is not None
    assert seen.statistics.conserved
    assert seen.statistics.accepted == len(seen.published)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["run", "ward"])
def test_hash_seeds_do_not_matter(scenario: str) -> None:
    code = {
        "run": "from tests.lab.sim.test_pack_queue import packed; print(packed(3).fingerprint)",
        "ward": "from penstock_lab.experiments import ward as w; "
        "print(w.reproduce(seed=2, quick=True, out=None, progress=lambda *a: None))",
    }[scenario]
    prints = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert len(prints) == 1
    assert prints != {""}


@pytest.mark.parametrize(
    "wrong", [{"seconds": 0}, {"interval_us": 0}, {"bytes_per_s": 0}, {"event_bytes": 9}]
)
def test_a_setting_without_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SimulationError, match="a slow link needs"):
        Figure8Setting(**wrong)


def test_the_newest_event_of_a_burst_arrives_in_the_end() -> None:
    queue = PackingQueue(policy(keep.latest(1)), QueueOptions(capacity_events=10))
    for seq, event in enumerate(islice(Figure8Setting().events("s"), 500)):
        queue.offer(event, now_us=seq)
    assert queue.take()[-1] == event


def test_a_ward_is_mostly_well_and_in_order_of_time() -> None:
    events = list(islice(readings(Random(1), 60), 60 * 600))
    assert [event.ts_us for event in events] == sorted(event.ts_us for event in events)
    alarms = sum(is_alarm(msgspec.json.decode(event.payload)["pulse"]) for event in events)
    assert 0.03 < alarms / len(events) < 0.2
    assert len({event.topic for event in events}) == 60
