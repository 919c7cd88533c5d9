"""A peer, which stands for another node, gets what is wanted there and is told what is wanted here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kit.peer import node
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.cluster.interest import ReceiverClass
    from penstock.model.digest import Digest
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.node.broker.runs import Run


class FakePeer:
    """Another node that remembers what it was given."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes]] = []
        self.interest: list[tuple[str, bool]] = []
        self.shared: list[tuple[bytes, tuple[str, ...]]] = []
        self.digests: list[tuple[str, int]] = []
        self.groups: dict[str, tuple[int, int]] = {}
        self.classes: dict[int, ReceiverClass] = {}
        self.moved: list[int] = []
        self.plain = -1

    def receivers(self) -> list[tuple[str, str]]:
        return []

    def deliver(self, event: Event, *, origin: object, now_us: Instant) -> bool:  # noqa: ARG002
        if origin is self:
            return False
        self.got.append((event.topic, event.payload))
        return True

    keeping_up = True

    def deliver_run(self, run: Run, *, now_us: Instant, alone: bool = False) -> None:  # noqa: ARG002
        self.got += [(event.topic, event.payload) for event in run.events()]

    def share(self, event: Event, groups: tuple[str, ...]) -> None:
        self.shared.append((event.payload, groups))

    def share_digest(self, group: str, digest: Digest) -> None:
        self.digests.append((group, digest.count))

    def group_changed(self, group: str, attached: int, members: int) -> None:
        self.groups[group] = (attached, members)

    def when_handed(self, then: Callable[[], None]) -> None:
        then()

    def interest_changed(self, filter_: str, *, wanted: bool) -> None:
        self.interest.append((filter_, wanted))

    def class_began(self, receivers: ReceiverClass) -> None:
        self.classes[receivers.number] = receivers

    def class_ended(self, number: int, *, moved: bool) -> None:
        del self.classes[number]
        if moved:
            self.moved.append(number)

    def plain_renewed(self, number: int) -> None:
        self.plain = number


async def test_a_peer_gets_what_is_wanted_there_until_it_is_gone() -> None:
    async with node() as running:
        router, peer = running.broker.router, FakePeer()
        router.add_peer(peer)
        router.peer_wants(peer, "a/+", wanted=True)
        router.peer_wants(peer, "a/+", wanted=True)
        router.peer_wants(peer, "b", wanted=True)
        assert len(router) == 0, "a peer is no subscription"
        publisher = await running.connect("p")
        await publisher.publish1("a/1", b"x")
        await publisher.publish1("b", b"y")
        await publisher.publish1("c", b"z")
        assert peer.got == [("a/1", b"x"), ("b", b"y")]
        assert running.broker.status().unrouted == 1
        router.peer_wants(peer, "b", wanted=False)
        await publisher.publish1("b", b"y")
        router.remove_peer(peer)
        await publisher.publish1("a/1", b"x")
        assert len(peer.got) == 2


async def test_a_peer_gets_one_copy_of_a_message_that_several_of_its_filters_match() -> None:
    async with node() as running:
        router, peer = running.broker.router, FakePeer()
        router.add_peer(peer)
        for filter_ in ("a/+", "a/#", "a/1"):
            router.peer_wants(peer, filter_, wanted=True)
        publisher = await running.connect("p")
        await publisher.publish1("a/1", b"x")
        assert peer.got == [("a/1", b"x")]


async def test_subscribers_here_get_what_a_peer_brings_and_the_peer_does_not() -> None:
    async with node() as running:
        router, peer = running.broker.router, FakePeer()
        router.add_peer(peer)
        router.peer_wants(peer, "a", wanted=True)
        subscriber = await running.connect("s")
        await subscriber.subscribe("a")
        seen: list[Event] = []
        tap = running.broker.tap("a", seen.append)
        running.broker.publish("a", b"here")
        tap.close()
        fan = router.find("a")
        for receiver in fan.all:
            receiver.deliver(seen[0], origin=peer, now_us=seen[0].ts_us)
        assert await subscriber.payloads(2) == [b"here", b"here"]
        assert peer.got == [("a", b"here")]


async def test_a_peer_is_told_of_the_first_and_the_last_subscription_to_a_filter() -> None:
    async with node() as running:
        router, early, late = running.broker.router, FakePeer(), FakePeer()
        router.add_peer(early)
        first, second = await running.connect("first"), await running.connect("second")
        await first.subscribe("a/#")
        await second.subscribe("a/#")
        await second.subscribe("$share/group/b")
        router.add_peer(late)
        assert early.interest == late.interest == [("a/#", True)]
        assert early.groups == late.groups == {"$share/group/b": (1, 1)}
        await first.unsubscribe("a/#")
        assert len(early.interest) == 1
        await second.unsubscribe("a/#")
        await second.unsubscribe("$share/group/b")
        assert early.interest[1:] == late.interest[1:] == [("a/#", False)]
        assert early.groups == late.groups == {"$share/group/b": (0, 0)}
        router.remove_peer(late)
        await first.subscribe("c")
        assert early.interest[2:] == [("c", True)]
        assert len(late.interest) == 2


async def test_nodes_take_turns_in_a_group_by_the_number_of_connected_members() -> None:
    async with node() as running:
        router, peer = running.broker.router, FakePeer()
        router.add_peer(peer)
        member = await running.connect("member", session_expiry_s=60)
        await member.subscribe("$share/g/a")
        router.peer_shares(peer, "$share/g/a", attached=2, members=3)
        publisher = await running.connect("p")
        for number in range(6):
            await publisher.publish1("a", b"%d" % number)
        assert len(await member.payloads(2)) == 2
        assert [groups for _, groups in peer.shared] == [("$share/g/a",)] * 4
        member.abort()
        await until(lambda: peer.groups["$share/g/a"] == (0, 1))
        await publisher.publish1("a", b"there")
        assert peer.shared[-1][0] == b"there", "members that are away are passed over"
        router.peer_shares(peer, "$share/g/a", attached=0, members=0)
        assert len(router) == 1
        router.remove_peer(peer)
