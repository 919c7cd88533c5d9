"""When a session ends and when its will is published."""

from __future__ import annotations

import pytest

from penstock.errors import ProtocolError
from penstock.mqtt.packets.connect import Connect, Disconnect, Will
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Pubrec, Pubrel
from penstock.mqtt.packets.subscribe import Subscription
from penstock.mqtt.sessions.session import NEVER_S, Due, Happening, Session

S = 1_000_000


def attached(
    *, expiry_s: int | None = None, delay_s: int | None = None, version: int = 5, clean: bool = True
) -> Session[str]:
    will = Will("gone", b"x", properties=Properties(will_delay_s=delay_s))
    session: Session[str] = Session("c")
    connect = Connect(
        "c",
        version=version,
        clean_start=clean,
        will=will,
        properties=Properties(session_expiry_s=expiry_s),
    )
    session.attach(connect, window=10, maximum=10)
    return session


def told(happened: list[Happening]) -> list[Due]:
    assert all((each.will is not None) is (each.what is Due.WILL) for each in happened)
    return [each.what for each in happened]


@pytest.mark.parametrize("version", [4, 5])
def test_a_session_that_is_not_to_be_kept_ends_with_its_connection(version: int) -> None:
    session = attached(version=version)
    assert session.timer() is None
    assert told(session.detach(now_us=5 * S)) == [Due.WILL, Due.END]
    assert session.timer() is None
    assert session.on_timer(now_us=10 * S) == []


def test_a_farewell_takes_the_will_back() -> None:
    session = attached()
    session.leave(Disconnect())
    assert told(session.detach(now_us=0)) == [Due.END]


@pytest.mark.parametrize("reason", [0x04, 0x80, 0x93])
def test_a_farewell_with_another_reason_leaves_the_will(reason: int) -> None:
    session = attached()
    session.leave(Disconnect(reason))
    assert told(session.detach(now_us=0)) == [Due.WILL, Due.END]


def test_the_will_waits_for_its_delay_and_the_session_for_its_expiry() -> None:
    session = attached(expiry_s=60, delay_s=10)
    assert session.detach(now_us=1 * S) == []
    assert session.timer() == 11 * S
    assert session.on_timer(now_us=11 * S - 1) == []
    assert told(session.on_timer(now_us=11 * S)) == [Due.WILL]
    assert session.timer() == 61 * S
    assert told(session.on_timer(now_us=61 * S)) == [Due.END]


def test_a_late_timer_brings_all_that_was_due() -> None:
    session = attached(expiry_s=60, delay_s=10)
    session.detach(now_us=0)
    assert told(session.on_timer(now_us=100 * S)) == [Due.WILL, Due.END]


def test_the_end_of_a_session_does_not_wait_for_its_will() -> None:
    session = attached(expiry_s=5, delay_s=10)
    session.detach(now_us=0)
    assert session.timer() == 5 * S
    assert told(session.on_timer(now_us=5 * S)) == [Due.WILL, Due.END]


def test_a_new_connection_in_time_makes_the_will_void() -> None:
    session = attached(expiry_s=60, delay_s=10)
    session.detach(now_us=0)
    session.attach(Connect("c", clean_start=False), window=1, maximum=1)
    assert session.attached
    assert session.timer() is None
    assert told(session.detach(now_us=20 * S)) == [Due.END]


def test_a_session_of_3_1_1_that_is_kept_never_ends() -> None:
    session = attached(version=4, clean=False)
    assert session.expiry_s == NEVER_S
    assert told(session.detach(now_us=0)) == [Due.WILL]
    assert session.timer() is None
    assert told(session.end()) == [Due.END]


def test_expiry_is_what_the_server_grants_and_the_last_word_counts() -> None:
    session: Session[str] = Session("c")
    asked = Connect("c", properties=Properties(session_expiry_s=1000))
    session.attach(asked, window=1, maximum=1, most_expiry_s=60)
    assert session.expiry_s == 60
    session.leave(Disconnect(properties=Properties(session_expiry_s=30)))
    assert session.expiry_s == 30
    session.leave(Disconnect(properties=Properties(session_expiry_s=1000)))
    assert session.expiry_s == 60
    session.leave(Disconnect(properties=Properties(session_expiry_s=0)))
    assert told(session.detach(now_us=0)) == [Due.END]


def test_a_session_that_was_to_end_cannot_be_kept_by_a_farewell() -> None:
    session = attached(expiry_s=0)
    with pytest.raises(ProtocolError, match="30 s, but the CONNECT set 0"):
        session.leave(Disconnect(properties=Properties(session_expiry_s=30)))


def test_ending_by_decision_publishes_the_will() -> None:
    session = attached(expiry_s=60, delay_s=10)
    session.detach(now_us=0)
    assert told(session.end()) == [Due.WILL, Due.END]
    assert session.timer() is None


def test_a_session_goes_on_over_a_new_connection() -> None:
    session = attached(expiry_s=60)
    out = session.exchange.outgoing
    session.subscriptions.add(Subscription("a"))
    first, second = out.send("one", qos=1), out.send("two", qos=2)
    session.exchange.receive(Pubrec(second))
    assert session.statistics().outgoing == 2
    session.leave(Disconnect())
    assert session.detach(now_us=0) == []
    resumed = Connect("c", clean_start=False, properties=Properties(session_expiry_s=60))
    assert session.attach(resumed, window=1, maximum=1) == [Pubrel(second)]
    assert out.again() == [], "the release takes the only place"
    out.pubcomp(second)
    assert [each.packet_id for each in out.again()] == [first]
    assert session.statistics() == (True, 1, 1, 0)


def test_a_client_of_3_1_1_is_not_held_to_a_receive_maximum_it_cannot_know() -> None:
    session: Session[str] = Session("c")
    session.attach(Connect("c", version=4), window=1, maximum=1)
    assert session.exchange.incoming.maximum == 65_535
