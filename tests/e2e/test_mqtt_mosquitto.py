"""Our client's half of MQTT against Mosquitto's server half: another implementation reads what we write."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Protocol, TypeVar

import pytest

from penstock.mqtt.packets.connect import Connack, Connect, Disconnect, Pingreq, Pingresp, Will
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Publish
from penstock.mqtt.packets.subscribe import Subscription
from penstock.mqtt.sessions.client import (
    Answered,
    ClientConnection,
    ClientSession,
    ClientState,
    Received,
    Settled,
)
from tests.kit.mosquitto import MOSQUITTO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.mqtt.packets.packet import Packet

T = TypeVar("T")


class Dial(Protocol):
    """Makes a client."""

    def __call__(self, connect: Connect, *, session: ClientSession | None = None) -> Client: ...


pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed"),
]


class Client:
    """A blocking client of a few lines."""

    def __init__(self, port: int, connect: Connect, *, session: ClientSession | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.framer = Framer()
        self.connection = ClientConnection(connect)
        self.session = session or ClientSession()
        self.happened: list[object] = []
        self.socket.sendall(self.connection.start(now_us=0))
        while self.connection.state is ClientState.CONNECTING:
            self.read()

    def send(self, *packets: Packet) -> None:
        for packet in packets:
            self.socket.sendall(self.connection.encode(packet, now_us=0))

    def read(self) -> None:
        chunk = self.socket.recv(65_536)
        assert chunk, "mosquitto has closed the connection"
        for frame in self.framer.feed(chunk):
            packet = self.connection.receive(frame)
            if isinstance(packet, Connack):
                self.connack = packet
                window = self.connection.window
                present = packet.session_present
                self.send(*self.session.resume(session_present=present, window=window, maximum=65_535))
                continue
            if isinstance(packet, Pingresp):
                self.happened.append(packet)
            outcome = self.session.receive(packet)
            self.send(*outcome.send)
            if outcome.happened is not None:
                self.happened.append(outcome.happened)
            if isinstance(outcome.happened, Received) and outcome.happened.message.qos:
                self.send(self.session.answer(outcome.happened.message.packet_id))

    def wait_for(self, kind: type[T]) -> T:
        """The next thing of a kind that happens."""
        while True:
            for at, each in enumerate(self.happened):
                if isinstance(each, kind):
                    del self.happened[at]
                    return each
            self.read()

    def subscribe(self, *wanted: Subscription, properties: Properties = NONE) -> tuple[int, ...]:
        self.send(self.session.subscribe(*wanted, properties=properties))
        return self.wait_for(Answered).answer.reasons


@pytest.fixture
def dial(port: int) -> Iterator[Dial]:
    """Makes clients, and hangs up for all of them."""
    made: list[Client] = []

    def call(connect: Connect, *, session: ClientSession | None = None) -> Client:
        made.append(Client(port, connect, session=session))
        return made[-1]

    yield call
    for client in made:
        client.socket.close()


@pytest.mark.parametrize("version", [4, 5])
def test_mosquitto_takes_and_gives_messages_of_every_qos(dial: Dial, version: int) -> None:
    client = dial(Connect(f"qos-{version}", version=version))
    topic = f"t{version}/é"
    assert client.subscribe(Subscription(f"t{version}/#", qos=2), Subscription("other/+", qos=1)) == (2, 1)
    for qos in (0, 1, 2):
        for payload in (b"", b"x" * 100, b"y" * 20_000):
            client.send(client.session.publish(Publish(topic, payload, qos=qos)))
            found = client.wait_for(Received).message
            assert (found.topic, found.payload, found.qos) == (topic, payload, qos)
            if qos:
                assert client.wait_for(Settled).reason == 0
    client.send(Pingreq())
    client.wait_for(Pingresp)
    client.send(client.session.unsubscribe(f"t{version}/#", "other/+"))
    assert client.wait_for(Answered).answer.reasons == ((0, 0) if version == 5 else ())
    client.send(Disconnect())
    assert client.socket.recv(1) == b""


def test_mosquitto_passes_our_properties_on(dial: Dial) -> None:
    client = dial(Connect("properties", properties=Properties(topic_alias_maximum=10)))
    assert client.connection.granted.topic_alias_maximum == 10
    client.subscribe(
        Subscription("p/#", qos=1, retain_as_published=True), properties=Properties(subscription_ids=(300,))
    )
    said = Properties(
        payload_format_indicator=1,
        message_expiry_s=100,
        content_type="text/plain",
        response_topic="p/answer",
        correlation_data=b"\0\1",
        user=(("a", "b"), ("a", "c"), ("é", "")),
    )
    for number in range(3):
        # The second and third go with an alias in the place of their topic.
        client.send(client.session.publish(Publish("p/x", b"%d" % number, qos=1, properties=said)))
        found = client.wait_for(Received).message
        assert found.topic == "p/x"
        assert found.payload == b"%d" % number
        assert found.properties.subscription_ids == (300,)
        for field in (
            "payload_format_indicator",
            "content_type",
            "response_topic",
            "correlation_data",
            "user",
        ):
            assert getattr(found.properties, field) == getattr(said, field)
    client.send(Disconnect())


@pytest.mark.parametrize("version", [4, 5])
def test_mosquitto_keeps_our_session_and_sends_again(dial: Dial, version: int) -> None:
    asking = Properties(session_expiry_s=60) if version == 5 else NONE
    asked = Connect(f"kept-{version}", version=version, clean_start=False, properties=asking)
    client = dial(asked)
    assert not client.connack.session_present
    client.subscribe(Subscription(f"k{version}", qos=2))
    client.socket.close()
    other = dial(Connect(f"other-{version}", version=version))
    for number in range(3):
        other.send(other.session.publish(Publish(f"k{version}", b"%d" % number, qos=2)))
        other.wait_for(Settled)
    again = dial(asked, session=client.session)
    assert again.connack.session_present
    assert [again.wait_for(Received).message.payload for _ in range(3)] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("version", [4, 5])
def test_mosquitto_publishes_our_will_and_keeps_what_is_retained(dial: Dial, version: int) -> None:
    watcher = dial(Connect(f"watcher-{version}", version=version))
    watcher.subscribe(Subscription(f"w{version}", qos=1))
    will = Will(f"w{version}", b"gone", qos=1, retain=True)
    dial(Connect(f"dying-{version}", version=version, will=will)).socket.close()
    assert watcher.wait_for(Received).message.payload == b"gone"
    late = dial(Connect(f"late-{version}", version=version))
    late.subscribe(Subscription(f"w{version}", qos=1))
    found = late.wait_for(Received).message
    assert (found.payload, found.retain) == (b"gone", True)
