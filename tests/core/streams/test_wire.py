"""Messages survive the wire, however it is cut; what is no message is refused."""

from __future__ import annotations

from math import inf, nan

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.streams.messages import (
    Ack,
    Alert,
    Data,
    FinalTicks,
    Message,
    Nack,
    Query,
    Silence,
    is_urgent,
)
from penstock.core.streams.wire import FrameReader, decode, encode, wire_bytes
from penstock.errors import StreamError

names = st.text(min_size=1, max_size=12)
ticks = st.integers(0, limits.STREAM_TICKS // 2)
lengths = st.integers(0, 1 << 40)
rates = st.floats(0, 100) | st.just(inf)


def runs(cuts: list[int]) -> tuple[tuple[int, int], ...]:
    places = sorted(set(cuts))
    return tuple(zip(places[::2], places[1::2], strict=False))


messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        lambda name, at, more, body: Data(name, at, at + more, body), names, ticks, lengths, st.binary()
    ),
    st.builds(lambda name, at, more, who: Silence(name, at, at + more, who), names, ticks, lengths, names),
    st.builds(FinalTicks, names, ticks),
    st.builds(Query, names, ticks, ticks),
    st.builds(
        lambda name, cuts: Nack(name, runs(cuts)), names, st.lists(ticks, min_size=2, max_size=9, unique=True)
    ),
    st.builds(Ack, names, ticks),
    st.builds(Alert, names, ticks, rates, rates, ticks),
)

EVERY: tuple[Message, ...] = (
    Data("p", 3, 9, b"body", "SB1"),
    Silence("p", 3, 9),
    FinalTicks("p", 9),
    Query("p", 1, 9),
    Nack("p", ((1, 2), (5, 9))),
    Ack("p", 9),
    Alert("p", 1, 0.5, inf, 7),
)


@given(messages)
def test_a_message_survives_the_wire(message: Message) -> None:
    frame = encode(message)
    assert decode(frame[4:]) == message
    assert len(frame) <= wire_bytes(message) + 4 * len(message.pubend) + 50


def test_a_stream_may_be_cut_at_every_byte() -> None:
    data = b"".join(map(encode, EVERY))
    for cut in range(len(data) + 1):
        reader = FrameReader(decode)
        assert (*reader.feed(data[:cut]), *reader.feed(data[cut:])) == EVERY
    reader = FrameReader(decode)
    assert tuple(one for byte in data for one in reader.feed(bytes([byte]))) == EVERY


def test_half_a_message_is_none() -> None:
    for message in EVERY:
        body = encode(message)[4:]
        for cut in range(len(body)):
            with pytest.raises(StreamError):
                decode(body[:cut])


@given(st.binary(max_size=60))
def test_noise_is_refused_or_read_but_never_breaks(noise: bytes) -> None:
    try:
        message = decode(noise)
    except StreamError:
        return
    assert decode(encode(message)[4:]) == message


@pytest.mark.parametrize(
    "message",
    [
        Data("", 1, 2, b""),
        Data("p" * (limits.STREAM_NAME_CHARS + 1), 1, 2, b""),
        Data("p", 3, 2, b""),
        Data("p", -1, 2, b""),
        Data("p", 1, limits.STREAM_TICKS + 1, b""),
        Data("p", 1, limits.STREAM_TICKS, b""),
        Data("p", 1, 2, b"", "x" * (limits.STREAM_NAME_CHARS + 1)),
        Silence("p", 3, 2),
        FinalTicks("p", -1),
        Query("p", -1, 0),
        Nack("p", ()),
        Nack("p", ((5, 5),)),
        Nack("p", ((5, 6), (4, 7))),
        Nack("p", ((1, limits.STREAM_TICKS + 1),)),
        Nack("p", tuple((2 * at, 2 * at + 1) for at in range(limits.STREAM_SPANS + 1))),
        Alert("p", 1, nan, 1.0),
        Alert("p", 1, -1.0, 1.0),
    ],
)
def test_what_cannot_be_is_refused(message: Message) -> None:
    with pytest.raises(StreamError):
        decode(msgspec.msgpack.encode(message))


def test_a_frame_beyond_the_bound_is_refused_before_it_is_there() -> None:
    with pytest.raises(StreamError, match="at most 33,554,432"):
        FrameReader(decode).feed((limits.STREAM_FRAME_BYTES + 1).to_bytes(4))
    with pytest.raises(StreamError, match="at most 33,554,432"):
        encode(Data("p", 0, 1, bytes(limits.STREAM_FRAME_BYTES)))


def test_what_steers_overtakes_data() -> None:
    assert [is_urgent(message) for message in EVERY] == [False, False, False, True, True, True, True]
