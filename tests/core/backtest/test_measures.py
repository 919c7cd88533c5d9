"""Events that matter, unusual events, extremes and ages: small cases by hand, and against a naive walk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.backtest.holding import held, newest_known
from penstock.core.backtest.measures import (
    Kept,
    Recorded,
    ages,
    extremes,
    mattering,
    normal_range,
    quartiles,
    unusual,
)

if TYPE_CHECKING:
    from penstock.core.backtest.histogram import Histogram
    from penstock.model.arrays import Ints

NAN = float("nan")
SECOND = 1_000_000


def recorded(
    published: list[int], series: list[int] | None = None, values: list[float] | None = None
) -> Recorded:
    return Recorded(
        published_us=np.array(published, dtype=np.int64),
        series=np.array([0] * len(published) if series is None else series, dtype=np.int64),
        values={} if values is None else {"v": np.array(values, dtype=np.float64)},
    )


def age_of(found: Recorded, delivered: Ints) -> Histogram:
    return ages(found, newest_known(found.published_us, delivered, found.sources))


def instants(*found: int) -> Ints:
    return np.array(found, dtype=np.int64)


def test_the_normal_range_reaches_one_and_a_half_interquartile_ranges_beyond_the_quartiles() -> None:
    middle = quartiles(np.array([5.0, 1.0, 2.0, NAN, 3.0, 4.0, float("inf"), 6.0, 7.0, 8.0]))
    assert middle == (2.0, 6.0)  # of eight numbers the second and the sixth
    assert normal_range(*middle) == (-4.0, 12.0)
    assert quartiles(np.array([NAN])) is None


def test_unusual_events() -> None:
    values = np.array([50.0, 49.9, 100.0, 100.1, NAN, 130.0])
    arrived = np.array([True, True, True, False, True, False])
    assert unusual(values, (50.0, 100.0), arrived) == Kept(3, 1)
    assert unusual(values, (0.0, 200.0), arrived).share is None


def test_extremes_of_each_source_and_window() -> None:
    #                    window 0, source 0 | source 1      | window 1, source 0
    published = [0, 1, 2, 3, 4, 5, SECOND, SECOND + 1]
    series = [0, 0, 0, 0, 1, 1, 0, 0]
    values = [5.0, 9.0, 9.0, NAN, 4.0, 4.0, 1.0, 2.0]
    found = recorded(published, series, values)
    arrived = np.array([True, False, True, True, False, False, True, False])
    # Source 0: 5 and one of the 9s arrived; source 1 has one extreme, lost; in window 1 the 2 is lost.
    assert extremes(found, "v", arrived, window_us=SECOND) == Kept(5, 3)
    assert extremes(recorded([0], values=[NAN]), "v", np.array([True]), window_us=SECOND) == Kept(0, 0)


def test_what_matters_and_how_late() -> None:
    matches = np.array([True, False, True, True])
    delivered = instants(7, 9, -1, 60)
    found = mattering(matches, instants(5, 6, 7, 30), delivered, delivered >= 0)
    assert found.kept == Kept(3, 2)
    assert (found.delay.n, found.delay.total, found.delay.largest) == (2, 2 + 30, 30)
    both = found.merge(found)
    assert (both.kept, both.delay.n) == (Kept(6, 4), 4)


def test_the_age_of_the_newest_event() -> None:
    # One source: published at 0, 10, 20, 30; the first arrives at 15, the third at 25, the others never.
    found = age_of(recorded([0, 10, 20, 30]), instants(15, -1, 25, -1))
    # At 10 nothing has come, the first is 10 old; at 20 the first is 20 old; at 30 the third is 10 old.
    assert (found.n, found.total, found.largest) == (3, 10 + 20 + 10, 20)
    assert age_of(recorded([]), instants()).n == 0


def test_an_urgent_event_that_overtakes_is_the_newest() -> None:
    # The second event arrives at 12, the older one behind it at 20: it does not make the newest older.
    found = age_of(recorded([0, 10, 30]), instants(20, 12, -1))
    assert (found.n, found.total) == (2, 10 + 20)
    error = held(
        published_us=instants(0, 10, 30),
        delivered_us=instants(20, 12, -1),
        values=np.array([1.0, 5.0, 6.0]),
        sources=instants(0, 0, 0),
    )
    assert (error.live.n, error.live.squares) == (1, 1.0)


def test_errors_are_told_source_by_source() -> None:
    # Source 0 is held exactly, source 1 is 4 off, source 2 never arrives.
    error = held(
        published_us=instants(0, 0, 10, 10, 10),
        delivered_us=instants(1, 1, 11, 11, -1),
        values=np.array([7.0, 1.0, 7.0, 5.0, 9.0]),
        sources=instants(0, 1, 0, 1, 2),
    )
    assert (error.live.sources.n, error.live.sources.largest) == (2, 4.0)
    assert error.live.sources.quantile(0.5) == 0.0
    assert error.live.unheld == 3
    assert error.later.sources.largest == 0.0


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 3), st.one_of(st.none(), st.integers(0, 9)), st.integers(0, 2), st.integers(0, 4)
    ),
    max_size=30,
)


@given(EVENTS)
def test_as_a_walk_through_the_stream_says(rows: list[tuple[int, int | None, int, int]]) -> None:
    published = np.cumsum([row[0] for row in rows], dtype=np.int64).tolist()
    delivered = [-1 if row[1] is None else at + row[1] for at, row in zip(published, rows, strict=True)]
    series, values = [row[2] for row in rows], [float(row[3]) for row in rows]
    total = n = 0
    groups: dict[tuple[int, int], list[int]] = {}
    for place, at in enumerate(published):
        own = [other for other in range(place) if series[other] == series[place]]
        groups.setdefault((series[place], at // 5), []).append(place)
        known = [
            other
            for other in range(len(rows))
            if series[other] == series[place] and 0 <= delivered[other] <= at
        ]
        if own:
            n, total = n + 1, total + at - published[max(known, default=own[0])]
    found = recorded(published, series, values)
    age = age_of(found, instants(*delivered))
    assert (age.n, age.total) == (n, total)
    wanted, kept = 0, 0
    for places in groups.values():
        for extreme in {min(values[place] for place in places), max(values[place] for place in places)}:
            wanted += 1
            kept += any(values[place] == extreme and delivered[place] >= 0 for place in places)
    assert extremes(found, "v", instants(*delivered) >= 0, window_us=5) == Kept(wanted, kept)


def test_instants_far_apart_are_ranked() -> None:
    asked, known = instants(0, 2**61, 2**61 + 5), instants(1, 2**61 + 3, -1)
    assert newest_known(asked, known, instants(3, 3, 3)).tolist() == [-1, 0, 1]
    assert newest_known(asked, known, instants(0, 3, 3)).tolist() == [-1, -1, 1]


@pytest.mark.parametrize("times", [[0], [0, 0, 5], [3, 1, 2]])
def test_nothing_delivered_is_as_old_as_the_first_event(times: list[int]) -> None:
    published = sorted(times)
    found = age_of(recorded(published), instants(*([-1] * len(times))))
    assert found.total == sum(at - published[0] for at in published[1:])
