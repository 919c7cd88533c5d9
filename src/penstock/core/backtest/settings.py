"""Candidates, settings and results of a backtest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.backtest.measures import WINDOW_US
from penstock.core.queues import (
    BoundedQueue,
    Drain,
    DropNewestQueue,
    DropOldestQueue,
    Ladder,
    PackingQueue,
    Predictive,
    QueueOptions,
    Smoothing,
)
from penstock.errors import InputError, PolicyError
from penstock.policy import filters
from penstock.policy.columns import Plan
from penstock.policy.nodes import PayloadFormat, read_by
from penstock.policy.predicates import of_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.backtest.account import Account
    from penstock.core.queues import Controller
    from penstock.policy.nodes import Policy
    from penstock.policy.predicates import Predicate


class Controllers(Enum):
    """Which controller chooses the level of a pack."""

    PREDICTIVE = "predictive"
    LADDER = "ladder"
    PRINTED = "printed"
    """The ladder with the smoothing formula as the paper prints it."""

    def make(self) -> Controller:
        """A new controller for one queue."""
        if self is Controllers.PREDICTIVE:
            return Predictive()
        return Ladder(smoothing=Smoothing.LOW_PASS if self is Controllers.LADDER else Smoothing.PRINTED)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run the queues."""

    name: str
    policy: Policy | None = None
    drops: type[BoundedQueue] | None = None
    """A queue without a policy; like a plain broker it sends no digests."""

    def plan(self) -> Plan | None:
        """The compiled policy, for all queues."""
        return None if self.drops else Plan(self.policy)

    def queue(self, plan: Plan | None, settings: Settings) -> BoundedQueue:
        """An empty queue."""
        options = QueueOptions(capacity_events=settings.capacity, capacity_bytes=settings.capacity_bytes)
        if self.drops is not None:
            return self.drops(options)
        return PackingQueue(plan, options, settings.controller.make())


BASELINES: Final = (
    Candidate("drop-newest", drops=DropNewestQueue),
    Candidate("drop-oldest", drops=DropOldestQueue),
)
"""The two behaviours of brokers: drop arriving events when full (drop-tail), or the oldest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a replay."""

    candidates: tuple[Candidate, ...]
    capacity: int
    """Items a queue may hold."""
    drain: Drain
    key: tuple[str, ...] = ()
    """Columns that identify a queue; none: all events are one queue."""
    series: tuple[str, ...] = ()
    """Columns that identify a source of values within a queue; default: sender and topic."""
    measured: tuple[str, ...] = ()
    """Attributes whose error is measured."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Columns by attribute, as for `pack`."""
    controller: Controllers = Controllers.PREDICTIVE
    matters: tuple[Predicate, ...] = ()
    """Predicates that matter to the receiver, besides those that the policies declare."""
    window_us: int = WINDOW_US
    """Window of time whose extremes are looked for."""
    capacity_bytes: int = limits.QUEUE_BYTES

    def __post_init__(self) -> None:
        QueueOptions(capacity_events=self.capacity, capacity_bytes=self.capacity_bytes)  # raises QueueError
        if not self.candidates:
            raise InputError("nothing to compare; give a policy")
        names = [candidate.name for candidate in self.candidates]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InputError(f"duplicate candidate name '{twice[0]}'; give the policies different names")
        declared = [
            one
            for candidate in self.candidates
            if candidate.policy is not None
            for one in of_steps(candidate.policy.matters, candidate.policy)
        ]
        given = {one.text: replace(one, payload=self.payload) for one in (*self.matters, *declared)}
        object.__setattr__(self, "matters", tuple(given.values()))

    @property
    def payload(self) -> PayloadFormat:
        """Payload format on which the policies agree."""
        formats = {one.policy.payload for one in self.candidates if one.policy is not None}
        if len(formats) > 1:
            names = ", ".join(sorted(found.value for found in formats))
            raise PolicyError(
                f"the policies read payloads differently: {names}; run them apart", path="payload"
            )
        return formats.pop() if formats else PayloadFormat.AUTO

    def wanted(self) -> list[str]:
        """Attributes that policies and predicates read."""
        policies = [one.policy for one in self.candidates if one.policy is not None]
        names = [name for policy in policies for name in read_by(policy)]
        return list(dict.fromkeys((*names, *(one.attribute for one in self.matters))))

    def counted(self) -> dict[str, str]:
        """Attributes that must be numbers, each with a filter that needs it."""
        return {
            policy.path_of(placed.step).text: placed.step.filter.name
            for policy in (one.policy for one in self.candidates)
            if policy is not None
            for placed in policy.steps(policy.highest)
            if _counts(placed.step.filter)
        }


def _counts(node: filters.Filter) -> bool:
    """Whether a filter reads numbers only."""
    if isinstance(node, filters.Within):
        return not isinstance(node.low, str)
    return isinstance(node, filters.Delta | filters.Swing)


@dataclass(frozen=True, slots=True)
class RecordedStream:
    """Figures of a recorded stream."""

    events: int
    queues: int
    begin_us: int
    end_us: int
    normal: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Normal ranges of measured attributes."""

    @property
    def span_s(self) -> float:
        """Seconds from the first event to the last."""
        return (self.end_us - self.begin_us) / 1e6


@dataclass(frozen=True, slots=True)
class Backtest:
    """Result of a backtest."""

    stream: RecordedStream
    accounts: dict[str, Account]
    """The account of each candidate, in the order of the candidates."""
    silent: frozenset[str] = frozenset()
    """Candidates that send no digests of dropped events."""


# -- what cannot be replayed ---------------------------------------------------------------------------------


def no_queue_column(name: str, there: Sequence[str]) -> InputError:
    """Error for a missing column of a key or a series."""
    near = get_close_matches(name, there, n=1)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    columns = ", ".join(there)
    return InputError(f"there is no column '{name}' to make queues by{hint}; the columns are: {columns}")


def packed_already(name: str) -> InputError:
    """Error for a stream that contains digests of any form."""
    return InputError(f"column '{name}': a stream with digests in it is packed already; take the original")


def reserved_name(name: str) -> InputError:
    """Error for a column with a name of our own."""
    return InputError(f"column '{name}': names with two underscores are reserved; rename it")


def as_written(numbers: int, other: str | None) -> str:
    """Sentence about texts that are numbers; empty if there are none."""
    but = "" if other is None else f", but not {other[:80]!r}"
    return f"{numbers:,} of the values are numbers written as texts{but}" if numbers else ""
