"""The compact form: round trips, sizes, merging after travelling, and bytes of strangers."""

from __future__ import annotations

from math import inf, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock import limits
from penstock.errors import DigestError
from penstock.model import AttributeSummary, Cause, Digest, compact, sketches
from penstock.model.compact import FILTERS, VERSION, encode
from penstock.model.digest import WORST_CASE, Mark
from penstock.model.digest_wire import from_bytes, from_message, to_compact, to_message
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.sessions.identifiers import AliasesOut
from penstock.node.broker.message import digest_message, frame_of
from penstock.policy.filters import CATALOGUE
from tests.model.digests import digests

AT_US = 1_790_000_000_123_456
"""A moment of the year 2026: times take most of a digest's bytes."""


def one_attribute(
    count: int = 14, *, total: float = 1003.7, least: float = 58.2, most: float = 91.4, name: str = "pulse"
) -> Digest:
    """A count, a range of time, and one attribute's mean, least and most."""
    summary = AttributeSummary(n=count, total=total, least=least, most=most)
    causes = ((Cause(1, 1, "within"), count),)
    return Digest(count, AT_US, AT_US + 1_734_221, 10_412, 10_412 + count - 1, causes, ((name, summary),))


def assert_same(found: Digest, sent: Digest) -> None:
    """All is equal, sums to rounding."""
    for (_, one), (_, other) in zip(found.attributes, sent.attributes, strict=True):
        assert one.total == pytest.approx(other.total, rel=2**-43, abs=0)
    assert _without_sums(found) == _without_sums(sent)


def _without_sums(digest: Digest) -> Digest:
    attributes = tuple((name, replace(summary, total=0.0)) for name, summary in digest.attributes)
    return replace(digest, attributes=attributes)


@given(digests())
def test_round_trip(digest: Digest) -> None:
    assert_same(from_bytes(to_compact(digest)), digest)


@given(digests())
def test_a_digest_that_travels_again_does_not_change(digest: Digest) -> None:
    once = from_bytes(to_compact(digest))
    assert from_bytes(to_compact(once)) == once


@given(digests(with_sketches=False), digests(with_sketches=False))
def test_merging_what_has_travelled_counts_the_same(a: Digest, b: Digest) -> None:
    """Digests of digests, made by several nodes, conserve what they count."""
    travelled = from_bytes(to_compact(a)).merge(from_bytes(to_compact(b)))
    whole = a.merge(b)
    assert (travelled.count, travelled.causes) == (whole.count, whole.causes)
    assert (travelled.from_us, travelled.to_us) == (whole.from_us, whole.to_us)
    assert (travelled.seq_first, travelled.seq_last) == (whole.seq_first, whole.seq_last)
    for (name, one), (its_name, other) in zip(travelled.attributes, whole.attributes, strict=True):
        assert (name, one.n, one.least, one.most) == (its_name, other.n, other.least, other.most)
        assert one.total == pytest.approx(other.total, rel=1e-9, abs=1e-6)


# -- sizes ---------------------------------------------------------------------------------------------------


def packet(digest: Digest, *, compact: bool, qos: int = 0, known_alias: bool = True) -> bytes:
    """The whole PUBLISH, as a node sends it to a client that takes topic aliases."""
    message = digest_message(digest, topic="ward/*", filter_="ward/#", compact=compact, qos=qos, now_us=0)
    aliases = AliasesOut(4)
    if known_alias:
        aliases.shorten(b"ward/*")
    return frame_of(message, version=5, now_us=0, packet_id=1, qos=qos, aliases=aliases)


def test_sizes_of_the_documentation() -> None:
    """docs/reference/digest-format.md states these."""
    digest = one_attribute()
    assert len(to_compact(digest)) == 35
    assert [len(packet(digest, compact=True, qos=qos)) for qos in (0, 1)] == [75, 77]
    assert len(packet(digest, compact=True, known_alias=False)) == 81
    assert len(to_message(digest, filter_="ward/#", compact=False).payload) == 269
    assert len(packet(digest, compact=False)) == 320


@given(
    count=st.integers(1, 2**14 - 1),
    numbers=st.tuples(*[st.floats(allow_nan=False)] * 3),
    span_us=st.integers(0, 2**28 - 1),
    seq=st.integers(0, 2**20 - 1),
    name=st.text("abcdefghijklmnopqrstuvwxyz_.", min_size=1, max_size=7),
    filter_=st.sampled_from(FILTERS),
)
def test_one_attribute_takes_at_most_60_bytes(
    count: int, numbers: tuple[float, float, float], span_us: int, seq: int, name: str, filter_: str
) -> None:
    """Whatever the numbers are: up to 16,000 events of four minutes."""
    total, least, most = numbers
    summary = AttributeSummary(n=count, total=total, least=least, most=most)
    causes = ((Cause(1, 1, filter_), count),)
    digest = Digest(count, AT_US, AT_US + span_us, seq, seq + count, causes, ((name, summary),))
    assert len(to_compact(digest)) <= 60


def test_every_filter_of_the_catalogue_has_a_number() -> None:
    assert set(CATALOGUE) <= set(FILTERS)
    assert len(set(FILTERS)) == len(FILTERS)
    assert max(map(len, CATALOGUE)) <= limits.CAUSE_CHARACTERS


@given(digests())
def test_a_sketch_is_carried_at_its_own_size(digest: Digest) -> None:
    sketched = sum(
        len(each or b"") for _, found in digest.attributes for each in (found.distinct, found.quantiles)
    )
    assert len(to_compact(digest)) <= digest.size + 100 + sketched


# -- numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (0.0, 1),
        (7.0, 1),
        (-1.0, 1),
        (72.0, 2),
        (71.3, 2),
        (-40.25, 3),
        (0.00001, 1),
        (2.0**50, 5),  # as a float it is shorter, and exact
        (0.1 + 0.2, 9),
        (1 / 3, 9),
        (0.3333333432674408, 5),  # 1/3 as a sensor's float of four bytes
        (-0.0, 5),
        (inf, 9),
        (-inf, 9),
        (1e300, 9),
        (5e-324, 9),
        (nan, 9),
    ],
)
def test_numbers_are_exact_and_short(value: float, size: int) -> None:
    bare = len(to_compact(Digest(1, 0, 0, 0, 0, ((WORST_CASE, 1),), (("v", AttributeSummary()),))))
    digest = Digest(1, 0, 0, 0, 0, ((WORST_CASE, 1),), (("v", AttributeSummary(squares=value)),))
    data = encode(digest)
    assert len(data) == bare + size
    found = compact.decode(data).attributes[0][1].squares
    assert found is not None
    assert isnan(found) if isnan(value) else repr(found) == repr(value)


@given(st.lists(st.integers(-99_999, 99_999).map(lambda n: n / 100), min_size=1, max_size=50))
def test_a_sum_of_decimals_loses_its_rounding_noise(numbers: list[float]) -> None:
    total = sum(numbers)
    digest = one_attribute(len(numbers), total=total)
    found = from_bytes(to_compact(digest)).attributes[0][1].total
    assert found == pytest.approx(round(total, 2), abs=1e-9)
    assert len(to_compact(digest)) <= 44


# -- bytes of strangers --------------------------------------------------------------------------------------


def rich() -> Digest:
    found = [float(one) for one in range(30)]
    summary = AttributeSummary(
        n=29,
        total=435.0,
        squares=7.5,
        least=0.0,
        most=29.0,
        first=Mark(1, 2, "ä"),
        last=Mark(3, 4, True),
        distinct=sketches.distinct_of(found),
        quantiles=sketches.quantiles_of(found),
    )
    marks = AttributeSummary(first=Mark(1, 2, -5), last=Mark(3, 4, 2.5))
    causes = ((WORST_CASE, 28), (Cause(1, 2, "delta"), 1), (Cause(1, 2, "mine"), 1))
    return Digest(30, -5, 9, 2, 8, causes, (("v", summary), ("w", marks)))


def test_cut_at_every_byte() -> None:
    data = to_compact(rich())
    assert from_bytes(data) == rich()
    for end in range(len(data)):
        with pytest.raises(DigestError):
            from_bytes(data[:end])
    with pytest.raises(DigestError, match="1 bytes too many"):
        from_bytes(data + b"\x00")


@given(st.binary(max_size=80))
def test_any_bytes_are_refused_or_a_digest(data: bytes) -> None:
    try:
        found = from_bytes(bytes((VERSION,)) + data)
    except DigestError:
        return
    assert from_bytes(to_compact(found.merge(rich()))).count == found.count + 30


@given(st.data(), digests())
def test_a_byte_changed_is_refused_or_harmless(data: st.DataObject, digest: Digest) -> None:
    whole = bytearray(to_compact(digest))
    whole[data.draw(st.integers(1, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = from_bytes(bytes(whole))
    except DigestError:
        return
    assert found.merge(digest).count == found.count + digest.count
    assert to_message(found, filter_="a", compact=True).payload


HEAD = bytes((VERSION, 1, 0, 0, 0, 0))
"""One event at time and number 0; shape, causes and attributes follow."""
ONE = HEAD + b"\x02\x00\x00\x01"
"""A digest with one cause and one attribute, which follows."""


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (bytes((VERSION, 0, 0, 0, 0, 0, 0, 0, 0, 1)), "no events"),
        (HEAD + b"\x01\x00\x00", "0 causes; from 2 to 512"),
        (HEAD + b"\x01\x01\x00", "1 causes; from 2 to 512"),
        (HEAD + b"\x01\x81\x04", "513 causes"),
        (HEAD + b"\x00\x00\x00\x7f", "filter number 127"),
        (HEAD + b"\x00\x00\x00\x00\x41" + b"x" * 65, "65 characters; at most 64"),
        (HEAD + b"\x82\x01\x00\x00\x01", "65 attributes; at most 64"),
        (ONE + b"\x01v\x80\x04", "unknown fields 0x200"),
        (ONE + b"\x01v\x02\x01", "unknown fields 0x2"),
        (ONE + b"\x01v\x01\x0f", "unknown kind of number 15"),
        (ONE + b"\x01v\x20\x00\x00\x05", "unknown kind of value 5"),
        (ONE + b"\x02\xff\xff\x00", "not UTF-8"),
        (ONE + b"\xff\x7fv", "16383 bytes announced, 1 left (attribute, byte"),
        (bytes((VERSION, 0x81, 0x00)), "longer than needed (count, byte 3)"),
        (bytes((VERSION,)) + b"\xff" * 10, "more than 10 bytes"),
        (bytes((VERSION,)) + b"\xff" * 9 + b"\x7f", "beyond 64 bits"),
        (bytes((VERSION,)), "cut off (count, byte 1)"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, says: str) -> None:
    with pytest.raises(DigestError) as error:
        from_bytes(data)
    assert says in str(error.value)


def test_a_value_of_more_than_64_bits_travels_as_json() -> None:
    summary = AttributeSummary(last=Mark(0, 0, 2**70))
    digest = Digest(1, 0, 0, 0, 0, ((WORST_CASE, 1),), (("v", summary),))
    with pytest.raises(DigestError, match="beyond 64 bits"):
        to_compact(digest)
    message = to_message(digest, filter_="a", compact=True)
    assert message.is_text
    assert from_message(message.payload)[1]["attributes"]["v"]["last"] == 2**70


def test_both_forms_are_read_as_the_same_json() -> None:
    digest = one_attribute()
    compact = to_message(digest, filter_="ward/#", compact=True)
    as_json = to_message(digest, filter_="ward/#", compact=False)
    assert (compact.mark, as_json.mark) == (("penstock-digest", "2"), ("penstock-digest", "1"))
    found, told = from_message(compact.payload)
    read, said = from_message(as_json.payload)
    assert found == read == digest
    assert {"filter": "ward/#"} | told == said
    assert Properties(content_type=compact.content_type).content_type == "digest/2"
