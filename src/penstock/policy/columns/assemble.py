"""Puts a packed queue together: kept items, and one digest for each run of dropped events between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock.model import sketches
from penstock.model.digest import AttributeSummary, Cause, Digest, Mark, mark
from penstock.model.values import scalar
from penstock.policy.digesters import SUMMING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.model.arrays import Floats, Ints, Mask
    from penstock.policy.columns.frame import Column, Frame
    from penstock.policy.paths import Path


class Runs:
    """Runs of dropped events with nothing kept inside."""

    __slots__ = ("_index", "begins", "ends", "lengths")

    def __init__(self, begins: Ints, ends: Ints, size: int) -> None:
        self.begins: list[int] = begins.tolist()
        self.ends: list[int] = ends.tolist()
        self.lengths: list[int] = (ends - begins).tolist()
        # begin, end, begin, end …: reduceat computes each stretch between two bounds; every other one is a
        # run
        index = np.empty(2 * len(begins), dtype=np.int64)
        index[0::2] = begins
        index[1::2] = ends
        self._index = index[:-1] if self.ends[-1] == size else index

    def __len__(self) -> int:
        return len(self.begins)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.begins, self.ends, strict=True)

    def reduce(self, how: np.ufunc, column: Any, **more: Any) -> Any:
        """One number per run."""
        return how.reduceat(column, self._index, **more)[::2]

    def spread(self, numbers: Floats) -> Floats:
        """Each run's number repeated for each of its events, as one array."""
        return np.repeat(numbers, self.lengths)

    def gathered(self, column: Any) -> Any:
        """The runs' parts of a column, joined."""
        return np.concatenate([column[begin:end] for begin, end in self])

    def extremes(self, stamps: Ints) -> tuple[list[int], list[int]]:
        """Smallest and largest stamp of each run."""
        return self.reduce(np.minimum, stamps).tolist(), self.reduce(np.maximum, stamps).tolist()


class SummaryColumns(NamedTuple):
    """Summaries of one attribute, one for each run: the fields of `AttributeSummary`, as lists."""

    n: list[int]
    total: list[float]
    squares: list[float | None]
    least: list[float | None]
    most: list[float | None]
    first: list[Mark | None]
    last: list[Mark | None]
    distinct: list[bytes | None]
    quantiles: list[bytes | None]


class DigestColumns(NamedTuple):
    """Digests, one for each run: the fields of `Digest`, as lists."""

    counts: list[int]
    from_us: list[int]
    to_us: list[int]
    seq_first: list[int]
    seq_last: list[int]
    causes: list[tuple[tuple[Cause, int], ...]]
    attributes: list[tuple[str, SummaryColumns]]
    """Names of the attributes with their summaries, in order."""


def digest_columns(
    frame: Frame,
    runs: Runs,
    fates: Ints | None,
    causes: list[Cause],
    asked: list[tuple[Path, tuple[str, ...]]],
) -> DigestColumns:
    """One digest per run; `fates` holds the cause's index of each dropped event, None: all have the same."""
    return DigestColumns(
        runs.lengths,
        *runs.extremes(frame.ts.array),
        *runs.extremes(frame.seq),
        _causes(runs, fates, causes),
        [(path.text, _summaries(frame, runs, frame.column(path), digesters)) for path, digesters in asked],
    )


def digests(
    frame: Frame,
    runs: Runs,
    fates: Ints | None,
    causes: list[Cause],
    asked: list[tuple[Path, tuple[str, ...]]],
) -> list[Digest]:
    """`digest_columns` as values."""
    found = digest_columns(frame, runs, fates, causes, asked)
    named: list[Iterable[tuple[str, AttributeSummary]]] = [
        [(name, AttributeSummary(*fields)) for fields in zip(*summaries, strict=True)]
        for name, summaries in found.attributes
    ]
    attributes: Iterable[tuple[Any, ...]] = zip(*named, strict=True) if named else [()] * len(runs)
    return [Digest(*fields) for fields in zip(*found[:-1], attributes, strict=True)]


def _causes(runs: Runs, fates: Ints | None, causes: list[Cause]) -> list[tuple[tuple[Cause, int], ...]]:
    """Number of events each step dropped from each run."""
    if fates is None:
        (only,) = causes
        return [((only, length),) for length in runs.lengths]
    counts = [runs.reduce(np.add, fates == number, dtype=np.int64).tolist() for number in range(len(causes))]
    return [
        tuple((cause, count) for cause, count in zip(causes, row, strict=True) if count)
        for row in zip(*counts, strict=True)
    ]


def _summaries(frame: Frame, runs: Runs, column: Column, asked: tuple[str, ...]) -> SummaryColumns:
    """Summary of one attribute for each run."""
    numbers = column.numbers()
    readable: Mask | None = None if column.complete() else ~np.isnan(numbers)
    nothing: list[Any] = [None] * len(runs)
    n, totals, squares = [0] * len(runs), [0.0] * len(runs), nothing
    if not SUMMING.isdisjoint(asked):
        known = numbers if readable is None else np.where(readable, numbers, 0.0)
        n = runs.lengths if readable is None else runs.reduce(np.add, readable, dtype=np.int64).tolist()
        with np.errstate(invalid="ignore", over="ignore"):  # inf − inf is NaN, as in the reference
            total = runs.reduce(np.add, known)
            if "stddev" in asked:
                squares = _squares(known, readable, runs, total, n)
        totals = total.tolist()
    smaller, larger = (np.minimum, np.maximum) if readable is None else (np.fmin, np.fmax)
    least = _extreme(smaller, numbers, runs, readable) if "min" in asked else nothing
    most = _extreme(larger, numbers, runs, readable) if "max" in asked else nothing
    first = last = nothing
    if "first" in asked or "last" in asked:
        marks = _marks(frame, column, runs)
        first = [found and found[0] for found in marks] if "first" in asked else nothing
        last = [found and found[1] for found in marks] if "last" in asked else nothing
    distinct: list[Any] = _distinct(column, runs) if "distinct" in asked else nothing
    quantiles: list[Any] = _quantiles(numbers, runs) if "quantiles" in asked else nothing
    return SummaryColumns(n, totals, squares, least, most, first, last, distinct, quantiles)


def _squares(known: Any, readable: Mask | None, runs: Runs, total: Any, n: list[int]) -> list[float | None]:
    """Sum of squared distances from each run's mean, None where a run has no number."""
    mean = total / np.maximum(n, 1)
    apart = runs.gathered(known) - runs.spread(mean)
    if readable is not None:
        apart = np.where(runs.gathered(readable), apart, 0.0)
    starts = np.cumsum([0, *runs.lengths[:-1]])
    squares = np.add.reduceat(apart * apart, starts).tolist()
    return [square if count else None for square, count in zip(squares, n, strict=True)]


def _extreme(choose: np.ufunc, numbers: Floats, runs: Runs, readable: Mask | None) -> list[float | None]:
    """Minimum or maximum of each run; `fmin` and `fmax` skip NaN, and a run without numbers gives NaN."""
    found: list[float] = runs.reduce(choose, numbers).tolist()
    return list(found) if readable is None else [None if one != one else one for one in found]  # noqa: PLR0124


def _marks(frame: Frame, column: Column, runs: Runs) -> list[tuple[Mark, Mark] | None]:
    """First and last readable value of each run, by time."""
    ts, seq = frame.ts.array.tolist(), frame.seq.tolist()
    found: list[tuple[Mark, Mark] | None] = []
    for begin, end in runs:
        marks = [
            mark(ts_us=ts[place], seq=seq[place], value=value)
            for place in range(begin, end)
            if (value := scalar(column.raw[place])) is not None
        ]
        found.append((min(marks), max(marks)) if marks else None)
    return found


def _distinct(column: Column, runs: Runs) -> list[bytes]:
    return [
        sketches.distinct_of(value for raw in column.raw[begin:end] if (value := scalar(raw)) is not None)
        for begin, end in runs
    ]


def _quantiles(numbers: Floats, runs: Runs) -> list[bytes]:
    return [
        sketches.quantiles_of(one for one in numbers[begin:end].tolist() if one == one)  # noqa: PLR0124
        for begin, end in runs
    ]
