"""The control of flows: the table, reservations, lanes and their order, retries, silence."""

from __future__ import annotations

from collections import deque
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.slots.control import FlowControl
from penstock.core.slots.flows import Flow, FlowState, FlowTable, key_of
from penstock.core.slots.lanes import Decisions, FlowEvent, FlowHappening, Lane, Lanes
from penstock.core.slots.options import ControlOptions
from penstock.core.slots.reservation import FULL_SLOT, Reservations
from penstock.core.slots.retries import Answer, Retries
from penstock.core.slots.shape import Shape
from penstock.errors import SlotError

NOW = 1_800_000_000_000_000
SLOT = 10_000


def options(**changed: Any) -> ControlOptions:
    return ControlOptions(**({"slot_us": SLOT, "capacity": 20, "positions": 1 << 12} | changed))


def control(**changed: Any) -> FlowControl:
    return FlowControl(options(**changed), now_us=NOW)


def reservations(*, slot_us: int, slots: int, capacity: int) -> Reservations:
    shape = Shape(arrays=slots, positions=512, ahead=slots - 2)
    return Reservations(slot_us=slot_us, shape=shape, capacity=capacity, now_us=0)


def steady(flows: FlowControl, name: str, count: int, *, period_us: int, start_us: int = NOW) -> list[Lane]:
    return [flows.arrive(name, "t", now_us=start_us + period_us * number) for number in range(count)]


def happened(flows: FlowControl) -> list[tuple[FlowHappening, str]]:
    return [(event.what, event.flow.client) for event in flows.events()]


# -- the table -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_time", "reserved", "printed", "as_it_is"),
    [
        (True, True, Lane.RESERVED, Lane.RESERVED),
        (False, True, Lane.LATE, Lane.LATE),
        (True, False, Lane.RESERVED, Lane.RESERVED),
        (False, False, Lane.RESERVED, Lane.LATE),
    ],
)
def test_the_last_row_that_applies_counts_as_the_paper_prints_them(
    on_time: bool, reserved: bool, printed: Lane, as_it_is: Lane
) -> None:
    assert Decisions().lane(on_time=on_time, reserved=reserved) is printed
    assert Decisions(not_reserved=None).lane(on_time=on_time, reserved=reserved) is as_it_is


def test_each_row_of_the_table_can_be_set() -> None:
    rows = Decisions(in_slot=Lane.LATE, outside_slot=Lane.BEST_EFFORT, beyond_rate=Lane.BEST_EFFORT)
    flows = control(decisions=rows)
    flows.tell("a", "t", 100_000, now_us=NOW)
    assert set(steady(flows, "a", 20, period_us=100_000)[1:]) == {Lane.LATE}
    assert flows.arrive("a", "t", now_us=NOW + 1_950_000) is Lane.BEST_EFFORT, "outside its slot"
    many = [flows.arrive("a", "t", now_us=NOW + 2_000_000) for _ in range(4)]
    assert many[-1] is Lane.BEST_EFFORT, "beyond its rate"


def test_a_told_flow_is_served_from_its_second_packet_on() -> None:
    flows = control()
    assert flows.tell("a", "t", 50_000, now_us=NOW) == ""
    assert steady(flows, "a", 50, period_us=50_000) == [Lane.BEST_EFFORT] + [Lane.RESERVED] * 49
    assert happened(flows) == [(FlowHappening.ADMITTED, "a")]


def test_a_flow_is_found_out_and_others_are_not() -> None:
    flows = control()
    dice = Random(3)
    lanes = []
    at_us = NOW
    for number in range(200):
        lanes.append(flows.arrive("steady", "t", now_us=NOW + 30_000 * number))
        at_us = max(at_us + 1, NOW + 30_000 * number + dice.randrange(30_000))
        flows.arrive("random", "t", now_us=at_us)
    assert lanes[17:] == [Lane.RESERVED] * 183
    assert {one.client: one.state for one in flows.table.values()} == {
        "steady": FlowState.SERVED,
        "random": FlowState.LEARNING,
    }


def test_a_period_beyond_the_window_of_short_slots_is_served_in_longer_ones() -> None:
    flows = control(longer_us=(160_000, 2_560_000))
    periods = {"a": 100_000, "b": 5_000_000, "c": 90_000_000}
    for name, period_us in periods.items():
        assert flows.tell(name, "t", period_us, now_us=NOW) == ""
    arrivals = sorted((NOW + period * n, name) for name, period in periods.items() for n in range(12))
    lanes: dict[str, list[Lane]] = {name: [] for name in periods}
    for at_us, name in arrivals:
        flows.on_timer(now_us=at_us - 1)
        lanes[name].append(flows.arrive(name, "t", now_us=at_us))
    assert all(found[1:] == [Lane.RESERVED] * 11 for found in lanes.values())
    assert [flow.length for flow in flows.table.values()] == [0, 1, 2]
    (link,) = flows.links.of("t")
    assert link.load == pytest.approx(SLOT / 90_000_000), "the others are silent by now"
    beyond = flows.tell("d", "t", 160_000_000, now_us=NOW + 10**9)
    assert beyond.startswith("period beyond the window: 2.67 min, and slots can be reserved 2.65 min ahead")


def test_a_slow_flow_that_nobody_told_is_found_out_in_longer_slots() -> None:
    flows = control(longer_us=(160_000, 2_560_000))
    lanes = [flows.arrive("a", "t", now_us=NOW + 10_000_000 * n) for n in range(40)]
    assert lanes[-1] is Lane.RESERVED
    (flow,) = flows.table.values()
    assert (flow.length, round(flow.statistics().period_us, -3)) == (2, 10_000_000)
    dice, now_us = Random(3), NOW + 10**9
    for _ in range(100):
        now_us += round(dice.expovariate(1) * 10_000_000)
        flows.arrive("b", "t", now_us=now_us)
    assert [flow.client for flow in flows.table.values() if flow.state is FlowState.SERVED] != ["b"]


def test_a_lost_packet_leaves_the_next_one_on_time() -> None:
    flows = control()
    flows.tell("a", "t", 50_000, now_us=NOW)
    steady(flows, "a", 20, period_us=50_000)
    after = [flows.arrive("a", "t", now_us=NOW + 50_000 * number) for number in (20, 22, 23, 25)]
    assert after == [Lane.RESERVED] * 4
    (flow,) = flows.table.values()
    assert flow.missed == 2


def test_a_packet_outside_its_slot_is_late_and_the_grid_stays() -> None:
    flows = control()
    flows.tell("a", "t", 100_000, now_us=NOW)
    steady(flows, "a", 20, period_us=100_000)
    assert flows.arrive("a", "t", now_us=NOW + 2_050_000) is Lane.LATE
    assert flows.arrive("a", "t", now_us=NOW + 2_100_000) is Lane.RESERVED


def fullest(flows: FlowControl) -> float:
    (link,) = flows.links.of("t")
    return link.fullest([window.reservations.now for window in flows.windows])


def fill_slots(flows: FlowControl, about: int) -> None:
    """Take what is left of the slots about one of them."""
    (link,) = flows.links.of("t")
    for slot in range(about - 2, about + 3):
        if link.ledger(0).has_room(range(slot, slot + 1)):
            link.ledger(0).take(range(slot, slot + 1), now=0)


def test_a_flow_whose_next_slot_is_full_leaves_and_this_packet_goes_ahead() -> None:
    flows = control(capacity=2, share=0.5)
    flows.tell("a", "t", 50_000, now_us=NOW)
    steady(flows, "a", 10, period_us=50_000)
    flows.events()
    fill_slots(flows, (NOW + 50_000 * 12) // SLOT)
    assert flows.arrive("a", "t", now_us=NOW + 50_000 * 10) is Lane.RESERVED
    (event,) = flows.events()
    assert (event.what, event.reason, event.retry_us) == (FlowHappening.LEFT, FULL_SLOT, 1_000_000)
    assert flows.arrive("a", "t", now_us=NOW + 50_000 * 11) is Lane.BEST_EFFORT
    assert flows.refused == {"slot full": 1}


def test_where_the_table_says_so_a_flow_without_a_next_slot_stays() -> None:
    flows = control(capacity=2, share=0.5, decisions=Decisions(not_reserved=None, leaves=False))
    flows.tell("a", "t", 50_000, now_us=NOW)
    steady(flows, "a", 10, period_us=50_000)
    flows.events()
    fill_slots(flows, (NOW + 50_000 * 12) // SLOT)
    assert flows.arrive("a", "t", now_us=NOW + 50_000 * 10) is Lane.RESERVED
    assert flows.served == 1
    assert flows.events() == []
    lanes = [flows.arrive("a", "t", now_us=NOW + 50_000 * number) for number in range(11, 30)]
    assert Lane.LATE in lanes[:3], "for one packet there was no slot"
    assert set(lanes[3:]) == {Lane.RESERVED}


def test_served_flows_never_reserve_more_than_a_slot_has() -> None:
    flows = control(capacity=6, share=0.5)
    dice = Random(8)
    periods = {f"f{number}": dice.randrange(20_000, 200_000) for number in range(30)}
    for name, period_us in periods.items():
        flows.tell(name, "t", period_us, now_us=NOW)
    packets = sorted(
        (NOW + dice.randrange(period) + period * n, name)
        for name, period in periods.items()
        for n in range(30)
    )
    for at_us, name in packets:
        flows.arrive(name, "t", now_us=at_us)
        (link,) = flows.links.of("t")
        assert link.ledger(0).fullest(now=at_us // SLOT) <= 3
        assert link.load <= link.most_load
    assert 0 < flows.served < 30
    assert sum(flows.refused.values()) > 0


def test_a_liar_is_late_and_then_not_served() -> None:
    flows = control()
    flows.tell("a", "t", 100_000, now_us=NOW)
    steady(flows, "a", 5, period_us=100_000)
    lanes = [flows.arrive("a", "t", now_us=NOW + 500_000 + 10_000 * number) for number in range(40)]
    assert lanes.count(Lane.RESERVED) <= 6
    assert flows.refused == {"sends more than it declared": 1}
    assert flows.served == 0
    assert fullest(flows) == 0
    assert flows.tell("a", "t", 100_000, now_us=NOW + 900_000) == "sends more than it declared"
    assert flows.tell("a", "t", 100_000, now_us=NOW + 9_000_000) == "", "it gets another chance"


def test_a_flow_that_changes_its_rhythm_leaves_and_is_found_out_anew() -> None:
    flows = control()
    steady(flows, "a", 100, period_us=50_000)
    assert flows.served == 1
    start = NOW + 100 * 50_000
    for number in range(400):
        flows.arrive("a", "t", now_us=start + 83_000 * number)
    (flow,) = flows.table.values()
    assert flow.state is FlowState.SERVED
    assert flow.grid is not None
    assert flow.grid.period_us == pytest.approx(83_000, rel=0.01)
    assert flows.refused == {"comes outside its slots": 1}


def test_a_silent_flow_is_told_once_and_is_served_again_when_it_returns() -> None:
    flows = control(silent_after=3)
    flows.tell("a", "t", 50_000, now_us=NOW)
    steady(flows, "a", 10, period_us=50_000)
    flows.events()
    last = NOW + 450_000
    due = flows.timer()
    assert due is not None
    flows.on_timer(now_us=last + 100_000)
    assert flows.events() == []
    flows.on_timer(now_us=last + 200_000)
    flows.on_timer(now_us=last + 900_000)
    assert happened(flows) == [(FlowHappening.SILENT, "a")]
    assert flows.served == 0
    assert fullest(flows) == 0
    assert flows.tell("a", "t", 50_000, now_us=last + 4_000_000) == "", "telling it again is no offence"
    back = last + 5_000_000
    lanes = [flows.arrive("a", "t", now_us=back + 50_000 * number) for number in range(5)]
    assert happened(flows) == [(FlowHappening.BACK, "a"), (FlowHappening.ADMITTED, "a")]
    assert lanes == [Lane.BEST_EFFORT] + [Lane.RESERVED] * 4


def test_a_table_is_bounded_and_forgets_what_is_idle() -> None:
    table = FlowTable(most=3, idle_us=1_000)
    for number in range(5):
        table.add(number, "c", str(number), now_us=NOW)
    assert (len(table), table.turned_away) == (3, 2)
    assert table.add(9, "c", "9", now_us=NOW + 1_001) is not None
    assert (len(table), table.forgotten) == (1, 3)


def test_what_comes_once_takes_no_place_in_the_table() -> None:
    flows = control()
    for number in range(500):
        flows.arrive("c", f"once/{number}", now_us=NOW + 1_000 * number)
    assert len(flows.table) <= 2


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"slot_us": 0}, "slot_us 0; allowed: whole numbers from 1 to"),
        ({"slot_us": 1.5}, "slot_us 1.5"),
        ({"request_share": 0}, "request_share 0"),
        ({"slots": 3}, "slots 3"),
        ({"longer_us": (15_000,)}, "longer_us 15,000; allowed: 20,000, twice the length before it"),
        ({"longer_us": (40_000, 80_000, 160_000, 320_000)}, "longer_us has 4 lengths; allowed: up to 3"),
        ({"groups": 5}, "groups 5; allowed: 1, 2, 4, 8, 16, 32, 64, the divisors of 64 slots"),
        ({"groups": 64, "spare": False}, "groups 64 without a spare"),
        ({"hashes": 17}, "hashes 17; allowed: whole numbers from 1 to 16"),
        ({"slots": 65}, "slots 65; allowed: whole numbers from 4 to 64"),
        ({"capacity": 0}, "capacity 0"),
        ({"share": 0}, "share 0"),
        ({"share": 1.5}, "share 1.5"),
        ({"sigmas": 0}, "sigmas 0"),
        ({"capacity": 1, "share": 0.5}, "is less than one packet"),
        ({"flows": 0}, "flows 0"),
        ({"silent_after": 0}, "silent_after 0"),
    ],
)
def test_parameters_that_cannot_be_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(SlotError, match=said):
        options(**changed)


@pytest.mark.parametrize(
    ("period_us", "jitter_us", "said"),
    [
        (0, 0, "bad period"),
        (SLOT - 1, 0, "period too short"),
        (62 * SLOT + 1, 0, "period beyond the window"),
        (20 * SLOT, 10 * SLOT, "too much jitter"),
    ],
)
def test_periods_that_cannot_be_served_are_refused(period_us: int, jitter_us: int, said: str) -> None:
    flows = control()
    assert flows.tell("a", "t", period_us, jitter_us=jitter_us, now_us=NOW).startswith(said)
    assert flows.refused == {said: 1}
    assert [one.reason.startswith(said) for one in flows.table.values()] == [True] * (period_us > 0)
    if period_us > 0:
        steady(flows, "a", 50, period_us=100_000)
        assert (flows.served, flows.refused) == (0, {said: 1}), "it is not tried again by itself"
        assert happened(flows) == [(FlowHappening.REFUSED, "a")]


# -- reservations --------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 70), st.integers(1, 5), st.booleans()), max_size=60)
)
def test_reservations_count_like_a_naive_ledger(steps: list[tuple[int, int, int, bool]]) -> None:
    slots = reservations(slot_us=10, slots=32, capacity=2)
    ledger: dict[int, float] = {}
    mine: list[range] = []
    now_us = 0
    for passed, ahead, width, release in steps:
        now_us += passed
        now = slots.advance(now_us)
        if release and mine:
            gone = mine.pop()
            slots.release(gone)
            for slot in gone:
                ledger[slot] -= 1 / len(gone)
            continue
        wanted = range(now + ahead, now + ahead + width)
        fits = wanted.stop <= now + 31 and all(ledger.get(slot, 0) + 1 / width <= 2 + 1e-9 for slot in wanted)
        assert slots.reserve(7, wanted) == fits
        if fits:
            mine.append(wanted)
            for slot in wanted:
                ledger[slot] = ledger.get(slot, 0) + 1 / width
        for slot in range(now, now + 31):
            assert slots.taken(slot) == pytest.approx(ledger.get(slot, 0), abs=1e-3)


@pytest.mark.parametrize("changed", [{"slot_us": 0}, {"slots": 3}, {"capacity": 0}])
def test_reservations_without_slots_or_room_are_refused(changed: dict[str, int]) -> None:
    with pytest.raises(SlotError):
        reservations(**({"slot_us": 10, "slots": 8, "capacity": 1} | changed))


# -- retries -------------------------------------------------------------------------------------------------


def test_a_retry_is_told_when_to_come_or_that_it_is_of_no_use() -> None:
    slots = reservations(slot_us=100, slots=34, capacity=1)
    desk = Retries(slots, most=6)
    assert desk.arrive(1, period_us=200, now_us=0).answer is Answer.ACCEPTED
    answers = [desk.arrive(key, period_us=200, now_us=0) for key in range(2, 9)]
    assert [one.at_us for one in answers] == [200, 200, 400, 400, 800, 800, 0]
    assert [one.answer for one in answers] == [Answer.AGAIN] * 6 + [Answer.REJECTED]
    assert answers[0].why == "no place now: one is kept for the retry in 0.2 ms"
    assert "no place now nor at any retry" in answers[-1].why
    assert len(desk) == 6
    assert desk.arrive(2, period_us=200, now_us=200).answer is Answer.ACCEPTED
    again = desk.arrive(2, period_us=200, now_us=200)
    assert again.answer is Answer.AGAIN, "a place is for one"
    assert desk.arrive(3, period_us=200, now_us=310).answer is Answer.ACCEPTED, "a little late"
    assert desk.answers == {Answer.ACCEPTED: 3, Answer.AGAIN: 7, Answer.REJECTED: 1}


def test_who_does_not_come_again_is_forgotten_and_rejection_gives_back_what_was_kept() -> None:
    slots = reservations(slot_us=100, slots=6, capacity=1)
    desk = Retries(slots, most=1)
    assert desk.arrive(1, period_us=100, now_us=0).answer is Answer.ACCEPTED
    assert desk.arrive(2, period_us=100, now_us=0).at_us == 100
    assert desk.arrive(3, period_us=100, now_us=0).answer is Answer.REJECTED, "so many are not remembered"
    assert desk.arrive(2, period_us=1_000, now_us=50).answer is Answer.REJECTED, "beyond the window"
    assert len(desk) == 0
    assert all(slots.taken(slot) == 0 for slot in range(1, 5))
    assert desk.arrive(3, period_us=100, now_us=60).answer is Answer.AGAIN
    assert desk.arrive(4, period_us=100, now_us=500).answer is Answer.ACCEPTED
    assert desk.arrive(5, period_us=100, now_us=500).answer is Answer.AGAIN, "the one before did not come"
    with pytest.raises(SlotError, match="at least 1"):
        Retries(slots, most=0)


# -- lanes ---------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(list(Lane)), st.integers(0, 4), st.integers(0, 1)),
        max_size=120,
    ),
    st.sampled_from([0.0, 0.1, 1.0]),
)
def test_lanes_keep_the_order_of_every_flow_and_lose_nothing(
    steps: list[tuple[int, Lane, int, int]], late_share: float
) -> None:
    lanes: Lanes[tuple[int, int, int]] = Lanes(most=6, late_share=late_share)
    flows = [Flow(number, str(number), "t", now_us=0) for number in range(3)]
    queue: deque[tuple[int, int, int]] = deque()
    sent: list[tuple[int, int, int]] = []
    numbers = [0, 0, 0]

    def pick(which: int) -> list[tuple[int, int, int]]:
        found = [one for one in queue if one[0] == which]
        for one in found:
            queue.remove(one)
        return found

    def take(count: int) -> None:
        for _ in range(count):
            if lanes.head(others_wait=bool(queue)) is not None:
                sent.append(lanes.take())
            elif queue:
                sent.append(queue.popleft())
                lanes.passed(1)

    now_us = 1
    for which, lane, taken, passed_us in steps:  # many come at the same moment
        now_us += passed_us
        numbers[which] += 1
        entry = (which, numbers[which], now_us)
        flow = flows[which]
        if lane is Lane.BEST_EFFORT:
            flow.last_other_us = now_us
        oldest_us = queue[0][2] if queue else None
        mine = partial(pick, which)
        if not lanes.put(entry, which, flow, lane, oldest_us=oldest_us, pick=mine, now_us=now_us):
            queue.append(entry)
        take(taken)
    take(1_000)
    assert len(sent) == len(steps)
    for which in range(3):
        assert [number for flow, number, _ in sent if flow == which] == list(range(1, numbers[which] + 1))


def test_reserved_goes_first_and_late_last() -> None:
    lanes: Lanes[str] = Lanes(most=10, late_share=0)
    flows = {name: Flow(number, name, "t", now_us=0) for number, name in enumerate("abc")}

    def put(entry: str, name: str, lane: Lane) -> bool:
        return lanes.put(entry, name, flows[name], lane, oldest_us=5, pick=list, now_us=9)

    assert not put("a1", "a", Lane.BEST_EFFORT)
    assert put("b1", "b", Lane.LATE)
    assert put("c1", "c", Lane.RESERVED)
    assert (lanes.head(others_wait=True), lanes.take()) == ("c1", "c1")
    assert lanes.head(others_wait=True) is None
    assert (lanes.head(others_wait=False), lanes.take()) == ("b1", "b1")


def test_events_and_keys_are_values() -> None:
    assert key_of("a", "b/c") != key_of("a/b", "c")
    flow = Flow(1, "a", "t", now_us=0)
    assert FlowEvent(FlowHappening.SILENT, flow, 5) == FlowEvent(FlowHappening.SILENT, flow, 5)
    with pytest.raises(SlotError):
        Lanes(most=0, late_share=0.1)
