"""Trees at one node: frames of its links go along them, and it passes on those of other nodes.

A link between two nodes stays what it is: numbers, window and acknowledgement are between origin and
receiver, and so is the account. A tree only carries the frames. What a forwarder loses, because it dies, is
frozen or does not reach somebody, is sent again directly by the origin, in whose queues it still is; the
receiver knows what it has by the numbers.

A link keeps its way as long as something is on it: what is sent later does not overtake. Frames that are
sent again go directly, and all behind them until the link is quiet. Acknowledgements go back as the frames
came: a forwarder passes them on when all nodes behind it have acknowledged, or after a short while.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from penstock import limits
from penstock.core.cluster.frames import Ack, decode_frame, split_items
from penstock.core.cluster.relay import PASSED, Parcel, Receipts, Relayed, Unreached, decode, encode, packed
from penstock.core.cluster.tree import one_hop, ways
from penstock.core.cluster.view import Sighting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.core.cluster.tree import Way
    from penstock.core.cluster.view import View
    from penstock.model.instant import Instant


class Load(NamedTuple):
    """New frames of the link to one node."""

    name: str
    frames: Sequence[bytes]
    busy: bool
    """Whether earlier frames of the link are not acknowledged."""
    answered: bool
    """Whether the other node has acknowledged something: before, it may not know this one."""


class Arrived(NamedTuple):
    """Consequences of a frame that was passed on."""

    send: list[tuple[str, bytes]]
    """Frames to send, by node."""
    taken: list[tuple[Sighting, bytes]]
    """Frames for this node, as if they had come directly."""
    unreached: list[str]
    """Nodes that did not get what was sent to them: send it again."""


class _Gathering:
    """Acknowledgements for one origin, of the nodes behind this one and of itself."""

    __slots__ = ("acks", "incarnation", "since_us", "up", "waits")

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.up = ""
        """The node that the frames of the origin come from."""
        self.waits: dict[str, int] = {}
        """Nodes that have not acknowledged, and the number of their last frame."""
        self.acks: dict[str, tuple[int, int, bytes]] = {}
        """Acknowledgements: incarnation, number, frame."""
        self.since_us: Instant | None = None


class Forwarding:
    """Ways of frames between nodes. The owner sends what the methods return."""

    def __init__(self, view: View, *, zone: str, fan_out: int = limits.CLUSTER_FAN_OUT) -> None:
        self._view = view
        self._zone = zone
        self.fan_out = fan_out
        self._ways: dict[str, Way] = {}
        """Ways of links with something on them, if they are not direct."""
        self._direct_until_us: dict[str, Instant] = {}
        self._tree: tuple[dict[str, str], dict[str, Way]] = ({}, {})
        """The last tree, and what it was made of."""
        self._gathering: dict[str, _Gathering] = {}
        self._relayed: dict[str, None] = {}
        """Origins whose last frame for this node came through another one."""
        self.forwarded: Counter[str] = Counter()
        """Frames of other nodes that were passed on, by the node they went to."""
        self.repaired = 0
        """Links whose frames were sent again because a forwarder did not pass them on."""

    def reshape(self, *, zone: str, fan_out: int) -> None:
        """Choose ways by another zone of this node, or another fan-out, from now on."""
        self._zone, self.fan_out = zone, fan_out
        self._tree = ({}, {})

    def tree(self) -> dict[str, Way]:
        """The ways on which an event for all nodes that are there goes."""
        return self._ways_to(
            {name: zone for name in self._view.members if (zone := self._zone_of(name)) is not None}
        )

    def _zone_of(self, name: str) -> str | None:
        """The zone of a node that may forward; None: it is away, or not known well enough."""
        member = self._view.members.get(name)
        return None if member is None or member.away or member.about is None else member.about.zone

    def _ways_to(self, zones: dict[str, str]) -> dict[str, Way]:
        if zones != self._tree[0]:
            found = ways(self._view.own.name, self._zone, zones, fan_out=self.fan_out)
            self._tree = (zones, found)
        return self._tree[1]

    # -- from this node --------------------------------------------------------------------------------------

    def route(self, loads: Sequence[Load], *, now_us: Instant) -> list[tuple[str, bytes]]:
        """Choose ways for new frames of links; returns the frames to send, by node."""
        if len(loads) == 1 and not self._ways:  # two nodes have no trees, and should not pay for them
            return [(load.name, frame) for load in loads for frame in load.frames]
        for load in loads:
            if not load.busy:
                self._ways.pop(load.name, None)
        zones = {
            load.name: zone
            for load in loads
            if not load.busy
            and load.answered
            and (zone := self._zone_of(load.name)) is not None
            and self._direct_until_us.get(load.name, 0) <= now_us
        }
        if not one_hop(self._zone, zones.values(), fan_out=self.fan_out):
            alike = _alike([load for load in loads if load.name in zones])
            found = self._ways_to({name: zones[name] for name in zones if name in alike})
            self._ways |= {name: way for name, way in found.items() if way}
        if not self._ways:
            return [(load.name, frame) for load in loads for frame in load.frames]
        return list(self._posted(loads))

    def _posted(self, loads: Sequence[Load]) -> Iterator[tuple[str, bytes]]:
        members, own = self._view.members, self._view.own
        known = {name: member.incarnation for name, member in members.items()}
        for turn in range(max((len(load.frames) for load in loads), default=0)):
            there = [load for load in loads if turn < len(load.frames)]
            bundles: dict[str, list[Load]] = {}
            for load in there:
                way = self._ways.get(load.name, ())
                bundles.setdefault(way[0] if way else load.name, []).append(load)
            for first, bundle in bundles.items():
                if len(bundle) == 1 and bundle[0].name == first:
                    yield first, bundle[0].frames[turn]
                    continue
                parcels = (self._parcel(load, load.frames[turn], known) for load in bundle)
                for relayed in packed(own.name, own.incarnation, parcels, known):
                    yield first, encode(relayed)

    def _parcel(self, load: Load, frame: bytes, known: dict[str, int]) -> Parcel:
        data = decode_frame(frame)
        assert not isinstance(data, Ack)
        return Parcel(load.name, known[load.name], self._ways.get(load.name, ()), data.number, data.body)

    def sent_again(self, name: str, *, now_us: Instant) -> None:
        """The frames on the link to a node are sent again, directly; so are new ones for a while."""
        if self._ways.pop(name, None) is not None:
            self.repaired += 1
            self._direct_until_us[name] = now_us + limits.CLUSTER_UNRELAYED_US

    def lost(self, name: str) -> list[str]:
        """A node is away, or another incarnation: returns those that got frames through it.

        What is on the links to them has to be sent again.
        """
        self._ways.pop(name, None)
        self._direct_until_us.pop(name, None)
        self._gathering.pop(name, None)
        self._relayed.pop(name, None)
        found = [other for other, way in self._ways.items() if name in way]
        for other in found:
            del self._ways[other]
        self.repaired += len(found)
        return found

    # -- from others -----------------------------------------------------------------------------------------

    @staticmethod
    def concerns(frame: bytes) -> bool:
        """Whether a frame is one that nodes pass on, and not one of a link."""
        return frame[:1] == PASSED

    def received(self, sender: str, frame: bytes, *, now_us: Instant) -> Arrived:
        """Take a frame that is passed on; ClusterError if it is damaged."""
        passed = decode(frame)
        arrived = Arrived([], [], [])
        if isinstance(passed, Relayed):
            self._pass_on(sender, passed, arrived)
        elif isinstance(passed, Receipts):
            self._collect(passed, arrived, now_us)
        else:
            arrived.unreached.extend(name for name in passed.names if name in self._ways)
        return arrived

    def came_directly(self, origin: str) -> None:
        """A frame of a link has come from its origin: acknowledgements go there."""
        if self._relayed:
            self._relayed.pop(origin, None)

    def _pass_on(self, sender: str, relayed: Relayed, arrived: Arrived) -> None:
        own = self._view.own
        first = relayed.stops[0]
        if (first.name, first.incarnation) != (own.name, own.incarnation) or relayed.origin == own.name:
            return  # it was meant for an earlier start of this node
        unreached: list[str] = []
        members = self._view.members
        gathering = self._gathering_of(relayed)
        gathering.up = sender
        for branch in relayed.branches():
            to = branch.stops[0]
            member = members.get(to.name)
            if member is None or member.away or member.incarnation != to.incarnation:
                unreached += [stop.name for stop in branch.stops if stop.number]
                continue
            self.forwarded[to.name] += 1
            arrived.send.append((to.name, encode(branch)))
            gathering.waits.update(
                (stop.name, stop.number) for stop in branch.stops if stop.number and stop.name in members
            )
        if unreached and relayed.origin in members:
            arrived.send.append((relayed.origin, encode(Unreached(unreached))))
        if first.number:
            gathering.waits[own.name] = first.number
            self._relayed[relayed.origin] = None
            origin = Sighting(own.cluster, relayed.origin, relayed.incarnation, own.version)
            arrived.taken.append((origin, relayed.frame(first)))

    def _gathering_of(self, relayed: Relayed) -> _Gathering:
        found = self._gathering.get(relayed.origin)
        if found is None or found.incarnation != relayed.incarnation:
            found = _Gathering(relayed.incarnation)
            if relayed.origin in self._view.members:  # else nobody could be told, and names would pile up
                self._gathering[relayed.origin] = found
        return found

    def _collect(self, receipts: Receipts, arrived: Arrived, now_us: Instant) -> None:
        own = self._view.own
        if receipts.origin == own.name:
            if receipts.incarnation == own.incarnation:
                arrived.taken.extend(
                    (Sighting(own.cluster, name, incarnation, own.version), ack)
                    for name, incarnation, ack in receipts.acks
                )
            return
        gathering = self._gathering.get(receipts.origin)
        if gathering is None or gathering.incarnation != receipts.incarnation:
            if receipts.origin in self._view.members:
                arrived.send.append((receipts.origin, encode(receipts)))
            return
        for name, incarnation, ack in receipts.acks:
            _note(gathering, name, incarnation, ack, now_us)
        arrived.send.extend(self._complete(receipts.origin, gathering))

    def acknowledge(self, origin: str, ack: bytes, *, now_us: Instant) -> list[tuple[str, bytes]]:
        """Acknowledge frames of an origin's link that this node has taken; returns what to send."""
        gathering = self._gathering.get(origin)
        if gathering is None or origin not in self._relayed:
            return [(origin, ack)]
        own = self._view.own
        _note(gathering, own.name, own.incarnation, ack, now_us)
        return list(self._complete(origin, gathering))

    def _complete(
        self, origin: str, gathering: _Gathering, *, late: bool = False
    ) -> Iterable[tuple[str, bytes]]:
        """Pass acknowledgements on if none is missing, or if it is late."""
        if gathering.waits and not late:
            return ()
        acks = [(name, incarnation, ack) for name, (incarnation, _, ack) in gathering.acks.items()]
        gathering.acks = {}
        gathering.waits = {}
        gathering.since_us = None
        up = gathering.up if self._zone_of(gathering.up) is not None else origin
        return ((up, encode(Receipts(origin, gathering.incarnation, acks))),)

    def timer(self) -> Instant | None:
        """When to call `due`; None: no acknowledgement is kept back."""
        since = [one.since_us for one in self._gathering.values() if one.since_us is not None]
        return min(since) + limits.CLUSTER_GATHER_US if since else None

    def due(self, *, now_us: Instant) -> list[tuple[str, bytes]]:
        """Pass on the acknowledgements that have waited for others long enough."""
        found: list[tuple[str, bytes]] = []
        for origin, one in self._gathering.items():
            if one.since_us is not None and one.since_us + limits.CLUSTER_GATHER_US <= now_us:
                found.extend(self._complete(origin, one, late=True))
        return found


def _note(gathering: _Gathering, name: str, incarnation: int, frame: bytes, now_us: Instant) -> None:
    """Keep the acknowledgement of a node, if it is not older than the one that waits; ClusterError: none."""
    ack = decode_frame(frame)
    if not isinstance(ack, Ack):
        return
    before = gathering.acks.get(name)
    if before is None or before[0] != incarnation or before[1] <= ack.upto:
        gathering.acks[name] = (incarnation, ack.upto, frame)
    if gathering.waits.get(name, 0) <= ack.upto:
        gathering.waits.pop(name, None)
    if gathering.since_us is None:
        gathering.since_us = now_us


def _alike(loads: Sequence[Load]) -> set[str]:
    """The nodes that get something which others among them get, too."""
    bodies: dict[bytes, list[str]] = {}
    for load in loads:
        for frame in load.frames:
            data = decode_frame(frame)
            assert not isinstance(data, Ack)
            bodies.setdefault(data.body, []).append(load.name)
    count: Counter[bytes] = Counter()
    items = {body: set(split_items(body)) for body in bodies}
    for body, names in bodies.items():
        for item in items[body]:
            count[item] += len(names)
    return {
        name
        for body, names in bodies.items()
        if any(count[item] > 1 for item in items[body])
        for name in names
    }
