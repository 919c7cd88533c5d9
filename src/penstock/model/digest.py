"""A digest: the summary of events that were dropped.

Digests form a commutative monoid under `merge`: it does not matter in which order, on which node or in which
engine parts of a run were summarised. Exact for counts, minima, maxima, first and last; to rounding for sums;
within the sketch's error for distinct counts and quantiles.
"""

from __future__ import annotations

from functools import reduce
from math import sqrt
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import msgspec

from penstock import limits
from penstock.model import sketches, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")
Natural: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Cause(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Why an event was dropped: the filter that dropped it, by its place in its policy.

    Level 0 means that no level decided: the worst case, or a queue without a policy.
    """

    level: Natural
    position: Natural
    """Position of the filter within its level's chain, from 1."""
    filter: Annotated[str, msgspec.Meta(max_length=limits.CAUSE_CHARACTERS)]

    def __str__(self) -> str:
        return f"{self.level}.{self.position} {self.filter}" if self.level else self.filter


WORST_CASE = Cause(level=0, position=0, filter="worst-case")
OLDEST = Cause(level=0, position=0, filter="oldest")
NEWEST = Cause(level=0, position=0, filter="newest")
TOO_LARGE = Cause(level=0, position=0, filter="too-large")
"""Cause of events whose packet is larger than the receiver accepts."""
OTHER = Cause(level=0, position=0, filter="other")
"""Cause of events whose own cause exceeds DIGEST_CAUSES."""


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """A value with its time, so that "first" and "last" come out the same in any order of merging."""

    ts_us: int
    seq: int
    value: bool | int | float | str

    def _key(self) -> tuple[int, int, str]:
        # The identity as text breaks ties between events of two senders with equal time and number.
        return (self.ts_us, self.seq, repr(values.identity(self.value)))

    def __lt__(self, other: Mark) -> bool:
        return self._key() < other._key()

    @property
    def size(self) -> int:
        """Approximate bytes on the wire."""
        return 16 + (len(self.value) if isinstance(self.value, str) else 0)


def mark(*, ts_us: int, seq: int, value: values.Scalar) -> Mark:
    """Mark of one event's value; a long text is cut."""
    return Mark(ts_us, seq, value[: limits.MARK_CHARACTERS] if isinstance(value, str) else value)


class AttributeSummary(msgspec.Struct, frozen=True, array_like=True):
    """Summary of one attribute of the dropped events; fields not asked for are None."""

    n: Natural = 0
    """Numbers that `total` and `squares` cover."""
    total: float = 0.0
    squares: float | None = None
    """Sum of squared distances from the mean (Welford's M2); None if a merged part did not carry it."""
    least: float | None = None
    most: float | None = None
    first: Mark | None = None
    last: Mark | None = None
    distinct: bytes | None = None
    quantiles: bytes | None = None

    def merge(self, other: AttributeSummary) -> AttributeSummary:
        """Summary of both parts."""
        # By position, in the order of the fields: a late queue merges thousands of digests a second.
        return AttributeSummary(
            self.n + other.n,
            self.total + other.total,
            _merge_squares(self, other),
            _merged(min, self.least, other.least),
            _merged(max, self.most, other.most),
            _merged(min, self.first, other.first),
            _merged(max, self.last, other.last),
            _merged(sketches.merge_distinct, self.distinct, other.distinct),
            _merged(sketches.merge_quantiles, self.quantiles, other.quantiles),
        )

    @property
    def mean(self) -> float | None:
        """Mean of the dropped numbers."""
        return self.total / self.n if self.n else None

    @property
    def stddev(self) -> float | None:
        """Population standard deviation of the dropped numbers."""
        return sqrt(max(self.squares, 0.0) / self.n) if self.n and self.squares is not None else None

    @property
    def size(self) -> int:
        """Approximate bytes on the wire."""
        size = 16
        if self.first is not None:
            size += self.first.size
        if self.last is not None:
            size += self.last.size
        return size + len(self.distinct or b"") + len(self.quantiles or b"")


class Digest(msgspec.Struct, frozen=True, array_like=True):
    """Summary of `count` dropped events, placed in the stream where they were.

        pulse = dict(digest.attributes)["pulse"]
        print(digest.count, digest.level, pulse.mean, pulse.most)

    A digest that a client receives is a `ReceivedDigest`.
    """

    count: Annotated[int, msgspec.Meta(ge=1)]
    from_us: int
    to_us: int
    seq_first: int
    seq_last: int
    causes: Annotated[tuple[tuple[Cause, Natural], ...], msgspec.Meta(max_length=limits.DIGEST_CAUSES)]
    """Events dropped by each filter, sorted by cause; the counts add up to `count`."""
    attributes: Annotated[
        tuple[tuple[str, AttributeSummary], ...], msgspec.Meta(max_length=limits.DIGESTERS)
    ] = ()
    """Summaries by attribute path, sorted; paths beyond DIGESTERS, in order, are left out."""

    def merge(self, other: Digest) -> Digest:
        """Digest of both parts."""
        return Digest(
            self.count + other.count,
            min(self.from_us, other.from_us),
            max(self.to_us, other.to_us),
            min(self.seq_first, other.seq_first),
            max(self.seq_last, other.seq_last),
            _merge_causes(self.causes, other.causes),
            _merge_attributes(self.attributes, other.attributes),
        )

    @property
    def level(self) -> int:
        """Highest level that dropped an event; 0 if only the worst case did."""
        return max(cause.level for cause, _ in self.causes)

    @property
    def size(self) -> int:
        """Approximate bytes on the wire, as byte capacities count them: in the compact form, with the
        properties that mark it."""
        size = 56 + 4 * len(self.causes)
        for name, found in self.attributes:
            size += len(name) + found.size
        return size


def merge_all(digests: Iterable[Digest]) -> Digest:
    """Merge digests, at least one."""
    return reduce(Digest.merge, digests)


def _merged(merge: Callable[[T, T], T], a: T | None, b: T | None) -> T | None:
    """Merge of both, or the only one that is there."""
    if a is None:
        return b
    return a if b is None else merge(a, b)


def _merge_squares(a: AttributeSummary, b: AttributeSummary) -> float | None:
    """Chan's parallel form of Welford's sum of squares; a part without numbers changes nothing."""
    if not a.n:
        return b.squares
    if not b.n:
        return a.squares
    if a.squares is None or b.squares is None:
        return None
    apart = b.total / b.n - a.total / a.n
    return a.squares + b.squares + apart * apart * a.n * b.n / (a.n + b.n)


def _merge_causes(
    a: tuple[tuple[Cause, int], ...], b: tuple[tuple[Cause, int], ...]
) -> tuple[tuple[Cause, int], ...]:
    if len(a) == len(b) == 1 and a[0][0] == b[0][0]:  # by far the most common merge
        return ((a[0][0], a[0][1] + b[0][1]),)
    counts = dict(a)
    for cause, count in b:
        counts[cause] = counts.get(cause, 0) + count
    if len(counts) >= limits.DIGEST_CAUSES:
        # Keeping the first causes in order makes the result independent of the order of merging.
        for cause in sorted(counts.keys() - {OTHER})[limits.DIGEST_CAUSES - 1 :]:
            counts[OTHER] = counts.get(OTHER, 0) + counts.pop(cause)
    return tuple(sorted(counts.items()))


def _merge_attributes(
    a: tuple[tuple[str, AttributeSummary], ...], b: tuple[tuple[str, AttributeSummary], ...]
) -> tuple[tuple[str, AttributeSummary], ...]:
    if not a or not b:
        return a or b
    if len(a) == len(b) == 1 and a[0][0] == b[0][0]:
        return ((a[0][0], a[0][1].merge(b[0][1])),)
    merged = dict(a)
    for name, summary in b:
        merged[name] = merged[name].merge(summary) if name in merged else summary
    return tuple(sorted(merged.items(), key=lambda pair: pair[0])[: limits.DIGESTERS])
