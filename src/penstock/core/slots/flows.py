"""Flows (a client's messages on one topic): their timing, the table of all flows, policing of their rate.

Policing is GCRA (ITU-T I.371): a packet conforms if it comes no earlier than `tolerance_us` before its
theoretical time; only conforming packets move that time on. So a flow may be early by its jitter, but never
exceeds its rate for long. A credit lets a flow catch up on that much delay: a stalled network delivers many
packets at once although the flow kept its rate.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from penstock.core.slots.period import MOST, estimate
from penstock.core.slots.slot_sets import flow_key
from penstock.core.slots.statistics import FlowStatistics
from penstock.errors import SlotError

if TYPE_CHECKING:
    from penstock.core.slots.links import Link
    from penstock.core.slots.period import Grid, Period
    from penstock.core.slots.retries import RetrySequence
    from penstock.model.instant import Instant


class Police:
    """The generic cell rate algorithm for one flow."""

    __slots__ = ("_next_us", "credit_us", "period_us", "tolerance_us")

    def __init__(self, period_us: float, tolerance_us: float, *, credit_us: float = 0.0) -> None:
        if not period_us > 0:
            raise SlotError(f"period {period_us} µs; must be above 0")
        if not tolerance_us >= 0:
            raise SlotError(f"tolerance {tolerance_us} µs; must be 0 or more")
        if not credit_us >= 0:
            raise SlotError(f"credit {credit_us} µs; must be 0 or more")
        self.period_us = period_us
        self.tolerance_us = tolerance_us
        self.credit_us = credit_us
        self._next_us: float | None = None
        """Theoretical time of the next packet."""

    def conforms(self, now_us: Instant) -> bool:
        """Whether a packet that arrives now conforms to the rate."""
        next_us = float(now_us) if self._next_us is None else self._next_us
        if now_us < next_us - self.tolerance_us:
            return False
        self._next_us = max(now_us - self.credit_us, next_us) + self.period_us
        return True


SEPARATOR: Final = "\0"
"""Separates client and topic in a flow's name: MQTT allows it in neither."""

RECENT: Final = 64
"""Packets over which the on-time and excess rates are measured."""

LOOK_AT: Final = (16, 32, 64)
"""Numbers of arrivals after which a period is searched for; later at doubled numbers."""

LOOK_MOST: Final = 4_096
"""Most arrivals between two searches in a flow without a period: a search takes a millisecond."""


def key_of(client: str, topic: str) -> int:
    """Hash that identifies a flow, equal to Spark's."""
    return flow_key(f"{client}{SEPARATOR}{topic}")


class FlowState(StrEnum):
    """State of a flow."""

    LEARNING = "learning"
    """No period is known yet: best effort."""
    SERVED = "served"
    """Slots of the flow are reserved."""
    REFUSED = "refused"
    """The flow has a period but no slots: best effort."""
    SILENT = "silent"
    """The flow was served and stopped sending."""


class PeriodSource(StrEnum):
    """Source of a flow's period."""

    CLIENT = "client"
    TABLE = "table"
    DETECTED = "detected"


class Flow:
    """One flow; `FlowControl` changes it."""

    __slots__ = (
        "_arrivals",
        "_look_next",
        "again_us",
        "arrivals",
        "client",
        "declared_us",
        "disbelieved_us",
        "excess",
        "excess_rate",
        "failures",
        "grid",
        "key",
        "laned",
        "last_other_us",
        "last_slot",
        "last_us",
        "late",
        "length",
        "links",
        "links_again_us",
        "links_version",
        "load",
        "missed",
        "on_time",
        "on_time_rate",
        "police",
        "reason",
        "reserved",
        "retried",
        "retries",
        "shut_out",
        "since_us",
        "slow_police",
        "state",
        "told",
        "told_jitter_us",
        "tolerance_us",
        "topic",
        "watched_us",
    )

    def __init__(self, key: int, client: str, topic: str, *, now_us: Instant) -> None:
        self.key = key
        self.client = client
        self.topic = topic
        self.state = FlowState.LEARNING
        self.told: PeriodSource | None = None
        self.declared_us = 0.0
        """Declared period; 0: none."""
        self.told_jitter_us = 0.0
        self.disbelieved_us = 0.0
        """A declared period that the flow did not keep. Until the flow has been served for a while, declaring
        another one does not shorten its pause.
        """
        self.tolerance_us = 0.0
        self.grid: Grid | None = None
        self.police: Police | None = None
        self.slow_police: Police | None = None
        """Police with a credit: packets beyond this count as cheating."""
        self.reserved: deque[range] = deque()
        """Slots reserved ahead, one range for each expected packet."""
        self.length = 0
        """Number of the length of slots it is served in."""
        self.load = 0.0
        """Packets of the flow in one of the shortest slots."""
        self.links: tuple[Link, ...] = ()
        """Links on which it has places."""
        self.shut_out: tuple[Link, ...] = ()
        """Links of its receivers that have no place for it."""
        self.links_version = -1
        self.links_again_us = 0
        """When it tries those links again."""
        self.retries: RetrySequence | None = None
        """The pattern of its retries, if it has no period and they were recognised."""
        self.retried = 0
        """Packets recognised as retries."""
        self.since_us = self.last_us = now_us
        self.last_slot = -1
        self.last_other_us = now_us
        """Arrival of its last packet in another lane: until that one is sent, no later one may overtake
        it."""
        self.laned = False
        """Whether it was ever served, so that some of its packets may still wait in lanes."""
        self.again_us = 0
        """Not admitted before this time."""
        self.failures = 0
        self.reason = ""
        self.watched_us: Instant | None = None
        """When it is checked for silence."""
        self.arrivals = self.on_time = self.late = self.missed = self.excess = 0
        self.on_time_rate = 1.0
        self.excess_rate = 0.0
        self._arrivals: deque[Instant] | None = deque(maxlen=MOST)
        self._look_next = LOOK_AT[0]

    def goes_ahead_on(self, link: Link, now_us: Instant) -> bool:
        """Whether its packets may use lanes on a link: not if the link has no place for it."""
        if self.state is not FlowState.SERVED or self.key in link.flows:
            return True
        return link.left == (self.key, now_us)

    def recent(self) -> deque[Instant] | None:
        """The arrivals recorded by `learn`; None if none are."""
        return self._arrivals

    def learn(self, now_us: Instant, count: int = 1) -> Period | None:
        """Record arrivals of a flow without a known period; returns the period once it is found."""
        arrivals = self._arrivals
        if arrivals is None:
            return None
        arrivals.extend([now_us] * min(count, MOST))
        if self.arrivals < self._look_next:
            return None
        later = [count for count in LOOK_AT if count > self._look_next]
        self._look_next = later[0] if later else self._look_next + min(self._look_next, LOOK_MOST)
        return estimate(list(arrivals))

    def learnt(self) -> list[Instant]:
        """The arrivals recorded by `learn`, which are then discarded."""
        arrivals, self._arrivals = self._arrivals, None
        return list(arrivals or ())

    def unlearn(self) -> None:
        """Discard the period; it is searched for anew."""
        self.grid = self.police = self.slow_police = self.told = None
        self.declared_us = 0.0
        self._arrivals = deque(maxlen=MOST)
        self._look_next = self.arrivals + LOOK_AT[0]

    def statistics(self) -> FlowStatistics:
        """Figures of the flow now."""
        grid = self.grid
        return FlowStatistics(
            client_id=self.client,
            topic=self.topic,
            state=self.state.value,
            told=self.told.value if self.told is not None else "",
            pattern=self._pattern(),
            period_us=round(self._period_us()),
            jitter_us=round(grid.jitter_us) if grid is not None else 0,
            tolerance_us=round(self.tolerance_us),
            arrivals=self.arrivals,
            on_time=self.on_time,
            late=self.late,
            missed=self.missed,
            excess=self.excess,
            retried=self.retried,
            links=len(self.links),
            links_refused=len(self.shut_out),
            on_time_rate=round(self.on_time_rate, 4),
            since_us=self.since_us,
            last_us=self.last_us,
            reason=self.reason,
        )

    def _pattern(self) -> str:
        if self.retries is not None:
            return "retries"
        return "constant" if self.grid is not None or self.declared_us else ""

    def _period_us(self) -> float:
        if self.retries is not None:
            return self.retries.period_us
        return self.grid.period_us if self.grid is not None else self.declared_us


class FlowTable:
    """Flows by key; bounded, and idle flows are removed."""

    def __init__(self, *, most: int, idle_us: int) -> None:
        if most < 1:
            raise SlotError(f"most {most} flows; at least 1")
        if idle_us < 1:
            raise SlotError(f"idle_us {idle_us}; at least 1")
        self.most = most
        self.idle_us = idle_us
        self.forgotten = 0
        self.turned_away = 0
        """Flows that found the table full."""
        self._by_key: dict[int, Flow] = {}
        self._swept_us = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: int) -> Flow | None:
        """A flow that is in the table."""
        return self._by_key.get(key)

    def values(self) -> list[Flow]:
        """All flows, in the order they were added."""
        return list(self._by_key.values())

    def add(self, key: int, client: str, topic: str, *, now_us: Instant) -> Flow | None:
        """Add a flow; None if the table is full."""
        if len(self._by_key) >= self.most:
            # A full table is swept once in a quarter of the idle time, not at every arrival.
            if now_us - self._swept_us >= self.idle_us // 4:
                self.sweep(now_us=now_us)
            if len(self._by_key) >= self.most:
                self.turned_away += 1
                return None
        flow = self._by_key[key] = Flow(key, client, topic, now_us=now_us)
        return flow

    def sweep(self, *, now_us: Instant) -> None:
        """Remove idle flows."""
        self._swept_us = now_us
        idle = [
            key
            for key, flow in self._by_key.items()
            if flow.state is not FlowState.SERVED
            and flow.told
            is not PeriodSource.TABLE  # their number is bounded by the control table, and they are expected
            and now_us - flow.last_us > self.idle_us
        ]
        for key in idle:
            del self._by_key[key]
        self.forgotten += len(idle)
