"""Clients with several nodes: lists, nodes that are down or refuse, and nodes that name others."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Client, limits
from penstock.client.nodes import Attempt, Nodes, read_addresses, read_references
from penstock.client.transport import read_address
from penstock.errors import ConnectionLost, ConnectRefused, InputError, Unreachable
from penstock.mqtt.codes import V5, Reason
from penstock.mqtt.packets.connect import Connack, Disconnect
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.node.access.gate import Gate
from penstock.node.config.schema import Config, User
from penstock_lab.rigs.ports import free_port
from tests.kit.cluster import Network, members
from tests.kit.passwords import cheap
from tests.kit.peer import node
from tests.kit.vitals import events, url
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

A, B, C, D = (read_address(f"mqtt://{name}") for name in "abcd")


# -- lists ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("mqtt://a", ["mqtt://a:1883"]),
        ("penstock://a:1,b:2,c", ["mqtt://a:1", "mqtt://b:2", "mqtt://c:1883"]),
        ("penstocks://a, b", ["mqtts://a:8883", "mqtts://b:8883"]),
        ("ws://a:1/x,b:2,mqtt://c,a", ["ws://a:1/x", "ws://b:2/mqtt", "mqtt://c:1883", "mqtt://a:1883"]),
        ("mqtt://a,mqtt://[::1]:7,a:1883", ["mqtt://a:1883", "mqtt://[::1]:7"]),
    ],
)
def test_a_list_of_addresses(text: str, found: list[str]) -> None:
    assert [str(address) for address in read_addresses(text)] == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mqtt://a,", "nothing before, after or between"),
        ("mqtt://a,,b", "nothing before, after or between"),
        ("", "nothing before"),
        ("a,b", "begins with one of"),
        ("mqtt://a,ftp://b", "'ftp://b'"),
        ("mqtt://a,b:99999", "b:99999"),
        ("mqtt://a,u:p@b", "no user and no password"),
        ("mqtts://a,mqtt://b", "TLS everywhere or nowhere"),
        ("mqtt://" + ",".join(f"n{number}" for number in range(65)), "at most 64"),
    ],
)
def test_a_malformed_list_is_an_error_that_says_why(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Client(text)


@given(st.lists(st.text(alphabet="ab:/@[],. 1", max_size=12), max_size=5))
def test_any_text_is_a_list_or_an_input_error(parts: list[str]) -> None:
    try:
        found = read_addresses("mqtt://" + ",".join(parts))
    except InputError:
        return
    assert found
    assert read_addresses(",".join(map(str, found))) == found


# -- references ----------------------------------------------------------------------------------------------


def test_a_reference_is_of_the_kind_of_the_connection() -> None:
    of = read_address("wss://a:1/ours")
    assert [str(one) for one in read_references("b c:2 2001:db8::1 [::1]:3", of=of)] == [
        "wss://b:443/ours",
        "wss://c:2/ours",
        "wss://[2001:db8::1]:443/ours",
        "wss://[::1]:3/ours",
    ]
    assert read_references("mqtts://b", of=A) == [read_address("mqtts://b")]


def test_a_client_with_tls_never_goes_on_without_it(caplog: pytest.LogCaptureFixture) -> None:
    of = read_address("mqtts://a")
    assert read_references("mqtt://b ws://c mqtts://d", of=of) == [read_address("mqtts://d")]
    assert caplog.text.count("without TLS: not followed") == 2


def test_what_is_no_address_is_left_out_and_said(caplog: pytest.LogCaptureFixture) -> None:
    assert read_references("b:x ftp://c u@d \x1b[31m e", of=A) == [read_address("mqtt://e")]
    assert caplog.text.count("names another server that is no address") == 4
    assert "\x1b" not in caplog.text
    assert (
        len(read_references(" ".join(f"n{number}" for number in range(1_000)), of=A))
        == limits.CLIENT_REFERENCES
    )


def went(attempt: Attempt, refer: Callable[[str], str]) -> list[str]:
    """The hosts that are tried if each of them refuses and names what `refer` says."""
    found = []
    for address in attempt:
        found.append(address.host)
        named = refer(address.host)
        attempt.failed(address, ConnectRefused("no", reason=Reason.USE_ANOTHER_SERVER, elsewhere=named))
    return found


def test_each_node_is_tried_once_however_they_name_each_other() -> None:
    nodes = Nodes((A, B))
    assert went(nodes.attempt(), {"a": "d", "d": "c a", "c": "d", "b": "a"}.__getitem__) == [
        "a",
        "d",
        "c",
        "b",
    ]


def test_a_chain_of_references_ends() -> None:
    found = went(Nodes((A, B)).attempt(), lambda host: f"{host}x")
    assert found == ["a", *("a" + "x" * number for number in range(1, limits.CLIENT_HOPS + 1)), "b"]


def test_the_node_that_answered_comes_first_and_named_ones_are_remembered() -> None:
    nodes = Nodes((A, B))
    nodes.answered(B)
    assert list(nodes.attempt()) == [B, A]
    nodes.answered(D)
    nodes.answered(A)
    assert list(nodes.attempt()) == [A, B, D]
    assert list(nodes.attempt("c")) == [C, B, D, A], "the one that sends its clients away comes last"
    for number in range(100):
        nodes.answered(read_address(f"mqtt://n{number}"))
    assert len(list(nodes.attempt())) == 2 + limits.CLIENT_REFERENCES


# -- with nodes ----------------------------------------------------------------------------------------------


async def test_the_next_node_is_taken_when_one_is_down_and_kept_to() -> None:
    async with node() as two, node() as three:
        async with node() as one:
            places = [url(each).removeprefix("mqtt://") for each in (one, two, three)]
            client = Client(f"penstock://127.0.0.1:{free_port()},{','.join(places)}", client_id="far")
            await client.connect()
            assert client.address == f"mqtt://{places[0]}"
            subscription = await client.subscribe("a", qos=1)
        await until(lambda: client.address == f"mqtt://{places[1]}" and client.connected)
        await client.publish("a", "1", qos=1)
        assert [event.payload for event in await events(subscription, 1)] == [b"1"]
        assert client.statistics().connections == 2
        await client.close()


async def test_a_client_moves_when_its_program_says_so_and_its_session_comes_along() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        async with Client(url(n1.running), client_id="far", session_expiry_s=60) as client:
            subscription = await client.subscribe("a", qos=2)
            publishing = asyncio.create_task(client.publish("a", "0", qos=2))
            for number, node_ in enumerate((n2, n1) * 4, start=1):  # more often than nodes may send it round
                await client.move(url(node_.running))
                assert (client.address, client.connected) == (url(node_.running), True)
                await client.publish("a", str(number), qos=2)
            await publishing
            assert client.statistics().resumed == 8
            assert [each.payload for each in await events(subscription, 9)] == [b"%d" % n for n in range(9)]
            await client.move(f"mqtt://127.0.0.1:{free_port()}")
            assert client.address == url(n2.running), "nobody is there: it is where it was let in before"
            with pytest.raises(InputError, match="one address, with TLS"):
                await client.move("mqtts://127.0.0.1")
        with pytest.raises(ConnectionLost, match="closed"):
            await client.move(url(n2.running))


async def test_a_node_that_refuses_is_passed_over_and_the_error_names_all() -> None:
    config = Config(data="", users=(User("ann", cheap("right")),))
    async with node(config) as strict, node() as open_:
        assert isinstance(strict.broker.gate, Gate)
        both = f"{url(strict)},{url(open_)}"
        async with Client(both, user="ann", password="wrong") as client:  # noqa: S106
            assert client.address == url(open_)
        lost = f"127.0.0.1:{free_port()}"
        with pytest.raises(Unreachable, match=rf"none of 2 nodes .*{strict.port}: refused.*; mqtt://{lost}"):
            await Client(f"{url(strict)},{lost}", user="ann", password="wrong").connect()  # noqa: S106
        with pytest.raises(ConnectRefused, match="refused") as caught:
            await Client(url(strict), user="ann", password="wrong").connect()  # noqa: S106
        assert caught.value.reason == Reason.BAD_USER_NAME_OR_PASSWORD


@asynccontextmanager
async def referring(
    connack: Connack, then: Disconnect | None = None, *, port: int = 0
) -> AsyncIterator[tuple[str, list[str]]]:
    """A server that answers each CONNECT alike; yields its address and a list with a word per connection."""
    heard: list[str] = []
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            await reader.read(1_000)
            heard.append("connect")
            writer.write(encode(connack, V5))
            if then is not None:
                writer.write(encode(then, V5))
            await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", heard
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await asyncio.sleep(0)


def elsewhere(place: str, reason: Reason = Reason.USE_ANOTHER_SERVER) -> Connack:
    return Connack(reason=reason, properties=Properties(server_reference=place) if place else NONE)


@pytest.mark.parametrize("reason", [Reason.USE_ANOTHER_SERVER, Reason.SERVER_MOVED])
async def test_a_client_goes_to_the_server_that_a_refusal_names(reason: Reason) -> None:
    async with (
        node() as real,
        referring(elsewhere(f"127.0.0.1:{real.port}", reason)) as (place, heard),
        Client(f"mqtt://{place}") as client,
    ):
        assert client.address == url(real)
        assert heard == ["connect"]


@pytest.mark.parametrize("reason", [Reason.USE_ANOTHER_SERVER, Reason.SERVER_MOVED])
async def test_a_client_goes_to_the_server_that_a_disconnect_names(reason: Reason) -> None:
    async with node() as real:
        away = Disconnect(reason, Properties(server_reference=f"127.0.0.1:{real.port}"))
        async with referring(Connack(), away) as (place, heard), Client(f"mqtt://{place}") as client:
            await until(lambda: client.address == url(real) and client.connected)
            assert heard == ["connect"]
            assert client.statistics().connections == 2


async def test_servers_that_send_a_client_round_are_left_in_peace(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    port = free_port()
    to_two = Disconnect(Reason.USE_ANOTHER_SERVER, Properties(server_reference=f"127.0.0.1:{port}"))
    async with referring(Connack(), to_two) as (one, heard):
        to_one = Disconnect(Reason.USE_ANOTHER_SERVER, Properties(server_reference=one))
        async with referring(Connack(), to_one, port=port) as (_, other), Client(f"mqtt://{one}"):
            await until(lambda: len(heard) + len(other) > limits.CLIENT_HOPS + 2)
    assert "connecting again in" in caplog.text, "after some moves the client pauses"


async def test_nodes_that_refuse_and_name_each_other_are_asked_once() -> None:
    port = free_port()
    async with (
        referring(elsewhere(f"127.0.0.1:{port}")) as (place, heard),
        referring(elsewhere(place), port=port) as (_, other),
    ):
        with pytest.raises(ConnectRefused, match=f"none of 2 nodes.*names another server: 127.0.0.1:{port}"):
            await Client(f"mqtt://{place}").connect()
        assert heard == other == ["connect"]


async def test_a_server_that_has_moved_and_says_not_where_is_given_up() -> None:
    gone = Disconnect(Reason.SERVER_MOVED)
    async with referring(Connack(), gone) as (place, _), Client(f"mqtt://{place}") as client:
        with pytest.raises(ConnectionLost, match="the node ended it"):
            await client.subscribe("a")
