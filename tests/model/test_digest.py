"""Digests are a commutative monoid: any order of merging tells the same story."""

from __future__ import annotations

from functools import reduce
from random import Random
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.model import AttributeSummary, Cause, Digest, sketches
from penstock.model.digest import OTHER, WORST_CASE, Mark, mark, merge_all
from tests.agreement.comparing import assert_same_digest
from tests.model.digests import digests, summaries


@given(digests(), digests())
def test_merge_is_commutative(a: Digest, b: Digest) -> None:
    assert_same_digest(a.merge(b), b.merge(a))


@given(digests(), digests(), digests())
def test_merge_is_associative(a: Digest, b: Digest, c: Digest) -> None:
    assert_same_digest(a.merge(b).merge(c), a.merge(b.merge(c)))


@given(digests(with_sketches=False), digests(with_sketches=False))
def test_merge_adds_counts_and_spans(a: Digest, b: Digest) -> None:
    both = a.merge(b)
    assert both.count == a.count + b.count == sum(count for _, count in both.causes)
    assert (both.from_us, both.to_us) == (min(a.from_us, b.from_us), max(a.to_us, b.to_us))
    assert (both.seq_first, both.seq_last) == (min(a.seq_first, b.seq_first), max(a.seq_last, b.seq_last))
    assert [cause for cause, _ in both.causes] == sorted({cause for cause, _ in a.causes + b.causes})
    assert [name for name, _ in both.attributes] == sorted({name for name, _ in a.attributes + b.attributes})
    assert both.level == max(a.level, b.level)


@given(summaries(most=50))
def test_an_empty_summary_changes_nothing(a: AttributeSummary) -> None:
    for merged in (a.merge(AttributeSummary()), AttributeSummary().merge(a)):
        assert merged == a


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), min_size=1, max_size=5))
def test_moments_of_parts_are_those_of_the_whole(parts: list[list[float]]) -> None:
    def summary(part: list[float]) -> AttributeSummary:
        singles = [AttributeSummary(n=1, total=x, squares=0.0, least=x, most=x) for x in part]
        return reduce(AttributeSummary.merge, singles)

    merged = reduce(AttributeSummary.merge, map(summary, parts))
    whole = [x for part in parts for x in part]
    assert merged.n == len(whole)
    assert merged.mean == pytest.approx(fmean(whole), abs=1e-6)
    assert merged.stddev == pytest.approx(pstdev(whole), rel=1e-6, abs=1e-3)
    assert (merged.least, merged.most) == (min(whole), max(whole))


def test_squares_once_unknown_stay_unknown() -> None:
    known = AttributeSummary(n=2, total=4.0, squares=2.0)
    unknown = AttributeSummary(n=2, total=4.0)
    nothing = AttributeSummary()
    assert known.merge(known).squares == 4.0
    for merged in (known.merge(unknown), unknown.merge(known), known.merge(unknown).merge(known)):
        assert merged.squares is None
        assert merged.stddev is None
        assert merged.mean == 2.0
    assert known.merge(nothing).squares == nothing.merge(known).squares == 2.0
    assert nothing.mean is None
    assert nothing.stddev is None


def test_first_and_last_go_by_time_then_number_then_value() -> None:
    early, late = Mark(1, 9, "early"), Mark(2, 0, "late")
    tie_a, tie_b = Mark(1, 9, "a"), Mark(1, 9, True)
    lower, higher = Mark(3, 1, "z"), Mark(3, 2, "a")
    for x, y in ((early, late), (lower, higher)):
        for one, other in ((x, y), (y, x)):
            merged = AttributeSummary(first=one, last=one).merge(AttributeSummary(first=other, last=other))
            assert (merged.first, merged.last) == (x, y)
    tied = AttributeSummary(first=tie_a).merge(AttributeSummary(first=tie_b))
    assert tied == AttributeSummary(first=tie_b).merge(AttributeSummary(first=tie_a))


def test_a_mark_carries_the_beginning_of_a_long_text() -> None:
    assert mark(ts_us=0, seq=0, value="x" * 5000).value == "x" * limits.MARK_CHARACTERS
    assert mark(ts_us=0, seq=0, value=5).value == 5


def test_the_size_of_a_digest_counts_what_is_large_in_it() -> None:
    def sized(summary: AttributeSummary) -> int:
        return Digest(1, 0, 0, 0, 0, ((WORST_CASE, 1),), (("v", summary),)).size

    least = sized(AttributeSummary())
    assert sized(AttributeSummary(last=Mark(0, 0, "x" * 900))) > least + 900
    assert sized(AttributeSummary(distinct=bytes(4096))) == least + 4096
    assert sized(AttributeSummary(quantiles=bytes(3000))) == least + 3000


def many(first: int, last: int) -> Digest:
    causes = tuple(
        (Cause(level=1 + n // 9, position=1 + n % 9, filter="f"), 1 + n % 3) for n in range(first, last)
    )
    return Digest(sum(count for _, count in causes), 0, 0, 0, 0, causes)


def test_causes_beyond_the_limit_are_counted_together_in_any_order() -> None:
    parts = [many(place, place + 150) for place in range(0, 900, 100)]
    merged = merge_all(parts)
    assert len(merged.causes) == limits.DIGEST_CAUSES
    assert merged.count == sum(part.count for part in parts) == sum(count for _, count in merged.causes)
    assert dict(merged.causes)[OTHER] > 0
    for seed in range(10):
        shuffled = parts[:]
        Random(seed).shuffle(shuffled)
        half = merge_all(shuffled[:4]).merge(merge_all(shuffled[4:]))
        assert half == merged


def test_as_many_causes_as_fit_keep_their_names() -> None:
    merged = many(0, 300).merge(many(300, limits.DIGEST_CAUSES - 1))
    assert len(merged.causes) == limits.DIGEST_CAUSES - 1
    assert OTHER not in dict(merged.causes)


def test_attributes_beyond_the_limit_are_left_out_in_any_order() -> None:
    def asking(first: int, last: int) -> Digest:
        found = tuple((f"a{n:03}", AttributeSummary(n=1, total=1.0)) for n in range(first, last))
        return Digest(1, 0, 0, 0, 0, ((WORST_CASE, 1),), found)

    parts = [asking(0, 60), asking(30, 90), asking(80, 140)]
    expected = merge_all(parts)
    assert [name for name, _ in expected.attributes] == [f"a{n:03}" for n in range(limits.DIGESTERS)]
    assert expected.attributes[59][1].n == 2
    for order in ((0, 2, 1), (2, 1, 0), (1, 2, 0)):
        assert merge_all(parts[place] for place in order) == expected


def test_sketches_merge_within_their_error() -> None:
    dice = Random(7)
    found = [float(dice.randrange(20_000)) for _ in range(30_000)]
    halves = [found[:11_000], found[11_000:]]
    merged = reduce(
        AttributeSummary.merge,
        [
            AttributeSummary(distinct=sketches.distinct_of(half), quantiles=sketches.quantiles_of(half))
            for half in halves
        ],
    )
    assert merged.distinct is not None
    assert merged.quantiles is not None
    assert sketches.distinct_estimate(merged.distinct) == pytest.approx(len(set(found)), rel=0.05)
    for rank, value in sketches.quantile_estimates(merged.quantiles).items():
        assert sum(x <= value for x in found) / len(found) == pytest.approx(rank, abs=0.03)


def test_cause_reads_as_its_place() -> None:
    assert str(Cause(level=2, position=1, filter="delta")) == "2.1 delta"
    assert str(WORST_CASE) == "worst-case"
