"""Statistics of a queue: a snapshot of its counts, a record of each pack, and its state to continue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.digest import Cause
    from penstock.model.instant import Instant


@dataclass(frozen=True, slots=True)
class PackRecord:
    """Record of one pack: its level and what it dropped."""

    at_us: Instant
    level: int
    """The level that made room; 0: the worst case."""
    chosen: int
    """The level the controller asked for."""
    turnaround_us: int | None
    """Time since the pack before; None for the first."""
    events_before: int
    events_dropped: int
    items_before: int
    items_after: int
    bytes_before: int
    bytes_after: int
    in_time: bool = False
    """Whether the policy's `fresh` asked for the pack, and not the capacity."""

    @property
    def ratio(self) -> float:
        """Share of the queue's events that this pack dropped."""
        return self.events_dropped / self.events_before if self.events_before else 0.0


@dataclass(frozen=True, slots=True)
class FilterCount:
    """Events seen and dropped by one filter, over all packs."""

    seen: int = 0
    dropped: int = 0

    @property
    def ratio(self) -> float:
        """Share of the events it saw that it dropped."""
        return self.dropped / self.seen if self.seen else 0.0


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A queue at one moment. Always: accepted = delivered + digested + queued + queued_digested."""

    accepted: int
    """Events accepted, including those counted in digests from upstream."""
    delivered: int
    """Events that went out."""
    digested: int
    """Events that went out as counts in digests."""
    queued: int
    """Events waiting."""
    queued_digested: int
    """Events counted in the digests waiting."""
    items: int
    """Events and digests waiting, as `capacity_events` counts."""
    bytes: int
    controls: int
    suspended: bool
    packs: int
    packs_by_level: Mapping[int, int]
    """Packs by the level that made room; 0: the worst case."""
    filters: Mapping[Cause, FilterCount]
    level: int
    """The controller's current level; 0 without a policy."""
    last_turnaround_us: int | None
    mean_turnaround_us: float | None
    mean_ratio: float | None
    """Share of the queue's events dropped, averaged over packs."""
    packs_in_time: int = 0
    """Packs that the policy's `fresh` asked for, and not the capacity."""
    urgent: int = 0
    """Events waiting that go ahead of the others."""
    wait_us: int | None = None
    """How long an event that arrives now will wait; None: not known."""

    @property
    def conserved(self) -> bool:
        """Whether every event accepted is accounted for."""
        return self.accepted == self.delivered + self.digested + self.queued + self.queued_digested


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingState:
    """State of a packing queue besides its items and its controller, to continue elsewhere or later."""

    first: int = 0
    """Number of the items that wait in the lane of urgent events."""
    held: int = 0
    """Bytes held after the last pack."""
    departed: int = 0
    """Bytes that left since then."""
    settled: float = 0.0
    last_pack_us: int | None = None
    gathering: tuple[float, int | None] | None = None
    sent: tuple[tuple[str, str, int], ...] = ()
    """Topic and sender of each source that a queue which keeps time remembers, and when it sent last."""
