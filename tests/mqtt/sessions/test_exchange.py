"""QoS 1 and 2 by example: the steps of a handshake, the window, what is sent again."""

from __future__ import annotations

import pytest

from penstock.errors import MqttError, ProtocolError
from penstock.mqtt.packets.publish import Puback, Pubcomp, Pubrec, Pubrel
from penstock.mqtt.sessions.exchange import Arrival, Exchange, Incoming, Outgoing, Unanswered
from penstock.mqtt.sessions.identifiers import MOST_PACKET_ID, PacketIds


def test_identifiers_begin_at_1_and_go_round_past_those_in_use() -> None:
    ids = PacketIds()
    assert [ids.take() for _ in range(3)] == [1, 2, 3]
    ids.free(2)
    assert ids.take() == 4, "one just freed is not used at once"
    for _ in range(5, MOST_PACKET_ID + 1):
        ids.take()
    assert ids.take() == 2
    assert len(ids) == MOST_PACKET_ID
    with pytest.raises(AssertionError):
        ids.take()
    ids.free(65_535)
    ids.free(1)
    assert [ids.take(), ids.take()] == [65_535, 1]


def test_qos_1_is_done_with_its_puback() -> None:
    out: Outgoing[str] = Outgoing(window=2)
    assert (out.send("a", qos=1), out.send("b", qos=1), out.room) == (1, 2, 0)
    with pytest.raises(AssertionError):
        out.send("c", qos=1)
    assert (out.puback(2), out.room) == ("b", 1)
    assert out.puback(2) is None, "not known any more"
    assert out.puback(77) is None
    assert [each.message for each in out.unanswered()] == ["a"]


def test_qos_2_takes_its_place_until_pubcomp() -> None:
    out: Outgoing[str] = Outgoing(window=1)
    packet_id = out.send("a", qos=2)
    assert out.pubrec(packet_id) == (Pubrel(packet_id), "a")
    assert (out.room, out.released()) == (0, [packet_id])
    assert out.pubrec(packet_id) == (Pubrel(packet_id), None), "asked again, told again"
    assert out.pubcomp(packet_id)
    assert (out.room, out.released()) == (1, [])
    assert not out.pubcomp(packet_id)
    assert out.pubrec(packet_id) == (Pubrel(packet_id, 0x92), None), "an identifier nobody knows"


def test_qos_2_refused_is_done_at_once() -> None:
    out: Outgoing[str] = Outgoing(window=1)
    packet_id = out.send("a", qos=2)
    assert out.pubrec(packet_id, 0x97) == (None, "a")
    assert out.room == 1
    packet_id = out.send("b", qos=2)
    out.pubrec(packet_id)
    assert out.pubrec(packet_id, 0x80) == (None, None), "a change of mind frees it, too"
    assert out.room == 1


@pytest.mark.parametrize(
    ("qos", "steps", "wrong"),
    [
        (1, [], "pubrec"),
        (1, [], "pubcomp"),
        (2, [], "puback"),
        (2, [], "pubcomp"),
        (2, ["pubrec"], "puback"),
    ],
)
def test_an_acknowledgement_of_the_wrong_kind_is_an_error(qos: int, steps: list[str], wrong: str) -> None:
    out: Outgoing[str] = Outgoing()
    packet_id = out.send("a", qos=qos)
    for step in steps:
        getattr(out, step)(packet_id)
    with pytest.raises(ProtocolError, match=f"packet {packet_id}"):
        getattr(out, wrong)(packet_id)


def test_after_a_new_connection_releases_come_first_then_messages_in_order() -> None:
    out: Outgoing[str] = Outgoing()
    for name, qos in (("a", 2), ("b", 1), ("c", 2), ("d", 1)):
        out.send(name, qos=qos)
    out.pubrec(3)
    out.puback(2)
    assert out.resume(window=10) == [Pubrel(3)]
    assert out.again() == [Unanswered(1, 2, "a"), Unanswered(4, 1, "d")]
    assert out.again() == []
    assert out.send("e", qos=1) == 5


def test_a_smaller_window_is_kept_to_when_sending_again() -> None:
    out: Outgoing[str] = Outgoing()
    for name in "abcd":
        out.send(name, qos=1)
    assert out.resume(window=2) == []
    assert [each.message for each in out.again()] == ["a", "b"]
    assert (out.again(), out.room) == ([], 0)
    out.puback(1)
    assert [each.message for each in out.again()] == ["c"]
    out.puback(4)
    out.puback(2)
    assert out.again() == [], "d was answered before it was sent again"
    assert out.room == 1


def test_what_was_kept_over_a_restart_goes_on_where_it_was() -> None:
    out: Outgoing[str] = Outgoing()
    for name, qos in (("a", 2), ("b", 1), ("c", 2)):
        out.send(name, qos=qos)
    out.pubrec(1)
    later: Outgoing[str] = Outgoing()
    later.restore(unanswered=out.unanswered(), released=out.released())
    assert later.resume(window=5) == [Pubrel(1)]
    assert later.again() == [Unanswered(2, 1, "b"), Unanswered(3, 2, "c")]
    assert later.send("d", qos=1) == 4


def test_qos_2_is_handed_on_once_and_remembered_until_released() -> None:
    inc = Incoming()
    assert inc.arrive(7, qos=2) is Arrival.NEW
    assert inc.arrive(7, qos=2) is Arrival.PENDING
    assert inc.answer(7) == Pubrec(7)
    assert inc.arrive(7, qos=2) is Arrival.AGAIN
    assert inc.answer(7) == Pubrec(7)
    inc.resume()
    assert inc.arrive(7, qos=2) is Arrival.AGAIN, "also over a new connection"
    assert inc.pubrel(7) == Pubcomp(7)
    assert inc.pubrel(7) == Pubcomp(7, 0x92)
    assert inc.arrive(7, qos=2) is Arrival.NEW


def test_qos_1_unanswered_comes_again_with_the_next_connection() -> None:
    inc = Incoming()
    assert inc.arrive(3, qos=1) is Arrival.NEW
    assert inc.arrive(3, qos=1) is Arrival.PENDING
    inc.resume()
    assert inc.arrive(3, qos=1) is Arrival.NEW
    assert inc.answer(3, reason=0x10) == Puback(3, 0x10)
    assert inc.in_flight == 0


def test_more_than_the_receive_maximum_is_refused() -> None:
    inc = Incoming(maximum=2)
    inc.arrive(1, qos=1)
    inc.arrive(2, qos=2)
    with pytest.raises(MqttError, match="receive maximum is 2") as caught:
        inc.arrive(3, qos=1)
    assert caught.value.reason == 0x93
    inc.answer(1)
    assert inc.arrive(3, qos=2) is Arrival.NEW
    inc.answer(2)
    with pytest.raises(MqttError):
        inc.arrive(4, qos=1)
    inc.answer(3, reason=0x87)
    assert inc.arrive(4, qos=1) is Arrival.NEW, "a refused one is settled"


def test_messages_of_an_earlier_connection_do_not_count() -> None:
    inc = Incoming(maximum=1)
    inc.arrive(1, qos=2)
    inc.answer(1)
    inc.resume()
    assert inc.arrive(2, qos=2) is Arrival.NEW
    with pytest.raises(MqttError):
        inc.arrive(3, qos=2)
    assert inc.received() == [1, 2]
    later = Incoming()
    later.restore(inc.received())
    assert later.arrive(1, qos=2) is Arrival.AGAIN


def test_one_identifier_has_one_qos() -> None:
    inc = Incoming()
    inc.arrive(1, qos=2)
    inc.arrive(2, qos=1)
    for packet_id, qos in ((1, 1), (2, 2)):
        with pytest.raises(MqttError, match="another QoS"):
            inc.arrive(packet_id, qos=qos)


def test_an_exchange_answers_acknowledgements() -> None:
    exchange: Exchange[str] = Exchange()
    first, second = exchange.outgoing.send("a", qos=1), exchange.outgoing.send("b", qos=2)
    assert exchange.receive(Puback(first, 0x10)) == (None, "a", 0x10)
    assert exchange.receive(Pubrec(second)) == (Pubrel(second), "b", 0)
    assert exchange.receive(Pubcomp(second)) == (None, None, 0)
    assert exchange.receive(Pubrel(9)) == (Pubcomp(9, 0x92), None, 0)
    assert len(exchange.ids) == 0


def test_an_identifier_that_is_held_is_not_given_out_until_it_is_free() -> None:
    out: Outgoing[str] = Outgoing(ids=(ids := PacketIds()), window=3)
    ids.hold(1)
    assert out.send("a", qos=1) == 2
    assert out.room == 2, "it takes no place in the window"
    out.send_as(1, "b", qos=2)
    assert [tuple(each) for each in out.unanswered()] == [(2, 1, "a"), (1, 2, "b")]
    assert out.pubrec(1) == (Pubrel(1), "b")
    assert out.pubcomp(1)


def test_there_is_no_room_without_an_identifier() -> None:
    out: Outgoing[str] = Outgoing(ids=(ids := PacketIds()), window=MOST_PACKET_ID)
    ids.hold(7)
    out.send_many("a", out.room)
    assert out.room == 0
    ids.free(7)
    assert out.room == 1
    assert out.send("b", qos=2) == 7
    assert out.room == 0


@pytest.mark.parametrize("released", [False, True])
def test_what_was_put_back_gives_way_to_a_newer_record_of_its_identifier(released: bool) -> None:
    out: Outgoing[str] = Outgoing(window=9)
    out.restore(unanswered=[Unanswered(1, 1, "old"), Unanswered(2, 2, "older")], released=[3])
    assert [out.supersede(number, released=released) for number in (1, 2, 3, 4)] == [
        "old",
        "older",
        None,
        None,
    ]
    assert out.unanswered() == []
    assert out.released() == ([1, 2, 3, 4] if released else [])
    assert out.send("new", qos=1) == 5
