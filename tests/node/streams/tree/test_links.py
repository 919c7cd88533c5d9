"""Nodes in a tree: streams flow from where they are published to all, whatever happens to links between."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

import msgspec
import pytest

from penstock import limits
from penstock.core.streams import StreamOptions, handshake
from penstock.core.streams.handshake import VERSION, Welcome
from penstock.core.streams.ticks import TICKS_PER_S
from penstock.errors import PublishRefused
from penstock.node.config import streams
from penstock.node.streams.tree import links as links_module
from penstock.node.streams.tree.links import read_frame
from tests.kit.peer import run
from tests.kit.stream_trees import LISTENS, ORDERS, at, chain, door, links, row, tree
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.client import Client
    from penstock.node.config.schema import Config
    from tests.kit.stream_nodes import WithStreams


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries, silence and calls ten times as often as in earnest."""
    quick = partial(StreamOptions, query_us=100_000, silence_us=100_000)
    monkeypatch.setattr(streams, "StreamOptions", quick)
    monkeypatch.setattr(limits, "STREAM_CALL_LEAST_S", 0.05)
    monkeypatch.setattr(limits, "STREAM_CALL_MOST_S", 0.2)


def changed(node: WithStreams, name: str, **link: object) -> Config:
    """A node's configuration with another link."""
    config = node.node.config
    neighbours = tuple(
        msgspec.structs.replace(one, **link) if one.name == name else one for one in config.streams.neighbours
    )
    return msgspec.structs.replace(
        config, streams=msgspec.structs.replace(config.streams, neighbours=neighbours)
    )


async def publish(client: Client, numbers: range) -> None:
    await asyncio.gather(*(client.publish("orders/new", b"%d" % number, qos=1) for number in numbers))


def numbered(numbers: range) -> list[bytes]:
    return [b"%d" % number for number in numbers]


async def test_what_is_published_at_one_node_comes_to_all_in_order() -> None:
    async with chain() as nodes:
        got = {name: await nodes.subscriber(name) for name in ("PB", "IB", "SB")}
        await publish(await nodes.client("PB"), range(200))
        await until(lambda: all(len(one) >= 200 for one in got.values()))
        assert got == dict.fromkeys(got, numbered(range(200)))
        known = nodes.nodes["SB"].streams.directory.known["orders"]
        assert (known.host, known.upstream, known.topics) == ("PB", "IB", ("orders/#",))
        below, above = row(nodes.nodes["IB"], "SB"), row(nodes.nodes["SB"], "IB")
        assert (below.state, above.state) == ("up", "up")
        assert below.sent >= 200
        assert above.received >= 200
        assert min(below.sent_bytes, above.received_bytes) > 200 * 20


async def test_a_topic_of_a_stream_is_published_where_it_is_hosted() -> None:
    async with chain() as nodes:
        client = await nodes.client("SB")
        with pytest.raises(PublishRefused, match="PB"):
            await client.publish("orders/new", b"x", qos=1)


def test_a_cut_link_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        async with chain() as nodes:
            got = await nodes.subscriber("SB")
            client = await nodes.client("PB")
            for number in range(4):
                await publish(client, range(50 * number, 50 * number + 25))
                links(nodes.nodes["SB"])._known["IB"].link.end("cut by the test")
                await publish(client, range(50 * number + 25, 50 * number + 50))
                await until(lambda: row(nodes.nodes["SB"], "IB").state == "up")
            await until(lambda: len(got) >= 200)
            assert got == numbered(range(200))
            assert row(nodes.nodes["SB"], "IB").reconnects == 4

    with caplog.at_level(logging.INFO):
        run(play())
    assert "link to 'IB': down: cut by the test" in caplog.text
    assert "link to 'IB': up again after" in caplog.text


async def test_a_link_that_is_switched_off_stays_off_until_it_is_switched_on() -> None:
    async with chain() as nodes:
        ib, sb = nodes.nodes["IB"], nodes.nodes["SB"]
        got = await nodes.subscriber("SB")
        client = await nodes.client("PB")
        await publish(client, range(10))
        await until(lambda: len(got) == 10)
        links(ib).reconfigure(changed(ib, "SB", enabled=False))
        assert row(ib, "SB").state == "off"
        await publish(client, range(10, 20))
        await until(lambda: "switched off" in row(sb, "IB").fault)
        assert len(got) == 10
        links(ib).reconfigure(changed(ib, "SB", enabled=True))
        await until(lambda: len(got) == 20)
        assert got == numbered(range(20))


async def test_a_call_that_was_under_way_when_the_link_was_switched_off_is_none() -> None:
    async with tree() as nodes:
        asked = asyncio.Event()
        answer = asyncio.Event()

        async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_frame(reader)
            asked.set()
            await answer.wait()
            writer.write(handshake.encode(Welcome(VERSION, "PB")))
            await reader.read()
            writer.close()

        server = await asyncio.start_server(slowly, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        sb = await nodes.add("SB", neighbours=[{"name": "PB", "host": "127.0.0.1", "port": port}])
        await asked.wait()
        links(sb).reconfigure(changed(sb, "PB", enabled=False))
        answer.set()
        await asyncio.sleep(0.1)
        assert row(sb, "PB").state == "off"
        assert not links(sb)._known["PB"].link.up
        server.close()


def test_who_is_met_only_to_talk_nonsense_is_called_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[float] = []

    def growing(_dice: object, *, least_s: float, most_s: float) -> Iterator[float]:
        made.append(least_s)
        return repeat(max(0.3, most_s))  # longer than it takes to talk nonsense

    monkeypatch.setattr(links_module, "pauses_s", growing)
    calls = 0

    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        await read_frame(reader)
        writer.write(handshake.encode(Welcome(VERSION, "PB")) + b"\xff\xff\xff\xff")
        await reader.read()
        writer.close()

    async def play() -> None:
        async with tree() as nodes:
            server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            await nodes.add("SB", neighbours=[{"name": "PB", "host": "127.0.0.1", "port": port}])
            await until(lambda: calls == 4)
            server.close()

    run(play())
    assert len(made) == 2  # at first, and after the first call: there was no pause before it


async def test_who_calls_does_so_at_once_when_the_link_is_switched_on() -> None:
    async with chain() as nodes:
        sb = nodes.nodes["SB"]
        links(sb).reconfigure(changed(sb, "IB", enabled=False))
        await until(lambda: row(nodes.nodes["IB"], "SB").state == "down")
        links(sb).reconfigure(changed(sb, "IB", enabled=True))
        await until(lambda: row(sb, "IB").state == "up", within_s=2)


async def test_a_rate_can_be_set_and_taken_away() -> None:
    async with chain() as nodes:
        ib = nodes.nodes["IB"]
        got = await nodes.subscriber("SB")
        client = await nodes.client("PB")
        links(ib).reconfigure(changed(ib, "SB", bytes_per_s=2_000.0))
        await asyncio.gather(*(client.publish("orders/x", bytes(500), qos=1) for _ in range(40)))
        await asyncio.sleep(0.3)
        assert len(got) < 10
        assert row(ib, "SB").queue_bytes > 10_000
        links(ib).reconfigure(changed(ib, "SB", bytes_per_s=0.0))
        await until(lambda: len(got) == 40)


async def test_a_message_larger_than_the_queue_comes_over_the_link() -> None:
    async with tree() as nodes:
        short = {"name": "SB", "queue_bytes": 5_000}
        pb = await nodes.add("PB", host=ORDERS, listen=LISTENS, neighbours=[short])
        await nodes.add("SB", neighbours=[at(pb, "PB")])
        await until(lambda: "orders" in nodes.nodes["SB"].streams.directory.known)
        got = await nodes.subscriber("SB")
        client = await nodes.client("PB")
        await client.publish("orders/new", bytes(20_000), qos=1)
        await client.publish("orders/new", b"after", qos=1)
        await until(lambda: len(got) == 2)
        assert got == [bytes(20_000), b"after"]


async def test_only_what_passes_the_filters_goes_over_the_link() -> None:
    async with chain(only=["orders/big/#"], where="keep: {gt: 5, attribute: n}") as nodes:
        got, all_of_it = await nodes.subscriber("SB"), await nodes.subscriber("IB")
        client = await nodes.client("PB")
        for number in range(10):
            for size in ("big", "small"):
                await client.publish(f"orders/{size}", b'{"n": %d}' % number, qos=1)
        await until(lambda: len(all_of_it) == 20 and len(got) >= 4)
        assert got == [b'{"n": %d}' % number for number in range(6, 10)]
        # What SB does not want is processed there, too.
        relay = nodes.nodes["IB"].streams.driver.core.relay("orders")
        told = relay.reached
        await until(lambda: (relay._children["SB"].acked or 0) > told - TICKS_PER_S // 10)


async def test_streams_of_several_nodes_reach_all_the_others() -> None:
    async with tree() as nodes:
        ib = await nodes.add("IB", listen=LISTENS, neighbours=[{"name": name} for name in ("A", "B", "C")])
        for name in ("A", "B", "C"):
            await nodes.add(
                name, host=[{"name": f"of {name}", "topics": [f"t/{name}"]}], neighbours=[at(ib, "IB")]
            )
        await until(lambda: all(len(one.streams.directory.known) == 3 for one in nodes.nodes.values()))
        got = {name: await nodes.subscriber(name, "t/+") for name in nodes.nodes}
        for name in ("A", "B", "C"):
            await (await nodes.client(name)).publish(f"t/{name}", name.encode(), qos=1)
        await until(lambda: all(len(one) == 3 for one in got.values()))


async def test_a_ring_is_told_and_everything_still_comes_once(caplog: pytest.LogCaptureFixture) -> None:
    async with tree() as nodes:
        a = await nodes.add("A", host=ORDERS, listen=LISTENS, neighbours=[{"name": "B"}, {"name": "C"}])
        b = await nodes.add("B", listen=LISTENS, neighbours=[at(a, "A"), {"name": "C"}])
        c = await nodes.add("C", neighbours=[at(a, "A"), at(b, "B")])
        await until(lambda: all("orders" in one.streams.directory.known for one in (b, c)))
        await until(lambda: caplog.text.count("form a ring") >= 2)
        assert any("form a ring" in text for one in (a, b, c) for text in one.streams.status().faults)
        got = {name: await nodes.subscriber(name) for name in nodes.nodes}
        await publish(await nodes.client("A"), range(50))
        await until(lambda: all(len(one) >= 50 for one in got.values()))
        assert got == dict.fromkeys(got, numbered(range(50)))
        # Nobody waits for the acknowledgement of one who has the stream from elsewhere.
        assert list(b.streams.driver.core.relay("orders")._children) == ["\0main"]


async def test_two_streams_of_one_name_do_not_mix(caplog: pytest.LogCaptureFixture) -> None:
    async with tree() as nodes:
        a = await nodes.add("A", host=ORDERS, listen=LISTENS, neighbours=[{"name": "B"}])
        await nodes.add("B", host=ORDERS, neighbours=[at(a, "A")])
        got = {name: await nodes.subscriber(name) for name in nodes.nodes}
        await until(lambda: caplog.text.count("is published at this node") == 2)
        for name in nodes.nodes:
            await (await nodes.client(name)).publish("orders/x", name.encode(), qos=1)
        await until(lambda: all(got.values()))
        await asyncio.sleep(0.1)
        assert got == {"A": [b"A"], "B": [b"B"]}


async def test_a_node_that_starts_alone_knows_the_streams_it_knew(tmp_path: Path) -> None:
    async with tree() as nodes:
        pb = await nodes.add("PB", host=ORDERS, listen=LISTENS, neighbours=[{"name": "SB"}])
        there = at(pb, "PB")
        sb = await nodes.add("SB", settings={"data": tmp_path}, neighbours=[there])
        await until(lambda: "orders" in sb.streams.directory.known)
        await nodes.stop("SB")
        await nodes.stop("PB")
        sb = await nodes.add("SB", settings={"data": tmp_path}, neighbours=[there])
        assert sb.streams.directory.known["orders"].host == "PB"
        with pytest.raises(PublishRefused, match="PB"):
            await (await nodes.client("SB")).publish("orders/x", b"", qos=1)


async def test_a_stream_that_is_offered_no_more_is_told_and_forgotten_at_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with tree() as nodes:
        pb = await nodes.add("PB", host=ORDERS, listen=LISTENS, neighbours=[{"name": "SB"}])
        there = at(pb, "PB")
        listens = {"enabled": True, "port": there["port"]}
        sb = await nodes.add("SB", settings={"data": tmp_path}, neighbours=[there])
        await until(lambda: "orders" in sb.streams.directory.known)
        await nodes.stop("PB")
        bills = [{"name": "bills", "topics": ["bills/#"]}]
        pb = await nodes.add("PB", host=bills, listen=listens, neighbours=[{"name": "SB"}])
        await until(lambda: "bills" in sb.streams.directory.known)
        assert "'orders' is no longer offered by 'PB'" in caplog.text
        assert "orders" in sb.streams.directory.known
        await nodes.stop("SB")
        await nodes.stop("PB")
        sb = await nodes.add(
            "SB",
            settings={"data": tmp_path},
            neighbours=[there],
        )
        assert list(sb.streams.directory.known) == ["bills"]


async def test_a_stream_that_moves_to_another_node_is_had_from_there() -> None:
    async with tree() as nodes:
        a = await nodes.add("A", host=ORDERS, listen=LISTENS, neighbours=[{"name": "B"}])
        b = await nodes.add("B", listen=LISTENS, neighbours=[at(a, "A"), {"name": "C"}])
        await until(lambda: "orders" in b.streams.directory.known)
        # The new host is there before the old one knows that it is one no more.
        await nodes.add("C", host=ORDERS, neighbours=[at(b, "B")])
        await until(lambda: row(b, "C").received)
        assert b.streams.directory.known["orders"].upstream == "A"
        listens = {**LISTENS, "port": door(a)}
        await nodes.stop("A")
        a = await nodes.add("A", listen=listens, neighbours=[{"name": "B"}])
        await until(lambda: "orders" in a.streams.directory.known)
        assert b.streams.directory.known["orders"].upstream == "C"
        got = await nodes.subscriber("A")
        await publish(await nodes.client("C"), range(20))
        await until(lambda: len(got) == 20)
        assert got == numbered(range(20))


async def test_a_neighbour_that_was_never_there_holds_the_log() -> None:
    async with tree() as nodes:
        pb = await nodes.add(
            "PB",
            host=[{**ORDERS[0], "retain_s": 0}],
            listen=LISTENS,
            neighbours=[{"name": "SB"}],
        )
        await publish(await nodes.client("PB"), range(20))
        assert len(await pb.payloads()) == 20
        relay = pb.streams.driver.core.relay("orders")
        assert relay.acked() is None
        await nodes.add("SB", neighbours=[at(pb, "PB")])
        await until(lambda: relay.acked() is not None)


async def test_a_node_that_comes_back_may_want_something_else() -> None:
    async with chain(only=["orders/a"]) as nodes:
        there = at(nodes.nodes["IB"], "IB")
        client = await nodes.client("PB")
        for only, wanted in ((["orders/b"], [b"b"]), ([], [b"a", b"b"]), (["orders/a"], [b"a"])):
            await nodes.stop("SB")
            sb = await nodes.add("SB", neighbours=[{**there, "only": only}])
            await until(lambda: "orders" in sb.streams.directory.known)  # noqa: B023
            got, all_of_it = await nodes.subscriber("SB"), await nodes.subscriber("IB")
            for letter in ("a", "b"):
                await client.publish(f"orders/{letter}", letter, qos=1)
            await until(lambda: got[-1:] == wanted[-1:] and len(all_of_it) == 2)  # noqa: B023
            assert got == wanted
