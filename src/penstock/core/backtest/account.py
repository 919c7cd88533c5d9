"""One recorded queue replayed under several candidates, and the account of each: accounts of queues add up to
that of a stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import numpy as np
from msgspec.structs import force_setattr

from penstock.core.backtest.histogram import Histogram, Slices, histogram, slices
from penstock.core.backtest.holding import Held, held, newest_known
from penstock.core.backtest.measures import (
    Kept,
    Mattering,
    Recorded,
    ages,
    extremes,
    mattering,
    unusual,
)
from penstock.core.queues.replay import LOST, Replay
from penstock.core.queues.statistics import FilterCount
from penstock.model.digest import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.core.backtest.holding import HoldingError
    from penstock.core.backtest.settings import RecordedStream, Settings
    from penstock.core.queues import Replayed
    from penstock.model.arrays import Floats, Ints
    from penstock.model.event import Event
    from penstock.policy.columns import Plan

T = TypeVar("T")

WORST: Final = 10
"""Queues listed by name."""


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
    """Times from an event's own timestamp to its delivery."""
    intervals: Histogram
    """Times between two packs of a queue."""
    levels: dict[int, int]
    """Packs by the level that made room; 0: the worst case."""
    filters: dict[str, tuple[int, int, str, int, int]]
    """Level, position, name, events seen and dropped, by the cause as text."""
    errors: dict[str, Held]
    """Errors by attribute."""
    unusual: dict[str, Kept]
    """Events outside the normal range, by attribute."""
    extremes: dict[str, Kept]
    """Largest and smallest values of sources in windows of time, by attribute."""
    matters: dict[str, Mattering]
    """Events that predicates match, by the predicate's text."""
    age: Histogram
    """Age of the newest event of each source."""
    slices: Slices
    worst: list[Worst]

    def merge(self, other: Account) -> Account:
        """Sum of two accounts, field by field."""
        filters = dict(self.filters)
        for name, (level, position, kind, seen, dropped) in other.filters.items():
            before = filters.get(name, (level, position, kind, 0, 0))
            filters[name] = (level, position, kind, before[3] + seen, before[4] + dropped)
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
            errors=_by_name(self.errors, other.errors, Held.merge),
            unusual=_by_name(self.unusual, other.unusual, Kept.merge),
            extremes=_by_name(self.extremes, other.extremes, Kept.merge),
            matters=_by_name(self.matters, other.matters, Mattering.merge),
            age=self.age.merge(other.age),
            slices=self.slices.merge(other.slices),
            worst=sorted([*self.worst, *other.worst], key=lambda one: (-one.share, one.queue))[:WORST],
        )

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
        """Return the account for `--json`, with times in seconds."""
        return {
            "queues": self.queues,
            "accepted": self.accepted,
            "delivered": self.delivered,
            "digested": self.digested,
            "digests": self.digests,
            "loss": self.loss,
            "conserved": self.is_conserved,
            "latency_s": self.latency.as_json(unit=1e6),
            "matters": {
                name: {**_kept(found.kept), "delay_s": found.delay.as_json(unit=1e6)}
                for name, found in self.matters.items()
            },
            "unusual": {name: _kept(found) for name, found in self.unusual.items()},
            "extremes": {name: _kept(found) for name, found in self.extremes.items()},
            "age_s": self.age.as_json(unit=1e6),
            "packs": self.packs,
            "intervals_s": self.intervals.as_json(unit=1e6),
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


def _by_name(a: Mapping[str, T], b: Mapping[str, T], merge: Callable[[T, T], T]) -> dict[str, T]:
    """Parts of two accounts, merged where both have one of a name."""
    return {
        name: merge(a[name], b[name]) if name in a and name in b else a[name] if name in a else b[name]
        for name in dict.fromkeys((*a, *b))
    }


def _kept(found: Kept) -> dict[str, Any]:
    return {"events": found.n, "kept": found.kept, "share": found.share}


def _error(found: Held) -> dict[str, Any]:
    return {
        "stddev": found.spread.stddev,
        "live": _told(found.live) | {"relative": relative(found, live=True)},
        "later": _told(found.later) | {"relative": relative(found, live=False)},
        "unheld": found.live.unheld,
    }


def _told(error: HoldingError) -> dict[str, Any]:
    return {"rmse": error.rmse, "max": error.largest, "sources": error.sources.as_json()}


def relative(found: Held, *, live: bool) -> float | None:
    """Root mean square error in standard deviations of the stream."""
    rmse, spread = (found.live if live else found.later).rmse, found.spread.stddev
    return rmse / spread if rmse is not None and spread else None


def account(
    replayed: Replayed, recorded: Recorded, stream: RecordedStream, *, queue: str, window_us: int
) -> Account:
    """Account of one queue of a stream. `window_us` is the window whose extremes are looked for."""
    delivered = np.frombuffer(replayed.delivered_us, dtype=np.int64)
    return measured(counted(replayed, queue=queue), recorded, delivered, stream, window_us=window_us)


def counted(replayed: Replayed, *, queue: str) -> Account:
    """Make an account of the queue's own counts; `measured` adds what became of its events."""
    statistics = replayed.statistics
    intervals = [pack.turnaround_us for pack in replayed.packs if pack.turnaround_us is not None]
    lost = statistics.accepted - statistics.delivered
    worst = [Worst(queue, statistics.accepted, lost, _latency_us(replayed))] if lost else []
    return Account(
        queues=1,
        accepted=statistics.accepted,
        delivered=statistics.delivered,
        digested=statistics.digested,
        digests=replayed.digests,
        conserved=int(statistics.conserved and not statistics.queued and not statistics.queued_digested),
        latency=Histogram(),
        intervals=histogram(np.array(intervals, dtype=np.int64)),
        levels=dict(statistics.packs_by_level),
        filters={
            str(cause): (cause.level, cause.position, cause.filter, count.seen, count.dropped)
            for cause, count in statistics.filters.items()
        },
        errors={},
        unusual={},
        extremes={},
        matters={},
        age=Histogram(),
        slices=Slices([], [], []),
        worst=worst,
    )


def _latency_us(replayed: Replayed) -> float:
    """Mean latency of the delivered events."""
    published = np.frombuffer(replayed.published_us, dtype=np.int64)
    delivered = np.frombuffer(replayed.delivered_us, dtype=np.int64)
    arrived = delivered != LOST
    waited = int((delivered[arrived] - published[arrived]).sum())
    return waited / max(1, int(np.count_nonzero(arrived)))


def measured(
    counts: Account, recorded: Recorded, delivered: Ints, stream: RecordedStream, *, window_us: int
) -> Account:
    """The account with all that is measured event by event. Events may be those of several queues, one behind
    the other, if no two queues share a source.
    """
    published, values, arrived = recorded.published_us, recorded.values, delivered != LOST
    sources = recorded.sources
    newest = newest_known(published, delivered, sources)
    return msgspec.structs.replace(
        counts,
        latency=histogram(delivered[arrived] - published[arrived]),
        errors={
            name: held(
                published_us=published, delivered_us=delivered, values=own, sources=sources, newest=newest
            )
            for name, own in values.items()
        },
        unusual={
            name: unusual(values[name], normal, arrived)
            for name, normal in stream.normal.items()
            if name in values
        },
        extremes={name: extremes(recorded, name, arrived, window_us=window_us) for name in values},
        matters={
            name: mattering(matches, published, delivered, arrived)
            for name, matches in recorded.matters.items()
        },
        age=ages(recorded, newest),
        slices=slices(published, delivered, arrived, begin_us=stream.begin_us, end_us=stream.end_us),
    )


def replays(plans: Mapping[int, Plan | None], settings: Settings) -> dict[int, Replay]:
    """A queue for each candidate; `plans` are the compiled policies by number of their candidate."""
    found: dict[int, Replay] = {}
    for number, plan in plans.items():
        candidate = settings.candidates[number]
        queue = candidate.queue(plan, settings)
        found[number] = Replay(queue, settings.drain, digests_on_wire=candidate.drops is None)
    return found


class QueueRun:
    """Feed all events of a queue in order of time, in any number of parts, then `settle`."""

    def __init__(self, name: str, plans: Mapping[int, Plan | None], settings: Settings) -> None:
        """`plans` are the compiled policies by number of their candidate, for the candidates to run."""
        self.name = name
        self._settings = settings
        self._replays = replays(plans, settings)
        self._events = 0
        self._published: list[Ints] = []
        self._series: list[Ints] = []
        self._values: dict[str, list[Floats]] = {name: [] for name in settings.measured}
        self._matters: dict[str, list[Any]] = {one.text: [] for one in settings.matters}

    def feed(
        self, events: list[Event], series: Ints, values: Sequence[Floats], *, numbered: bool = True
    ) -> None:
        """Offer the next events; without sequence numbers they are numbered as they come.

        `values` are the measured attributes, in the order of the settings.
        """
        if not numbered:
            number_events(events, start=self._events)
        self._events += len(events)
        self._published.append(np.array([event.ts_us for event in events], dtype=np.int64))
        self._series.append(series)
        for found, own in zip(self._values.values(), values, strict=True):
            found.append(own)
        for predicate in self._settings.matters:
            self._matters[predicate.text].append(predicate.matches(events))
        for replay in self._replays.values():
            replay.offer_all(events)

    def settle(self, totals: dict[int, Account], stream: RecordedStream) -> None:
        """The queue is complete: add it to the accounts."""
        recorded = Recorded(
            published_us=np.concatenate(self._published),
            series=np.concatenate(self._series),
            values={name: np.concatenate(found) for name, found in self._values.items()},
            matters={name: np.concatenate(found) for name, found in self._matters.items()},
        )
        for number, replay in self._replays.items():
            found = account(
                replay.finish(), recorded, stream, queue=self.name, window_us=self._settings.window_us
            )
            totals[number] = totals[number].merge(found) if number in totals else found


def number_events(events: Sequence[Event], *, start: int = 0) -> None:
    """Number the events of a queue as they come."""
    for place, event in enumerate(events, start=start):
        force_setattr(event, "seq", place)


def from_json(data: bytes) -> Account:
    """Account as a worker wrote it."""
    return _decoder.decode(data)


_decoder: Final = msgspec.json.Decoder(Account, strict=False)
