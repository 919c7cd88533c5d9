"""A digest as bytes and as JSON: round trips, and bytes that are not what they should be."""

from __future__ import annotations

import json
from base64 import b64decode
from random import Random
from typing import Any

import datasketches
import msgspec
import pytest
from hypothesis import given

from penstock import limits
from penstock.errors import DigestError
from penstock.model import AttributeSummary, Cause, Digest, sketches
from penstock.model.digest import WORST_CASE, Mark
from penstock.model.digest_wire import VERSION, from_bytes, from_json, to_bytes, to_json
from tests.model.digests import digests


def a_digest(count: int = 30, **summary: Any) -> Digest:
    found = [float(one) for one in range(count)]
    given: dict[str, Any] = {
        "n": count,
        "total": sum(found),
        "squares": 7.0,
        "least": 0.0,
        "most": 29.0,
        "first": Mark(1, 2, "ä"),
        "last": Mark(3, 4, True),
        "distinct": sketches.distinct_of(found),
        "quantiles": sketches.quantiles_of(found),
    }
    causes = ((WORST_CASE, count - 1), (Cause(level=1, position=2, filter="delta"), 1))
    return Digest(count, -5, 9, 2, 8, causes, (("v", AttributeSummary(**(given | summary))),))


def raw(digest: Digest, **changes: Any) -> bytes:
    """The bytes of a digest whose fields were changed behind the types' back."""
    names = ["count", "from_us", "to_us", "seq_first", "seq_last", "causes", "attributes"]
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(digest))
    for name, value in changes.items():
        fields[names.index(name)] = value
    return bytes((VERSION,)) + msgspec.msgpack.encode(fields)


@given(digests())
def test_round_trip(digest: Digest) -> None:
    assert from_bytes(to_bytes(digest)) == digest


@given(digests(), digests())
def test_what_was_merged_can_travel(a: Digest, b: Digest) -> None:
    merged = a.merge(b)
    assert from_bytes(to_bytes(merged)) == merged


def test_a_plain_digest_is_small() -> None:
    digest = Digest(3, 1_700_000_000_000_000, 1_700_000_000_500_000, 10, 12, ((WORST_CASE, 3),))
    assert len(to_bytes(digest)) <= digest.size + 8


def test_cut_at_every_byte() -> None:
    data = to_bytes(a_digest())
    for end in range(len(data)):
        with pytest.raises(DigestError):
            from_bytes(data[:end])
    with pytest.raises(DigestError):
        from_bytes(data + b"\x00")


@pytest.mark.parametrize("count", [2, 30, 300, 1200])
def test_a_byte_changed_is_refused_or_harmless(count: int) -> None:
    """Whatever is accepted can be merged, shown and sent on: the native sketches believe their headers."""
    whole = a_digest(count)
    data = to_bytes(whole)
    dice = Random(count)
    places = list(range(len(data))) if len(data) < 1000 else dice.sample(range(len(data)), 200)
    begin = data.index(whole.attributes[0][1].quantiles or b"?")
    accepted = 0
    for place in [*places, *range(begin, min(begin + 60, len(data)))]:
        for value in {0, 1, 0x80, 0xFF, data[place] ^ 1, dice.randrange(256)}:
            damaged = bytearray(data)
            damaged[place] = value
            try:
                read = from_bytes(bytes(damaged))
            except DigestError:
                continue
            accepted += 1
            for merged in (read.merge(whole), whole.merge(read)):
                assert from_bytes(to_bytes(merged)).count == read.count + whole.count
                to_json(merged, with_sketches=True)
            to_json(read)
    assert accepted


def kll_with_n(n: int) -> bytes:
    sketch = bytearray(sketches.quantiles_of(map(float, range(300))))
    sketch[8:16] = n.to_bytes(8, "little")
    return bytes(sketch)


def other_kll() -> bytes:
    sketch = datasketches.kll_doubles_sketch(400)
    sketch.update(1.0)
    return bytes(sketch.serialize())


def other_hll(lg: int, kind: str) -> bytes:
    sketch = datasketches.hll_sketch(lg, getattr(datasketches.tgt_hll_type, kind))
    sketch.update(1)
    return bytes(sketch.serialize_compact())


@pytest.mark.parametrize(
    "summary",
    [
        {"quantiles": kll_with_n(2**63)},  # merging it would take for ever
        {"quantiles": kll_with_n(0)},
        {"quantiles": kll_with_n(299)},
        {"quantiles": other_kll()},
        {"quantiles": sketches.quantiles_of([1.0])[:8] + b"\x00\x00\x00\x00\x00\x00\xf8\x7f"},  # NaN
        {"quantiles": b""},
        {"distinct": other_hll(13, "HLL_8")},
        {"distinct": other_hll(12, "HLL_4")},
        {"distinct": b""},
        {"distinct": b"\xff" * 40},
        {"n": 31},
        {"n": 0},
        {"n": 0, "total": 0.0},
        {"least": float("nan")},
        {"most": float("nan")},
        {"first": Mark(0, 0, "x" * (limits.MARK_CHARACTERS + 1))},
        {"last": Mark(2**63, 0, 1)},
    ],
    ids="-".join,
)
def test_summaries_that_cannot_be(summary: dict[str, Any]) -> None:
    with pytest.raises(DigestError, match="attribute 'v'"):
        from_bytes(to_bytes(a_digest(**summary)))


SUMMARY: list[Any] = [0, 0.0]


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 0},
        {"count": -1},
        {"count": 31},
        {"count": limits.DIGEST_COUNT + 1, "causes": [[[0, 0, "x"], limits.DIGEST_COUNT + 1]]},
        {"causes": []},
        {"causes": [[[0, 0, "a"], 15], [[0, 0, "a"], 15]]},  # merging would lose one of them
        {"causes": [[[1, 1, "a"], 15], [[0, 0, "a"], 15]]},
        {"causes": [[[0, 0, "x" * 65], 30]]},
        {"causes": [[[0, 0, "x"], 31], [[0, 0, "y"], -1]]},
        {"causes": [[[0, 0, f"{n:04}"], 0] for n in range(limits.DIGEST_CAUSES + 1)]},
        {"attributes": [["v", SUMMARY], ["v", SUMMARY]]},
        {"attributes": [["w", SUMMARY], ["v", SUMMARY]]},
        {"attributes": [[f"{n:03}", SUMMARY] for n in range(limits.DIGESTERS + 1)]},
        {"from_us": 10},
        {"seq_first": 9},
        {"to_us": 2**63},
        {"seq_last": 2**63},
        {"to_us": "now"},
    ],
    ids="-".join,
)
def test_digests_that_cannot_be(changes: dict[str, Any]) -> None:
    digest = a_digest()
    assert from_bytes(raw(digest)) == digest
    with pytest.raises(DigestError):
        from_bytes(raw(digest, **changes))


@pytest.mark.parametrize("data", [b"", b"\xd2", b"{}", bytes((VERSION,)), bytes((VERSION,)) + b"\x91" * 5000])
def test_other_bytes(data: bytes) -> None:
    with pytest.raises(DigestError):
        from_bytes(data)


def test_a_digest_too_long_is_not_even_read() -> None:
    with pytest.raises(DigestError, match="at most"):
        from_bytes(bytes((VERSION,)) + bytes(limits.DIGEST_BYTES))


def test_a_count_that_no_wire_holds_is_a_digest_error() -> None:
    digest = Digest(2**64, 0, 0, 0, 0, ((WORST_CASE, 2**64),))
    with pytest.raises(DigestError):
        to_bytes(digest)


def test_json_for_people() -> None:
    shown = to_json(a_digest())
    assert json.loads(json.dumps(shown)) == shown
    assert {name: shown[name] for name in ("count", "from_us", "to_us", "seq", "level")} == {
        "count": 30,
        "from_us": -5,
        "to_us": 9,
        "seq": [2, 8],
        "level": 1,
    }
    assert shown["causes"][1] == {"level": 1, "position": 2, "filter": "delta", "count": 1}
    summary = shown["attributes"]["v"]
    assert (summary["n"], summary["sum"], summary["mean"]) == (30, 435.0, 14.5)
    assert (summary["min"], summary["max"], summary["first"], summary["last"]) == (0.0, 29.0, "ä", True)
    assert summary["distinct"] == 30
    assert summary["quantiles"]["0.5"] == pytest.approx(14.5, abs=1)
    assert "sketches" not in summary


def test_json_leaves_out_what_is_not_known_and_shows_false_and_zero() -> None:
    summary = AttributeSummary(least=0.0, first=Mark(0, 0, False), last=Mark(0, 0, 0))
    shown = to_json(Digest(1, 0, 0, 0, 0, ((WORST_CASE, 1),), (("v", summary),)))
    assert shown["attributes"]["v"] == {"min": 0.0, "first": False, "last": 0}


def test_json_with_sketches() -> None:
    digest = a_digest()
    shown = to_json(digest, with_sketches=True)["attributes"]["v"]["sketches"]
    assert b64decode(shown["distinct"]) == digest.attributes[0][1].distinct
    assert b64decode(shown["quantiles"]) == digest.attributes[0][1].quantiles


@given(digests())
def test_json_can_be_read_back(digest: Digest) -> None:
    found = from_json(json.loads(json.dumps(to_json(digest, with_sketches=True))))
    assert (found.count, found.causes) == (digest.count, digest.causes)
    assert (found.from_us, found.to_us) == (digest.from_us, digest.to_us)
    assert (found.seq_first, found.seq_last) == (digest.seq_first, digest.seq_last)
    for (name, one), (its_name, other) in zip(found.attributes, digest.attributes, strict=True):
        assert (name, one.n, one.distinct, one.quantiles) == (
            its_name,
            other.n,
            other.distinct,
            other.quantiles,
        )


def test_json_says_what_people_read_of_a_digest() -> None:
    digest = a_digest()
    summary = from_json(to_json(digest)).attributes[0][1]
    whole = digest.attributes[0][1]
    assert (summary.mean, summary.least, summary.most) == (whole.mean, whole.least, whole.most)
    assert summary.stddev == pytest.approx(whole.stddev)
    assert summary.first is not None
    assert summary.last is not None
    assert (summary.first.value, summary.last.value) == ("ä", True)
    assert summary.distinct is None


@pytest.mark.parametrize(
    "damage",
    [
        {"count": 0},
        {"count": 31},
        {"count": "many"},
        {"seq": [9, 2]},
        {"seq": [1]},
        {"causes": [{"level": -1, "position": 0, "filter": "x", "count": 30}]},
        {"attributes": {"v": {"n": 31}}},
        {"attributes": {"v": {"sketches": {"distinct": "AAAA"}}}},
        {"attributes": {"v": {"sketches": {"distinct": "?"}}}},
        {"to_us": 2**70},
    ],
    ids=str,
)
def test_json_that_is_no_digest_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(DigestError):
        from_json(to_json(a_digest()) | damage)
    with pytest.raises(DigestError):
        from_json([])


@pytest.mark.parametrize(
    "changed",
    [
        {"from_us": -(2**70)},
        {"seq": [-(2**70), 5]},
        {"causes": [{"level": 2**70, "position": 1, "filter": "within", "count": 5}]},
        {"causes": [{"level": 1, "position": 2**70, "filter": "within", "count": 5}]},
    ],
)
def test_json_with_numbers_that_cannot_be_stored_is_refused(changed: dict[str, Any]) -> None:
    said = to_json(Digest(5, 1, 2, 1, 5, ((Cause(1, 1, "within"), 5),)))
    assert to_bytes(from_json(said))
    with pytest.raises(DigestError, match="beyond 64 bits"):
        from_json(said | changed)


@pytest.mark.parametrize("name", ["first", "last"])
def test_a_value_in_json_beyond_64_bits_is_a_float_as_it_is_in_an_event(name: str) -> None:
    said = to_json(Digest(5, 1, 2, 1, 5, ((Cause(1, 1, "within"), 5),)))
    read = from_json(said | {"attributes": {"x": {name: -(2**70)}}})
    assert from_bytes(to_bytes(read)) == read
    assert to_json(read)["attributes"]["x"] == {name: -(2.0**70)}
