"""Flows without an entry in the table: periods from the slots of a mask, lanes from the filters alone."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.slots.control import FlowControl
from penstock.core.slots.lanes import Lane
from penstock.core.slots.options import ControlOptions
from penstock.core.slots.unlisted import regular

NOW = 1_800_000_000_000_000
SLOT = 10_000


def control(*, capacity: int = 100, unlisted: bool = True, **changed: Any) -> FlowControl:
    """A table with room for one flow, which is taken."""
    options = ControlOptions(
        slot_us=SLOT, capacity=capacity, positions=1 << 12, flows=1, unlisted=unlisted, **changed
    )
    flows = FlowControl(options, now_us=NOW)
    flows.tell("first", "t", 50_000, now_us=NOW)
    return flows


def mask_of(slots: list[int]) -> int:
    return sum(1 << slot for slot in set(slots))


@given(st.floats(3, 16), st.floats(0, 5))
def test_a_period_is_known_to_a_slot(period: float, phase: float) -> None:
    slots = [int(phase + number * period) for number in range(int((63 - phase) / period) + 1)]
    found = regular(mask_of(slots))
    if len(slots) >= 4:
        assert found == pytest.approx(period, abs=1)
    else:
        assert found is None


@given(st.integers(3, 8), st.data())
def test_packets_may_be_missing(period: int, data: st.DataObject) -> None:
    slots = list(range(0, 64, period))
    gone = data.draw(st.sets(st.sampled_from(slots[1:-1]), max_size=len(slots) // 4))
    left = [slot for slot in slots if slot not in gone]
    assert regular(mask_of(left)) == pytest.approx(period, abs=0.6)


def test_random_slots_are_seldom_even() -> None:
    dice = Random(4)
    found = sum(regular(mask_of(dice.sample(range(64), 8))) is not None for _ in range(2_000))
    assert found < 20, "less than one in a hundred"
    assert regular(0) is None
    assert regular(0b10101) is None, "three may be chance"


@pytest.mark.parametrize("changed", [{}, {"groups": 8}, {"groups": 4, "spare": False}])
def test_a_flow_that_finds_the_table_full_is_served_by_the_filters(changed: dict[str, Any]) -> None:
    flows = control(**changed)
    lanes = [flows.arrive("a", "t", now_us=NOW + 50_000 * number) for number in range(40)]
    assert lanes[:4] == [Lane.BEST_EFFORT] * 4
    assert set(lanes[5:]) == {Lane.RESERVED}
    assert flows.arrive("a", "t", now_us=NOW + 1_975_000) is Lane.BEST_EFFORT, "outside its slot"
    assert len(flows.table) == 1
    assert flows.unlisted.on_time > 30
    off = control(unlisted=False)
    assert {off.arrive("a", "t", now_us=NOW + 50_000 * number) for number in range(40)} == {Lane.BEST_EFFORT}


def test_what_has_no_period_is_not_served() -> None:
    flows, dice, now_us = control(), Random(2), NOW
    lanes = []
    for _ in range(400):
        now_us += round(dice.expovariate(1) * 50_000)
        lanes.append(flows.arrive("a", "t", now_us=now_us))
    assert lanes.count(Lane.RESERVED) < 8


def test_the_slots_of_links_bound_them_as_they_bound_others() -> None:
    flows = control(capacity=4)
    for number in range(40):
        for name in range(20):
            flows.arrive(f"f{name}", "t", now_us=NOW + 50_000 * number)
    (link,) = flows.links.of("t")
    assert link.fullest([flows.windows[0].reservations.now]) <= 1
    assert 0 < flows.unlisted.on_time < 40 * 20 / 2
    assert flows.unlisted.not_reserved > 0


def test_memory_does_not_grow_with_the_number_of_flows() -> None:
    flows = control(capacity=10_000)
    before = flows.windows[0].history.statistics().memory_bytes
    for name in range(500):
        for number in range(5):
            flows.arrive(f"f{name}", "t", now_us=NOW + 50_000 * number)
    assert len(flows.table) == 1
    assert flows.windows[0].history.statistics().memory_bytes == before


@settings(max_examples=20)
@given(st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_every_shape_of_filter_serves_alike(groups: int, spare: bool) -> None:
    options = ControlOptions(slot_us=SLOT, capacity=20, positions=1 << 14, groups=groups, spare=spare)
    flows = FlowControl(options, now_us=NOW)
    flows.tell("a", "t", 70_000, now_us=NOW)
    lanes = [flows.arrive("a", "t", now_us=NOW + 70_000 * number) for number in range(200)]
    assert set(lanes[1:]) == {Lane.RESERVED}
    assert flows.arrive("a", "t", now_us=NOW + 70_000 * 200 + 30_000) is Lane.LATE
