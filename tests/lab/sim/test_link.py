"""Links: exact arrival times, readiness, faults seen from outside, and conservation."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SimulationError
from penstock_lab.sim.clock import Clock
from penstock_lab.sim.faults import FaultOptions
from penstock_lab.sim.link import Link, LinkOptions, LinkStatistics


class Ends:
    """A sender that keeps messages until the link is ready, and a receiver that writes down what comes."""

    def __init__(self, options: LinkOptions, faults: FaultOptions | None = None, *, seed: int = 1) -> None:
        self.clock = Clock()
        self.queue: deque[tuple[int, int]] = deque()
        self.arrivals: list[tuple[int, int]] = []
        self.link: Link[int] = Link(
            "a-b",
            options,
            clock=self.clock,
            dice=Random(seed),
            deliver=lambda message, now_us: self.arrivals.append((message, now_us)),
            on_ready=self.pump,
            faults=faults,
        )

    def pump(self, now_us: int) -> None:
        assert now_us == self.clock.now_us
        while self.queue and self.link.ready:
            self.link.send(*self.queue.popleft())

    def offer(self, message: int, size: int) -> None:
        self.queue.append((message, size))
        self.pump(self.clock.now_us)

    def offer_all(self, sizes: list[int]) -> None:
        for message, size in enumerate(sizes):
            self.offer(message, size)

    @property
    def times(self) -> list[int]:
        return [now_us for _, now_us in self.arrivals]

    @property
    def messages(self) -> list[int]:
        return [message for message, _ in self.arrivals]


@pytest.mark.parametrize("window_bytes", [0, 1, 500, 1_000_000])
@pytest.mark.parametrize(("size", "bytes_per_s"), [(250, 6_250), (100, 3), (1, 7), (1_500, 125_000_000)])
def test_messages_arrive_at_the_exact_microsecond(size: int, bytes_per_s: int, window_bytes: int) -> None:
    ends = Ends(LinkOptions(bytes_per_s=bytes_per_s, delay_us=40, window_bytes=window_bytes))
    ends.offer_all([size] * 50)
    ends.clock.run_until_idle()
    assert ends.times == [-(-k * size * 1_000_000 // bytes_per_s) + 40 for k in range(1, 51)]
    assert ends.messages == list(range(50))
    assert ends.link.statistics().busy_us == ends.times[-1] - 40


def test_an_idle_link_starts_anew_with_whole_microseconds() -> None:
    ends = Ends(LinkOptions(bytes_per_s=3))
    ends.offer(0, 1)
    ends.clock.run(1_000_000)
    ends.offer(1, 1)
    ends.clock.run_until_idle()
    assert ends.times == [333_334, 1_333_334]
    assert ends.link.statistics().busy_us == 2 * 333_334


def test_overhead_takes_bandwidth_too() -> None:
    ends = Ends(LinkOptions(bytes_per_s=1_000, overhead_bytes=40))
    ends.offer_all([60, 0])
    ends.clock.run_until_idle()
    assert ends.times == [100_000, 140_000]
    assert ends.link.statistics().bytes == 140


def test_a_rate_that_changes_during_a_transmission_applies_to_the_rest() -> None:
    faults = FaultOptions(bandwidth_schedule=((50_000, 500), (150_000, 2_000)))
    ends = Ends(LinkOptions(bytes_per_s=1_000, delay_us=5), faults)
    ends.offer_all([200, 100])
    ends.clock.run_until_idle()
    # 50 bytes at 1,000/s, 50 at 500/s, 100 at 2,000/s; then 100 at 2,000/s.
    assert ends.times == [200_005, 250_005]


def test_a_link_that_goes_down_holds_its_message_until_it_is_up_again() -> None:
    faults = FaultOptions(bandwidth_schedule=((50_000, 0), (1_050_000, 1_000)))
    ends = Ends(LinkOptions(bytes_per_s=1_000), faults)
    ends.offer_all([100, 100])
    ends.clock.run(500_000)
    assert not ends.link.ready
    assert ends.link.statistics().busy_us == 50_000
    assert ends.link.statistics().in_flight == 1
    ends.clock.run_until_idle()
    assert ends.times == [1_100_000, 1_200_000]
    assert ends.link.statistics().busy_us == 200_000
    assert ends.link.statistics().lost == 0


def test_a_link_that_stays_down_never_becomes_ready() -> None:
    ends = Ends(LinkOptions(bytes_per_s=1_000), FaultOptions(bandwidth_schedule=((0, 0),)))
    ends.offer_all([100, 100])
    ends.clock.run(10_000_000)
    assert ends.arrivals == []
    assert len(ends.queue) == 1
    assert ends.clock.pending == 0


def test_waiting_happens_at_the_owner() -> None:
    ends = Ends(LinkOptions(bytes_per_s=1_000))
    ends.offer_all([100] * 10)
    assert len(ends.queue) == 9
    ends.clock.run(100_000)
    assert len(ends.queue) == 8


def test_the_window_takes_messages_until_it_is_full() -> None:
    ends = Ends(LinkOptions(bytes_per_s=1_000, window_bytes=250))
    ends.offer_all([100] * 10)
    # One in transmission, and three behind it: 200 bytes were still fewer than 250.
    assert len(ends.queue) == 6
    ends.clock.run(100_000)
    assert len(ends.queue) == 5


def test_a_message_far_over_the_window_keeps_the_link_busy_until_it_is_in_transmission() -> None:
    ends = Ends(LinkOptions(bytes_per_s=1_000, window_bytes=10))
    ends.offer_all([5, 5, 1_000, 5])
    assert len(ends.queue) == 1
    ends.clock.run(5_000)
    assert not ends.link.ready
    ends.clock.run(10_000)
    assert len(ends.queue) == 0


def test_sending_while_busy_is_refused() -> None:
    ends = Ends(LinkOptions(bytes_per_s=1_000))
    ends.link.send(1, 10)
    with pytest.raises(SimulationError, match="link 'a-b' is busy"):
        ends.link.send(2, 10)
    assert ends.link.statistics().sent == 1


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(SimulationError, match="a message of -1 bytes"):
        Ends(LinkOptions(bytes_per_s=1_000)).link.send(1, -1)


@pytest.mark.parametrize(
    "options",
    [{"bytes_per_s": 0}, {"bytes_per_s": 6_250.5}, {"bytes_per_s": 1, "delay_us": -1}],
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SimulationError, match=r"link\.(bytes_per_s|delay_us) is .*: give a whole number"):
        LinkOptions(**options)


def test_a_partition_loses_silently_and_the_sender_goes_on() -> None:
    ends = Ends(LinkOptions(bytes_per_s=1_000), FaultOptions(partitions=((250_000, 450_000),)))
    ends.offer_all([100] * 6)
    ends.clock.run_until_idle()
    # The third to the fifth were in transmission within the interval.
    assert ends.messages == [0, 1, 5]
    statistics = ends.link.statistics()
    assert (statistics.lost, statistics.partitioned) == (3, 3)


def test_a_copy_arrives_with_its_original_and_takes_no_bandwidth() -> None:
    ends = Ends(LinkOptions(bytes_per_s=1_000), FaultOptions(duplication=1.0))
    ends.offer_all([100, 100])
    ends.clock.run_until_idle()
    assert ends.arrivals == [(0, 100_000), (0, 100_000), (1, 200_000), (1, 200_000)]
    assert ends.link.statistics().bytes == 200


def test_a_message_held_back_is_overtaken() -> None:
    faults = FaultOptions(reordering=0.1, reordering_delay_us=350_000)
    ends = Ends(LinkOptions(bytes_per_s=1_000), faults)
    ends.offer_all([100] * 2_000)
    ends.clock.run_until_idle()
    assert sorted(ends.messages) == list(range(2_000))
    late = sum(
        message < max(ends.messages[:place], default=-1) for place, message in enumerate(ends.messages)
    )
    assert ends.link.statistics().reordered == late
    assert 150 < late < 250


def test_the_statistics_of_a_quiet_run() -> None:
    ends = Ends(LinkOptions(bytes_per_s=1_000, delay_us=30_000, window_bytes=1))
    ends.offer_all([100] * 4)
    ends.clock.run(210_000)
    assert ends.link.statistics() == LinkStatistics(
        sent=4,
        delivered=1,
        lost=0,
        partitioned=0,
        duplicated=0,
        reordered=0,
        in_flight=3,
        bytes=200,
        busy_us=210_000,
    )


sizes = st.lists(st.integers(0, 2_000), max_size=40)
link_options = st.builds(
    LinkOptions,
    bytes_per_s=st.integers(1, 100_000),
    delay_us=st.integers(0, 1_000_000),
    overhead_bytes=st.integers(0, 60),
    window_bytes=st.integers(0, 5_000),
)
schedules = st.lists(
    st.tuples(st.integers(0, 5_000_000), st.integers(0, 100_000)), max_size=4, unique_by=lambda step: step[0]
).map(lambda steps: tuple(sorted(steps)))
partitions = st.lists(st.integers(0, 5_000_000), max_size=6, unique=True).map(
    lambda moments: tuple(zip(sorted(moments)[::2], sorted(moments)[1::2], strict=False))
)
probabilities = st.floats(0, 1)
fault_options = st.builds(
    FaultOptions,
    loss=probabilities,
    duplication=probabilities,
    reordering=probabilities,
    reordering_delay_us=st.integers(1, 1_000_000),
    jitter_us=st.integers(0, 100_000),
    partitions=partitions,
    bandwidth_schedule=schedules,
)


@given(
    options=link_options,
    faults=fault_options,
    sizes=sizes,
    seed=st.integers(0, 2**32),
    stops=st.lists(st.integers(0, 20_000_000), min_size=1, max_size=5),
)
def test_every_message_is_delivered_lost_or_in_flight_at_any_moment(
    options: LinkOptions, faults: FaultOptions, sizes: list[int], seed: int, stops: list[int]
) -> None:
    ends = Ends(options, faults, seed=seed)
    ends.offer_all(sizes)
    for stop_us in sorted(stops):
        ends.clock.run(stop_us)
        now = ends.link.statistics()
        assert now.delivered + now.lost + now.in_flight == now.sent + now.duplicated
        assert now.sent + len(ends.queue) == len(sizes)
        assert now.delivered == len(ends.arrivals)
        assert now.busy_us <= stop_us
    ends.clock.run_until_idle()
    stays_down = bool(faults.bandwidth_schedule) and faults.bandwidth_schedule[-1][1] == 0
    if not stays_down:
        assert ends.link.statistics().in_flight == 0
        assert ends.link.statistics().sent == len(sizes)


@given(options=link_options, schedule=schedules, jitter_us=st.integers(0, 1_000_000), sizes=sizes)
def test_without_reordering_the_order_is_kept(
    options: LinkOptions, schedule: tuple[tuple[int, int], ...], jitter_us: int, sizes: list[int]
) -> None:
    ends = Ends(options, FaultOptions(jitter_us=jitter_us, bandwidth_schedule=schedule))
    ends.offer_all(sizes)
    ends.clock.run_until_idle()
    assert ends.messages == list(range(len(ends.messages)))
    assert ends.link.statistics().reordered == 0


@given(options=link_options, sizes=sizes)
def test_without_faults_everything_arrives_in_order_at_the_exact_moment(
    options: LinkOptions, sizes: list[int]
) -> None:
    ends = Ends(options)
    ends.offer_all(sizes)
    ends.clock.run_until_idle()
    expected, sent_bytes = list[tuple[int, int]](), 0
    for message, size in enumerate(sizes):
        sent_bytes += size + options.overhead_bytes
        expected.append((message, -(-sent_bytes * 1_000_000 // options.bytes_per_s) + options.delay_us))
    assert ends.arrivals == expected
