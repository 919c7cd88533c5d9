"""The control of flows under what nobody should do: lies, floods, clocks that jump, periods of all sizes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.slots.control import CHEATS, DISBELIEVED, FlowControl
from penstock.core.slots.flows import FlowState, key_of
from penstock.core.slots.lanes import FlowHappening, Lane
from penstock.core.slots.options import ControlOptions
from penstock.core.slots.standing import AGAIN_MOST, AGAIN_US

NOW = 1_800_000_000_000_000
SLOT = 10_000
YEAR_US = 365 * 86_400 * 1_000_000


def control(*, flows: int = 10_000, capacity: int = 20, **changed: Any) -> FlowControl:
    options = ControlOptions(slot_us=SLOT, capacity=capacity, positions=1 << 10, flows=flows, **changed)
    return FlowControl(options, now_us=NOW)


def check(flows: FlowControl) -> None:
    """Invariants at any time."""
    known = flows.table.values()
    served = [one for one in known if one.state is FlowState.SERVED]
    assert len(known) <= flows.options.flows
    assert len(flows._silence) <= 2 * flows.options.flows + 1
    assert flows.served == len(served)
    assert all(one.grid is not None and one.police is not None for one in served)
    assert all(not one.reserved for one in known if one.state is not FlowState.SERVED)
    (link,) = flows.links.of("t")
    for length, window in enumerate(flows.windows):
        now, ledger = window.reservations.now, link.ledger(length)
        assert all(0 <= ledger.taken(slot) <= ledger.capacity for slot in range(now, now + 64))
    assert link.load <= link.most_load + 1e-9
    assert set(link.flows) == {one.key for one in served}
    assert all(one.watched_us is not None for one in served)


PERIODS = st.sampled_from([1, SLOT - 1, SLOT, 2 * SLOT, 50_000, 333_333, 62 * SLOT, 62 * SLOT + 1, YEAR_US])
WAITS = st.one_of(
    st.sampled_from([0, 1, SLOT, 20_000, 50_000, 333_333, 2_000_000, YEAR_US, -1, -SLOT, -YEAR_US]),
    st.integers(0, 100_000),
)
FILTERS = st.sampled_from(
    [{}, {"groups": 8}, {"groups": 4, "spare": False}, {"longer_us": (160_000, 5_000_000)}, {"flows": 3}]
)
STEPS = st.tuples(
    st.sampled_from(["arrive", "arrive", "arrive", "tell", "untell", "timer"]),
    st.integers(0, 5),
    PERIODS,
    st.sampled_from([0, 0, 1_000, SLOT, YEAR_US]),
    WAITS,
)


@given(st.lists(STEPS, max_size=80), FILTERS)
def test_nothing_that_is_told_or_comes_breaks_what_must_hold(
    steps: list[tuple[str, int, int, int, int]], changed: dict[str, Any]
) -> None:
    flows, now_us = control(**({"flows": 4, "capacity": 4} | changed)), NOW
    for what, which, period_us, jitter_us, passed_us in steps:
        now_us = max(0, now_us + passed_us)
        name = str(which)
        if what == "tell":
            flows.tell(name, "t", period_us, jitter_us=jitter_us, now_us=now_us)
            continue
        if what == "untell":
            flows.untell(name, "t", now_us=now_us)
        elif what == "timer":
            flows.on_timer(now_us=now_us)
            due_us = flows.timer()
            assert due_us is None or due_us > now_us
        else:
            flows.arrive(name, "t", now_us=now_us)
        check(flows)
    flows.events()
    assert flows.events() == []


def test_when_a_clock_that_went_back_is_right_again_flows_are_served_again() -> None:
    flows = control()
    flows.tell("a", "t", 50_000, now_us=NOW)
    for number in range(20):
        flows.arrive("a", "t", now_us=NOW + 50_000 * number)
    back_us = NOW - 10_000_000
    for number in range(100):
        flows.arrive("a", "t", now_us=back_us + 50_000 * number)
        check(flows)
    later_us = NOW + 60_000_000
    flows.tell("a", "t", 50_000, now_us=later_us)
    lanes_later = [flows.arrive("a", "t", now_us=later_us + 50_000 * number) for number in range(60)]
    assert lanes_later[-20:] == [Lane.RESERVED] * 20
    check(flows)


def test_a_flood_of_flows_is_bounded_and_those_served_stay_served() -> None:
    flows = control(flows=200)
    flows.tell("a", "t", 50_000, now_us=NOW)
    lanes = []
    for number in range(40):
        now_us = NOW + 50_000 * number
        lanes.append(flows.arrive("a", "t", now_us=now_us))
        for other in range(100):
            said = flows.tell(f"{number}-{other}", "t", 20_000 + other, now_us=now_us)
            flows.arrive(f"{number}-{other}", "t", now_us=now_us)
            assert not said or said.startswith("table full")
    assert lanes == [Lane.BEST_EFFORT] + [Lane.RESERVED] * 39
    assert len(flows.table) == 200
    assert flows.table.turned_away > 3_000
    assert flows.refused["table full"] > 3_000
    check(flows)


def test_a_liar_waits_longer_each_time_whatever_it_tells() -> None:
    flows, now_us, tried_us = control(), NOW, []
    for number in range(4_000):  # ten times what it tells, and every half a second something else
        flows.tell("liar", "t", 100_000 + number // 50, now_us=now_us)
        flows.arrive("liar", "t", now_us=now_us)
        tried_us += [event.retry_us for event in flows.events() if event.what is not FlowHappening.ADMITTED]
        now_us += 10_000
    assert tried_us == [AGAIN_US << number for number in range(AGAIN_MOST)]
    assert flows.refused[CHEATS] > 1
    assert flows.tell("liar", "t", 90_000, now_us=now_us) == DISBELIEVED
    assert flows.packets[Lane.RESERVED] < 30


def test_a_flow_whose_network_stalled_has_not_lied() -> None:
    flows = control()
    flows.tell("a", "t", 50_000, now_us=NOW)
    due_us = [NOW + 50_000 * number for number in range(200)]
    stalled = range(100, 125)  # 25 packets come at once
    lanes = [
        flows.arrive("a", "t", now_us=due_us[stalled.stop] if number in stalled else at_us)
        for number, at_us in enumerate(due_us)
    ]
    assert Lane.LATE in lanes[100:126]
    assert lanes[130:] == [Lane.RESERVED] * 70
    (flow,) = flows.table.values()
    assert (flow.state, flow.excess > 10) == (FlowState.SERVED, True)
    assert flow.excess_rate < 0.05


def test_who_sends_what_it_kept_until_it_was_connected_has_not_lied() -> None:
    flows = control()
    flows.tell("a", "t", 50_000, now_us=NOW)
    for _ in range(12):
        flows.arrive("a", "t", now_us=NOW)
    lanes = [flows.arrive("a", "t", now_us=NOW + 50_000 * number) for number in range(1, 100)]
    assert lanes.count(Lane.RESERVED) > 95
    assert not flows.refused


def test_where_nothing_is_found_out_what_was_told_is_tried_again() -> None:
    flows = FlowControl(ControlOptions(slot_us=SLOT, positions=1 << 10, detect=False), now_us=NOW)
    flows.tell("a", "t", 50_000, now_us=NOW)
    for number in range(60):
        flows.arrive("a", "t", now_us=NOW + 10_000 * number)
    (flow,) = flows.table.values()
    assert (flow.state, flow.reason) == (FlowState.REFUSED, CHEATS)
    later_us = NOW + 5_000_000
    lanes = [flows.arrive("a", "t", now_us=later_us + 50_000 * number) for number in range(150)]
    assert lanes[-20:] == [Lane.RESERVED] * 20


def test_a_grid_that_is_lost_while_a_flow_waits_is_looked_for_anew() -> None:
    flows, now_us, lanes = control(), NOW, []
    for number in range(400):
        now_us += 50_000 if number < 60 else 70_000
        lanes.append(flows.arrive("a", "t", now_us=now_us))
        if number == 5:
            (flow,) = flows.table.values()
            flow.again_us = NOW + 6_000_000  # as if it had been refused
    assert set(lanes[:90]) == {Lane.BEST_EFFORT}
    assert lanes[-20:] == [Lane.RESERVED] * 20
    assert round(flow.statistics().period_us, -2) == 70_000
    check(flows)


def test_a_flow_that_behaves_again_is_believed_again() -> None:
    flows = control()
    flows.tell("a", "t", 100_000, now_us=NOW)
    for number in range(30):
        flows.arrive("a", "t", now_us=NOW + 20_000 * number)
    (flow,) = flows.table.values()
    assert (flow.state, flow.failures, flow.disbelieved_us) == (FlowState.REFUSED, 1, 100_000)
    start_us = NOW + 30 * 20_000
    assert flows.tell("a", "t", 20_000, now_us=start_us) == DISBELIEVED, "it has to wait, and is then served"
    lanes = [flows.arrive("a", "t", now_us=start_us + 20_000 * number) for number in range(300)]
    assert lanes[-100:] == [Lane.RESERVED] * 100
    assert (flow.failures, flow.disbelieved_us) == (0, 0)


def test_silence_is_noticed_by_the_period_that_counts_now() -> None:
    flows = control()
    flows.tell("a", "t", 600_000, now_us=NOW)
    flows.arrive("a", "t", now_us=NOW)
    flows.tell("a", "t", 20_000, now_us=NOW + 1)
    for number in range(5):
        flows.arrive("a", "t", now_us=NOW + 20_000 * number)
    due_us = flows.timer()
    assert due_us is not None
    assert due_us < NOW + 200_000
    flows.on_timer(now_us=NOW + 300_000)
    assert [event.what for event in flows.events()][-1] is FlowHappening.SILENT
    flows.on_timer(now_us=NOW + 10_000_000)
    assert flows.events() == []
    assert flows.timer() is None


def test_the_same_hash_is_not_the_same_flow() -> None:
    flows = control()
    flows.tell("a", "t", 50_000, now_us=NOW)
    for number in range(5):
        flows.arrive("a", "t", now_us=NOW + 50_000 * number)
    key = key_of("a", "t")
    assert flows.flow(key, "a", "t", now_us=NOW + 250_000) is not None
    assert flows.flow(key, "other", "t", now_us=NOW + 250_000) is None
    assert flows.flow(key, "a", "other", now_us=NOW + 250_000) is None
