"""Replayed queues: arithmetic of the drain, the same run as the simulator's, nothing unaccounted."""

from __future__ import annotations

from fractions import Fraction
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.queues import (
    BoundedQueue,
    DropNewestQueue,
    DropOldestQueue,
    PackingQueue,
    QueueOptions,
    Replay,
    Replayed,
    drain,
)
from penstock.core.queues.replay import LOST
from penstock.errors import QueueError
from penstock.model import Event
from penstock.model.instant import SECOND_US
from penstock.policy.text.python_form import drop, keep, policy
from penstock_lab.sim import World
from penstock_lab.sim.link import LinkOptions
from penstock_lab.sim.pack_queue import Figure8Setting, play

LOTS = policy(drop.random(0.1), drop.random(0.25), drop.random(0.5))
SMALL = QueueOptions(capacity_events=20)


def replayed(queue: BoundedQueue, events: list[Event], rate: str, *, on_wire: bool = True) -> Replayed:
    replay = Replay(queue, drain(rate), digests_on_wire=on_wire)
    for event in events:
        replay.offer(event)
    return replay.finish()


def every(interval_us: int, number: int, size: int = 10) -> list[Event]:
    return [Event("", bytes(size), place * interval_us, seq=place) for place in range(number)]


def test_events_wait_for_those_before_them() -> None:
    found = replayed(DropNewestQueue(), every(100_000, 5), "4/s")
    assert list(found.delivered_us) == [250_000, 500_000, 750_000, 1_000_000, 1_250_000]


def test_an_idle_drain_begins_when_an_event_comes() -> None:
    found = replayed(DropNewestQueue(), every(1_000_000, 3), "4/s")
    assert list(found.delivered_us) == [250_000, 1_250_000, 2_250_000]


def test_a_third_of_a_microsecond_is_not_lost() -> None:
    found = replayed(DropNewestQueue(), every(0, 900), "3/s")
    assert found.delivered_us[2] == 1_000_000
    assert found.delivered_us[899] == 300_000_000


def test_bytes_take_their_time() -> None:
    events = [Event("t", bytes(size), 0) for size in (99, 199, 0)]
    assert list(replayed(DropNewestQueue(), events, "1kB/s").delivered_us) == [100_000, 300_000, 301_000]


def test_time_does_not_go_back() -> None:
    events = [Event("", b"", ts_us) for ts_us in (1_000_000, 0, 2_000_000)]
    found = replayed(DropNewestQueue(), events, "10/s")
    assert list(found.delivered_us) == [1_100_000, 1_200_000, 2_100_000]


def test_drop_newest_keeps_the_first_and_drop_oldest_the_last() -> None:
    events = every(1, 100)
    newest = replayed(DropNewestQueue(SMALL), events, "1/s", on_wire=False)
    assert [place for place, at in enumerate(newest.delivered_us) if at != LOST] == list(range(21))
    oldest = replayed(DropOldestQueue(SMALL), events, "1/s", on_wire=False)
    kept = [place for place, at in enumerate(oldest.delivered_us) if at != LOST]
    assert kept[0] == 0
    assert kept[-1] == 99
    assert kept[1:] == list(range(100 - len(kept) + 1, 100))


def test_digests_take_a_turn_of_their_own_unless_they_are_free() -> None:
    queue = PackingQueue(policy(keep.latest(1)), SMALL)
    told = replayed(queue, every(1, 100), "1/s")
    assert told.digests > 0
    assert told.delivered_us[99] == (1 + told.digests + told.statistics.delivered - 1) * SECOND_US
    free = replayed(PackingQueue(policy(keep.latest(1)), SMALL), every(1, 100), "1/s", on_wire=False)
    assert free.delivered_us[99] == free.statistics.delivered * SECOND_US


@pytest.mark.parametrize("kind", [DropNewestQueue, DropOldestQueue, lambda o: PackingQueue(LOTS, o)])
def test_the_simulated_link_and_the_drain_are_one(kind: type[DropNewestQueue]) -> None:
    setting = Figure8Setting(seconds=60)
    until_us = setting.seconds * SECOND_US
    options = QueueOptions(capacity_events=50)
    seen = play(
        World(1),
        kind(options),
        setting.events("s"),
        LinkOptions(bytes_per_s=setting.bytes_per_s),
        until_us=until_us,
    )
    events = list(takewhile(lambda event: event.ts_us < until_us, setting.events("s")))
    found = replayed(kind(options), events, f"{setting.bytes_per_s}B/s")
    ours = [(at, place) for place, at in enumerate(found.delivered_us) if LOST < at < until_us]
    assert len(ours) > 1000
    assert ours == [(at_us, event.seq) for at_us, event in seen.arrivals if at_us < until_us]
    assert list(found.packs) == [pack for pack in seen.packs if pack.at_us < until_us]


@given(
    st.lists(st.integers(0, 2_000_000), max_size=120),
    st.sampled_from(["1/s", "7/min", "40B/s", "1000/s"]),
    st.sampled_from(
        [DropNewestQueue, DropOldestQueue, lambda o: PackingQueue(LOTS, o), lambda o: PackingQueue(None, o)]
    ),
    st.booleans(),
)
def test_every_event_is_delivered_or_counted_and_order_is_kept(
    gaps: list[int], rate: str, kind: type[DropNewestQueue], on_wire: bool
) -> None:
    ts_us, events = 0, []
    for seq, gap in enumerate(gaps):
        ts_us += gap
        events.append(Event("t", b"x" * (seq % 30), ts_us, seq=seq))
    found = replayed(kind(QueueOptions(capacity_events=5)), events, rate, on_wire=on_wire)
    statistics = found.statistics
    assert statistics.queued == statistics.queued_digested == 0
    assert statistics.accepted == len(events) == statistics.delivered + statistics.digested
    arrived = [at for at in found.delivered_us if at != LOST]
    assert len(arrived) == statistics.delivered
    assert arrived == sorted(arrived)
    for at, published_us in zip(found.delivered_us, found.published_us, strict=True):
        assert at == LOST or at > published_us


def test_all_packs_are_recorded() -> None:
    queue = PackingQueue(policy(keep.latest(1)), QueueOptions(capacity_events=3))
    found = replayed(queue, every(1, 6_000), "1/s")
    assert len(found.packs) == found.statistics.packs > 2 * 1_024


@pytest.mark.parametrize(
    ("text", "per_s", "in_bytes"),
    [
        ("100/s", Fraction(100), False),
        ("30 events/min", Fraction(1, 2), False),
        ("50kbit/s", Fraction(6_250), True),
        ("6250B/s", Fraction(6_250), True),
        (".5MB/s", Fraction(500_000), True),
        ("36kB/h", Fraction(10), True),
    ],
)
def test_a_drain_is_written(text: str, per_s: Fraction, in_bytes: bool) -> None:
    found = drain(text)
    assert (found.per_s, found.in_bytes) == (per_s, in_bytes)


@pytest.mark.parametrize(
    "text", ["", "100", "-1/s", "fast", "10/day", "10 bananas/s", "1e3/s", "∞/s", "5kb/s"]
)
def test_what_is_no_drain_is_refused(text: str) -> None:
    with pytest.raises(QueueError, match="a drain is written like"):
        drain(text)


@pytest.mark.parametrize("text", ["0/s", ".5/h", "9999999MB/s"])
def test_an_absurd_drain_is_refused(text: str) -> None:
    with pytest.raises(QueueError, match="at least one an hour"):
        drain(text)


def test_a_queue_that_never_empties_is_an_error() -> None:
    body = bytes(2**20)
    events = [Event("", body, 2**62, seq=seq) for seq in range(2_000)]
    with pytest.raises(QueueError, match="never empties"):
        replayed(DropNewestQueue(QueueOptions(capacity_bytes=2**40, capacity_events=3_000)), events, "1B/h")
