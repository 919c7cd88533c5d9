"""The held value against a naive walk through the stream."""

from __future__ import annotations

from math import isclose, isfinite, sqrt
from statistics import fmean, pstdev

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.backtest.holding import Held, held

NAN = float("nan")
EVENTS = st.lists(
    st.tuples(
        st.integers(0, 3),  # gap
        st.one_of(st.none(), st.integers(1, 6)),  # wait, None: lost
        st.one_of(st.just(NAN), st.floats(-100, 100), st.just(float("inf"))),
        st.integers(0, 2),  # series
    ),
    max_size=40,
)
Rows = list[tuple[int, int | None, float, int]]


def arrays(rows: Rows) -> tuple[list[int], list[int]]:
    published, delivered, now, free = [], [], 0, 0
    for gap, wait, _, _ in rows:
        now += gap
        published.append(now)
        if wait is None:
            delivered.append(-1)
        else:
            free = max(free, now) + wait  # one after the other, as from a queue
            delivered.append(free)
    return published, delivered


def ours(rows: Rows) -> Held:
    published, delivered = arrays(rows)
    return held(
        published_us=np.array(published, dtype=np.int64),
        delivered_us=np.array(delivered, dtype=np.int64),
        values=np.array([row[2] for row in rows], dtype=np.float64),
        sources=np.array([row[3] for row in rows], dtype=np.int64),
    )


@given(EVENTS)
def test_as_a_walk_through_the_stream_says(rows: Rows) -> None:
    published, delivered = arrays(rows)
    live, later = [], []
    readable = [place for place, row in enumerate(rows) if isfinite(row[2])]
    for place in readable:
        same = [other for other in readable if rows[other][3] == rows[place][3] and delivered[other] >= 0]
        known = [other for other in same if delivered[other] <= published[place]]
        kept = [other for other in same if other <= place]
        live += [abs(rows[place][2] - rows[known[-1]][2])] if known else []
        later += [abs(rows[place][2] - rows[kept[-1]][2])] if kept else []
    found = ours(rows)
    for error, expected in ((found.live, live), (found.later, later)):
        assert error.n == len(expected)
        assert error.unheld == len(readable) - len(expected)
        assert error.largest == max(expected, default=0.0)
        if expected:
            assert error.rmse is not None
            assert isclose(error.rmse, sqrt(fmean(one * one for one in expected)), abs_tol=1e-9)
    values = [rows[place][2] for place in readable]
    if values:
        assert found.spread.stddev is not None
        assert isclose(found.spread.stddev, pstdev(values), abs_tol=1e-6)


@given(EVENTS, EVENTS)
def test_queues_add_up(a: Rows, b: Rows) -> None:
    x, y = ours(a), ours(b)
    both = x.merge(y)
    assert both.live.n == x.live.n + y.live.n
    assert both.later.largest == max(x.later.largest, y.later.largest)
    values = [row[2] for row in [*a, *b] if isfinite(row[2])]
    if values:
        assert both.spread.stddev is not None
        assert isclose(both.spread.stddev, pstdev(values), abs_tol=1e-6)


def test_nothing_delivered_is_no_error_but_nothing_known() -> None:
    found = ours([(1, None, 5.0, 0)] * 3)
    assert found.live.rmse is None
    assert found.live.unheld == 3
