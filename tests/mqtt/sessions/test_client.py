"""A client against a broker made of the same parts: bytes both ways, connections cut anywhere."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MqttError, PacketTooLarge, ProtocolError
from penstock.mqtt.packets.connect import PINGREQ, PINGRESP, Auth, Connack, Connect, Disconnect, Pingreq
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import Packet, decode, encode
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Puback, Publish, Pubrec, Pubrel
from penstock.mqtt.packets.subscribe import Suback, Subscription, Unsuback
from penstock.mqtt.sessions.client import (
    Answered,
    ClientConnection,
    ClientSession,
    ClientState,
    Received,
    Settled,
)
from penstock.mqtt.sessions.server import Terms
from tests.mqtt.sessions.broker import Broker, Link

S = 1_000_000


class Client:
    """A client's program: it publishes, and writes down what it hears."""

    def __init__(self, broker: Broker, name: str, *, version: int = 5) -> None:
        self.broker = broker
        asking = Properties(session_expiry_s=60, topic_alias_maximum=2, receive_maximum=2)
        self.asked = Connect(
            name, version=version, clean_start=False, properties=asking if version == 5 else NONE
        )
        self.session = ClientSession()
        self.waiting: deque[Publish] = deque()
        self.heard: list[tuple[bytes, int]] = []
        self.settled: list[bytes] = []
        self.answered: list[Answered] = []

    def open(self) -> None:
        """A new connection in the place of the old one."""
        self.link = Link(self.broker)
        self.framer = Framer()
        self.connection = ClientConnection(self.asked)
        self.wire = bytearray(self.connection.start(now_us=0))

    def put(self, *packets: Packet) -> None:
        for packet in packets:
            self.wire += self.connection.encode(packet, now_us=0)

    def pump(self) -> None:
        while self.waiting and self.session.room:
            self.put(self.session.publish(self.waiting.popleft()))

    def up(self, count: int) -> None:
        """So many bytes reach the broker."""
        chunk = bytes(self.wire[:count])
        del self.wire[:count]
        self.link.feed(chunk)
        assert self.link.error is None, self.link.error

    def down(self, count: int) -> None:
        """So many bytes reach the client."""
        chunk = bytes(self.link.said[:count])
        del self.link.said[:count]
        for frame in self.framer.feed(chunk):
            self.hear(self.connection.receive(frame))
        assert self.framer.fault is None

    def hear(self, packet: Packet) -> None:
        if isinstance(packet, Connack):
            assert not packet.reason
            self.put(
                *self.session.resume(
                    session_present=packet.session_present,
                    window=self.connection.window,
                    maximum=2 if self.connection.version == 5 else 65_535,
                )
            )
            self.pump()
            return
        outcome = self.session.receive(packet)
        self.put(*outcome.send)
        match outcome.happened:
            case Received(message):
                self.heard.append((message.payload, message.qos))
                assert message.topic == "t/x"
                if message.qos:
                    self.put(self.session.answer(message.packet_id))
            case Settled(message=message):
                self.settled.append(message.payload)
            case Answered() as answered:
                self.answered.append(answered)
        self.pump()

    @property
    def up_and_running(self) -> bool:
        return self.connection.state is ClientState.CONNECTED


def settle(*clients: Client) -> None:
    for _ in range(400):
        for client in clients:
            client.up(1000)
            client.down(1000)


@pytest.mark.parametrize("version", [4, 5])
def test_a_client_subscribes_publishes_and_hears(version: int) -> None:
    broker = Broker(terms=Terms(receive_maximum=2))
    client = Client(broker, "c", version=version)
    client.open()
    settle(client)
    client.put(client.session.subscribe(Subscription("t/#", qos=2)))
    settle(client)
    assert client.answered[0].answer == Suback(1, (2,))
    for number, qos in enumerate((0, 1, 2, 2, 1)):
        message = Publish("t/x", b"%d" % number, qos=qos)
        if qos:
            client.waiting.append(message)
            client.pump()
        else:
            client.put(client.session.publish(message))
    settle(client)
    assert client.heard == [(b"0", 0), (b"1", 1), (b"2", 2), (b"3", 2), (b"4", 1)]
    assert client.settled == [b"1", b"2", b"3", b"4"]
    client.put(client.session.unsubscribe("t/#", "u"))
    settle(client)
    assert client.answered[1].answer == Unsuback(6, (0, 0x11) if version == 5 else ())
    assert len(client.session.exchange.ids) == 0


@pytest.mark.parametrize("version", [4, 5])
@settings(max_examples=25)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["publish", "up", "up", "down", "down", "cut"]),
            st.integers(0, 1),
            st.integers(1, 60),
        ),
        max_size=60,
    )
)
def test_messages_arrive_whatever_happens_to_the_connections(
    version: int, steps: list[tuple[str, int, int]]
) -> None:
    """QoS 2 once and in order, QoS 1 at least once, from one client to the other through the broker."""
    broker = Broker(terms=Terms(receive_maximum=2))
    sender, receiver = Client(broker, "s", version=version), Client(broker, "r", version=version)
    for client in (sender, receiver):
        client.open()
    settle(sender, receiver)
    receiver.put(receiver.session.subscribe(Subscription("t/+", qos=2)))
    settle(sender, receiver)
    sent: list[tuple[bytes, int]] = []
    for what, who, count in steps:
        client = (sender, receiver)[who]
        match what:
            case "publish":
                sent.append((b"%d" % len(sent), 1 + count % 2))
                sender.waiting.append(Publish("t/x", sent[-1][0], qos=sent[-1][1]))
                if sender.up_and_running:
                    sender.pump()
            case "up":
                client.up(count)
            case "down":
                client.down(count)
            case "cut":
                client.link.lost()
                client.open()
    settle(sender, receiver)
    second = [each for each in receiver.heard if each[1] == 2]
    assert second == [each for each in sent if each[1] == 2]
    first = list(dict.fromkeys(each for each in receiver.heard if each[1] == 1))
    assert first == [each for each in sent if each[1] == 1]
    assert len(sender.session.exchange.ids) == 0
    assert broker.sessions["r"].exchange.outgoing.in_flight == 0


def test_where_the_server_forgot_the_session_messages_are_sent_as_new() -> None:
    session = ClientSession()
    session.resume(session_present=False, window=5, maximum=5)
    first = session.publish(Publish("a", b"1", qos=1))
    second = session.publish(Publish("a", b"2", qos=2))
    third = session.publish(Publish("a", b"3", qos=2))
    assert [each.packet_id for each in (first, second, third)] == [1, 2, 3]
    session.receive(Pubrec(2))
    session.subscribe(Subscription("x"))
    assert session.resume(session_present=False, window=1, maximum=5) == [first]
    assert session.receive(Puback(1)).send == [third], "still no DUP, and the released one is done"
    session.receive(Pubrec(3))
    assert session.resume(session_present=True, window=1, maximum=5) == [Pubrel(3)]
    assert len(session.exchange.ids) == 1, "a request without answer is over"


def test_with_its_session_messages_are_sent_again_with_dup() -> None:
    session = ClientSession()
    session.resume(session_present=False, window=5, maximum=5)
    sent = session.publish(Publish("a", b"1", qos=1))
    (again,) = session.resume(session_present=True, window=5, maximum=5)
    assert isinstance(again, Publish)
    assert again.dup
    assert (again.packet_id, again.payload) == (sent.packet_id, b"1")


def test_answers_to_nothing_are_refused() -> None:
    session = ClientSession()
    request = session.subscribe(Subscription("a"), Subscription("b"))
    with pytest.raises(ProtocolError, match="no request has the packet identifier 9"):
        session.receive(Suback(9, (0,)))
    with pytest.raises(ProtocolError, match="1 reason codes for 2 filters"):
        session.receive(Suback(request.packet_id, (0,)))
    other = session.unsubscribe("a")
    with pytest.raises(ProtocolError, match="no request"):
        session.receive(Suback(other.packet_id, (0,)))


def accepted(connack: Connack | None = None, *, asked: Connect | None = None) -> ClientConnection:
    connection = ClientConnection(asked or Connect("c", keep_alive_s=10))
    connection.start(now_us=0)
    connection.receive(encode(connack or Connack(), connection.version))
    return connection


def test_a_refusal_is_told() -> None:
    connection = ClientConnection(Connect("c"))
    connection.start(now_us=0)
    refusal = Connack(reason=0x87, properties=Properties(reason_string="no"))
    assert connection.receive(encode(refusal, 5)) == refusal
    assert connection.state is ClientState.CLOSED


@pytest.mark.parametrize(
    ("before", "packet", "words"),
    [
        (False, Suback(1, (0,)), "before the CONNACK"),
        (True, Connack(), "a second CONNACK"),
        (True, Pingreq(), "only a client"),
        (True, Auth(0x18), "no authentication method"),
        (True, Publish("", properties=Properties(topic_alias=1)), "none were offered"),
    ],
)
def test_what_a_server_must_not_send(before: bool, packet: Packet, words: str) -> None:
    connection = accepted() if before else ClientConnection(Connect("c"))
    with pytest.raises(MqttError, match=words):
        connection.receive(encode(packet, 5))


def test_a_server_of_3_1_1_does_not_say_goodbye() -> None:
    connection = accepted(asked=Connect("c", version=4))
    with pytest.raises(ProtocolError, match="only a client"):
        connection.receive(encode(Disconnect(), 4))


def test_a_session_nobody_asked_for_is_refused() -> None:
    with pytest.raises(ProtocolError, match="clean start"):
        accepted(Connack(session_present=True))


def test_what_the_server_did_not_grant_is_not_sent() -> None:
    connection = accepted(
        Connack(properties=Properties(maximum_qos=1, retain_available=0, maximum_packet_size=50))
    )
    with pytest.raises(MqttError, match="accepts up to 1"):
        connection.encode(Publish("t", qos=2, packet_id=1), now_us=0)
    with pytest.raises(MqttError, match="RETAIN"):
        connection.encode(Publish("t", retain=True), now_us=0)
    with pytest.raises(PacketTooLarge, match="the server accepts 50"):
        connection.encode(Publish("t", b"x" * 50), now_us=0)


def test_topics_are_shortened_as_far_as_the_server_takes_it() -> None:
    connection = accepted(Connack(properties=Properties(topic_alias_maximum=1, maximum_packet_size=60)))
    topic = "sensors/ward-3/bed-12/pulse"
    first = connection.encode(Publish(topic, b"1"), now_us=0)
    second = connection.encode(Publish(topic, b"2"), now_us=0)
    other = connection.encode(Publish("other", b"3"), now_us=0)
    assert decode(first, 5) == Publish(topic, b"1", properties=Properties(topic_alias=1))
    assert decode(second, 5) == Publish("", b"2", properties=Properties(topic_alias=1))
    assert decode(other, 5) == Publish("other", b"3")
    full = accepted(Connack(properties=Properties(topic_alias_maximum=1, maximum_packet_size=36)))
    assert decode(full.encode(Publish(topic, b"1"), now_us=0), 5) == Publish(topic, b"1"), "no room"


def test_a_client_pings_when_it_has_nothing_to_say_and_misses_the_answer() -> None:
    connection = accepted()
    assert connection.timer() == 7.5 * S
    connection.encode(Publish("t"), now_us=5 * S)
    assert connection.timer() == 12.5 * S
    assert connection.on_timer(now_us=12 * S) == b""
    assert connection.on_timer(now_us=13 * S) == PINGREQ
    assert connection.timer() == 20.5 * S
    connection.receive(PINGRESP)
    assert connection.on_timer(now_us=21 * S) == PINGREQ
    connection.encode(Publish("t"), now_us=22 * S)
    with pytest.raises(MqttError, match=r"no PINGRESP for 7\.5 s"):
        connection.on_timer(now_us=29 * S)
    connection.close()
    assert connection.timer() is None


def test_the_servers_keep_alive_counts() -> None:
    connection = accepted(Connack(properties=Properties(server_keep_alive_s=100)))
    assert connection.timer() == 75 * S
    assert accepted(asked=Connect("c", keep_alive_s=0)).timer() is None
