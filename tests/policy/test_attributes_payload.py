"""Payload decoding: every format, what is found out by itself, and what nobody must be able to break."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import cbor2
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock import limits
from penstock.model import Event
from penstock.policy import attributes
from penstock.policy.attributes import UNDECODABLE, decode, decoded, own_format, read
from penstock.policy.nodes import PayloadFormat
from penstock.policy.paths import parse

AUTO, JSON, MSGPACK, CBOR, TEXT = (
    PayloadFormat.AUTO,
    PayloadFormat.JSON,
    PayloadFormat.MSGPACK,
    PayloadFormat.CBOR,
    PayloadFormat.TEXT,
)
SIXTEEN = {str(place): place for place in range(16)}
"""One more than a short MessagePack map holds."""
MANY = {str(place): place for place in range(300)}
MAP = {"v": 5, "w": {"x": [1, 2.5, "ü", None, True]}}


@pytest.mark.parametrize(
    ("data", "kind", "expected"),
    [
        (msgspec.json.encode(MAP), JSON, MAP),
        (msgspec.msgpack.encode(MAP), MSGPACK, MAP),
        (cbor2.dumps(MAP), CBOR, MAP),
        (msgspec.json.encode(MAP), AUTO, MAP),
        (msgspec.msgpack.encode(MAP), AUTO, MAP),
        (cbor2.dumps(MAP), AUTO, MAP),
        (b"\xd9\xd9\xf7" + cbor2.dumps(MAP), AUTO, MAP),  # CBOR that says so
        (msgspec.msgpack.encode(SIXTEEN), AUTO, SIXTEEN),
        (cbor2.dumps(MANY), AUTO, MANY),
        (b"72.5", AUTO, 72.5),
        (b"72", AUTO, 72),
        (b" +5 ", AUTO, 5.0),
        (b".5", TEXT, 0.5),
        (b"5.", TEXT, 5.0),
        (b"-1e3", TEXT, -1000.0),
        (b"05", AUTO, 5.0),
        (b"1e999", AUTO, float("inf")),
        (b"5 5", AUTO, "5 5"),
        (b"0x1f", AUTO, "0x1f"),
        (b"1_000", AUTO, "1_000"),
        (b"NaN", AUTO, "NaN"),
        (b"Infinity", AUTO, "Infinity"),
        (b"e5", AUTO, "e5"),
        (b".", AUTO, "."),
        (b"+", AUTO, "+"),
        ("٣".encode(), TEXT, "٣"),  # a digit, but no sensor's
        ("Zürich".encode(), AUTO, "Zürich"),
        (b"true", AUTO, True),
        (b"true", TEXT, "true"),
        (b'"72"', AUTO, "72"),
        (b'"72"', TEXT, '"72"'),
        (b"[1, 2]", AUTO, [1, 2]),
        (b"", AUTO, ""),
        (b"", TEXT, ""),
        (b"", JSON, UNDECODABLE),
        (b"", MSGPACK, UNDECODABLE),
        (b"", CBOR, UNDECODABLE),
        (b"null", AUTO, UNDECODABLE),  # nothing to read there
        (b"null", JSON, UNDECODABLE),
        (b"\xf6", CBOR, UNDECODABLE),
        (b"{", AUTO, "{"),
        (b"{", JSON, UNDECODABLE),
        (b"\xff\xfe", AUTO, UNDECODABLE),
        (b"\xff\xfe", TEXT, UNDECODABLE),
        (b'"\\ud800"', JSON, UNDECODABLE),  # half a surrogate pair is no text
        (b'{"v": 1}', MSGPACK, UNDECODABLE),
    ],
)  # fmt: skip
def test_decode(data: bytes, kind: PayloadFormat, expected: Any) -> None:
    found = decode(data, kind)
    assert found == expected
    assert type(found) is type(expected)


def test_the_largest_payload_is_decoded_and_no_larger_one() -> None:
    exact = b'"' + b"x" * (limits.DECODE_BYTES - 2) + b'"'
    assert decode(exact, AUTO) == "x" * (limits.DECODE_BYTES - 2)
    for kind in PayloadFormat:
        assert decode(exact + b" ", kind) == UNDECODABLE


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("", None),
        ("application/json", JSON),
        ("Application/JSON; charset=utf-8", JSON),
        ("text/json", JSON),
        ("application/senml+json", JSON),
        ("application/msgpack", MSGPACK),
        ("application/vnd.msgpack", MSGPACK),
        ("application/x-msgpack", MSGPACK),
        (" application/cbor ", CBOR),
        ("text/plain;x=y", TEXT),
        ("image/png", None),
        ("application/jsonx", None),
        (";", None),
    ],
)
def test_content_types(content_type: str, expected: PayloadFormat | None) -> None:
    assert own_format(Event("t", b"", 0, content_type=content_type)) is expected


def test_the_event_knows_better_than_the_policy() -> None:
    event = Event("t", b"5", 0, content_type="text/plain")
    for given_format in PayloadFormat:
        assert decoded(event, given_format) == 5.0
    assert decoded(Event("t", b"5", 0, content_type="image/png"), JSON) == 5


def test_a_payload_is_decoded_once_per_format_and_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[PayloadFormat] = []
    real = attributes.decode

    def counting(data: bytes, kind: PayloadFormat) -> Any:
        calls.append(kind)
        return real(data, kind)

    monkeypatch.setattr(attributes, "decode", counting)
    event = Event("t", b'{"v": 1, "w": 2}', 0)
    for name in ("v", "w", "v", "gone"):
        read(event, parse(name), AUTO)
        read(event, parse(name), TEXT)
    assert calls == [AUTO, TEXT]
    for nothing in (b"null", b"\xff", b"{"):  # what cannot be decoded is not tried again
        calls.clear()
        bad = Event("t", nothing, 0)
        for _ in range(3):
            read(bad, parse("v"), JSON)
            read(bad, parse("v"), AUTO)
        assert calls == [JSON, AUTO]


def test_the_memo_is_no_part_of_the_event() -> None:
    fresh, used = Event("t", b'{"v": 1}', 0), Event("t", b'{"v": 1}', 0)
    decoded(used, AUTO)
    decoded(used, TEXT)
    assert fresh == used
    assert hash(fresh) == hash(used)
    assert {fresh, used} == {fresh}


MALICIOUS = {
    "list of 2^48": bytes.fromhex("9b0000ffffffffffff"),
    "map of 2^48": bytes.fromhex("bb0000ffffffffffff"),
    "bytes of 2^63": bytes.fromhex("5b7fffffffffffffff"),
    "text of 2^48": bytes.fromhex("7b0000ffffffffffff"),
    "deep lists": b"\x81" * 200_000 + b"\x01",
    "deep maps": b"\xa1\x61a" * 80_000 + b"\x01",
    "deep tags": b"\xc1" * 200_000 + b"\x01",
    "indefinite deep": b"\x9f" * 200_000,
    "break at top": b"\xff",
    "reserved": b"\x1c",
}


@pytest.mark.parametrize("data", MALICIOUS.values(), ids=MALICIOUS.keys())
def test_malicious_cbor_is_undecodable(data: bytes) -> None:
    assert decode(data, CBOR) == UNDECODABLE


def test_a_list_that_holds_itself_has_nothing_there() -> None:
    event = Event("t", bytes.fromhex("d81c81d81d00"), 0, content_type="application/cbor")
    assert read(event, parse("0"), AUTO) is None
    assert read(event, parse("0.0.0"), AUTO) is None


LONG = b"\xff" * 60_000


@pytest.mark.parametrize(
    ("tag", "content", "expected"),
    [
        (0, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        (0, "yesterday", "yesterday"),
        (1, 1_700_000_000, 1_700_000_000),
        (2, b"\x01\x00", 256),
        (2, LONG, LONG),
        (2, "x", "x"),
        (3, b"\x01\x00", -257),
        (4, [2**63 - 1, 1], [2**63 - 1, 1]),
        (4, [1, cbor2.CBORTag(2, LONG)], [1, LONG]),
        (5, [1, cbor2.CBORTag(2, LONG)], [1, LONG]),
        (30, [1, 0], [1, 0]),
        (35, "(a{1,100}){1,100}" * 1000, "(a{1,100}){1,100}" * 1000),
        (36, "Content-Type: multipart/mixed; boundary=a\n\n" + "--a\n\n" * 9000, None),
        (37, b"1", b"1"),
        (258, ["a"], ["a"]),
        (260, b"123", b"123"),
        (29, 5, None),
        (25, 5, None),
    ],
)
def test_cbor_tags_are_not_obeyed(tag: int, content: object, expected: object) -> None:
    """To obey a tag could take as long as a stranger chooses."""
    root = decode(cbor2.dumps({"x": cbor2.CBORTag(tag, content)}), CBOR)
    assert root["x"] == (content if tag == 36 else expected)


def test_cbor_maps_have_texts_for_keys() -> None:
    assert decode(cbor2.dumps({1: 2}), CBOR) == UNDECODABLE


@pytest.mark.parametrize("kind", [JSON, AUTO, MSGPACK])
def test_deep_nesting_is_undecodable(kind: PayloadFormat) -> None:
    assert decode(b"\x91" * 200_000 + b"\x01", kind) in (UNDECODABLE, "")
    deep = decode(b"[" * 100_000 + b"]" * 100_000, kind)
    assert isinstance(deep, bytes | str)


@pytest.mark.parametrize(
    "text",
    [
        b"1" * 250_000 + b"x",
        b" " * 250_000 + b"x",
        b"1" + b" " * 250_000 + b"x",
        b"1." + b"1" * 250_000 + b"x",
        b"1e" + b"1" * 250_000 + b"x",
        b"." * 250_000,
        b"+" * 250_000,
        b"1" * 250_000,
    ],
    ids=lambda text: text[:3].decode() + "…" + text[-2:].decode(),
)
def test_finding_out_that_a_text_is_no_number_takes_linear_time(text: bytes) -> None:
    began = perf_counter()
    decode(text, AUTO)
    assert perf_counter() - began < 60.0  # quadratic: half an hour


@given(st.binary(max_size=200), st.sampled_from(PayloadFormat))
@example(bytes.fromhex("a18001"), CBOR)  # a list as a key
@example(bytes.fromhex("a1a0a0"), CBOR)  # a map as a key
@example(b"\xc1\xfb\x7f\xf0\x00\x00\x00\x00\x00\x00", CBOR)
def test_no_bytes_raise(data: bytes, kind: PayloadFormat) -> None:
    assert decode(data, kind) is not None
    read(Event("t", data, 0), parse("a.0"), kind)


@given(st.binary(max_size=40), st.integers(0, 2**16 - 1))
def test_no_tag_raises(data: bytes, tag: int) -> None:
    assert decode(b"\xd9" + tag.to_bytes(2, "big") + data, CBOR) is not None
