"""Frames along trees: to everybody once, acknowledged together, and sent again where a forwarder fails."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock import limits
from penstock.core.cluster.forwarding import Forwarding, Load
from penstock.core.cluster.frames import About, Ack, Carried, ack_frame, data_frame, encode_item
from penstock.core.cluster.view import Sighting, View
from penstock.errors import ClusterError

BODY = encode_item(Carried(1, "a", b"x", 0))
LATER_US = limits.CLUSTER_GATHER_US


class Nodes:
    """Nodes n0, n1, …, all in view of each other, and what they send each other."""

    def __init__(self, size: int, *, fan_out: int = 2, zones: tuple[str, ...] = ("",)) -> None:
        self.all: dict[str, Forwarding] = {}
        self.views: dict[str, View] = {}
        self.zones = {f"n{number}": zones[number % len(zones)] for number in range(size)}
        for name, zone in self.zones.items():
            view = self.views[name] = View(Sighting("ward", name, 1))
            for other, its_zone in self.zones.items():
                view.appeared(Sighting("ward", other, 1), now_us=0)
                if other != name:
                    view.members[other].about = About(its_zone, (), "", 0, "")
            self.all[name] = Forwarding(view, zone=zone, fan_out=fan_out)
        self.got: Counter[str] = Counter()
        self.frames: dict[str, bytes] = {}
        self.acked: Counter[str] = Counter()
        self.links: Counter[tuple[str, str]] = Counter()
        self.unreached: list[str] = []
        self.silent: set[str] = set()
        """Nodes that take nothing in."""
        self.mute: set[str] = set()
        """Nodes that do not acknowledge."""

    @property
    def origin(self) -> Forwarding:
        return self.all["n0"]

    def loads(self, *, number: int = 1, body: bytes = BODY, busy: bool = False) -> list[Load]:
        return [Load(name, [data_frame(number, body)], busy, True) for name in self.all if name != "n0"]

    def publish(self, *, now_us: int = 0, number: int = 1, busy: bool = False) -> None:
        self.carry("n0", self.origin.route(self.loads(number=number, busy=busy), now_us=now_us), now_us)

    def carry(self, sender: str, frames: list[tuple[str, bytes]], now_us: int = 0) -> None:
        for to, frame in frames:
            self.links[sender, to] += 1
            if to in self.silent:
                continue
            there = self.all[to]
            if not there.concerns(frame):
                there.came_directly(sender)
                self.take(to, sender, frame, now_us)
                continue
            arrived = there.received(sender, frame, now_us=now_us)
            self.carry(to, arrived.send, now_us)
            self.unreached += arrived.unreached
            for origin, each in arrived.taken:
                self.take(to, origin.name, each, now_us)

    def take(self, name: str, origin: str, frame: bytes, now_us: int) -> None:
        if origin != "n0":
            self.acked[origin] += 1
            return
        self.got[name] += 1
        self.frames[name] = frame
        if name not in self.mute:
            number = int.from_bytes(frame[1:9], "big")
            self.carry(
                name, self.all[name].acknowledge("n0", ack_frame(Ack(number, 1)), now_us=now_us), now_us
            )


@pytest.mark.parametrize(
    ("size", "fan_out", "zones"), [(4, 1, ("",)), (20, 2, ("",)), (30, 3, ("e", "w", "n"))]
)
def test_everybody_gets_its_frame_and_is_acknowledged(
    size: int, fan_out: int, zones: tuple[str, ...]
) -> None:
    nodes = Nodes(size, fan_out=fan_out, zones=zones)
    nodes.publish()
    everybody = dict.fromkeys((name for name in nodes.all if name != "n0"), 1)
    assert nodes.got == everybody
    assert set(nodes.frames.values()) == {data_frame(1, BODY)}
    assert nodes.acked == everybody
    sent = Counter(sender for sender, to in nodes.links if sender == "n0")
    assert sent["n0"] <= 2 * fan_out
    back = [pair for pair in nodes.links if pair[1] == "n0"]
    assert len(back) == sent["n0"], "acknowledgements come back over the links that the frames went"


def test_a_frame_enters_each_zone_once() -> None:
    nodes = Nodes(12, fan_out=8, zones=("e", "w", "n"))
    nodes.mute = set(nodes.all)
    nodes.publish()
    entered = Counter(
        nodes.zones[to]
        for (sender, to), times in nodes.links.items()
        if nodes.zones[sender] != nodes.zones[to]
    )
    assert entered == {"w": 1, "n": 1}


def test_few_nodes_and_nodes_with_nothing_in_common_are_sent_to_directly() -> None:
    nodes = Nodes(4, fan_out=3)
    sent = nodes.origin.route(nodes.loads(), now_us=0)
    assert [name for name, _ in sent] == ["n1", "n2", "n3"]
    nodes = Nodes(9, fan_out=2)
    loads = [
        Load(name, [data_frame(1, encode_item(Carried(1, "a", name.encode(), 0)))], busy=False, answered=True)
        for name in nodes.all
        if name != "n0"
    ]
    assert nodes.origin.route(loads, now_us=0) == [(load.name, load.frames[0]) for load in loads]


def test_another_fan_out_counts_from_then_on() -> None:
    nodes = Nodes(9, fan_out=2)
    assert any(nodes.origin.tree().values())
    nodes.origin.reshape(zone="", fan_out=8)
    assert not any(nodes.origin.tree().values())
    assert len(nodes.origin.route(nodes.loads(), now_us=0)) == 8
    nodes.origin.reshape(zone="elsewhere", fan_out=8)
    assert sum(not way for way in nodes.origin.tree().values()) == 1


def test_a_node_that_has_never_answered_is_sent_to_directly() -> None:
    nodes = Nodes(9, fan_out=2)
    loads = [load._replace(answered=load.name != "n5") for load in nodes.loads()]
    assert ("n5", loads[4].frames[0]) in nodes.origin.route(loads, now_us=0)


def test_a_link_keeps_its_way_while_something_is_on_it() -> None:
    nodes = Nodes(9, fan_out=2)
    nodes.publish()
    way = next((name, way) for name, way in nodes.origin._ways.items() if way)
    alone = Load(way[0], [data_frame(2, BODY)], busy=True, answered=True)
    ((first, frame),) = nodes.origin.route([alone], now_us=0)
    assert first == way[1][0]
    assert nodes.origin.concerns(frame)
    quiet = alone._replace(busy=False)
    assert nodes.origin.route([quiet], now_us=0) == [(way[0], quiet.frames[0])]


def test_a_link_with_something_on_its_direct_way_stays_there() -> None:
    nodes = Nodes(9, fan_out=2)
    sent = nodes.origin.route(nodes.loads(busy=True), now_us=0)
    assert len(sent) == 8
    assert not any(nodes.origin.concerns(frame) for _, frame in sent)


def test_what_goes_through_a_lost_node_is_named_and_goes_another_way() -> None:
    nodes = Nodes(20, fan_out=2)
    nodes.publish()
    gone = next(way[0] for way in nodes.origin._ways.values() if way)
    behind = {name for name, way in nodes.origin.tree().items() if gone in way}
    nodes.views["n0"].vanished(Sighting("ward", gone, 1), now_us=0)
    assert set(nodes.origin.lost(gone)) == behind
    assert nodes.origin.repaired == len(behind)
    assert not any(gone in way for way in nodes.origin.tree().values())


def test_a_forwarder_says_whom_it_does_not_reach() -> None:
    nodes = Nodes(20, fan_out=2)
    tree = nodes.origin.tree()
    name, way = max(tree.items(), key=lambda each: len(each[1]))
    nodes.views[way[-1]].vanished(Sighting("ward", name, 1), now_us=0)
    nodes.publish()
    assert nodes.unreached == [name]
    assert not nodes.got[name]
    nodes.origin.sent_again(name, now_us=0)
    frame = data_frame(2, BODY)
    sent = nodes.origin.route(nodes.loads(number=2), now_us=0)
    assert (name, frame) in sent, "for a while it gets everything directly"
    sent = nodes.origin.route(nodes.loads(number=3), now_us=limits.CLUSTER_UNRELAYED_US)
    assert (name, data_frame(3, BODY)) not in sent


def test_another_incarnation_of_a_node_does_not_get_frames_of_the_one_before() -> None:
    nodes = Nodes(3, fan_out=1)
    tree = nodes.origin.tree()
    last, (first,) = next((name, way) for name, way in tree.items() if way)
    sent = nodes.origin.route(nodes.loads(), now_us=0)
    nodes.all[last] = Forwarding(View(Sighting("ward", last, 2)), zone="", fan_out=1)
    nodes.carry("n0", sent)
    assert nodes.got == {first: 1}


def test_acknowledgements_do_not_wait_for_a_silent_node_for_long() -> None:
    nodes = Nodes(4, fan_out=1)
    tree = nodes.origin.tree()
    last = next(name for name, way in tree.items() if len(way) == 2)
    first, second = tree[last]
    nodes.mute = {last}
    nodes.publish()
    assert nodes.acked == {}
    now_us = nodes.all[second].timer() or 0
    assert now_us == LATER_US
    nodes.carry(second, nodes.all[second].due(now_us=now_us), now_us)
    nodes.carry(first, nodes.all[first].due(now_us=now_us), now_us)
    assert nodes.acked == {first: 1, second: 1}
    assert nodes.all[first].timer() is None
    nodes.carry(last, nodes.all[last].acknowledge("n0", ack_frame(Ack(1, 1)), now_us=now_us), now_us)
    assert nodes.acked[last] == 1


def test_acknowledgements_go_around_a_forwarder_that_is_gone() -> None:
    nodes = Nodes(3, fan_out=1)
    tree = nodes.origin.tree()
    last, (first,) = next((name, way) for name, way in tree.items() if way)
    nodes.mute = {last}
    nodes.publish()
    nodes.views[last].vanished(Sighting("ward", first, 1), now_us=0)
    nodes.silent = {first}
    nodes.carry(last, nodes.all[last].acknowledge("n0", ack_frame(Ack(1, 1)), now_us=0))
    assert nodes.acked[last] == 1


def test_what_no_node_says_changes_nothing() -> None:
    nodes = Nodes(3, fan_out=1)
    with pytest.raises(ClusterError):
        nodes.origin.received("n1", b"\x10garbage", now_us=0)
    assert nodes.origin.timer() is None
