"""Strangers who send rubbish, too much, too little or nothing: refused, and nobody else notices."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress
from random import Random
from typing import TYPE_CHECKING

import pytest

from penstock.mqtt.codes import Reason
from penstock.mqtt.packets.connect import PINGREQ, Connack, Connect, Disconnect
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode, encode
from penstock.mqtt.packets.publish import Publish
from penstock.mqtt.packets.subscribe import Subscribe, Subscription
from penstock_lab.rigs.brokers import Broker, our_node
from tests.e2e.real_clients import How, Paho, wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.mqtt.packets.packet import Packet

pytestmark = pytest.mark.e2e

PACKET_BYTES = 10_000
PER_ADDRESS = 120
CONNECT_S = 1
MIB = 1 << 20


@pytest.fixture(scope="module")
def node() -> Iterator[Broker]:
    """A node with tight bounds."""
    bounds = {"packet_bytes": PACKET_BYTES, "connections_per_address": PER_ADDRESS, "connect_s": CONNECT_S}
    with our_node({"bounds": bounds}) as broker:
        yield broker


@pytest.fixture
def judge(node: Broker) -> Iterator[Paho]:
    """A client that behaves, and must not notice anything."""
    client = Paho(How(node.port, "judge"))
    client.subscribe("judge", qos=1)
    yield client
    client.close()


def unaffected(judge: Paho) -> None:
    """Messages pass, on the connection that was there before."""
    before = len(judge.heard)
    for number in range(20):
        judge.publish("judge", b"%d" % number, qos=1)
    wait(lambda: len(judge.heard) == before + 20)


def dial(node: Broker) -> socket.socket:
    return socket.create_connection(("127.0.0.1", node.port), timeout=30)


def connected(node: Broker, client_id: str, *, keep_alive_s: int = 60) -> socket.socket:
    sock = dial(node)
    sock.sendall(encode(Connect(client_id, keep_alive_s=keep_alive_s), 5))
    (answer,) = packets(sock, 1)
    assert isinstance(answer, Connack)
    assert answer.reason == 0
    return sock


def packets(sock: socket.socket, most: int = 1_000) -> list[Packet]:
    """The bytes that come until the connection is closed, or so many."""
    framer, found = Framer(), list[bytes]()
    with suppress(ConnectionError):
        while len(found) < most and (chunk := sock.recv(65_536)):
            found += framer.feed(chunk)
    return [decode(frame, 5) for frame in found]


def test_rubbish(node: Broker, judge: Paho) -> None:
    dice = Random(1)
    hello = encode(Connect("rubbish"), 5)
    for number in range(150):
        with dial(node) as sock, suppress(ConnectionError):
            rubbish = dice.randbytes(dice.randrange(1, 300))
            sock.sendall(hello + rubbish if number % 2 else rubbish)
            sock.shutdown(socket.SHUT_WR)
            sock.recv(65_536)
    unaffected(judge)


def test_a_packet_that_is_too_large_is_refused_before_it_has_come(node: Broker, judge: Paho) -> None:
    before = node.memory_bytes()
    with ExitStack() as stack:
        socks = [stack.enter_context(connected(node, f"large-{number}")) for number in range(50)]
        for sock in socks:
            sock.sendall(b"\x30\xff\xff\xff\x7f")  # 256 MB are to follow
            with suppress(ConnectionError):
                sock.sendall(bytes(2 * PACKET_BYTES))
        for sock in socks:
            said = packets(sock)
            assert isinstance(said[-1], Disconnect)
            assert said[-1].reason == Reason.PACKET_TOO_LARGE
    assert node.memory_bytes() - before < 50 * MIB
    unaffected(judge)


def test_a_flood_of_connections(node: Broker, judge: Paho) -> None:
    with ExitStack() as stack:
        socks = [stack.enter_context(dial(node)) for _ in range(3 * PER_ADDRESS)]
        refused = 0
        for sock in socks:
            with suppress(ConnectionError):
                sock.sendall(encode(Connect(f"flood-{sock.fileno()}"), 5))
            refused += not packets(sock, 1)
        assert refused >= 2 * PER_ADDRESS
        unaffected(judge)

    def admitted() -> bool:
        with dial(node) as sock:
            sock.sendall(encode(Connect("after the flood"), 5))
            return bool(packets(sock, 1))

    wait(admitted)


def test_those_who_say_nothing_or_too_little_are_let_go(node: Broker, judge: Paho) -> None:
    hello = encode(Connect("loris"), 5)
    with ExitStack() as stack:
        silent = [stack.enter_context(dial(node)) for _ in range(40)]
        slow = [stack.enter_context(dial(node)) for _ in range(40)]
        asleep = connected(node, "asleep", keep_alive_s=1)
        stack.enter_context(asleep)
        with suppress(ConnectionError):
            for number in range(len(hello) - 1):
                for sock in slow:
                    sock.sendall(hello[number : number + 1])
                time.sleep(0.1)
        unaffected(judge)
        for sock in (*silent, *slow):
            assert not [said for said in packets(sock) if isinstance(said, Connack) and not said.reason]
        (said,) = packets(asleep)
        assert isinstance(said, Disconnect)
        assert said.reason == Reason.KEEP_ALIVE_TIMEOUT


def test_a_client_that_never_reads_its_answers(node: Broker, judge: Paho) -> None:
    before = node.memory_bytes()
    with ExitStack() as stack:
        sock = stack.enter_context(connected(node, "deaf"))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.settimeout(3)
        with suppress(TimeoutError):  # the node does not read on before its answers are read
            sock.sendall(PINGREQ * 50_000_000)
        unaffected(judge)
        assert node.memory_bytes() - before < 50 * MIB


def test_a_receiver_that_stalls(node: Broker, judge: Paho) -> None:
    before = node.memory_bytes()
    flood = encode(Publish("flood", bytes(1_000)), 5) * 1_000
    with ExitStack() as stack:
        for number in range(10):
            sock = stack.enter_context(connected(node, f"stalled-{number}"))
            sock.sendall(encode(Subscribe(1, (Subscription("flood"),)), 5))
            packets(sock, 1)
        sender = stack.enter_context(connected(node, "flood"))
        for _ in range(50):
            sender.sendall(flood)
        unaffected(judge)
        assert node.memory_bytes() - before < 150 * MIB, "ten queues of 8 MiB, and some"
