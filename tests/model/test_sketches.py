"""Sketches: the parameters Spark SQL expects, and the hash it computes."""

from __future__ import annotations

import struct

import datasketches
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DigestError
from penstock.model import sketches


def test_parameters() -> None:
    """lg_k 12 HLL_8 and KLL k 200 are what `hll_sketch_agg` and `kll_sketch_agg_double` make by default."""
    hll = datasketches.hll_sketch.deserialize(sketches.distinct_of(range(1000)))
    assert (hll.lg_config_k, hll.tgt_type) == (12, datasketches.tgt_hll_type.HLL_8)
    kll = datasketches.kll_doubles_sketch.deserialize(sketches.quantiles_of([1.0, 2.0]))
    assert kll.k == 200
    merged = datasketches.hll_sketch.deserialize(
        sketches.merge_distinct(sketches.distinct_of(range(600)), sketches.distinct_of(range(900)))
    )
    assert (merged.lg_config_k, merged.tgt_type) == (12, datasketches.tgt_hll_type.HLL_8)
    joined = datasketches.kll_doubles_sketch.deserialize(
        sketches.merge_quantiles(sketches.quantiles_of([1.0]), sketches.quantiles_of([]))
    )
    assert (joined.k, joined.n) == (200, 1)


@given(st.binary(max_size=64))
def test_hash_is_xxh64_with_seed_42_signed(data: bytes) -> None:
    expected = struct.unpack("<q", struct.pack("<Q", xxhash.xxh64(data, seed=42).intdigest()))[0]
    assert sketches.hash64(data) == expected


def test_hash_of_spark() -> None:
    """The number is `SELECT xxhash64(1L)` of Spark SQL; doubles and texts are hashed by their bytes."""
    assert sketches.value_hash("Zürich") == sketches.hash64("Zürich".encode())
    assert sketches.value_hash(1) == sketches.value_hash(1.0) == -7001672635703045582
    assert sketches.value_hash(True) != sketches.value_hash(1)
    assert sketches.value_hash(2**53) != sketches.value_hash(2**53 + 1)
    assert sketches.value_hash(1.5) == sketches.hash64(struct.pack("<d", 1.5))
    assert sketches.value_hash(float(2**63)) == sketches.hash64(struct.pack("<d", float(2**63)))
    assert sketches.value_hash(-0.0) == sketches.value_hash(0)
    sketches.value_hash(float("inf"))


def test_small_counts_are_exact() -> None:
    for count in (0, 1, 7, 50, 150):
        assert (
            round(sketches.distinct_estimate(sketches.distinct_of([*range(count), *range(count)]))) == count
        )


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=150))
def test_quantiles_of_few_numbers_are_exact(found: list[float]) -> None:
    estimate = sketches.quantile_estimates(sketches.quantiles_of(found), (0.0, 1.0))
    assert estimate == {0.0: min(found), 1.0: max(found)}


def test_no_numbers_no_quantiles() -> None:
    assert sketches.quantile_estimates(sketches.quantiles_of([])) == {}


@given(st.lists(st.floats(allow_nan=False), max_size=700))
def test_our_own_sketches_pass_the_check(found: list[float]) -> None:
    sketches.check_quantiles(sketches.quantiles_of(found))
    sketches.check_distinct(sketches.distinct_of(found))


@given(st.binary(max_size=80))
def test_other_bytes_do_not(data: bytes) -> None:
    for check in (sketches.check_distinct, sketches.check_quantiles):
        try:
            check(data)
        except DigestError:
            continue
        pytest.fail(f"{data.hex()} was accepted")
