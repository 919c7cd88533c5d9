"""A cluster under random faults, in virtual time: links, interest, view and stamps of `core/cluster`.

Nodes publish, subscribe, retain and delete while the network loses, repeats and reorders frames, links are
cut, and nodes are frozen, killed and started again. Then everything is mended, and what the cluster promises
is checked: nothing twice and in order, every event accounted for, everybody knows what everybody wants, the
same retained messages everywhere. A run is repeated exactly by its seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.cluster.backlog import LinkAccount, Outgoing
from penstock.core.cluster.forwarding import Forwarding, Load
from penstock.core.cluster.frames import About, Carried, Told, Wants, encode_item, is_data
from penstock.core.cluster.peer import Addressed, PeerLink
from penstock.core.cluster.stamps import Stamp, Stamps
from penstock.core.cluster.view import Change, Sighting, View
from penstock.model.digest_wire import from_bytes
from penstock.model.event import Event
from penstock.model.instant import SECOND_US, to_us
from penstock_lab.sim.cluster.receiver_classes import Receivers

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.cluster.frames import Item

TOPICS: Final = ("a", "b", "c", "d")
ACTIONS: Final = 120
"""Things that happen in a run before everything is mended."""

QUIET_S: Final = 300
"""Virtual seconds within which a mended cluster must be quiet."""

LEASE_US: Final = to_us(limits.CLUSTER_LEASE_S)


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """The outcome of one run."""

    seed: int
    problems: tuple[str, ...]
    published: int
    received: int
    digested: int
    """Events that full links counted in digests."""
    abandoned: int
    faults: int
    """Cuts, freezes and kills."""
    packed: int = 0
    """Events that policies of receivers counted in digests while a link was split."""
    forwarded: int = 0
    """Frames that nodes passed on for others."""
    repaired: int = 0
    """Links whose frames were sent again because a forwarder had not passed them on."""


@dataclass(slots=True)
class _Ledger:
    """Messages that one node, over all its incarnations, has sent to and got from another one."""

    past: LinkAccount = field(default_factory=LinkAccount)
    got: int = 0
    told: int = 0
    """Events counted in digests that have come."""
    last: tuple[int, int] = (0, 0)
    """Incarnation of the other node, and number of the last event from it."""


class _Node:
    """One node: its view, its links, and what it has."""

    def __init__(self, name: str, world: _World) -> None:
        self.name = name
        self.world = world
        self.wanted: dict[str, None] = {}
        self.ledgers: dict[str, _Ledger] = {}
        self.receivers = Receivers(world.seed, name, TOPICS, world.problem)
        self.alive = False
        self.frozen = False
        self.stalled: list[Callable[[], None]] = []
        """Calls that wait for the node until it is no longer frozen."""

    def start(self) -> None:
        """Begin a new incarnation; subscriptions are kept, all else is lost."""
        self.alive, self.frozen = True, False
        self.stalled.clear()
        self.own = Sighting("ward", self.name, self.world.now_us + 1)
        self.view = View(self.own)
        self.zone = self.world.zones.get(self.name, "")
        self.forwarding = Forwarding(self.view, zone=self.zone, fan_out=self.world.fan_out)
        self.links: dict[str, PeerLink] = {}
        self.known: dict[str, dict[str, None]] = {}
        self.stamps = Stamps(self.name)
        self.kept: dict[str, bytes] = {}
        self.number = 0

    def stop(self) -> None:
        """Lose everything that is not on disk."""
        self.world.count(self.forwarding)
        for name, link in self.links.items():
            self.ledger(name).past += link.abandon()
        self.links.clear()
        self.alive = False

    def ledger(self, name: str) -> _Ledger:
        return self.ledgers.setdefault(name, _Ledger())

    def do(self, what: Callable[[], None]) -> None:
        """Have something happen to this node, now or when it is no longer frozen."""
        if self.frozen:
            self.stalled.append(what)
        elif self.alive:
            what()

    # -- the others ------------------------------------------------------------------------------------------

    def appeared(self, seen: Sighting) -> None:
        change = self.view.appeared(seen, now_us=self.world.now_us)
        if change in (Change.JOINED, Change.RESTARTED):
            before = self.links.get(seen.name)
            known = self.known[seen.name] = {}
            link = PeerLink(
                self.wanted,
                lambda topic: [topic] if topic in known else [],
                capacity_events=8,
                window_bytes=400,
            )
            if before is not None:
                link.inherit(before, now_us=self.world.now_us)
                known.update(dict.fromkeys(link.theirs.filters))
                self.ledger(seen.name).past += before.abandon()
                self._spread(seen.name)
            self.links[seen.name] = link
            self.receivers.linked(seen.name, link)
            gone = [topic for topic, _ in self.stamps.deleted()]
            link.begin_snapshot([*self.kept, *gone], self._kept_item)
            if self.world.zones:
                link.say(About(self.zone, (), "", 0, ""))
            self._repair(seen.name)
        elif change is Change.BACK:
            self._post(seen.name, self.links[seen.name].renewed(now_us=self.world.now_us))
        self.flush()

    def vanished(self, seen: Sighting) -> None:
        if self.view.vanished(seen, now_us=self.world.now_us) is Change.AWAY:
            self.links[seen.name].lost()
            self._repair(seen.name)

    def _repair(self, lost: str) -> None:
        """Send what was on its way through a node that is not there again."""
        for name in self.forwarding.lost(lost):
            self._again(name)

    def _again(self, name: str) -> None:
        link = self.links.get(name)
        if link is not None and link.connected:
            self.forwarding.sent_again(name, now_us=self.world.now_us)
            self._post(name, link.renewed(now_us=self.world.now_us))

    def tick(self) -> None:
        now_us = self.world.now_us
        for name, link in self.links.items():
            again = link.retry(now_us=now_us)
            if again:
                self.forwarding.sent_again(name, now_us=now_us)
            self._post(name, again)
        for member in self.view.overdue(now_us=now_us):
            self.ledger(member.name).past += self.links.pop(member.name).abandon()
            self._spread(member.name)
        self.post(self.forwarding.due(now_us=now_us))
        self.flush()

    def _spread(self, gone: str) -> None:
        """Tell the others what a node that is gone has brought here."""
        topics = self.stamps.left_by(gone)
        for name, link in self.links.items():
            if name != gone:
                link.owe(topics)

    def flush(self) -> None:
        now_us = self.world.now_us
        loads = []
        for name, link in self.links.items():
            busy, answered = link.in_flight_bytes > 0, link.round_trip_us > 0
            frames = link.frames(now_us=now_us)
            if frames:
                loads.append(Load(name, frames, busy, answered))
        self.post(self.forwarding.route(loads, now_us=now_us))

    def post(self, frames: list[tuple[str, bytes]]) -> None:
        for name, frame in frames:
            self._post(name, [frame])

    def _post(self, name: str, frames: list[bytes]) -> None:
        member = self.view.members.get(name)
        if member is not None:
            for frame in frames:
                self.world.carry(self, Sighting("ward", name, member.incarnation), frame)

    # -- messages --------------------------------------------------------------------------------------------

    def publish(self, topic: str) -> None:
        self.number += 1
        out = self._outgoing(Carried(self.number, topic, b"", self.world.now_us))
        for name, link in self.links.items():
            if topic in self.known[name]:
                self.receivers.offered[name, topic] += 1
                link.offer(out, now_us=self.world.now_us)
        self.flush()

    def retain(self, topic: str, payload: bytes) -> None:
        self.number += 1
        stamp = self.stamps.write(topic, at_us=self.world.now_us, number=self.number, deleted=not payload)
        self._keep(topic, payload)
        out = self._outgoing(
            Carried(
                self.number,
                topic,
                payload,
                self.world.now_us,
                retain=True,
                stamp=(stamp.at_us, stamp.origin, stamp.number),
            )
        )
        for name, link in self.links.items():
            self.receivers.offered[name, topic] += 1
            link.offer(out, now_us=self.world.now_us)
        self.flush()

    def subscribe(self, topic: str, *, wanted: bool) -> None:
        if wanted:
            self.wanted[topic] = None
        else:
            self.wanted.pop(topic, None)
        for link in self.links.values():
            link.interest.change(topic, wanted=wanted)
        self.flush()

    @staticmethod
    def _outgoing(item: Carried) -> Outgoing:
        event = Event(item.topic, item.payload, item.ts_us, seq=item.number)
        return Outgoing(event, encode_item(item), retained=item.retain)

    def _kept_item(self, topic: str) -> bytes:
        stamp = self.stamps.of(topic, at_us=0)
        payload = self.kept.get(topic, b"")
        return encode_item(
            Carried(
                0,
                topic,
                payload,
                0,
                retain=True,
                stamp=(stamp.at_us, stamp.origin, stamp.number),
                kept_only=True,
            )
        )

    def _keep(self, topic: str, payload: bytes) -> None:
        if payload:
            self.kept[topic] = payload
        else:
            self.kept.pop(topic, None)

    def received(self, sender: Sighting, frame: bytes) -> None:
        member = self.view.members.get(sender.name)
        if member is None or member.incarnation != sender.incarnation:
            return
        forwarding = self.forwarding
        if forwarding.concerns(frame):
            arrived = forwarding.received(sender.name, frame, now_us=self.world.now_us)
            self.post(arrived.send)
            for origin, each in arrived.taken:
                self._received(origin, each)
            for name in arrived.unreached:
                self._again(name)
        else:
            if is_data(frame):
                forwarding.came_directly(sender.name)
            self._received(sender, frame)
        self.flush()

    def _received(self, sender: Sighting, frame: bytes) -> None:
        member = self.view.members.get(sender.name)
        if member is None or member.incarnation != sender.incarnation:
            return
        now_us = self.world.now_us
        link = self.links[sender.name]
        found = link.received(frame, now_us=now_us)
        if found.again and is_data(found.again[0]):
            self.forwarding.sent_again(sender.name, now_us=now_us)
        self._post(sender.name, found.again)
        for item in found.items:
            self._take(sender, link, item)
        if found.items:
            self.post(
                self.forwarding.acknowledge(sender.name, link.acknowledgement(link.taken), now_us=now_us)
            )

    def _take(self, sender: Sighting, link: PeerLink, item: Item | Addressed) -> None:
        ledger = self.ledger(sender.name)
        if isinstance(item, About):
            self.view.members[sender.name].about = item
        elif isinstance(item, Wants):
            added, removed = link.wants(item)
            known = self.known[sender.name]
            known.update(dict.fromkeys(added))
            for topic in removed:
                known.pop(topic, None)
        elif isinstance(item, Told):
            ledger.told += from_bytes(item.digest).count
            self.receivers.told(sender.name, item)
        elif isinstance(item, Carried | Addressed):
            classes = item.classes if isinstance(item, Addressed) else None
            item = item.item if isinstance(item, Addressed) else item
            if item.stamp is not None and self.stamps.later(
                item.topic,
                Stamp(*item.stamp),
                deleted=not item.payload,
                through=sender.name,
                now_us=self.world.now_us,
            ):
                self._keep(item.topic, item.payload)
            if not item.kept_only:
                ledger.got += 1
                self.receivers.got(sender.name, item, classes)
                place = (sender.incarnation, item.number)
                if place <= ledger.last:
                    self.world.problem(f"{self.name} got {place} of {sender.name} after {ledger.last}")
                ledger.last = place


class _World:
    """The nodes, the network between them and the time."""

    def __init__(self, seed: int, *, trees: bool) -> None:
        self.dice = Random(seed)  # noqa: S311  # a run is repeated by its seed
        self.seed = seed
        self.now_us = 0
        self.problems: list[str] = []
        self.faults = 0
        self.published = 0
        self.forwarded = 0
        self.repaired = 0
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._cuts: dict[frozenset[str], None] = {}
        self.lose = self.dice.choice([0, 0.02, 0.2])
        self.repeat = self.dice.choice([0, 0.1])
        self.delay_us = self.dice.choice([100, 5_000, 300_000])
        size = self.dice.randint(4, 9) if trees else self.dice.randint(2, 5)
        self.fan_out = self.dice.randint(1, 2) if trees else limits.CLUSTER_FAN_OUT
        places = ["east", "west", "north"][: self.dice.randint(1, 3)] if trees else []
        self.zones = {f"n{number}": self.dice.choice(places) for number in range(size)} if trees else {}
        """Zones of the nodes; none if the run is without trees."""
        self.nodes = {f"n{number}": _Node(f"n{number}", self) for number in range(size)}

    def problem(self, said: str) -> None:
        self.problems.append(f"{self.now_us / SECOND_US:.3f} s: {said}")

    def later(self, after_us: int, what: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._due, (self.now_us + after_us, self._order, what))

    def run_for(self, span_us: int) -> None:
        end_us = self.now_us + span_us
        while self._due and self._due[0][0] <= end_us:
            self.now_us, _, what = heappop(self._due)
            what()
        self.now_us = end_us

    def carry(self, sender: _Node, to: Sighting, frame: bytes) -> None:
        target, own = self.nodes[to.name], sender.own

        def arrive() -> None:
            if target.alive and target.own == to and not self._apart(own.name, to.name):
                target.do(lambda: target.received(own, frame))

        times = 0 if self.dice.random() < self.lose else 2 if self.dice.random() < self.repeat else 1
        for _ in range(times):
            self.later(self.dice.randint(1, self.delay_us), arrive)

    def _apart(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self._cuts

    def meet(self, one: _Node) -> None:
        """Announce a node to those that reach it, and them to it."""
        for other in self.nodes.values():
            if other is not one and other.alive and not self._apart(one.name, other.name):
                self._see(one, other)
                self._see(other, one)

    def _see(self, one: _Node, other: _Node) -> None:
        seen = other.own
        one.do(lambda: one.appeared(seen))

    def part(self, one: _Node, seen: Sighting, after_us: int) -> None:
        """Have a node notice that another one is gone, unless it is back by then."""

        def notice() -> None:
            there = self.nodes[seen.name]
            gone = not there.alive or there.own != seen or there.frozen
            if one.alive and (gone or self._apart(one.name, seen.name)):
                one.do(lambda: one.vanished(seen))

        self.later(after_us, notice)

    # -- faults ----------------------------------------------------------------------------------------------

    def act(self) -> None:
        """One random thing happens."""
        dice = self.dice
        node = dice.choice(list(self.nodes.values()))
        if dice.random() < 0.7:
            if node.alive and not node.frozen:
                self._use(node, dice.choice(TOPICS))
            return
        what = dice.choices(["cut", "mend", "freeze", "thaw", "kill", "start"], [4, 6, 3, 5, 2, 6])[0]
        match what:
            case "cut":
                self.cut(node, dice.choice(list(self.nodes.values())))
            case "mend":
                self.mend()
            case "freeze" if node.alive and not node.frozen:
                self.faults += 1
                node.frozen = True
                for other in self.nodes.values():
                    self.part(other, node.own, LEASE_US)
            case "thaw":
                self.thaw(node)
            case "kill" if node.alive:
                self.faults += 1
                node.stop()
                for other in self.nodes.values():
                    self.part(other, node.own, dice.choice([10_000, LEASE_US]))
            case "start" if not node.alive:
                node.start()
                self.meet(node)
            case _:
                pass

    def _use(self, node: _Node, topic: str) -> None:
        dice = self.dice
        match dice.choices(["publish", "retain", "subscribe"], [8, 2, 3])[0]:
            case "publish":
                for _ in range(dice.randint(1, 20)):
                    self.published += 1
                    node.publish(topic)
            case "retain":
                node.retain(topic, dice.choice([b"", b"%d" % self.now_us]))
            case _:
                node.subscribe(topic, wanted=dice.random() < 0.7)

    def cut(self, one: _Node, other: _Node) -> None:
        if one is not other and one.alive and other.alive:
            self.faults += 1
            self._cuts[frozenset((one.name, other.name))] = None
            self.part(one, other.own, self.dice.randint(1, LEASE_US))
            self.part(other, one.own, self.dice.randint(1, LEASE_US))

    def mend(self) -> None:
        if self._cuts:
            pair = next(iter(self._cuts))
            del self._cuts[pair]
            one, other = (self.nodes[name] for name in sorted(pair))
            if one.alive and other.alive:
                self._see(one, other)
                self._see(other, one)

    def thaw(self, node: _Node) -> None:
        if node.alive and node.frozen:
            node.frozen = False
            stalled, node.stalled = node.stalled, []
            for what in stalled:
                what()
            self.meet(node)

    def tick(self) -> None:
        for node in self.nodes.values():
            node.do(node.tick)
        self.later(100_000, self.tick)

    def count(self, forwarding: Forwarding) -> None:
        """Add up what a node has forwarded and repaired until it ends."""
        self.forwarded += forwarding.forwarded.total()
        self.repaired += forwarding.repaired

    # -- the end ---------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """End all faults, and give the cluster time to come to rest."""
        self.lose = 0
        while self._cuts:
            self.mend()
        for node in self.nodes.values():
            self.thaw(node)
            if not node.alive:
                node.start()
                self.meet(node)
        self.run_for(LEASE_US)
        for node in self.nodes.values():
            self.meet(node)
        for _ in range(QUIET_S):
            self.run_for(SECOND_US)
            if all(self._quiet(link) for node in self.nodes.values() for link in node.links.values()):
                return

    @staticmethod
    def _quiet(link: PeerLink) -> bool:
        return link.connected and link.idle

    def check(self) -> LinkAccount:
        """Check the promises; returns the account of all links."""
        total = LinkAccount()
        nodes = list(self.nodes.values())
        for node in nodes:
            for other in nodes:
                if node is not other:
                    total += self._check_pair(node, other)
        if len({tuple(sorted(node.kept.items())) for node in nodes}) > 1:
            self.problem(f"retained messages differ: {[sorted(node.kept) for node in nodes]}")
        return total

    def _check_pair(self, node: _Node, other: _Node) -> LinkAccount:
        pair = f"{node.name} → {other.name}"
        link = node.links.get(other.name)
        account = node.ledger(other.name).past + (LinkAccount() if link is None else link.account())
        if link is None or not self._quiet(link):
            self.problem(f"{pair}: not at rest: {account}")
            return account
        if not account.balanced or account.queued or account.in_flight:
            self.problem(f"{pair}: not accounted for: {account}")
        got = other.ledger(node.name).got
        # What was abandoned may have arrived: its acknowledgement did not.
        if not account.handed <= got <= account.handed + account.abandoned:
            self.problem(f"{pair}: {got} received, {account}")
        wanted = {*other.wanted, *other.receivers.topics}
        if set(node.known[other.name]) != wanted:
            self.problem(f"{pair}: known {sorted(node.known[other.name])}, wanted {sorted(wanted)}")
        node.receivers.check(other.receivers)
        return account


def run(seed: int, *, trees: bool = False) -> ClusterRun:
    """Run one cluster through its faults, with a small fan-out and zones if `trees`; a seed repeats a run."""
    world = _World(seed, trees=trees)
    for node in world.nodes.values():
        node.start()
        world.meet(node)
    world.tick()
    for _ in range(ACTIONS):
        world.act()
        world.run_for(world.dice.choice([1_000, 50_000, 1_000_000]))
    world.heal()
    for node in world.nodes.values():
        world.count(node.forwarding)
    total = world.check()
    return ClusterRun(
        seed=seed,
        problems=tuple(world.problems),
        published=world.published,
        received=sum(ledger.got for node in world.nodes.values() for ledger in node.ledgers.values()),
        digested=total.digested,
        abandoned=total.abandoned,
        faults=world.faults,
        packed=sum(node.receivers.digested for node in world.nodes.values()),
        forwarded=world.forwarded,
        repaired=world.repaired,
    )
