"""Handshakes of two ends survive the wire; impossible ones are refused."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.streams import handshake
from penstock.core.streams.handshake import VERSION, Alive, Hello, Offer, Offered, Sorry, Welcome
from penstock.core.streams.messages import Ack, Data
from penstock.core.streams.wire import HEAD_BYTES, FrameReader, encode
from penstock.errors import StreamError

HELLO = Hello(VERSION, "node", "SB1", "ann", "secret", ("a/#",), "keep: {gt: 1}")
OFFER = Offer((Offered("orders", ("orders/#",), "PB"), Offered("bills", ("bills/+", "b/+"), "PB")))


def body(one: Hello | Welcome | Sorry | Offer | Alive) -> bytes:
    return handshake.encode(one)[HEAD_BYTES:]


def test_greetings_and_answers_survive() -> None:
    assert handshake.decode_hello(body(HELLO)) == HELLO
    for answer in (Welcome(VERSION, "IB", ("b",), "x"), Sorry("no")):
        assert handshake.decode_answer(body(answer)) == answer


def test_offers_and_messages_come_in_one_stream_of_bytes() -> None:
    data = b"".join((handshake.encode(OFFER), encode(Data("p", 1, 2, b"x")), handshake.encode(Alive())))
    for cut in range(len(data)):
        reader = FrameReader(handshake.decode_said)
        assert [*reader.feed(data[:cut]), *reader.feed(data[cut:])] == [OFFER, Data("p", 1, 2, b"x"), Alive()]
        assert reader.rest == 0


@pytest.mark.parametrize(
    ("hello", "problem"),
    [
        (Hello(VERSION + 1, "node", "x"), "unsupported stream protocol version"),
        (Hello(VERSION, "node", ""), "1 to"),
        (Hello(VERSION, "node", "x" * (limits.STREAM_NAME_CHARS + 1)), "1 to"),
        (Hello(VERSION, "king", "x"), "not a stream handshake"),  # type: ignore[arg-type]
        (Sorry("x"), "not a stream handshake"),
    ],
)
def test_wrong_greetings_are_refused(hello: Hello, problem: str) -> None:
    with pytest.raises(StreamError, match=problem):
        handshake.decode_hello(body(hello))


@pytest.mark.parametrize(
    "said",
    [
        Offer((Offered("", ("a",), "PB"),)),
        Offer((Offered("s" * (limits.STREAM_NAME_CHARS + 1), ("a",), "PB"),)),
        Offer((Offered("s", (), "PB"),)),
        Offer((Offered("s", ("a",) * (limits.STREAM_TOPICS + 1), "PB"),)),
        Offer((Offered("s", ("a",), "PB"),) * (limits.STREAM_OFFERS + 1)),
        Ack("", 1),
        Ack("p", -1),
        HELLO,
    ],
)
def test_neighbours_cannot_say_everything(said: msgspec.Struct) -> None:
    with pytest.raises(StreamError):
        handshake.decode_said(msgspec.msgpack.encode(said))


def test_another_version_is_no_answer() -> None:
    with pytest.raises(StreamError, match="unsupported stream protocol version"):
        handshake.decode_answer(body(Welcome(VERSION + 1, "IB")))


@given(st.binary(max_size=60))
def test_noise_never_breaks(noise: bytes) -> None:
    for decode in (handshake.decode_hello, handshake.decode_answer, handshake.decode_said):
        try:
            decode(noise)
        except StreamError:
            continue
