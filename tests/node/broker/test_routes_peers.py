"""A peer, which stands for another node, gets what is wanted there and is told what is wanted here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kit.peer import node

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.event import Event
    from penstock.model.instant import Instant


class FakePeer:
    """Another node that remembers what it was given."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes]] = []
        self.interest: list[tuple[str, bool]] = []

    def deliver(self, event: Event, *, origin: object, now_us: Instant) -> bool:  # noqa: ARG002
        if origin is self:
            return False
        self.got.append((event.topic, event.payload))
        return True

    def when_handed(self, then: Callable[[], None]) -> None:
        then()

    def interest_changed(self, filter_: str, *, wanted: bool) -> None:
        self.interest.append((filter_, wanted))


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
        assert early.interest == late.interest == [("a/#", True), ("b", True)]
        await first.unsubscribe("a/#")
        assert len(early.interest) == 2
        await second.unsubscribe("a/#")
        await second.unsubscribe("$share/group/b")
        assert early.interest[2:] == late.interest[2:] == [("a/#", False), ("b", False)]
        router.remove_peer(late)
        await first.subscribe("c")
        assert early.interest[4:] == [("c", True)]
        assert len(late.interest) == 4
