"""Shared subscriptions over several nodes: one member in the cluster gets each message, wherever it is."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import pytest

from penstock import Client, limits
from penstock.core.cluster.frames import Groups, encode_item
from penstock.model.digest import Digest
from tests.kit.cluster import Network, member, members, owned_by, settled
from tests.kit.effort import seeds
from tests.kit.waiting import until

if TYPE_CHECKING:
    from penstock.client import Subscription
    from tests.kit.cluster import Member


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a network has lost is sent again soon: the tests wait for nothing else."""
    monkeypatch.setattr(limits, "CLUSTER_RETRY_LEAST_US", 100_000)


def url(node: Member) -> str:
    return f"mqtt://127.0.0.1:{node.running.port}"


class Worker:
    """A member of a group, with all it gets."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.got: list[bytes] = []
        self.digested = 0

    async def take(self, subscription: Subscription) -> None:
        async for item in subscription:
            if isinstance(item, Digest):
                self.digested += item.count
            else:
                self.got.append(item.payload)


async def worker(
    stack: AsyncExitStack, node: Member, name: str, filter_: str = "$share/g/job/#", **how: object
) -> Worker:
    client = await stack.enter_async_context(Client(url(node), client_id=name, **how))  # type: ignore[arg-type]
    found = Worker(client)
    task = asyncio.create_task(found.take(await client.subscribe(filter_, qos=1, digests="compact")))
    stack.callback(task.cancel)
    return found


def everything(*workers: Worker) -> list[bytes]:
    return sorted(payload for one in workers for payload in one.got)


def numbers(count: int) -> list[bytes]:
    return sorted(b"%d" % number for number in range(count))


def known(node: Member, group: str = "$share/g/job/#") -> dict[str, tuple[int, int]]:
    """Members at other nodes, as a node knows them."""
    found = node.broker.router.group(group)
    return {} if found is None else {peer.seen.name: counts for peer, counts in found.elsewhere.items()}  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
async def test_each_message_goes_to_one_member_wherever_it_is_published() -> None:
    async with (
        members(Network(3, lose=0.05, repeat=0.1, delay_s=0.005), "n1", "n2", "n3") as nodes,
        AsyncExitStack() as stack,
    ):
        n1, n2, _ = nodes
        one = await worker(stack, n1, "one")
        two = [await worker(stack, n2, f"two{number}") for number in range(3)]
        watcher = await worker(stack, n2, "watcher", "job/#")
        senders = [await stack.enter_async_context(Client(url(node))) for node in nodes]
        counts = {"n1": (1, 1), "n2": (3, 3)}
        for node in nodes:
            others = {name: count for name, count in counts.items() if name != node.service.own.name}
            await until(lambda node=node, others=others: known(node) == others)  # type: ignore[misc]
        for number in range(120):
            await senders[number % 3].publish("job/x", b"%d" % number, qos=number // 3 % 2)
        await until(lambda: len(watcher.got) == 120 and len(everything(one, *two)) >= 120)
        await settled(*nodes)
        assert everything(one, *two) == numbers(120), "each once"
        assert sorted(watcher.got) == numbers(120)
        assert len(one.got) == 30, "nodes take turns by the number of their members"
        assert [len(each.got) for each in two] == [30, 30, 30]
        for node in nodes:
            assert node.service.status().balanced
            assert node.running.account_holds()


async def test_members_that_are_away_are_passed_over_while_others_are_not() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2), AsyncExitStack() as stack:
        here = await worker(stack, n1, "here")
        async with Client(url(n2), client_id="away", session_expiry_s=600, clean_start=False) as away:
            await away.subscribe("$share/g/job/#", qos=1)
            await until(lambda: known(n1) == {"n2": (1, 1)})
        await until(lambda: known(n1) == {"n2": (0, 1)})
        sender = await stack.enter_async_context(Client(url(n1)))
        for number in range(4):
            await sender.publish("job", b"%d" % number, qos=1)
        await until(lambda: len(here.got) == 4)
        await here.client.close()
        await until(lambda: n1.broker.router.group("$share/g/job/#").members == [])  # type: ignore[union-attr]
        for number in range(4, 7):
            await sender.publish("job", b"%d" % number, qos=1)
        async with Client(url(n2), client_id="away", session_expiry_s=600, clean_start=False) as away:
            back = Worker(away)
            task = asyncio.create_task(back.take(await away.subscribe("$share/g/job/#", qos=1)))
            await until(lambda: len(back.got) == 3)
            task.cancel()
        assert back.got == [b"4", b"5", b"6"], "kept for the only member there is"


async def test_what_waits_for_a_node_that_goes_away_is_given_to_the_others() -> None:
    network = Network()
    async with members(network, "n1", "n2", "n3") as (n1, n2, n3), AsyncExitStack() as stack:
        two, three = await worker(stack, n2, "two"), await worker(stack, n3, "three")
        sender = await stack.enter_async_context(Client(url(n1)))
        await until(lambda: known(n1) == {"n2": (1, 1), "n3": (1, 1)})
        n1.to("n2").link.connected = False  # nothing leaves, and nobody knows yet
        for number in range(20):
            await sender.publish("job", b"%d" % number)
        await until(lambda: len(three.got) == 10)
        assert len(n1.to("n2").link.shared) == 10
        network.cut("n1", "n2")
        await until(lambda: len(three.got) == 20)
        assert everything(two, three) == numbers(20)
        assert len(n1.to("n2").link.shared) == 0
        network.mend("n1", "n2")
        await until(lambda: known(n1) == {"n2": (1, 1), "n3": (1, 1)})
        for number in range(20, 40):
            await sender.publish("job", b"%d" % number, qos=1)
        await until(lambda: len(everything(two, three)) >= 40)
        assert everything(two, three) == numbers(40)
        assert n1.service.status().balanced


async def test_a_node_that_has_nobody_for_a_message_passes_it_on() -> None:
    async with members(Network(), "n1", "n2", "n3") as (n1, n2, n3), AsyncExitStack() as stack:
        three = await worker(stack, n3, "three")
        sender = await stack.enter_async_context(Client(url(n1)))
        await until(lambda: known(n1) == known(n2) == {"n3": (1, 1)})
        # A node is believed to have members: it has lost them a moment ago.
        peer = n1.to("n2")
        n1.broker.router.peer_shares(peer, "$share/g/job/#", attached=3, members=3)
        for number in range(8):
            await sender.publish("job", b"%d" % number, qos=1)
        await until(lambda: len(three.got) >= 8)
        await settled(n1, n2, n3)
        assert sorted(three.got) == numbers(8)
        n1.broker.router.peer_shares(peer, "$share/g/job/#", attached=0, members=0)


async def test_content_filters_of_members_at_other_nodes_are_asked() -> None:
    async with members(Network(), "n1", "n2", "n3") as nodes, AsyncExitStack() as stack:
        n1, n2, n3 = nodes
        workers = {}
        for node, threshold in ((n2, "keep: {lt: 10, attribute: n}"), (n3, "keep: {ge: 10, attribute: n}")):
            client = await stack.enter_async_context(Client(url(node), client_id=threshold))
            workers[threshold] = found = Worker(client)
            subscription = await client.subscribe("$share/g/job/#", qos=1, filter=threshold)
            task = asyncio.create_task(found.take(subscription))
            stack.callback(task.cancel)
        sender = await stack.enter_async_context(Client(url(n1)))
        await until(lambda: known(n1) == {"n2": (1, 1), "n3": (1, 1)})
        for number in range(20):
            await sender.publish("job", b'{"n": %d}' % number, qos=1)
        await until(lambda: sum(len(one.got) for one in workers.values()) >= 20)
        await settled(*nodes)
        assert [len(one.got) for one in workers.values()] == [10, 10]


async def test_what_a_member_leaves_goes_to_another_node() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2), AsyncExitStack() as stack:
        stuck = await n1.connect("stuck", receive_maximum=2)
        await stuck.subscribe("$share/g/job/#", qos=1)
        sender = await n1.connect("sender")
        for number in range(6):
            await sender.publish1("job", b"%d" % number)
        two = await worker(stack, n2, "two")
        await until(lambda: known(n1) == {"n2": (1, 1)})
        stuck.abort()
        await until(lambda: len(two.got) >= 6)
        assert everything(two) == numbers(6)
        assert n1.running.account_holds()


@pytest.mark.parametrize("at", [0, 1, 2])
async def test_nothing_is_lost_while_the_only_member_of_a_group_moves(at: int) -> None:
    async with members(Network(delay_s=0.005), "n1", "n2", "n3") as nodes, AsyncExitStack() as stack:
        one = await worker(stack, nodes[0], "one", session_expiry_s=3600, clean_start=False)
        sender = await nodes[at].connect("sender")
        await until(lambda: at == 0 or known(nodes[at]) == {"n1": (1, 1)})
        reasons: set[int] = set()
        sent = 0
        going = True

        async def publish() -> None:
            nonlocal sent
            while going:
                reasons.add((await sender.publish1("job", b"%d" % sent)).reason)
                sent += 1

        publishing = asyncio.ensure_future(publish())
        for step in range(1, 7):
            await until(lambda most=5 * step: len(one.got) >= most)  # type: ignore[misc]
            await one.client.move(url(nodes[step % 3]))
        going = False
        await publishing
        await until(lambda: len(set(one.got)) >= sent)
        assert sorted(set(one.got)) == numbers(sent)  # what was not acknowledged is sent again
        assert reasons == {0}, "nobody was told that there are no subscribers"
        assert sum(each.service.moves.figures().came for each in nodes) == 6
        assert [each.broker.unrouted for each in nodes] == [0, 0, 0]


async def test_a_message_held_for_a_member_that_does_not_come_goes_to_others_or_is_counted() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2), AsyncExitStack() as stack:
        moves = n1.service.moves
        sender = await n1.connect("sender")
        moves.hold("phone", ["$share/g/job/#"])
        await sender.publish1("job", b"0")
        moves.let_go("phone")
        assert moves.figures().abandoned == 1
        assert n1.broker.router.group("$share/g/job/#") is None
        moves.hold("phone", ["$share/g/job/#"])
        await sender.publish1("job", b"1")
        two = await worker(stack, n2, "two")
        await until(lambda: known(n1) == {"n2": (1, 1)})
        moves.let_go("phone")
        await until(lambda: two.got == [b"1"])
        assert moves.figures().abandoned == 1


async def test_the_queue_of_a_link_that_overflows_tells_the_group() -> None:
    network = Network()
    async with members(network, "n1", "n2", queue_events=5) as (n1, n2), AsyncExitStack() as stack:
        # Its session ends with its connection: else n1, which has a copy of its record, stands in for n2
        # while that is away, and keeps messages of the group in a queue of its own.
        two = await worker(stack, n2, "two", session_expiry_s=0)
        sender = await stack.enter_async_context(Client(url(n1)))
        await until(lambda: known(n1) == {"n2": (1, 1)})
        network.cut("n1", "n2")
        for number in range(20):
            await sender.publish("job", b"%d" % number, qos=1)
        network.mend("n1", "n2")
        await until(lambda: len(two.got) + two.digested == 20)
        assert two.got == [b"%d" % number for number in range(15, 20)]
        assert n1.service.status().balanced


async def test_what_a_root_was_given_in_the_place_of_a_member_that_is_back_goes_to_the_group() -> None:
    network = Network()
    async with members(network, "n1", "n2") as (n1, n2), AsyncExitStack() as stack:
        client = owned_by([n1, n2], "n1")
        two = await worker(stack, n2, client)
        sender = await stack.enter_async_context(Client(url(n1)))
        await until(lambda: known(n1) == {"n2": (1, 1)})
        await until(lambda: (record := n1.service.moves.roots.directory.get(client)) and record.facts)
        network.cut("n1", "n2")
        await until(lambda: client in n1.service.moves.roots.standby)
        for number in range(20):
            await sender.publish("job", b"%d" % number, qos=1)
        network.mend("n1", "n2")
        await until(lambda: len(two.got) >= 20)
        await settled(n1, n2)
        assert everything(two) == numbers(20)
        assert n1.service.status().balanced
        assert n1.running.account_holds()


async def test_retained_messages_reach_a_group_once_and_topics_of_a_node_stay() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2), AsyncExitStack() as stack:
        two = await worker(stack, n2, "two")
        own = await worker(stack, n2, "own", "$share/g/$SYS/x")
        sender = await stack.enter_async_context(Client(url(n1)))
        await sender.publish("job", "kept", qos=1, retain=True)
        await until(lambda: two.got == [b"kept"])
        n1.broker.publish("$SYS/x", b"1")
        n2.broker.publish("$SYS/x", b"2")
        await until(lambda: own.got)
        await settled(n1, n2)
        assert own.got == [b"2"]
        assert two.got == [b"kept"]


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("seed", seeds(0, 32))
async def test_random_members_and_nodes_lose_nothing_and_repeat_nothing(seed: int) -> None:
    """Members come and go at three nodes; QoS 1 members that stay to the end get the rest."""
    dice = Random(seed)
    network = Network(seed, lose=0.05, repeat=0.1, delay_s=0.003)
    async with members(network, "n1", "n2", "n3") as nodes, AsyncExitStack() as stack:
        staying = [await worker(stack, node, f"stay-{node.service.own.name}") for node in nodes[:2]]
        senders = [await stack.enter_async_context(Client(url(node))) for node in nodes]
        passing: list[Worker] = []
        for number in range(60):
            if dice.random() < 0.15:
                found = await worker(stack, dice.choice(nodes), f"pass{number}")
                passing.append(found)
            if passing and dice.random() < 0.1:
                leaver = dice.choice(passing)
                if leaver.client.connected:
                    await leaver.client.close()
            await dice.choice(senders).publish("job", b"%d" % number, qos=1)
        await until(lambda: len(everything(*staying, *passing)) >= 60)
        await settled(*nodes)
        assert everything(*staying, *passing) == numbers(60)
        assert all(node.service.status().balanced for node in nodes)


async def test_groups_that_cannot_be_are_refused_and_named(caplog: pytest.LogCaptureFixture) -> None:
    network = Network()
    async with member(network, "n1") as n1, member(network, "n2") as n2:
        await settled(n1, n2)

        def told(wrong: list[tuple[str, int, int]], before: int) -> bool:
            """Whether n2 has noticed; said again, since a node that stalls says what it has instead."""
            n1.to("n2").link._about = encode_item(Groups(wrong))
            n1.service.send_soon(n1.to("n2"))
            return n2.to("n1").damaged > before

        for wrong in ([("a/b", 1, 1)], [("$share/g/a", 2, 1)], [("$share/g/#/x", 1, 1)]):
            await until(partial(told, wrong, n2.to("n1").damaged))
        assert caplog.text.count("cluster: from node n1") >= 3  # it may be said again
        assert n2.broker.router.group("$share/g/a") is None
