"""Cost of trees and interest in a large cluster: one origin, all its links, and everybody else passing on.

The network is perfect and without delay; counted are hops, links, frames and bytes. Nodes are killed in the
middle of a message, and the origin finds out: what it sends again is the price of a failure.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.core.cluster.backlog import Outgoing
from penstock.core.cluster.forwarding import Forwarding, Load
from penstock.core.cluster.frames import About, Carried, Wants, encode_item, is_data
from penstock.core.cluster.peer import PeerLink
from penstock.core.cluster.view import Member, Sighting, View
from penstock.errors import GoalMissed
from penstock.model.event import Event

if TYPE_CHECKING:
    from collections.abc import Callable

ORIGIN: Final = "n0"
TOPIC: Final = "ward/7/pulse"
PAYLOAD: Final = b"x" * 100
"""A payload of the size of a sensor's reading."""
FILTERS: Final = 100
"""Filters that each node wants, besides the topic."""
KILLS: Final = ((1, False), (10, False), (1, True))
"""Forwarders that are killed one time after the other, and whether those with the most nodes behind them."""


@dataclass(frozen=True, slots=True)
class Large:
    """Size and shape of a cluster."""

    nodes: int
    zones: int
    fan_out: int


@dataclass(frozen=True, slots=True)
class Reach:
    """One thing that the origin has told others."""

    to: int
    """Nodes that it is for."""
    hops: int
    """Longest way to one of them."""
    origin_links: int
    most_links: int
    """Links that one node sends it on, at most."""
    origin_bytes: int
    most_bytes: int
    """Bytes that one other node sends, at most."""
    direct_bytes: int
    """Bytes that the origin would send without trees."""
    acks: int
    """Frames with acknowledgements that come to the origin."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A message in whose middle forwarders were killed."""

    killed: int
    worst: bool
    """Whether those with the most nodes behind them were killed, and not any."""
    missed: int
    """Living nodes that had not got it."""
    resent: int
    """Frames that the origin sent again."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of trees and interest in one cluster."""

    shape: Large
    everybody: Reach
    """A message that all nodes want."""
    some: Reach
    """A message that one node in eleven wants."""
    filter: Reach
    """A new filter of the origin, which all nodes are told."""
    interest_bytes: int
    """Bytes in which all other nodes have told the origin what they want."""
    repairs: tuple[Repair, ...]


@dataclass(slots=True)
class _Count:
    """Frames of one thing on their ways."""

    links: dict[str, set[str]] = field(default_factory=dict)
    sent: Counter[str] = field(default_factory=Counter)
    direct_bytes: int = 0
    hops: int = 0
    acks: int = 0
    got: Counter[str] = field(default_factory=Counter)


class _Cluster:
    """All nodes with one view; links are those of the origin."""

    def __init__(self, shape: Large, seed: int) -> None:
        self.shape = shape
        self.dice = Random(seed)  # noqa: S311  # a run is repeated by its seed
        self.names = [f"n{number}" for number in range(shape.nodes)]
        zones = {name: f"z{at % shape.zones}" for at, name in enumerate(self.names)}
        members = {name: Member(name, 1, 0, about=About(zones[name], (), "", 0, "")) for name in self.names}
        self.views = {name: View(Sighting("large", name, 1), members=members) for name in self.names}
        self.nodes = {
            name: Forwarding(view, zone=zones[name], fan_out=shape.fan_out)
            for name, view in self.views.items()
        }
        own = {name: self._wants(at) for at, name in enumerate(self.names)}
        self.known: dict[str, set[str]] = {name: set() for name in self.names}
        self.links = {name: PeerLink(own[ORIGIN], self._filters_of(name)) for name in self.names[1:]}
        """The origin's links to the others."""
        self.ends = {name: PeerLink(own[name], lambda _: ()) for name in self.names[1:]}
        """The other ends of these links, by node."""
        self.interest_bytes = 0
        self.dead: set[str] = set()
        self.count = _Count()
        self._due: deque[tuple[str, str, bytes, int]] = deque()
        self._join()

    def _wants(self, at: int) -> list[str]:
        """Filters of a node; one in eleven, in all zones, wants another topic."""
        found = [f"site/{at}/device/{number}/#" for number in range(FILTERS)]
        return [*found, TOPIC, "some"] if at % 11 == 1 else [*found, TOPIC]

    def _filters_of(self, name: str) -> Callable[[str], list[str]]:
        return lambda topic: [topic] if topic in self.known[name] else []

    def _join(self) -> None:
        """Have all ends tell each other what they want, directly."""
        for name, end in self.ends.items():
            for frame in end.frames(now_us=0):
                self.interest_bytes += len(frame)
                self._send(name, ORIGIN, frame)
        self._run()
        self.flush()
        if not all(link.told and link.round_trip_us for link in self.links.values()):
            raise GoalMissed("the nodes of the simulated cluster do not know each other")

    def _send(self, sender: str, to: str, frame: bytes, hops: int = 1) -> None:
        count = self.count
        if is_data(frame) or self._relayed(frame):
            count.links.setdefault(sender, set()).add(to)
            count.sent[sender] += len(frame)
        elif to == ORIGIN:
            count.acks += 1
        self._due.append((sender, to, frame, hops))

    def _relayed(self, frame: bytes) -> bool:
        """Whether a frame brings items to others; acknowledgements that are passed on do not."""
        return Forwarding.concerns(frame) and frame[2:3] == b"\x01"

    def flush(self) -> None:
        """Send what the origin has to send, and have everybody do their part."""
        loads = []
        for name, link in self.links.items():
            busy, answered = link.in_flight_bytes > 0, link.round_trip_us > 0
            frames = link.frames(now_us=0)
            if frames:
                self.count.direct_bytes += sum(len(frame) for frame in frames)
                loads.append(Load(name, frames, busy, answered))
        for to, frame in self.nodes[ORIGIN].route(loads, now_us=0):
            self._send(ORIGIN, to, frame)
        self._run()

    def _run(self) -> None:
        while self._due:
            sender, to, frame, hops = self._due.popleft()
            if to in self.dead:
                continue
            forwarding = self.nodes[to]
            if not forwarding.concerns(frame):
                forwarding.came_directly(sender)
                self._take(to, sender, frame, hops)
                continue
            arrived = forwarding.received(sender, frame, now_us=0)
            for name, each in arrived.send:
                self._send(to, name, each, hops + 1)
            for origin, each in arrived.taken:
                self._take(to, origin.name, each, hops)

    def _take(self, name: str, sender: str, frame: bytes, hops: int) -> None:
        """Handle a frame of a link at one of its ends."""
        link = self.links[sender] if name == ORIGIN else self.ends[name]
        found = link.received(frame, now_us=0)
        for each in found.again:
            self._send(name, sender, each)
        for item in found.items:
            if isinstance(item, Wants):
                added, _ = link.wants(item)
                if name == ORIGIN:
                    self.known[sender].update(added)
            elif isinstance(item, Carried):
                self.count.got[name] += 1
        if found.items:
            if name != ORIGIN:
                self.count.hops = max(self.count.hops, hops)
            acks = self.nodes[name].acknowledge(sender, link.acknowledgement(link.taken), now_us=0)
            for to, each in acks:
                self._send(name, to, each)

    def publish(self, topic: str, number: int) -> list[str]:
        """Publish at the origin; returns the nodes that want it."""
        self.count = _Count()
        item = Carried(number, topic, PAYLOAD, 0)
        out = Outgoing(Event(topic, PAYLOAD, 0, seq=number), encode_item(item))
        wanted = [name for name in self.links if topic in self.known[name]]
        for name in wanted:
            self.links[name].offer(out, now_us=0)
        self.flush()
        return wanted

    def told(self, filter_: str) -> list[str]:
        """Have the origin want another filter."""
        self.count = _Count()
        for link in self.links.values():
            link.interest.change(filter_, wanted=True)
        self.flush()
        return list(self.links)

    def reach(self, to: list[str]) -> Reach:
        """Figures of the message just sent; GoalMissed unless every receiver got it exactly once."""
        count = self.count
        if not all(self.links[name].idle for name in to) or any(times > 1 for times in count.got.values()):
            raise GoalMissed("a node of the simulated cluster has not got a message, or got it twice")
        others = [sent for name, sent in count.sent.items() if name != ORIGIN]
        return Reach(
            to=len(to),
            hops=count.hops,
            origin_links=len(count.links[ORIGIN]),
            most_links=max(len(links) for links in count.links.values()),
            origin_bytes=count.sent[ORIGIN],
            most_bytes=max(others, default=0),
            direct_bytes=count.direct_bytes,
            acks=count.acks,
        )

    def repair(self, kills: int, number: int, *, worst: bool) -> Repair:
        """Kill forwarders, publish, then have the origin find out, as its view would."""
        tree = self.nodes[ORIGIN].tree()
        behind = Counter(name for to, way in sorted(tree.items()) if to != ORIGIN for name in way)
        forwarders = [name for name, _ in behind.most_common() if name not in self.dead | {ORIGIN}]
        most = min(kills, len(forwarders))
        killed = forwarders[:most] if worst else self.dice.sample(forwarders, most)
        self.dead.update(killed)
        wanted = [name for name in self.publish(TOPIC, number) if name not in self.dead]
        missed = sum(not self.count.got[name] for name in wanted)
        resent = 0
        for gone in killed:
            self.views[ORIGIN].members[gone].away = True
            self.links[gone].lost()
            for name in self.nodes[ORIGIN].lost(gone):
                if name not in self.dead:
                    again = self.links[name].renewed(now_us=0)
                    resent += len(again)
                    for frame in again:
                        self._send(ORIGIN, name, frame)
        self._run()
        late = self.nodes[ORIGIN]
        for name, node in self.nodes.items():
            if node is not late and name not in self.dead:
                for to, frame in node.due(now_us=10**9):
                    self._send(name, to, frame)
        self._run()
        self.reach(wanted)
        return Repair(len(killed), worst, missed, resent)


def cost(shape: Large, *, seed: int = 1) -> Cost:
    """Measure trees and interest in a cluster of this size; the same seed kills the same nodes."""
    cluster = _Cluster(shape, seed)
    everybody = cluster.reach(cluster.publish(TOPIC, 1))
    some = cluster.reach(cluster.publish("some", 2))
    wider = cluster.reach(cluster.told("more/#"))
    repairs = tuple(cluster.repair(kills, 3 + at, worst=worst) for at, (kills, worst) in enumerate(KILLS))
    return Cost(shape, everybody, some, wider, cluster.interest_bytes, repairs)
