"""Links of receivers: what each carries, flows that one of them shuts out, links that come and go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.slots.control import FlowControl
from penstock.core.slots.flows import FlowState
from penstock.core.slots.lanes import FlowHappening, Lane
from penstock.core.slots.links import Ledger, Link
from penstock.core.slots.options import ControlOptions

NOW = 1_800_000_000_000_000
SLOT = 10_000
OPTIONS = ControlOptions(slot_us=SLOT, capacity=20, positions=1 << 10)


class Links:
    """Links by topic that a test changes."""

    def __init__(self, **by_topic: list[Link]) -> None:
        self.by_topic = by_topic
        self.version = 0

    def of(self, topic: str) -> list[Link]:
        return self.by_topic.get(topic, [])

    def change(self, **by_topic: list[Link]) -> None:
        self.by_topic |= by_topic
        self.version += 1


def steady(control: FlowControl, client: str, topic: str, count: int, start_us: int) -> list[Lane]:
    return [control.arrive(client, topic, now_us=start_us + 50_000 * number) for number in range(count)]


def test_flows_to_different_receivers_do_not_share_a_capacity() -> None:
    narrow = [Link(OPTIONS, name=str(number), capacity=2) for number in range(30)]
    control = FlowControl(
        OPTIONS, now_us=NOW, links=Links(**{f"t{number}": [link] for number, link in enumerate(narrow)})
    )
    for number in range(30):
        control.tell("a", f"t{number}", 50_000, now_us=NOW)
        steady(control, "a", f"t{number}", 5, NOW)
    assert control.served == 30, "together they are six times what one link may carry"
    assert all(len(link.flows) == 1 for link in narrow)


def test_a_full_link_shuts_a_flow_out_and_is_tried_again() -> None:
    wide, narrow = Link(OPTIONS, name="wide"), Link(OPTIONS, name="narrow", capacity=2)
    links = Links(t=[wide, narrow], u=[narrow])
    control = FlowControl(OPTIONS, now_us=NOW, links=links)
    for client in ("a", "b", "c", "d", "e", "f"):
        control.tell(client, "t", 50_000, now_us=NOW)
        steady(control, client, "t", 3, NOW)
    flows = control.table.values()
    assert [flow.state for flow in flows] == [FlowState.SERVED] * 6
    assert (len(wide.flows), len(narrow.flows)) == (6, 2), "each takes half a place in two slots"
    first, second, *others = flows
    assert all((flow.links, flow.shut_out) == ((wide, narrow), ()) for flow in (first, second))
    assert all((flow.links, flow.shut_out) == ((wide,), (narrow,)) for flow in others)
    told = [event for event in control.events() if event.what is FlowHappening.SHUT_OUT]
    assert [event.reason for event in told] == ["no capacity: on the link to 'narrow'"] * 4
    assert control.refused == {"no capacity": 4}
    control.tell("g", "u", 50_000, now_us=NOW + 100_000)
    assert steady(control, "g", "u", 2, NOW + 100_000) == [Lane.BEST_EFFORT] * 2, "all its links are full"
    control.untell("a", "t", now_us=NOW + 400_000)
    at_us = NOW + 5_000_000
    for client in ("b", "c"):
        steady(control, client, "t", 3, at_us)
    assert len(narrow.flows) == 2, "the place that became free is taken"
    assert narrow.load <= narrow.most_load


def test_links_that_come_and_go_are_followed() -> None:
    one, other = Link(OPTIONS, name="one"), Link(OPTIONS, name="other")
    links = Links(t=[one])
    control = FlowControl(OPTIONS, now_us=NOW, links=links)
    control.tell("a", "t", 50_000, now_us=NOW)
    steady(control, "a", "t", 5, NOW)
    (flow,) = control.table.values()
    links.change(t=[other])
    steady(control, "a", "t", 1, NOW + 250_000)
    assert (flow.links, len(one.flows), len(other.flows)) == ((other,), 0, 1)
    assert one.fullest([(NOW + 260_000) // SLOT]) == 0
    assert other.fullest([(NOW + 260_000) // SLOT]) > 0
    links.change(t=[])
    assert steady(control, "a", "t", 1, NOW + 300_000) == [Lane.RESERVED], (
        "nobody reads, nobody is in the way"
    )
    assert (flow.state, flow.links, other.flows) == (FlowState.SERVED, (), {})


def test_a_flow_may_use_lanes_only_where_it_has_places() -> None:
    one, full = Link(OPTIONS, name="one"), Link(OPTIONS, name="full", capacity=2)
    full.add(99, 1.0)
    control = FlowControl(OPTIONS, now_us=NOW, links=Links(t=[one, full]))
    control.tell("a", "t", 50_000, now_us=NOW)
    steady(control, "a", "t", 5, NOW)
    (flow,) = control.table.values()
    assert flow.goes_ahead_on(one, NOW)
    assert not flow.goes_ahead_on(full, NOW)
    flow.state = FlowState.REFUSED
    assert flow.goes_ahead_on(full, NOW), "its lane says already that it does not go ahead"


RANGES = st.lists(st.tuples(st.integers(0, 300), st.integers(1, 10)), max_size=200)


@given(RANGES, st.integers(1, 4))
def test_a_ledger_never_takes_more_than_a_slot_has_and_gives_all_of_it_back(
    wanted: list[tuple[int, int]], capacity: int
) -> None:
    ledger = Ledger(slots=64, capacity=capacity)
    taken = []
    for now, (first, width) in enumerate(wanted):
        slots = range(now + first, now + first + width)
        if ledger.has_room(slots):
            ledger.take(slots, now=now)
            taken.append(slots)
        assert all(ledger.taken(slot) <= capacity for slot in slots)
    for slots in taken:
        ledger.give_back(slots)
    assert ledger.fullest(now=0) <= 1e-3
