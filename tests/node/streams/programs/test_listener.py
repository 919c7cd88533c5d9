"""The listener for streams: known neighbours are accepted, all others are told why not."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock import limits
from penstock.core.streams import handshake, wire
from penstock.core.streams import wire as record
from penstock.core.streams.handshake import VERSION, Alive, Hello, Offer, Offered, Sorry, Welcome
from penstock.core.streams.messages import Data, Nack, Silence
from penstock.core.streams.ticks import TICKS_PER_S
from penstock.core.streams.wire import Record
from penstock.errors import NodeError
from penstock.node.config.read import LoadedConfig
from penstock.node.config.schema import Bounds, User
from penstock.node.config.streams import Neighbour
from penstock.node.streams.tree.links import read_frame
from tests.kit import certificates
from tests.kit.passwords import cheap
from tests.kit.peer import run
from tests.kit.stream_trees import LISTENS, ORDERS, at, chain, door, hello, links, row, tree
from tests.kit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.stream_trees import Tree

RIGHT = {"user": "ann", "password": "right"}
WRONG = {"user": "ann", "password": "wrong"}
OTHER = {"user": "bob", "password": "bobs"}


async def alone(nodes: Tree, **more: Any) -> None:
    """PB, with a neighbour SB that has not come."""
    await nodes.add("PB", host=ORDERS, listen=LISTENS, neighbours=[{"name": "SB"}], **more)


@pytest.mark.parametrize(
    ("greeting", "why"),
    [
        (hello("nobody"), "'PB' has no neighbour 'nobody'"),
        (hello("PB"), "name of this node itself"),
        (Hello(VERSION + 1, "node", "SB"), "unsupported stream protocol version 2"),
        (hello("SB", where="nonsense"), "filter of the link"),
        (hello("SB", only=("a/#/b",)), "filter of the link"),
    ],
)
async def test_strangers_hear_why_they_are_not_let_in(greeting: Hello, why: str) -> None:
    async with tree() as nodes:
        await alone(nodes)
        stranger = await nodes.stranger("PB")
        answer = await stranger.says(greeting)
        assert isinstance(answer, Sorry)
        assert why in answer.reason
        assert await stranger.gone()
        assert nodes.nodes["PB"].streams.listener.refused == 1  # type: ignore[union-attr]
        assert row(nodes.nodes["PB"], "SB").state == "down"


@pytest.mark.parametrize(
    "noise", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 9, wire.framed(b"\x93\x01\x02\x03"), wire.framed(b"")]
)
async def test_noise_is_no_greeting(noise: bytes) -> None:
    async with tree() as nodes:
        await alone(nodes)
        stranger = await nodes.stranger("PB")
        stranger.writer.write(noise)
        answer = handshake.decode_answer(await read_frame(stranger.reader))
        assert isinstance(answer, Sorry)
        assert await stranger.gone()


async def test_who_says_nothing_does_not_stay() -> None:
    async with tree() as nodes:
        await alone(nodes, settings={"bounds": Bounds(connect_s=0.1)})
        stranger = await nodes.stranger("PB")
        stranger.writer.write(b"\x00\x00")
        assert await stranger.gone()


async def test_many_who_say_nothing_are_not_all_let_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STREAM_HANDSHAKES", 3)
    async with tree() as nodes:
        await alone(nodes)
        silent = [await nodes.stranger("PB") for _ in range(3)]
        await asyncio.sleep(0.05)
        assert await (await nodes.stranger("PB")).gone()
        for one in silent:
            one.writer.close()
        await until(lambda: nodes.nodes["PB"].streams.listener._greeting == 0)  # type: ignore[union-attr]
        answer = await (await nodes.stranger("PB")).says(hello("SB"))
        assert isinstance(answer, Welcome)


async def test_users_and_passwords_count_here_too() -> None:
    async with tree() as nodes:
        users = (User("ann", cheap("right")), User("bob", cheap("bobs")))
        pb = await nodes.add(
            "PB",
            host=ORDERS,
            listen=LISTENS,
            neighbours=[{"name": "SB", "user": "ann"}],
            settings={"users": users, "anonymous": "never"},
        )
        for greeting, why in (
            (hello("SB"), "a user name and a password are required"),
            (hello("SB", **WRONG), "wrong user name or password"),
            (hello("SB", **OTHER), "must log in as user 'ann'"),
        ):
            answer = await (await nodes.stranger("PB")).says(greeting)
            assert isinstance(answer, Sorry)
            assert why in answer.reason
        sb = await nodes.add("SB", neighbours=[at(pb, "PB", **WRONG)])
        await until(lambda: "wrong user name or password" in row(sb, "PB").fault)
        await nodes.stop("SB")
        sb = await nodes.add("SB", neighbours=[at(pb, "PB", **RIGHT)])
        await until(lambda: "orders" in sb.streams.directory.known)


async def test_no_user_comes_as_a_neighbour_that_is_called_from_here() -> None:
    async with tree() as nodes:
        pb = await nodes.add(
            "PB",
            host=ORDERS,
            listen=LISTENS,
            neighbours=[{"name": "IB", "host": "127.0.0.1", "port": 1, "user": "ann", "password": "x"}],
            settings={"users": (User("ann", cheap("right")), User("bob", cheap("bobs")))},
        )
        for greeting in (hello("IB"), hello("IB", **OTHER)):
            answer = await (await nodes.stranger("PB")).says(greeting)
            assert isinstance(answer, Sorry)
            assert "must log in as user 'ann'" in answer.reason
        assert "IB" not in pb.streams.driver.links
        assert isinstance(await (await nodes.stranger("PB")).says(hello("IB", **RIGHT)), Welcome)


async def test_users_that_come_with_a_reload_are_named_for_neighbours_at_once() -> None:
    async with tree() as nodes:
        await alone(nodes)
        pb = nodes.nodes["PB"]
        config, neighbours = pb.streams.config, (Neighbour(name="SB", user="ann"),)
        wanted = msgspec.structs.replace(
            config,
            users=(User("ann", cheap("right")), User("bob", cheap("bobs"))),
            streams=msgspec.structs.replace(config.streams, neighbours=neighbours),
        )
        pb.node._again = lambda: LoadedConfig(wanted)
        assert pb.node.reload()
        answer = await (await nodes.stranger("PB")).says(hello("SB", **OTHER))
        assert isinstance(answer, Sorry)
        assert "must log in as user 'ann'" in answer.reason
        assert isinstance(await (await nodes.stranger("PB")).says(hello("SB", **RIGHT)), Welcome)


async def test_two_nodes_of_one_name_do_not_take_each_others_place() -> None:
    async with chain() as nodes:
        ib = nodes.nodes["IB"]
        answer = await (await nodes.stranger("IB")).says(hello("SB"))
        assert isinstance(answer, Sorry)
        assert "connected already" in answer.reason
        assert row(ib, "SB").state == "up"


async def test_a_connection_has_ended_wholly_before_the_next_is_let_in() -> None:
    async with tree() as nodes:
        await alone(nodes)
        pb = nodes.nodes["PB"]
        stranger = await nodes.stranger("PB")
        await stranger.says(hello("SB"))
        links(pb)._known["SB"].link.end("for once")
        while links(pb).refusal(hello("SB"), ""):
            await asyncio.sleep(0)
        assert "SB" not in pb.streams.driver.links
        assert row(pb, "SB").fault == "for once"


async def test_a_call_to_the_wrong_node_is_noticed() -> None:
    async with tree() as nodes:
        await alone(nodes)
        sb = await nodes.add("SB", neighbours=[at(nodes.nodes["PB"], "IB")])
        await until(lambda: "is node 'PB', not 'IB'" in row(sb, "IB").fault)


async def test_two_nodes_that_call_each_other_have_one_link() -> None:
    async with tree() as nodes:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        there = {"name": "B", "host": "127.0.0.1", "port": port}
        a = await nodes.add("A", host=ORDERS, listen=LISTENS, neighbours=[there])
        b = await nodes.add("B", listen={"enabled": True, "port": port}, neighbours=[at(a, "A")])
        await until(lambda: "orders" in b.streams.directory.known)
        await asyncio.sleep(0.3)
        assert row(a, "B").state == row(b, "A").state == "up"
        assert row(a, "B").reconnects == 0


@pytest.mark.parametrize(
    "said",
    [
        b"\xff\xff\xff\xff",
        wire.framed(b"noise"),
        wire.encode(Data("orders", 1, 2, b"from below")),
        wire.encode(Silence("orders", 5, 9)),
        wire.framed(msgspec.msgpack.encode(Offer((Offered("", (), ""),)))),
        handshake.encode(Offer((Offered("bills", ("bills/#/x",), "SB"),))),
        handshake.encode(Offer((Offered("bills", ("bills/#", ""), "SB"),))),
        handshake.encode(Offer((Offered("bills", ("$SYS/#",), "SB"),))),
        handshake.encode(Offer((Offered("bi\0lls", ("bills/#",), "SB"),))),
    ],
)
async def test_a_neighbour_that_talks_nonsense_is_cut_off_and_disturbs_nobody(said: bytes) -> None:
    async with chain() as nodes:
        pb = nodes.nodes["PB"]
        got = await nodes.subscriber("SB")
        await nodes.stop("SB")
        stranger = await nodes.stranger("IB")
        assert isinstance(await stranger.says(hello("SB")), Welcome)
        stranger.writer.write(said)
        assert await stranger.gone()
        assert "protocol error" in row(nodes.nodes["IB"], "SB").fault
        del got
        at_ib = await nodes.subscriber("IB")
        await (await nodes.client("PB")).publish("orders/x", b"still here", qos=1)
        await until(lambda: at_ib == [b"still here"])
        assert row(pb, "IB").state == "up"


@pytest.mark.parametrize(
    "broken",
    [
        b"noise",
        record.encode_record(Record("", b"")),
        record.encode_record(Record("bills/#", b"", retain=True)),
        record.encode_record(Record("bills/\0", b"", retain=True)),
        record.encode_record(Record("bills/" + 65_536 * "x", b"")),
        record.encode_record(Record("bills/x", b"", qos=3)),
        record.encode_record(Record("bills/x", b"", properties=b"\x03\x01\x02\x03")),
    ],
)
def test_records_that_are_none_are_passed_over(broken: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        async with tree() as nodes:
            await alone(nodes)
            pb = nodes.nodes["PB"]
            stranger = await nodes.stranger("PB")
            await stranger.says(hello("SB"))
            stranger.writer.write(handshake.encode(Offer((Offered("bills", ("bills/#",), "SB", 10),))))
            await until(lambda: "bills" in pb.streams.directory.known)
            got = await nodes.subscriber("PB", "bills/#")
            never = int(4e18)  # the other node's clock is far ahead
            for tick, body in enumerate(
                (broken, record.encode_record(Record("bills/x", b"1", expires_us=never)))
            ):
                stranger.writer.write(wire.encode(Data("bills", 10 + tick, 10 + tick, body)))
            await until(lambda: got == [b"1"])
            assert row(pb, "SB").state == "up"

    run(play())
    assert "tick 10: " in caplog.text
    assert "a bug" not in caplog.text


async def test_many_streams_at_once_are_one_change() -> None:
    async with tree() as nodes:
        pb = await nodes.add("PB", listen=LISTENS, neighbours=[{"name": "SB"}])
        changes: list[int] = []
        pb.streams.directory.on_changed.append(lambda: changes.append(len(pb.streams.directory.known)))
        stranger = await nodes.stranger("PB")
        await stranger.says(hello("SB"))
        streams = tuple(Offered(f"s{number}", (f"s/{number}",), "SB") for number in range(100))
        stranger.writer.write(handshake.encode(Offer(streams)))
        await until(lambda: changes)
        assert changes == [100]


def test_a_stream_that_goes_back_with_its_host_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        async with tree() as nodes:
            pb = await nodes.add("PB", listen=LISTENS, neighbours=[{"name": "SB"}])
            stranger = await nodes.stranger("PB")
            await stranger.says(hello("SB"))
            for host, at_s in (("X", 100), ("X", 90), ("Y", 110), ("Z", 107)):
                offered = Offered("bills", ("bills/#",), host, at_s * TICKS_PER_S)
                stranger.writer.write(handshake.encode(Offer((offered,))))
            await until(lambda: row(pb, "SB").received == 4)
            (fault,) = pb.streams.status().faults
            assert "is now published at 'Z'" in fault
            late = Silence("bills", 110 * TICKS_PER_S, 111 * TICKS_PER_S)
            stranger.writer.write(wire.encode(late))
            await until(lambda: not pb.streams.status().faults)

    run(play())
    assert caplog.text.count("is now published at") == 1
    assert "is now published at 'Z', which is 3.0 s behind the old host 'Y'" in caplog.text


def test_a_node_knows_no_more_streams_than_it_may(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "STREAM_OFFERS", 5)

    async def play() -> None:
        async with tree() as nodes:
            await alone(nodes)
            pb = nodes.nodes["PB"]
            stranger = await nodes.stranger("PB")
            await stranger.says(hello("SB"))
            for turn in "abc":
                streams = tuple(Offered(turn + end, (f"{turn}/{end}",), "SB") for end in "123")
                stranger.writer.write(handshake.encode(Offer(streams)))
            await until(lambda: row(pb, "SB").received == 3)
            assert list(pb.streams.directory.known) == ["orders", "a1", "a2", "a3", "b1"]
            assert row(pb, "SB").state == "up"

    run(play())
    assert caplog.text.count("offers more than the 5 streams that a node can know") == 1


async def test_what_is_said_of_streams_nobody_knows_is_passed_over() -> None:
    async with tree() as nodes:
        await alone(nodes)
        pb = nodes.nodes["PB"]
        stranger = await nodes.stranger("PB")
        await stranger.says(hello("SB"))
        stranger.writer.write(wire.encode(Nack("bills", ((1, 2),))) + wire.encode(Data("bills", 1, 2, b"")))
        await until(lambda: row(pb, "SB").ignored == 2)
        assert row(pb, "SB").state == "up"


@pytest.mark.slow
async def test_a_link_on_which_nothing_is_heard_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STREAM_ALIVE_S", 0.06)
    monkeypatch.setattr(limits, "STREAM_DEAD_S", 2.5)  # a busy machine may stall for a second
    async with tree() as nodes:
        await nodes.add("IB", listen=LISTENS, neighbours=[{"name": "SB"}])
        ib = nodes.nodes["IB"]
        stranger = await nodes.stranger("IB")
        await stranger.says(hello("SB"))
        frames = wire.FrameReader(handshake.decode_said)
        said = frames.feed(await stranger.reader.read(4096))
        while len(said) < 2:
            said += frames.feed(await stranger.reader.read(4096))
        assert said == [Offer(()), Alive()]
        for _ in range(60):
            stranger.writer.write(handshake.encode(Alive()))
            await asyncio.sleep(0.05)
        assert row(ib, "SB").state == "up"
        assert await stranger.gone()
        await until(lambda: "nothing received for 2.5 s" in row(ib, "SB").fault)


async def test_links_can_be_encrypted(tmp_path: Path) -> None:
    files = certificates.make(tmp_path)
    async with tree() as nodes:
        tls = {"certificate": str(files.server), "key": str(files.server_key), "host": "0.0.0.0"}  # noqa: S104
        await nodes.add(
            "PB", host=ORDERS, listen={**LISTENS, **tls}, neighbours=[{"name": "SB"}, {"name": "X"}]
        )
        pb = nodes.nodes["PB"]
        sb = await nodes.add("SB", neighbours=[at(pb, "PB", ca=str(files.ca))])
        await until(lambda: "orders" in sb.streams.directory.known)
        got = await nodes.subscriber("SB")
        await (await nodes.client("PB")).publish("orders/x", b"secret", qos=1)
        await until(lambda: got == [b"secret"])
        trusts_others = await nodes.add("X", neighbours=[at(pb, "PB", ca=str(files.client))])
        await until(lambda: "not accepted" in row(trusts_others, "PB").fault)
        await nodes.stop("X")
        elsewhere = {**at(pb, "PB", ca=str(files.ca)), "host": "127.0.0.2"}
        wrong_place = await nodes.add("X", neighbours=[elsewhere])
        await until(lambda: "IP address mismatch" in row(wrong_place, "PB").fault)
        await nodes.stop("X")
        plain = await nodes.add("X", neighbours=[at(pb, "PB")])
        await until(lambda: "needs ca" in row(plain, "PB").fault)
        assert row(plain, "PB").state == "down"


async def test_a_port_that_is_taken_is_told() -> None:
    async with tree() as nodes:
        await alone(nodes)
        taken = {"enabled": True, "port": door(nodes.nodes["PB"])}
        with pytest.raises(NodeError, match="is in use"):
            await nodes.add("SB", listen=taken, neighbours=[{"name": "PB"}])
