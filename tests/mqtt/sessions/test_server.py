"""A server's connection: what may come when, what was agreed, what is said at the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from msgspec.structs import replace

from penstock.errors import MqttError, ProtocolError
from penstock.mqtt.codes import FROM_CLIENT, Kind
from penstock.mqtt.packets.connect import PINGREQ, Auth, Connack, Connect, Disconnect, Pingreq, Pingresp, Will
from penstock.mqtt.packets.packet import Packet, decode, encode, kind_of
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Puback, Publish
from penstock.mqtt.packets.subscribe import Suback
from penstock.mqtt.sessions.server import ServerConnection, ServerState, Terms
from tests.kit.packets import both, connects, versions

S = 1_000_000


def connected(*, terms: Terms | None = None, version: int = 5, asking: Properties = NONE) -> ServerConnection:
    connection = ServerConnection(terms or Terms(), now_us=0)
    asked = Connect("c", version=version, keep_alive_s=10, properties=asking)
    connection.receive(encode(asked, version))
    assert connection.accept(session_present=False, now_us=0)
    return connection


def refused(connection: ServerConnection, frame: bytes) -> tuple[MqttError, bytes]:
    with pytest.raises(MqttError) as caught:
        connection.receive(frame)
    return caught.value, connection.farewell(caught.value)


@given(asked=versions.flatmap(connects))
def test_a_connect_is_first_and_its_answer_is_what_was_agreed(asked: Connect) -> None:
    connection = ServerConnection(Terms(), now_us=0)
    frame = encode(asked, asked.version)
    strange_will = asked.will is not None and asked.will.topic.startswith("$")
    if asked.properties.authentication_method is not None or strange_will:
        error, said = refused(connection, frame)
        assert error.reason in (0x8C, 0x90)
        if asked.version == 5 and (asked.properties.maximum_packet_size or 1000) > 500:
            answer = decode(said, 5)
            assert isinstance(answer, Connack)
            assert answer.reason == error.reason
        return
    assert connection.receive(frame) == asked
    assert (connection.state, connection.version) == (ServerState.DECIDING, asked.version)
    try:
        said = connection.accept(session_present=False, now_us=0)
    except MqttError:
        assert (asked.properties.maximum_packet_size or 1000) < 40, "no CONNACK needs more"
        return
    assert len(said) <= connection.maximum_packet_bytes
    answer = decode(said, asked.version)
    assert isinstance(answer, Connack)
    assert answer.reason == 0
    assert (answer.properties == NONE) is (asked.version == 4)


@given(case=both)
def test_nothing_but_a_connect_may_come_first(case: tuple[int, Packet]) -> None:
    version, packet = case
    if isinstance(packet, Connect):
        return
    error, said = refused(ServerConnection(Terms(), now_us=0), encode(packet, version))
    assert (error.reason, said) == (0x82, b""), "nobody knows the version"


@given(case=both)
def test_what_only_servers_send_is_refused(case: tuple[int, Packet]) -> None:
    version, packet = case
    connection = connected(version=version)
    frame = encode(packet, version)
    kind = kind_of(frame)
    told = isinstance(packet, Publish) and packet.properties.subscription_ids
    if kind in FROM_CLIENT - {Kind.CONNECT, Kind.AUTH, Kind.DISCONNECT} and not told:
        assert connection.receive(frame) == packet
        assert connection.state is ServerState.CONNECTED
    elif kind is not Kind.DISCONNECT:
        error, said = refused(connection, frame)
        assert error.reason == 0x82
        assert connection.state is ServerState.CLOSED
        if version == 5:
            answer = decode(said, 5)
            assert isinstance(answer, Disconnect)
            assert answer.reason == 0x82
            assert answer.properties.reason_string == str(error)
        else:
            assert said == b""


def test_a_clients_farewell_has_a_clients_reason() -> None:
    connection = connected()
    assert connection.receive(encode(Disconnect(0x04), 5)) == Disconnect(0x04)
    connection.close()
    assert connection.farewell(ProtocolError("late")) == b""
    error, said = refused(connected(), encode(Disconnect(0x8B), 5))
    assert "server shutting down may only be sent by a server" in str(error)
    assert said[2] == 0x82


def test_authentication_is_by_user_name_only() -> None:
    asked = Connect("c", properties=Properties(authentication_method="SCRAM-SHA-1"))
    error, said = refused(ServerConnection(Terms(), now_us=0), encode(asked, 5))
    assert said[3] == 0x8C
    assert "'SCRAM-SHA-1' is not supported" in str(error)
    error, _ = refused(connected(), encode(Auth(0x19), 5))
    assert error.reason == 0x82


@pytest.mark.parametrize(
    ("version", "error", "start"),
    [
        (5, MqttError("who?", reason=0x86), b"\x20\x0a\x00\x86\x07\x1f"),
        (4, MqttError("who?", reason=0x86), b"\x20\x02\x00\x04"),
        (4, MqttError("no", reason=0x87), b"\x20\x02\x00\x05"),
        (4, MqttError("too many", reason=0x97), b""),
        (5, MqttError("odd", reason=0x11), b"\x20\x09\x00\x80\x06\x1f"),
    ],
)
def test_a_client_is_turned_away_with_a_reason_it_knows(version: int, error: MqttError, start: bytes) -> None:
    connection = ServerConnection(Terms(), now_us=0)
    connection.receive(encode(Connect("c", version=version), version))
    said = connection.farewell(error)
    assert said.startswith(start)
    assert bool(said) is bool(start)
    assert connection.state is ServerState.CLOSED


def test_a_will_on_the_servers_topics_is_refused() -> None:
    asked = Connect("c", will=Will("$SYS/load"))
    error, said = refused(ServerConnection(Terms(), now_us=0), encode(asked, 5))
    assert said[3] == error.reason == 0x90


def test_what_is_granted_is_told() -> None:
    terms = Terms(
        receive_maximum=5,
        maximum_packet_bytes=1000,
        topic_alias_maximum=3,
        most_keep_alive_s=20,
        most_session_expiry_s=60,
    )
    connection = ServerConnection(terms, now_us=0)
    asked = Properties(session_expiry_s=100, topic_alias_maximum=9, receive_maximum=2)
    connection.receive(encode(Connect("", keep_alive_s=0, properties=asked), 5))
    said = connection.accept(session_present=False, now_us=0, assigned_client_id="auto-1")
    assert decode(said, 5) == Connack(
        properties=Properties(
            receive_maximum=5,
            maximum_packet_size=1000,
            topic_alias_maximum=3,
            server_keep_alive_s=20,
            session_expiry_s=60,
            assigned_client_id="auto-1",
        )
    )
    assert (connection.keep_alive_s, connection.receive_maximum) == (20, 2)
    assert (connection.aliases_out.maximum, connection.aliases_in.maximum) == (3, 3)


def test_a_keep_alive_of_3_1_1_is_the_clients() -> None:
    connection = connected(terms=Terms(most_keep_alive_s=5), version=4)
    assert connection.keep_alive_s == 10


def test_a_client_is_overdue_after_one_and_a_half_keep_alives() -> None:
    connection = connected()
    assert connection.timer() == 15 * S
    connection.heard(now_us=4 * S)
    assert connection.timer() == 19 * S
    assert connection.overdue(now_us=19 * S - 1) is None
    error = connection.overdue(now_us=19 * S)
    assert error is not None
    assert str(error) == "keep alive: nothing received for 15 s"
    assert connection.farewell(error)[2] == 0x8D
    assert connection.timer() is None


def test_without_keep_alive_a_client_is_never_overdue() -> None:
    connection = ServerConnection(Terms(), now_us=0)
    connection.receive(encode(Connect("c", keep_alive_s=0), 5))
    connection.accept(session_present=True, now_us=0)
    connection.heard(now_us=S)
    assert connection.timer() is None
    assert connection.overdue(now_us=10**12) is None


def test_a_connect_has_to_come_in_time() -> None:
    connection = ServerConnection(Terms(connect_s=3), now_us=2 * S)
    connection.heard(now_us=4 * S)
    assert connection.timer() == 5 * S
    error = connection.overdue(now_us=5 * S)
    assert error is not None
    assert "not received within 3 s" in str(error)
    assert connection.farewell(error) == b""


@pytest.mark.parametrize("most", range(1, 60))
@pytest.mark.parametrize("name", ["", "c"])
def test_a_connack_is_as_small_as_the_client_wants_it(most: int, name: str) -> None:
    terms = Terms(most_keep_alive_s=20, most_session_expiry_s=60)
    connection = ServerConnection(terms, now_us=0)
    asked = Properties(maximum_packet_size=most, session_expiry_s=100)
    connection.receive(encode(Connect(name, keep_alive_s=0, properties=asked), 5))
    assigned = "" if name else "p12345678901"
    needed = Properties(
        receive_maximum=terms.receive_maximum,
        maximum_packet_size=terms.maximum_packet_bytes,
        server_keep_alive_s=20,
        session_expiry_s=60,
        assigned_client_id=assigned or None,
    )
    least = len(encode(Connack(properties=needed), 5))
    assert least == (21 if name else 36)
    if most < least:
        with pytest.raises(
            MqttError, match=f"maximum packet size: {most}; the CONNACK has {least} bytes"
        ) as no:
            connection.check_room(assigned_client_id=assigned)
        farewell = connection.farewell(no.value)
        assert farewell == (encode(Connack(reason=0x83), 5) if most >= 5 else b"")
        return
    connection.check_room(assigned_client_id=assigned)
    frame = connection.accept(session_present=True, now_us=0, assigned_client_id=assigned)
    assert len(frame) <= most
    said = decode(frame, 5)
    assert isinstance(said, Connack)
    # What was offered and not told does not hold.
    assert connection.aliases_in.maximum == (said.properties.topic_alias_maximum or 0)
    assert bool(said.properties.topic_alias_maximum) == (most >= least + 3)
    assert replace(said.properties, topic_alias_maximum=None) == needed


def test_packets_fit_what_the_client_takes() -> None:
    worded = Properties(reason_string="why " * 20, user=(("a", "b"),))
    connection = connected(asking=Properties(maximum_packet_size=60))
    assert connection.fit(Puback(1, 0x87, worded)) == encode(Puback(1, 0x87), 5)
    assert connection.fit(Puback(1, 0x87, Properties(reason_string="why"))) == encode(
        Puback(1, 0x87, Properties(reason_string="why")), 5
    )
    assert connection.fit(Publish("t", b"x" * 60)) is None
    assert connection.fit(Suback(1, (0,) * 60)) is None
    assert connection.fit(Pingresp()) == b"\xd0\x00"
    assert connection.fit(Pingreq()) == PINGREQ


def test_a_client_that_wants_no_words_gets_none_but_at_the_end() -> None:
    connection = connected(asking=Properties(request_problem_information=0))
    worded = Properties(reason_string="why", user=(("a", "b"),))
    assert connection.fit(Suback(1, (0x87,), worded)) == encode(Suback(1, (0x87,)), 5)
    assert connection.fit(Publish("t", properties=Properties(user=(("a", "b"),)))) == encode(
        Publish("t", properties=Properties(user=(("a", "b"),))), 5
    )
    assert b"a reason" in connection.farewell(ProtocolError("a reason"))


def test_a_reason_does_not_give_back_all_that_came() -> None:
    asked = Connect("c", properties=Properties(authentication_method="m" * 60_000))
    _, said = refused(ServerConnection(Terms(), now_us=0), encode(asked, 5))
    assert 1_000 < len(said) < 1_100


def test_words_may_be_left_out_altogether() -> None:
    connection = connected(terms=Terms(reason_strings=False))
    assert connection.farewell(ProtocolError("a reason")) == b"\xe0\x01\x82"
