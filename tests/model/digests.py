"""Arbitrary digests, as nodes along a path could have made them."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.model import AttributeSummary, Cause, Digest, sketches
from penstock.model.digest import NEWEST, OLDEST, OTHER, WORST_CASE, Mark

CAUSES = [
    WORST_CASE,
    OLDEST,
    NEWEST,
    OTHER,
    *(
        Cause(level=level, position=place, filter=name)
        for level in (1, 2)
        for place in (1, 2)
        for name in "ab"
    ),
]
numbers = st.one_of(st.integers(-1000, 1000).map(float), st.floats(-1e6, 1e6))
instants = st.integers(-(2**40), 2**60)
scalars = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), numbers, st.text(max_size=8))
marks = st.builds(Mark, ts_us=st.integers(0, 5), seq=st.integers(0, 3), value=scalars)


@st.composite
def summaries(draw: st.DrawFn, *, most: int, with_sketches: bool = True) -> AttributeSummary:
    """A summary of at most `most` numbers, asked for any set of digesters."""
    found = draw(st.lists(numbers, max_size=min(most, 6)))
    mean = sum(found) / len(found) if found else 0.0
    summed, squared = draw(st.booleans()), draw(st.booleans())
    return AttributeSummary(
        n=len(found) if summed else 0,
        total=sum(found) if summed else 0.0,
        squares=sum((one - mean) ** 2 for one in found) if summed and squared and found else None,
        least=min(found, default=None) if draw(st.booleans()) else None,
        most=max(found, default=None) if draw(st.booleans()) else None,
        first=draw(st.none() | marks),
        last=draw(st.none() | marks),
        distinct=sketches.distinct_of(found) if with_sketches and draw(st.booleans()) else None,
        quantiles=sketches.quantiles_of(found) if with_sketches and draw(st.booleans()) else None,
    )


@st.composite
def digests(draw: st.DrawFn, *, with_sketches: bool = True) -> Digest:
    """Any digest."""
    causes = draw(st.dictionaries(st.sampled_from(CAUSES), st.integers(1, 50), min_size=1, max_size=4))
    count = sum(causes.values())
    times = sorted(draw(st.tuples(instants, instants)))
    places = sorted(draw(st.tuples(st.integers(0, 2**50), st.integers(0, 2**50))))
    attributes = draw(
        st.dictionaries(
            st.sampled_from(["v", "w.x", "$ts"]),
            summaries(most=count, with_sketches=with_sketches),
            max_size=3,
        )
    )
    return Digest(
        count=count,
        from_us=times[0],
        to_us=times[1],
        seq_first=places[0],
        seq_last=places[1],
        causes=tuple(sorted(causes.items())),
        attributes=tuple(sorted(attributes.items(), key=lambda pair: pair[0])),
    )
