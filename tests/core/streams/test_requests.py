"""Requests of programs: whole round trips, and nothing that is none gets through."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.streams.requests import (
    Abort,
    Answer,
    Append,
    Begin,
    Begun,
    Commit,
    Cuts,
    Describe,
    Described,
    Done,
    Failed,
    Fetch,
    Fetched,
    Figures,
    Forget,
    Leave,
    Place,
    Placed,
    Request,
    Row,
    Settle,
    Split,
    Stage,
    Staged,
    decode_answer,
    decode_request,
    encode,
)
from penstock.core.streams.wire import HEAD_BYTES
from penstock.errors import StreamError

NAMES = st.text(min_size=1, max_size=20)
NUMBERS = st.integers(0, (1 << 63) - 1)
TICKS = st.integers(0, limits.STREAM_TICKS)
COUNTS = st.integers(1, limits.STREAM_TICKS)
SPANS = st.lists(TICKS, min_size=2, max_size=2).map(sorted)
ROWS = st.lists(
    st.builds(Row, st.text(), st.binary(max_size=50), NUMBERS, st.text(max_size=5)), min_size=1, max_size=4
).map(tuple)


@st.composite
def appends(draw: st.DrawFn) -> Append:
    rows = draw(ROWS)
    numbers = draw(st.sets(st.integers(1, limits.STREAM_TICKS - 1), min_size=len(rows), max_size=len(rows)))
    return Append(draw(NUMBERS), draw(NAMES), draw(NAMES), tuple(sorted(numbers)), rows)


REQUESTS = st.one_of(
    st.builds(Describe, NUMBERS),
    st.builds(
        lambda number, stream, span, most, wait: Fetch(number, stream, span[0], span[1], most, most, wait),
        *(NUMBERS, NAMES, SPANS, COUNTS, st.integers(0, 10**6)),
    ),
    st.builds(
        lambda number, stream, span, rows: Split(number, stream, span[0], span[1], rows),
        NUMBERS,
        NAMES,
        SPANS,
        COUNTS,
    ),
    st.builds(Place, NUMBERS, NAMES, NAMES),
    st.builds(Settle, NUMBERS, NAMES, NAMES, TICKS),
    st.builds(Forget, NUMBERS, NAMES, NAMES),
    st.builds(Begin, NUMBERS, NAMES, NAMES, NAMES, st.booleans()),
    st.builds(Leave, NUMBERS, NAMES, NAMES, NAMES),
    appends(),
    st.builds(Stage, NUMBERS, NAMES, NAMES, st.integers(0, 99), ROWS),
    st.builds(
        Commit,
        *(NUMBERS, NAMES, NAMES, st.integers(0, (1 << 30) - 1)),
        st.lists(st.builds(Staged, NAMES, st.integers(0, 9)), max_size=3).map(tuple),
    ),
    st.builds(Abort, NUMBERS, NAMES, st.lists(NAMES, max_size=3).map(tuple)),
)

ANSWERS = st.one_of(
    st.builds(
        Described,
        *(NUMBERS, st.text()),
        st.lists(st.builds(Figures, NAMES, st.just(()), NAMES, st.booleans()), max_size=2).map(tuple),
        NUMBERS,
    ),
    st.lists(st.tuples(NUMBERS, st.binary(max_size=9)), max_size=4).map(
        lambda found: Fetched(1, 2, 3, tuple(one for one, _ in found), tuple(body for _, body in found))
    ),
    st.builds(Cuts, NUMBERS, st.just((1, 2)), st.just((3, 4))),
    st.builds(Placed, NUMBERS, st.none() | NUMBERS),
    st.builds(Begun, NUMBERS, NUMBERS, st.just(("a/#",)), NUMBERS),
    st.builds(Done, NUMBERS),
    st.builds(Failed, NUMBERS, st.sampled_from(["unknown", "trimmed", "full"]), st.text(), NUMBERS),
)  # fmt: skip


@given(REQUESTS)
def test_a_request_comes_back_whole(request_: Request) -> None:
    frame = encode(request_)
    assert int.from_bytes(frame[:HEAD_BYTES]) == len(frame) - HEAD_BYTES
    assert decode_request(frame[HEAD_BYTES:]) == request_


@given(ANSWERS)
def test_an_answer_comes_back_whole(answer: Answer) -> None:
    assert decode_answer(encode(answer)[HEAD_BYTES:]) == answer


@given(st.binary(max_size=60))
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    for decode in (decode_request, decode_answer):
        try:
            decode(data)
        except StreamError:
            continue


@given(REQUESTS, st.data())
def test_a_cut_request_is_refused(request_: Request, data: st.DataObject) -> None:
    body = encode(request_)[HEAD_BYTES:]
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(StreamError):
        decode_request(body[:cut])


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (Place(1, "", "c"), "a name of 0 characters"),
        (Place(1, "s", "c" * (limits.STREAM_NAME_CHARS + 1)), "a name of 1,025 characters"),
        (Fetch(1, "s", 5, 4), "ticks from 5 to 4"),
        (Fetch(1, "s", -1, 4), "ticks from -1 to 4"),
        (Fetch(1, "s", 0, limits.STREAM_TICKS + 1), "ticks from 0"),
        (Fetch(1, "s", 0, 4, most=0), "most of 0"),
        (Fetch(1, "s", 0, 4, wait_ms=-1), "wait_ms of 0"),
        (Split(1, "s", 0, 4, rows=0), "rows of 0"),
        (Settle(1, "s", "c", -1), "ticks from 0 to -1"),
        (Append(1, "s", "w", (), ()), "0 numbers for 0 messages"),
        (Append(1, "s", "w", (1, 2), (Row("a", b""),)), "2 numbers for 1 messages"),
        (Append(1, "s", "w", (2, 2), (Row("a", b""), Row("a", b""))), "numbers that do not grow"),
        (Append(1, "s", "w", (0,), (Row("a", b""),)), "numbers that do not grow"),
        (Stage(1, "s", "a", -1, (Row("a", b""),)), "part of 0"),
        (Stage(1, "s", "a", 0, ()), "no rows"),
        (Commit(1, "s", "w", -1, ()), "batch -1"),
        (Commit(1, "s", "w", 1 << 30, ()), "batch 1073741824"),
        (Commit(1, "s", "w", 1, (Staged("a", -1),)), "a of 0"),
        (Abort(1, "s", ("",)), "a name of 0 characters"),
    ],
)
def test_what_cannot_be_is_refused(request_: Request, why: str) -> None:
    with pytest.raises(StreamError, match=why):
        decode_request(encode(request_)[HEAD_BYTES:])


def test_what_is_too_large_is_not_sent() -> None:
    with pytest.raises(StreamError, match=r"a Stage of 33,5.* bytes"):
        encode(Stage(1, "s", "a", 0, (Row("t", b"x" * limits.STREAM_FRAME_BYTES),)))


def test_an_answer_with_more_ticks_than_messages_is_refused() -> None:
    with pytest.raises(StreamError, match="differ in number"):
        decode_answer(encode(Fetched(1, 0, 9, (1, 2), (b"",)))[HEAD_BYTES:])


def test_tags_are_not_used_twice() -> None:
    tags = [one.__struct_config__.tag for one in (*get_args(Request), *get_args(Answer))]
    assert len(set(tags)) == len(tags)
