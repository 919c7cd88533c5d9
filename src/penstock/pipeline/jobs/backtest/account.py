"""The account of one candidate in a backtest; accounts of queues are summed to that of a stream."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from penstock.core.queues.holding import Held, held
from penstock.core.queues.replay import LOST
from penstock.core.queues.statistics import FilterCount
from penstock.model.digest import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.queues import Replayed
    from penstock.model.arrays import Floats, Ints

BIN: Final = 1.02
"""Ratio of neighbouring bounds of a histogram: quantiles are exact to one per cent."""
SLICES: Final = 200
"""Time slices of a stream."""
WORST: Final = 10
"""Queues listed by name."""


class Histogram(msgspec.Struct, frozen=True):
    """Histogram of times in microseconds on a logarithmic scale; sums and extremes are exact."""

    n: int = 0
    total: int = 0
    largest: int = 0
    bins: dict[int, int] = {}
    """Counts by bin; bin 0 is below 1 µs."""

    def merge(self, other: Histogram) -> Histogram:
        """Sum of two histograms."""
        bins = dict(self.bins)
        for place, count in other.bins.items():
            bins[place] = bins.get(place, 0) + count
        return Histogram(self.n + other.n, self.total + other.total, max(self.largest, other.largest), bins)

    @property
    def mean_us(self) -> float | None:
        """Mean in microseconds; None if the histogram is empty."""
        return self.total / self.n if self.n else None

    def quantile_us(self, rank: float) -> float | None:
        """Time that a share `rank` of all does not exceed."""
        left = rank * self.n
        for place in sorted(self.bins):
            left -= self.bins[place]
            if left <= 0:
                return min(_middle_us(place), float(self.largest))
        return None

    def steps(self) -> list[tuple[float, float]]:
        """(time, share that does not exceed it), ascending."""
        found, so_far = [], 0
        for place in sorted(self.bins):
            so_far += self.bins[place]
            found.append((_middle_us(place), so_far / self.n))
        return found


def histogram(times_us: Ints) -> Histogram:
    """Histogram of times."""
    if not len(times_us):
        return Histogram()
    places = np.floor(np.log(np.maximum(times_us, 1)) / log(BIN)).astype(np.int64) + 1
    numbers, counts = np.unique(np.where(times_us < 1, 0, places), return_counts=True)
    bins = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    return Histogram(len(times_us), int(times_us.sum()), int(times_us.max()), bins)


def _middle_us(place: int) -> float:
    return BIN ** (place - 0.5) if place else 0.0


class Slices(msgspec.Struct, frozen=True):
    """A stream over its own time: events of each slice, events delivered, and their total delay."""

    events: list[int]
    delivered: list[int]
    waited_us: list[int]

    def merge(self, other: Slices) -> Slices:
        """Sum of the slices of two accounts."""
        return Slices(
            _added(self.events, other.events),
            _added(self.delivered, other.delivered),
            _added(self.waited_us, other.waited_us),
        )


def _added(a: list[int], b: list[int]) -> list[int]:
    return [x + y for x, y in zip(a, b, strict=True)]


class Worst(msgspec.Struct, frozen=True):
    """A queue with a high loss."""

    queue: str
    events: int
    lost: int
    latency_us: float
    """Mean latency of its delivered events."""

    @property
    def share(self) -> float:
        """Share of its events lost."""
        return self.lost / self.events if self.events else 0.0


class Account(msgspec.Struct, frozen=True):
    """Account of one candidate over one or many queues."""

    queues: int
    accepted: int
    delivered: int
    digested: int
    """Events counted in digests instead of delivered."""
    digests: int
    conserved: int
    """Queues whose events are all accounted for: delivered, or counted in a digest."""
    latency: Histogram
    """From the event's own time to its delivery."""
    intervals: Histogram
    """From pack to pack of a queue."""
    levels: dict[int, int]
    """Packs by the level that made room; 0: the worst case."""
    filters: dict[str, tuple[int, int, str, int, int]]
    """Level, position, name, events seen and dropped, by the cause as text."""
    errors: dict[str, Held]
    """Errors by attribute."""
    slices: Slices
    worst: list[Worst]

    def merge(self, other: Account) -> Account:
        """Sum of two accounts, field by field."""
        filters = dict(self.filters)
        for name, (level, position, kind, seen, dropped) in other.filters.items():
            before = filters.get(name, (level, position, kind, 0, 0))
            filters[name] = (level, position, kind, before[3] + seen, before[4] + dropped)
        names = dict.fromkeys((*self.errors, *other.errors))
        return Account(
            queues=self.queues + other.queues,
            accepted=self.accepted + other.accepted,
            delivered=self.delivered + other.delivered,
            digested=self.digested + other.digested,
            digests=self.digests + other.digests,
            conserved=self.conserved + other.conserved,
            latency=self.latency.merge(other.latency),
            intervals=self.intervals.merge(other.intervals),
            levels=_counted(self.levels, other.levels),
            filters=filters,
            errors={name: self._held(name).merge(other._held(name)) for name in names},
            slices=self.slices.merge(other.slices),
            worst=sorted([*self.worst, *other.worst], key=lambda one: (-one.share, one.queue))[:WORST],
        )

    def _held(self, name: str) -> Held:
        return self.errors.get(name, Held())

    @property
    def loss(self) -> float:
        """Share of events not delivered as such."""
        return self.digested / self.accepted if self.accepted else 0.0

    @property
    def packs(self) -> int:
        """Number of packs."""
        return sum(self.levels.values())

    @property
    def is_conserved(self) -> bool:
        """Whether every event of every queue is accounted for."""
        return self.conserved == self.queues and self.accepted == self.delivered + self.digested

    def effects(self) -> list[tuple[Cause, FilterCount]]:
        """Effect of each filter, in the order of the policy."""
        return [
            (Cause(level, position, kind), FilterCount(seen, dropped))
            for level, position, kind, seen, dropped in sorted(self.filters.values())
        ]

    def as_json(self) -> dict[str, Any]:
        """For `--json`; times in seconds."""
        return {
            "queues": self.queues,
            "accepted": self.accepted,
            "delivered": self.delivered,
            "digested": self.digested,
            "digests": self.digests,
            "loss": self.loss,
            "conserved": self.is_conserved,
            "latency_s": _times(self.latency),
            "packs": self.packs,
            "intervals_s": _times(self.intervals),
            "levels": {str(level): count for level, count in sorted(self.levels.items())},
            "filters": [
                {
                    "level": cause.level,
                    "position": cause.position,
                    "filter": cause.filter,
                    "seen": count.seen,
                    "dropped": count.dropped,
                    "ratio": count.ratio,
                }
                for cause, count in self.effects()
            ],
            "errors": {name: _error(found) for name, found in self.errors.items()},
            "worst": [
                {
                    "queue": one.queue,
                    "events": one.events,
                    "lost": one.lost,
                    "latency_s": one.latency_us / 1e6,
                }
                for one in self.worst
            ],
        }


def _counted(a: Mapping[int, int], b: Mapping[int, int]) -> dict[int, int]:
    return {level: a.get(level, 0) + b.get(level, 0) for level in sorted({*a, *b})}


def _times(found: Histogram) -> dict[str, float | None]:
    times = {
        "mean": found.mean_us,
        "p50": found.quantile_us(0.5),
        "p99": found.quantile_us(0.99),
        "max": found.largest if found.n else None,
    }
    return {name: None if time is None else time / 1e6 for name, time in times.items()}


def _error(found: Held) -> dict[str, Any]:
    spread = found.spread.stddev
    return {
        "stddev": spread,
        "live": {"rmse": found.live.rmse, "max": found.live.largest, "relative": relative(found, live=True)},
        "later": {
            "rmse": found.later.rmse,
            "max": found.later.largest,
            "relative": relative(found, live=False),
        },
        "unheld": found.live.unheld,
    }


def relative(found: Held, *, live: bool) -> float | None:
    """Root mean square error in standard deviations of the stream."""
    rmse, spread = (found.live if live else found.later).rmse, found.spread.stddev
    return rmse / spread if rmse is not None and spread else None


def account(
    replayed: Replayed,
    *,
    queue: str,
    values: Mapping[str, Floats],
    series: Ints,
    begin_us: int,
    end_us: int,
) -> Account:
    """Account of one queue. `values` are the measured attributes by place; `begin_us` and `end_us` are the
    times of the first and the last event of the whole stream.
    """
    statistics = replayed.statistics
    published = np.frombuffer(replayed.published_us, dtype=np.int64)
    delivered = np.frombuffer(replayed.delivered_us, dtype=np.int64)
    arrived = delivered != LOST
    latency = histogram(delivered[arrived] - published[arrived])
    intervals = [pack.turnaround_us for pack in replayed.packs if pack.turnaround_us is not None]
    errors = {
        name: held(published_us=published, delivered_us=delivered, values=found, series=series)
        for name, found in values.items()
    }
    lost = statistics.accepted - statistics.delivered
    return Account(
        queues=1,
        accepted=statistics.accepted,
        delivered=statistics.delivered,
        digested=statistics.digested,
        digests=replayed.digests,
        conserved=int(statistics.conserved and not statistics.queued and not statistics.queued_digested),
        latency=latency,
        intervals=histogram(np.array(intervals, dtype=np.int64)),
        levels=dict(statistics.packs_by_level),
        filters={
            str(cause): (cause.level, cause.position, cause.filter, count.seen, count.dropped)
            for cause, count in statistics.filters.items()
        },
        errors=errors,
        slices=_slices(published, delivered, begin_us, end_us),
        worst=[Worst(queue, statistics.accepted, lost, latency.mean_us or 0.0)] if lost else [],
    )


def _slices(published: Ints, delivered: Ints, begin_us: int, end_us: int) -> Slices:
    span = max(1, end_us - begin_us)
    place = np.minimum((published - begin_us) / span * SLICES, SLICES - 1).astype(np.int64)
    arrived = delivered != LOST
    waited = np.zeros(SLICES, dtype=np.int64)
    np.add.at(waited, place[arrived], delivered[arrived] - published[arrived])
    return Slices(
        np.bincount(place, minlength=SLICES).tolist(),
        np.bincount(place[arrived], minlength=SLICES).tolist(),
        waited.tolist(),
    )


def from_json(data: bytes) -> Account:
    """Account as a worker wrote it."""
    return _decoder.decode(data)


_decoder: Final = msgspec.json.Decoder(Account, strict=False)
