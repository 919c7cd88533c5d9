"""Putting a queue together again: kept items, and between them one digest per gap that lost something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.model import sketches
from penstock.model.digest import AttributeSummary, Cause, Digest, mark
from penstock.model.values import scalar
from penstock.policy import paths
from penstock.policy.digesters import SUMMING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.digest import Mark
    from penstock.model.event import Item
    from penstock.policy.fast.columns import Column, Frame, Ints, Mask


class Runs:
    """The dropped events, grouped by the gap they fall into."""

    __slots__ = ("bounds", "gaps", "places", "starts")

    def __init__(self, places: Ints, gaps: Ints) -> None:
        first = np.empty(len(gaps), dtype=np.bool_)
        first[:1] = True
        np.not_equal(gaps[1:], gaps[:-1], out=first[1:])
        self.places = places
        """Places of the dropped events in the frame."""
        self.starts = np.flatnonzero(first)
        """Where in `places` each run begins."""
        self.gaps: list[int] = gaps[self.starts].tolist()
        """The gap of each run: how many kept items stand before it."""
        self.bounds: list[int] = [*self.starts.tolist(), len(places)]

    def __len__(self) -> int:
        return len(self.gaps)

    def each(self) -> Any:
        """(begin, end) of each run in `places`."""
        return zip(self.bounds, self.bounds[1:], strict=False)


def assemble(
    kept: Sequence[Item],
    frame: Frame,
    runs: Runs,
    fates: Ints,
    *,
    causes: Sequence[Cause],
    asked: dict[str, tuple[str, ...]],
    earlier: Sequence[tuple[int, Digest]] = (),
) -> list[Item]:
    """The packed queue; `fates` numbers the cause of each dropped event, `earlier` are digests by gap."""
    gaps = dict(zip(runs.gaps, _digests(frame, runs, fates, causes, asked), strict=True))
    for gap, digest in earlier:
        gaps[gap] = gaps[gap].merge(digest) if gap in gaps else digest
    out: list[Item] = []
    done = 0
    for gap in sorted(gaps) if earlier else gaps:
        out += kept[done:gap]
        out.append(gaps[gap])
        done = gap
    out += kept[done:]
    return out


def _digests(
    frame: Frame,
    runs: Runs,
    fates: Ints,
    causes: Sequence[Cause],
    asked: dict[str, tuple[str, ...]],
) -> list[Digest]:
    """One digest per run, reduced column by column."""
    if not len(runs):
        return []
    ts = frame.ts()[runs.places]
    seq = frame.seq()[runs.places]
    summaries = [
        [(attribute, summary) for summary in _summaries(frame, runs, attribute, asked[attribute])]
        for attribute in sorted(asked)
    ]
    attributes: Any = zip(*summaries, strict=True) if summaries else [()] * len(runs)
    columns = zip(
        np.diff(runs.bounds).tolist(),
        np.minimum.reduceat(ts, runs.starts).tolist(),
        np.maximum.reduceat(ts, runs.starts).tolist(),
        np.minimum.reduceat(seq, runs.starts).tolist(),
        np.maximum.reduceat(seq, runs.starts).tolist(),
        _causes(runs, fates, causes),
        attributes,
        strict=True,
    )
    return [Digest(*fields) for fields in columns]


def _causes(runs: Runs, fates: Ints, causes: Sequence[Cause]) -> list[tuple[tuple[Cause, int], ...]]:
    """How many events each step took from each run."""
    if len(causes) == 1:
        only = causes[0]
        return [((only, end - begin),) for begin, end in runs.each()]
    counts = np.zeros((len(runs), len(causes)), dtype=np.int64)
    for number in range(len(causes)):
        counts[:, number] = np.add.reduceat(fates == number, runs.starts, dtype=np.int64)
    return [
        tuple((cause, count) for cause, count in zip(causes, row, strict=True) if count)
        for row in counts.tolist()
    ]


def _summaries(frame: Frame, runs: Runs, attribute: str, asked: tuple[str, ...]) -> list[AttributeSummary]:
    """What each run says about one attribute."""
    column = frame.column(paths.parse(attribute))
    numbers = column.numbers()[runs.places]
    readable: Mask | None = None if column.complete() else ~np.isnan(numbers)
    nothing: list[Any] = [None] * len(runs)
    counts, totals, squares = [0] * len(runs), [0.0] * len(runs), nothing
    if not SUMMING.isdisjoint(asked):
        known = numbers if readable is None else np.where(readable, numbers, 0.0)
        n = (
            np.diff(runs.bounds)
            if readable is None
            else np.add.reduceat(readable, runs.starts, dtype=np.int64)
        )
        with np.errstate(invalid="ignore", over="ignore"):  # inf − inf is NaN here as in the reference
            total = np.add.reduceat(known, runs.starts)
            if "stddev" in asked:
                squares = _squares(known, readable, runs, total, n)
        counts, totals = n.tolist(), total.tolist()
    least = _extreme(np.fmin, numbers, runs, complete=readable is None) if "min" in asked else nothing
    most = _extreme(np.fmax, numbers, runs, complete=readable is None) if "max" in asked else nothing
    first = last = nothing
    if "first" in asked or "last" in asked:
        marks = _marks(frame, column, runs)
        first = [found and found[0] for found in marks] if "first" in asked else nothing
        last = [found and found[1] for found in marks] if "last" in asked else nothing
    distinct = _distinct(column, runs) if "distinct" in asked else nothing
    quantiles = _quantiles(numbers, runs) if "quantiles" in asked else nothing
    columns = zip(counts, totals, squares, least, most, first, last, distinct, quantiles, strict=True)
    return [AttributeSummary(*fields) for fields in columns]


def _squares(known: Any, readable: Mask | None, runs: Runs, total: Any, n: Any) -> list[float | None]:
    """Sum of squared distances from each run's mean, None where a run has no number."""
    mean = total / np.maximum(n, 1)
    apart = known - np.repeat(mean, np.diff(runs.bounds))
    if readable is not None:
        apart = np.where(readable, apart, 0.0)
    squares = np.add.reduceat(apart * apart, runs.starts).tolist()
    return [square if count else None for square, count in zip(squares, n.tolist(), strict=True)]


def _extreme(choose: np.ufunc, numbers: Any, runs: Runs, *, complete: bool) -> list[float | None]:
    """`fmin` or `fmax` of each run; they pass over NaN, and a run without numbers gives NaN."""
    found: list[float] = choose.reduceat(numbers, runs.starts).tolist()
    return list(found) if complete else [None if one != one else one for one in found]  # noqa: PLR0124


def _marks(frame: Frame, column: Column, runs: Runs) -> list[tuple[Mark, Mark] | None]:
    """Earliest and latest readable value of each run."""
    ts, seq = frame.ts().tolist(), frame.seq().tolist()
    places = runs.places.tolist()
    found: list[tuple[Mark, Mark] | None] = []
    for begin, end in runs.each():
        marks = [
            mark(ts_us=ts[place], seq=seq[place], value=value)
            for place in places[begin:end]
            if (value := scalar(column.raw[place])) is not None
        ]
        found.append((min(marks), max(marks)) if marks else None)
    return found


def _distinct(column: Column, runs: Runs) -> list[bytes]:
    places = runs.places.tolist()
    return [
        sketches.distinct_of(
            value for place in places[begin:end] if (value := scalar(column.raw[place])) is not None
        )
        for begin, end in runs.each()
    ]


def _quantiles(numbers: Any, runs: Runs) -> list[bytes]:
    return [
        sketches.quantiles_of(one for one in numbers[begin:end].tolist() if one == one)  # noqa: PLR0124
        for begin, end in runs.each()
    ]
