"""Clients that move between the nodes of a cluster, over a network that a test can disturb."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from penstock.mqtt.codes import Reason
from penstock.mqtt.packets.connect import Disconnect, Pingreq, Pingresp, Will
from penstock.mqtt.packets.publish import Puback, Pubcomp, Publish, Pubrec, Pubrel
from penstock.node.store.tables import Store
from tests.kit.cluster import Network, member, members, owned_by, settled, told
from tests.kit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.cluster import Member
    from tests.kit.peer import Peer

KEPT: dict[str, Any] = {"session_expiry_s": 3600}


async def come(node: Member, client: str = "phone", **how: Any) -> Peer:
    """A client that continues its session, wherever that is."""
    return await node.connect(client, **{"clean": False, **KEPT, **how})


def accounts_hold(nodes: list[Member]) -> bool:
    return all(one.running.account_holds() for one in nodes)


def total(nodes: list[Member]) -> tuple[int, int, int, int]:
    """Accepted, delivered, queued and abandoned over all nodes."""
    found = [one.broker.status().account for one in nodes]
    return (
        sum(each.accepted for each in found),
        sum(each.delivered for each in found),
        sum(each.queued for each in found),
        sum(each.abandoned for each in found),
    )


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("at", [0, 1, 2])
async def test_what_waits_comes_along(qos: int, at: int) -> None:
    async with members(Network(delay_s=0.005), "n1", "n2", "n3") as nodes:
        phone = await nodes[0].connect("phone", **KEPT)
        await phone.subscribe("ward/+", qos=2)
        phone.abort()
        await until(lambda: not nodes[0].broker.sessions.get("phone").attached)  # type: ignore[union-attr]
        sensor = await nodes[at].connect("sensor")
        for number in range(5):
            if qos == 0:
                sensor.publish0("ward/1", b"%d" % number)
            elif qos == 1:
                await sensor.publish1("ward/1", b"%d" % number)
            else:
                await sensor.publish2("ward/1", b"%d" % number)
        await sensor.settled()
        await settled(*nodes)
        phone = await come(nodes[1])
        assert phone.connack.session_present
        assert await phone.payloads(5) == [b"%d" % number for number in range(5)]
        assert nodes[0].broker.sessions.get("phone") is None
        sensor.publish0("ward/1", b"5")
        assert (await phone.message()).payload == b"5"
        assert await phone.silent()
        assert accounts_hold(nodes)
        assert total(nodes)[:3] == (6, 6, 0)
        assert nodes[1].service.moves.figures().came == 1
        await until(lambda: nodes[0].service.moves.figures().went == 1)
        await settled(*nodes)
        sensor.publish0("ward/1", b"6")
        await phone.message()


async def test_a_client_without_a_session_begins_one_and_a_clean_start_ends_the_other() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        fresh = await come(n1)
        assert not fresh.connack.session_present
        await fresh.subscribe("a", qos=1)
        again = await n2.connect("phone")
        assert not again.connack.session_present
        said = await fresh.expect(Disconnect)
        assert said.reason == Reason.SESSION_TAKEN_OVER
        assert n1.broker.sessions.get("phone") is None
        sensor = await n1.connect("sensor")
        assert (await sensor.publish1("a", b"x")).reason == Reason.NO_MATCHING_SUBSCRIBERS


async def test_the_connection_at_the_old_node_is_closed_and_its_will_published() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        watcher = await n2.connect("watcher")
        await watcher.subscribe("will/#", qos=1)
        first = await n1.connect("phone", will=Will("will/now", b"gone", 1, False), **KEPT)
        second = await come(n2)
        assert second.connack.session_present
        assert (await first.expect(Disconnect)).reason == Reason.SESSION_TAKEN_OVER
        assert (await watcher.message()).payload == b"gone"
        assert await first.closed()


async def test_messages_in_flight_are_sent_again_under_their_identifiers() -> None:
    async with members(Network(), "n1", "n2", "n3") as nodes:
        n1, n2, n3 = nodes
        phone = await n1.connect("phone", **KEPT)
        await phone.subscribe("a", qos=2)
        sensor = await n3.connect("sensor")
        await sensor.publish1("a", b"one")
        await sensor.publish2("a", b"two")
        await sensor.publish2("a", b"three")
        one, two, three = [await phone.expect(Publish) for _ in range(3)]
        phone.send(Pubrec(two.packet_id))
        assert (await phone.expect(Pubrel)).packet_id == two.packet_id
        phone.send(Publish("b", b"mine", qos=2, packet_id=77))
        assert (await phone.expect(Pubrec)).packet_id == 77
        phone = await come(n2)
        assert (await phone.expect(Pubrel)).packet_id == two.packet_id
        again = [await phone.expect(Publish) for _ in range(2)]
        assert [(each.packet_id, each.payload, each.dup) for each in again] == [
            (one.packet_id, b"one", True),
            (three.packet_id, b"three", True),
        ]
        # The message of the client that it has not released is not taken once more.
        watcher = await n1.connect("watcher")
        await watcher.subscribe("b", qos=1)
        phone.send(Publish("b", b"mine", qos=2, packet_id=77, dup=True))
        assert (await phone.expect(Pubrec)).packet_id == 77
        phone.send(Pubrel(77))
        assert (await phone.expect(Pubcomp)).packet_id == 77
        assert await watcher.silent()
        phone.send(Puback(one.packet_id))
        phone.send(Pubrec(three.packet_id))
        assert (await phone.expect(Pubrel)).packet_id == three.packet_id
        for each in (two, three):
            phone.send(Pubcomp(each.packet_id))
        assert await phone.silent()
        assert accounts_hold(nodes)
        assert total(nodes)[:3] == (3, 3, 0)


@pytest.mark.parametrize("in_flight", [False, True])
async def test_what_waits_has_its_identifiers_on_disk_before_the_client_is_let_in(
    tmp_path: Path, in_flight: bool
) -> None:
    """So it leaves at once, even while the disk is busy; what was in flight keeps its identifier."""
    network = Network()
    async with (
        members(network, "n1", "n3") as rest,
        member(network, "n2", store=Store(tmp_path / "s.db")) as n2,
    ):
        nodes = [n2, *rest]
        await settled(*nodes)
        phone = await rest[0].connect("phone", receive_maximum=1, **KEPT)
        await phone.subscribe("a", qos=1)
        if not in_flight:
            phone.abort()
            await until(lambda: not rest[0].broker.sessions.get("phone").attached)  # type: ignore[union-attr]
        sensor = await rest[1].connect("sensor")
        for number in range(5):
            await sensor.publish1("a", b"%d" % number)
        first = (await phone.expect(Publish)).packet_id if in_flight else 0
        phone.abort()
        await settled(*nodes)
        busy, done = threading.Event(), threading.Event()
        stalls: list[asyncio.Future[bool]] = []
        journal, attach = n2.broker.journal, n2.broker.sessions._attach
        assert journal is not None

        def occupy() -> bool:
            busy.set()
            return done.wait(60)

        def stall(*how: Any) -> None:
            """Keep the disk busy from the moment on in which the client is let in."""
            thread = journal._commits._thread
            stalls.append(asyncio.get_running_loop().run_in_executor(thread, occupy))
            assert busy.wait(60)
            attach(*how)

        if not in_flight:
            n2.broker.sessions._attach = stall  # type: ignore[method-assign, assignment]
        try:
            phone = await come(n2)
            came = [await phone.expect(Publish) for _ in range(5)]
            assert not any(each.done() for each in stalls)
        finally:
            done.set()
        assert [each.payload for each in came] == [b"%d" % number for number in range(5)]
        assert [each.dup for each in came] == [in_flight, False, False, False, False]
        assert not in_flight or came[0].packet_id == first
        assert len({each.packet_id for each in came}) == 5
        for each in came:
            phone.send(Puback(each.packet_id))
        session = n2.broker.sessions.get("phone")
        assert session is not None
        await until(lambda: not session.exchange.outgoing.in_flight)
        await journal.committed()
        assert accounts_hold(nodes)
    found = Store(tmp_path / "s.db")
    assert not found.load().messages
    found.close()


async def test_policies_and_waiting_digests_come_along() -> None:
    async with members(Network(), "n1", "n2") as nodes:
        n1, n2 = nodes
        phone = await n1.connect("phone", **KEPT)
        await phone.subscribe("a", qos=0, user=(("policy", "levels: [{keep: {latest: 3}}]"),))
        phone.abort()
        await until(lambda: not n1.broker.sessions.get("phone").attached)  # type: ignore[union-attr]
        sensor = await n2.connect("sensor")
        for number in range(20):
            sensor.publish0("a", b"%d" % number)
        await sensor.settled()
        await settled(*nodes)
        before = n1.broker.sessions.get("phone").held["a"].account()  # type: ignore[union-attr]
        phone = await come(n2)
        after = n2.broker.sessions.get("phone").held["a"]  # type: ignore[union-attr]
        assert after.chosen.asked == "levels: [{keep: {latest: 3}}]"
        assert after.account().accepted == before.queued
        assert accounts_hold(nodes)


class Traveller:
    """A client that moves from node to node: at each one it connects before it leaves the one before."""

    def __init__(self, link: Peer) -> None:
        self.link = link
        self.got: list[bytes] = []
        self._received: set[int] = set()
        """QoS 2 messages that are not released."""

    async def read(self, *, until_closed: bool = False) -> None:
        """Read what is there, or everything that the node sends before it closes the connection."""
        while True:
            packet = await self.link.next()
            match packet:
                case Publish():
                    self._take(packet, answer=not until_closed)
                case Pubrel():
                    self._received.discard(packet.packet_id)
                    if not until_closed:
                        self.link.send(Pubcomp(packet.packet_id))
                case Disconnect() | None:
                    assert packet is None or packet.reason == Reason.SESSION_TAKEN_OVER
                    return
                case Pingresp() if not until_closed:
                    return
                case _:
                    pass

    def _take(self, packet: Publish, *, answer: bool) -> None:
        if packet.qos and answer:
            self.link.send((Pubrec if packet.qos == 2 else Puback)(packet.packet_id))
        if packet.qos == 2:
            if packet.packet_id in self._received:
                return
            self._received.add(packet.packet_id)
        self.got.append(packet.payload)

    async def move(self, node: Member) -> None:
        before = self.link
        after = await come(node)
        assert after.connack.session_present
        await self.read(until_closed=True)
        before.writer.close()
        self.link = after

    async def look(self) -> None:
        """Read until the node is silent."""
        self.link.send(Pingreq())
        await self.read()


@pytest.mark.slow
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_nothing_is_lost_or_repeated_while_a_client_moves(qos: int) -> None:
    network = Network(qos, lose=0.05, repeat=0.05, delay_s=0.01)
    # On a busy machine a lost frame is sent again late: no node is to go on without an answer for that.
    async with members(network, "n1", "n2", "n3", wait_s=20, move_s=60) as nodes:
        first = await nodes[0].connect("phone", **KEPT)
        await first.subscribe("a/#", qos=qos)
        await first.subscribe("+/b", qos=qos)
        phone = Traveller(first)
        done = False
        counts = [0, 0, 0]

        async def publish(at: int) -> None:
            sensor = await nodes[at].connect(f"sensor{at}")
            while not done:
                payload = b"%d:%d" % (at, counts[at])
                counts[at] += 1
                if at == 1:
                    await sensor.publish1("a/b", payload)
                elif qos == 2:
                    await sensor.publish2("a/b", payload)
                else:
                    sensor.publish0("a/b", payload)
                await asyncio.sleep(0.002)
            await sensor.settled()

        sensors = [asyncio.ensure_future(publish(at)) for at in range(3)]
        for step in range(1, 9):
            await asyncio.sleep(0.05)
            await phone.look()
            await phone.move(nodes[step % 3])
        done = True
        await asyncio.gather(*sensors)
        await settled(*nodes)

        async def everything() -> None:
            while len(set(phone.got)) < sum(counts):
                await phone.look()
                await asyncio.sleep(0.01)

        await asyncio.wait_for(everything(), 60)
        await phone.look()
        for at in range(3):
            mine = [int(one[2:]) for one in phone.got if one[:1] == b"%d" % at]
            firsts = list(dict.fromkeys(mine))
            assert firsts == list(range(counts[at]))
            if not qos or at != 1:  # what was sent with QoS 1 and not acknowledged is sent again
                assert mine == firsts
        assert accounts_hold(nodes)
        assert sum(one.service.moves.figures().came for one in nodes) == 8


def kill(network: Network, node: Member) -> None:
    """A node is gone without a word, and the others notice it."""
    own = node.wire.own
    del network.nodes[own]
    for wire in list(network.nodes.values()):
        wire.events.vanished(own)


async def detached(node: Member, client: str, *payloads: bytes, qos: int = 1) -> None:
    """A client that has subscribed to `a` and left, and what waits for it."""
    phone = await node.connect(client, **KEPT)
    await phone.subscribe("a", qos=qos)
    phone.abort()
    await until(lambda: not node.broker.sessions.get(client).attached)  # type: ignore[union-attr]
    sensor = await node.connect("before")
    for payload in payloads:
        await sensor.publish1("a", payload)


async def known(nodes: list[Member], client: str) -> None:
    """Wait until the owners of a client know its session whole."""
    owners = nodes[0].service.moves.roots.owners.of(client)

    def knows(node: Member) -> bool:
        record = node.service.moves.roots.directory.get(client)
        return record is not None and bool(record.facts) and not record.coming

    await until(lambda: all(knows(one) for one in nodes if one.service.own.name in owners))
    await settled(*nodes)
    await until(lambda: not any(one.service.moves.roots._news for one in nodes))


async def wanted(nodes: list[Member], client: str) -> None:
    """Wait until one of the nodes has the session, and the others know that it wants messages on `a`."""

    def known_to_all() -> bool:
        holders = [one for one in nodes if one.broker.sessions.get(client) is not None]
        names = [one.service.own.name for one in holders]
        others = [one for one in nodes if one not in holders]
        return bool(names) and all(
            "a" in one.to(name).link.theirs.filters for one in others for name in names
        )

    await until(known_to_all)


@pytest.mark.parametrize("root", ["n1", "n2", "n3"])
async def test_when_the_holder_is_killed_new_events_wait_at_the_root_at_once(root: str) -> None:
    network = Network()
    async with members(network, "n1", "n2", "n3") as nodes:
        client = owned_by(nodes, root)
        await detached(nodes[0], client, b"lost")
        await known(nodes, client)
        kill(network, nodes[0])
        rest = nodes[1:]
        await wanted(rest, client)
        await settled(*rest)
        sensor = await nodes[2].connect("sensor")
        for payload in (b"one", b"two"):
            assert (await sensor.publish1("a", payload)).reason == Reason.SUCCESS
        assert sum(one.service.moves.figures().standby for one in rest) == 1
        phone = await come(nodes[1], client)
        assert phone.connack.session_present
        assert await phone.payloads(2) == [b"one", b"two"]
        assert await phone.silent()
        assert sum(one.broker.sessions.get(client) is not None for one in rest) == 1
        assert accounts_hold(rest)


@pytest.mark.parametrize("frozen", [False, True])
async def test_when_the_root_is_lost_while_a_client_moves_its_session_comes_along(frozen: bool) -> None:
    """It is killed, or so slow that it is given up: the next owner knows where the session is."""
    network = Network()
    async with members(network, "n1", "n2", "n3", move_s=0.2 if frozen else 60) as nodes:
        n1, n2, n3 = nodes
        client = owned_by(nodes, "n3")
        await detached(n1, client, b"one", b"two")
        await known(nodes, client)
        network.freeze("n3")
        coming = asyncio.ensure_future(come(n2, client))
        if not frozen:
            await until(lambda: n2.service.moves.is_coming(client))
            kill(network, n3)
        phone = await coming
        assert phone.connack.session_present
        assert await phone.payloads(2) == [b"one", b"two"]
        assert n1.broker.sessions.get(client) is None
        if frozen:
            network.thaw("n3")
            await settled(*nodes)
            phone = await come(n1, client)
            assert phone.connack.session_present
        sensor = await n1.connect("sensor")
        await sensor.publish1("a", b"three")
        assert await phone.payloads(1) == [b"three"]
        assert await phone.silent()
        assert n1.service.moves.figures().abandoned == n2.service.moves.figures().abandoned == 0
        assert accounts_hold(nodes)


@pytest.mark.slow
@pytest.mark.parametrize("back", [False, True])
async def test_when_a_node_is_killed_while_it_takes_a_session_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    """What came since is with the node that gives the session away, also if the client comes `back` to it."""
    network = Network()
    async with members(network, "n1", "n2", "n3") as nodes:
        n1, n2, n3 = nodes
        client = owned_by(nodes, "n3")
        await detached(n1, client, b"one")
        await known(nodes, client)
        park = n1.service.moves.departures._park

        def parked(*what: Any, **how: Any) -> object:
            network.freeze("n2")  # the session never arrives there
            return park(*what, **how)

        monkeypatch.setattr(n1.service.moves.departures, "_park", parked)
        sensor = await n3.connect("sensor")
        coming = asyncio.ensure_future(come(n2, client))
        await until(lambda: "n2" in network.held)
        sensor.publish0("a", b"two")
        sensor.publish0("a", b"three")
        await until(lambda: n3.to("n1").link.idle)
        again = asyncio.ensure_future(come(n1 if back else n3, client))
        await until(lambda: (n1 if back else n3).service.moves.is_coming(client))
        kill(network, n2)
        coming.cancel()
        phone = await again
        assert phone.connack.session_present
        assert await phone.payloads(3) == [b"one", b"two", b"three"]
        await settled(n1, n3)
        sensor.publish0("a", b"four")
        assert await phone.payloads(1) == [b"four"]
        assert await phone.silent()
        assert n1.service.moves.figures().abandoned == n3.service.moves.figures().abandoned == 0
        assert accounts_hold([n1, n3])
        assert not (n3 if back else n1).broker.router.find("a").local


async def test_a_holder_that_was_cut_off_has_everything_when_it_is_back() -> None:
    network = Network()
    async with members(network, "n1", "n2", "n3") as nodes:
        client = owned_by(nodes, "n2")
        await detached(nodes[0], client, b"one")
        await known(nodes, client)
        network.cut("n1", "n2")
        network.cut("n1", "n3")
        await until(lambda: client in nodes[1].service.moves.roots.standby)
        await wanted(nodes[1:], client)
        sensor = await nodes[2].connect("sensor")
        await sensor.publish1("a", b"two")
        network.mend("n1", "n2")
        network.mend("n1", "n3")
        await until(lambda: nodes[1].broker.sessions.get(client) is None)
        await known(nodes, client)
        phone = await come(nodes[2], client)
        assert await phone.payloads(2) == [b"one", b"two"]
        assert await phone.silent()
        assert total(nodes)[1:] == (2, 0, 0)
        assert accounts_hold(nodes)


async def test_what_waits_at_a_stand_in_is_counted_if_the_session_left_the_holder_and_came_back() -> None:
    """The node that stands in has heard that the holder wants nothing more, and has kept nothing for it."""
    network = Network()
    async with members(network, "n1", "n2", "n3") as nodes:
        n1, n2, n3 = nodes
        client = owned_by(nodes, "n2")
        await detached(n1, client, b"one")
        await known(nodes, client)
        network.cut("n2", "n3")
        phone = await come(n3, client)
        assert (await phone.message()).payload == b"one"
        await until(lambda: not n2.to("n1").link.theirs.filters)
        network.cut("n1", "n2")
        await until(lambda: client in n2.service.moves.roots.standby)
        sensor = await n2.connect("sensor")
        await sensor.publish1("a", b"two")
        phone = await come(n1, client)
        assert phone.connack.session_present
        network.mend("n1", "n2")
        network.mend("n2", "n3")
        await until(lambda: n2.broker.sessions.get(client) is None)
        await settled(*nodes)
        await sensor.publish1("a", b"three")
        assert await phone.payloads(1) == [b"three"]
        assert n2.broker.status().account.abandoned == 1
        assert accounts_hold(nodes)


async def test_a_node_that_was_cut_off_sends_nothing_that_the_session_brought_with_it() -> None:
    """It knows of a subscription that was at the new node before the cut, and not that it has left since."""
    network = Network()
    async with members(network, "n1", "n2", "n3") as nodes:
        n1, n2, n3 = nodes
        client = owned_by(nodes, "n1")
        await detached(n2, client, b"one")
        await known(nodes, client)
        network.cut("n2", "n3")
        phone = await come(n1, client)
        assert (await phone.message()).payload == b"one"
        sensor = await n3.connect("sensor")
        await sensor.publish1("a", b"two")
        assert (await phone.message()).payload == b"two"
        assert n3.to("n2").link.account().queued == 1
        for node in (n2, n1, n2):  # it moves on before the node that was cut off is back
            phone = await come(node, client)
        network.mend("n2", "n3")
        await until(lambda: not n3.to("n2").link.account().queued)
        await settled(*nodes)
        await sensor.publish1("a", b"three")
        assert (await phone.message()).payload == b"three"
        assert await phone.silent()
        await until(lambda: not any(each.service._incoming.sieves for each in nodes))
        assert accounts_hold(nodes)


@pytest.mark.parametrize("policy", ["", "levels: [{keep: {latest: 1}}]"])
async def test_a_digest_of_what_a_session_has_seen_elsewhere_is_not_for_it(policy: str) -> None:
    """The link to its new node was cut, and its digest tells those who were there all the time."""
    network = Network()
    async with members(network, "n1", "n2", "n3", queue_events=5) as nodes:
        n1, n2, n3 = nodes
        user = (("policy", policy), ("digests", "compact")) if policy else (("digests", "compact"),)
        watcher = await n2.connect("watcher")
        await watcher.subscribe("a", qos=1, user=user)
        client = owned_by(nodes, "n3")
        phone = await n3.connect(client, **KEPT)
        await phone.subscribe("a", qos=1, user=user)
        await settled(*nodes)
        network.cut("n1", "n2")
        sensor = await n1.connect("sensor")
        for number in range(20):
            await sensor.publish1("a", b"%d" % number)
        assert await phone.payloads(20) == [b"%d" % number for number in range(20)]
        phone = await come(n2, client)
        assert phone.connack.session_present
        network.mend("n1", "n2")
        await settled(*nodes)
        await sensor.publish1("a", b"20")
        assert await told(phone) == ([b"20"], 0)
        events, digested = await told(watcher)
        assert (len(events) + digested, digested > 0) == (21, True)
        assert accounts_hold(nodes)


async def test_after_a_partition_the_later_attach_wins_and_the_rest_is_counted() -> None:
    network = Network()
    async with members(network, "n1", "n2") as nodes:
        n1, n2 = nodes
        client = owned_by(nodes, "n2")
        await detached(n1, client, b"here")
        await known(nodes, client)
        network.cut("n1", "n2")
        await until(lambda: client in n2.service.moves.roots.standby)
        early = await come(n1, client)
        assert (await early.message()).payload == b"here"
        late = await come(n2, client)
        assert late.connack.session_present
        network.mend("n1", "n2")
        assert (await early.expect(Disconnect)).reason == Reason.SESSION_TAKEN_OVER
        await until(lambda: n1.broker.sessions.get(client) is None)
        sensor = await n1.connect("sensor")
        await settled(*nodes)
        await sensor.publish1("a", b"after")
        assert (await late.message()).payload == b"after"
        assert accounts_hold(nodes)


@pytest.mark.parametrize("came_elsewhere", [False, True])
async def test_what_was_on_disk_comes_when_the_node_is_back(tmp_path: Path, came_elsewhere: bool) -> None:
    network = Network()
    async with members(network, "n2", "n3") as rest:
        async with member(network, "n1", store=Store(tmp_path / "s.db")) as n1:
            await settled(n1, *rest)
            client = owned_by(rest, "n2")
            await detached(n1, client, b"one", b"two")
            await known([n1, *rest], client)
        await until(lambda: client in rest[0].service.moves.roots.standby)
        await settled(*rest)
        sensor = await rest[1].connect("sensor")
        await sensor.publish1("a", b"three")
        phone = None
        if came_elsewhere:
            phone = await come(rest[1], client)
            assert (await phone.message()).payload == b"three"
            phone.abort()
        async with member(network, "n1", store=Store(tmp_path / "s.db")) as n1:
            await until(lambda: not any(one.service.moves.roots.standby for one in rest))
            nodes = [n1, *rest]
            if came_elsewhere:
                await until(lambda: n1.broker.sessions.get(client) is None)
            await settled(*nodes)
            phone = await come(n1 if came_elsewhere else rest[1], client)
            assert phone.connack.session_present
            wanted = [b"one", b"two"] if came_elsewhere else [b"one", b"two", b"three"]
            assert await phone.payloads(len(wanted)) == wanted
            assert await phone.silent()
            assert accounts_hold(nodes)


async def test_what_was_on_disk_with_qos_2_comes_to_a_client_that_is_connected_elsewhere(
    tmp_path: Path,
) -> None:
    """A message on disk may have been sent: it keeps its packet identifier, so the client knows it."""
    network = Network()
    async with (
        members(network, "n2") as (n2,),
        member(network, "n3", store=Store(tmp_path / "3.db")) as n3,
    ):
        async with member(network, "n1", store=Store(tmp_path / "1.db")) as n1:
            await settled(n1, n2, n3)
            client = owned_by([n2, n3], "n2")
            phone = await n1.connect(client, **KEPT)
            await phone.subscribe("a", qos=2)
            sensor = await n2.connect("sensor")
            await sensor.publish2("a", b"one")
            one = await phone.expect(Publish)
            phone.abort()
            await until(lambda: not n1.broker.sessions.get(client).attached)  # type: ignore[union-attr]
            await sensor.publish2("a", b"two")
            await known([n1, n2, n3], client)
        await until(lambda: client in n2.service.moves.roots.standby)
        await settled(n2, n3)
        phone = await come(n3, client)
        await sensor.publish2("a", b"three")
        three = await phone.expect(Publish)
        assert three.packet_id != one.packet_id
        async with member(network, "n1", store=Store(tmp_path / "1.db")) as n1:
            again, two = [await phone.expect(Publish) for _ in range(2)]
            assert (again.packet_id, again.payload) == (one.packet_id, b"one")
            assert two.payload == b"two"
            assert len({one.packet_id, two.packet_id, three.packet_id}) == 3
            for each in (again, two, three):
                phone.send(Pubrec(each.packet_id))
                assert (await phone.expect(Pubrel)).packet_id == each.packet_id
                phone.send(Pubcomp(each.packet_id))
            assert await phone.silent()
            await until(lambda: n1.broker.sessions.get(client) is None)
            assert n3.service.moves.figures().abandoned == 0
            assert accounts_hold([n1, n2, n3])
