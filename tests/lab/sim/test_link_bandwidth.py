"""The end of a transmission under a schedule, against a microsecond-by-microsecond model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock_lab.sim.link import WORK_PER_BYTE, Bandwidth, Finish


def test_a_constant_rate_rounds_up_to_whole_microseconds() -> None:
    assert Bandwidth(3).finish(start_us=10, work=WORK_PER_BYTE) == Finish(10 + 333_334, 2)


def test_what_is_not_yet_sent_goes_on_at_the_new_rate() -> None:
    bandwidth = Bandwidth(1_000, ((500_000, 250),))
    # 500 bytes in the first half second, the other 500 at a quarter of the rate.
    assert bandwidth.finish(start_us=0, work=1_000 * WORK_PER_BYTE) == Finish(2_500_000, 0)


def test_a_transmission_that_ends_with_its_step_does_not_wait_for_the_next() -> None:
    bandwidth = Bandwidth(1_000, ((500_000, 0),))
    assert bandwidth.finish(start_us=0, work=500 * WORK_PER_BYTE) == Finish(500_000, 0)


def test_a_link_that_stays_down_never_ends_a_transmission() -> None:
    bandwidth = Bandwidth(1_000, ((500_000, 0),))
    assert bandwidth.finish(start_us=0, work=500 * WORK_PER_BYTE + 1) is None


def test_work_covered_by_the_spare_ends_at_once() -> None:
    assert Bandwidth(10).finish(start_us=4, work=-3) == Finish(4, 3)


def test_a_step_at_the_beginning_replaces_the_rate() -> None:
    bandwidth = Bandwidth(1_000, ((0, 7), (5, 0)))
    assert [bandwidth.bytes_per_s(now_us) for now_us in (0, 4, 5, 99)] == [7, 7, 0, 0]


steps = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), max_size=6, unique_by=lambda step: step[0])


@given(rate=st.integers(1, 5), steps=steps, start_us=st.integers(0, 50), work=st.integers(-3, 120))
def test_it_agrees_with_counting_every_microsecond(
    rate: int, steps: list[tuple[int, int]], start_us: int, work: int
) -> None:
    bandwidth = Bandwidth(rate, tuple(sorted(steps)))
    now_us, left, up_us = start_us, work, 0
    while left > 0 and now_us < 1_000:
        left -= bandwidth.bytes_per_s(now_us)
        up_us += bandwidth.bytes_per_s(now_us) > 0
        now_us += 1
    expected = Finish(now_us, -left) if left <= 0 else None
    assert bandwidth.finish(start_us=start_us, work=work) == expected
    assert bandwidth.up_us(start_us=start_us, end_us=now_us) == up_us
