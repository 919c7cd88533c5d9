"""The states of flows: who is served, refused or silent.

`FlowStanding` changes states, counts refusals, and collects events until the owner takes them. `SilentFlows`
finds served flows that stopped sending: a heap with one deadline for each.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from penstock.core.slots.flows import Flow, FlowState
from penstock.core.slots.lanes import FlowEvent, FlowHappening
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.slots.options import ControlOptions
    from penstock.model.instant import Instant


AGAIN_US: Final = SECOND_US
"""First pause before a refused flow is tried again; it doubles with each failure …"""

AGAIN_MOST: Final = 6
"""… this many times at most: about a minute."""


class FlowStanding:
    """Changes states, counts refusals, and collects events until the owner takes them."""

    def __init__(self) -> None:
        self.refused: dict[str, int] = {}
        """Flows not admitted or no longer served, by reason."""
        self._events: list[FlowEvent] = []

    def become(self, flow: Flow, state: FlowState, reason: str, now_us: Instant) -> None:
        """Set a flow's state."""
        if flow.state is not state:
            flow.since_us = now_us
        flow.state, flow.reason = state, reason

    def happened(
        self, what: FlowHappening, flow: Flow, now_us: Instant, reason: str = "", retry_us: int = 0
    ) -> None:
        """Add an event for the owner."""
        self._events.append(FlowEvent(what, flow, now_us, reason, retry_us))

    def events(self) -> list[FlowEvent]:
        """Remove and return the events."""
        events, self._events = self._events, []
        return events

    def refuse(
        self, flow: Flow, what: FlowHappening, reason: str, now_us: Instant, again_us: Instant = 0
    ) -> None:
        """Do not serve a flow; a repeated refusal for the same reason makes no event."""
        self.count(reason)
        news = what is FlowHappening.LEFT or _short(flow.reason) != _short(reason)
        self.become(flow, FlowState.REFUSED, reason, now_us)
        if news:
            self.happened(what, flow, now_us, reason, again_us)

    def defer(self, flow: Flow, what: FlowHappening, reason: str, now_us: Instant) -> None:
        """Refuse a flow for now.

        The pause before the next attempt doubles until it was served long enough.
        """
        again_us = wait_us(flow.failures)
        flow.failures += 1
        flow.again_us = now_us + again_us
        self.refuse(flow, what, reason, now_us, again_us)

    def count(self, reason: str) -> str:
        """Count a refusal by its reason up to the colon; returns the reason."""
        short = _short(reason)
        self.refused[short] = self.refused.get(short, 0) + 1
        return reason


def wait_us(failures: int) -> Instant:
    """Pause of a flow after this number of failures."""
    return AGAIN_US << min(failures, AGAIN_MOST)


def _short(reason: str) -> str:
    """A reason without the details of the single case."""
    return reason.partition(":")[0]


class SilentFlows:
    """One deadline for each served flow; it is postponed only when it has come."""

    def __init__(self, options: ControlOptions) -> None:
        self._options = options
        self._heap: list[tuple[Instant, int, Flow]] = []
        """(deadline, tie breaker, flow); valid only if the flow's `watched_us` equals the deadline."""
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._heap)

    def watch(self, flow: Flow) -> None:
        """Watch a served flow: check for silence at its deadline, unless an earlier check is due."""
        due_us = self._due_us(flow)
        if flow.watched_us is None or due_us < flow.watched_us:
            self._push(due_us, flow)
            if len(self._heap) > 2 * self._options.flows:
                self._clean()

    def timer(self) -> Instant | None:
        """Time of the next check."""
        return self._heap[0][0] if self._heap else None

    def fallen(self, now_us: Instant) -> Iterator[Flow]:
        """Flows that are silent by now."""
        heap = self._heap
        while heap and heap[0][0] <= now_us:
            at_us, _, flow = heappop(heap)
            if at_us != flow.watched_us:
                continue
            flow.watched_us = None
            if flow.state is not FlowState.SERVED:
                continue
            due_us = self._due_us(flow)
            if due_us <= now_us:
                yield flow
            else:
                self._push(due_us, flow)

    def _push(self, due_us: Instant, flow: Flow) -> None:
        flow.watched_us = due_us
        heappush(self._heap, (due_us, next(self._numbers), flow))

    def _clean(self) -> None:
        """Rebuild the heap with one deadline for each served flow."""
        in_force = [one for one in self._heap if one[0] == one[2].watched_us]
        for _, _, flow in in_force:
            if flow.state is not FlowState.SERVED:
                flow.watched_us = None
        self._heap[:] = [one for one in in_force if one[2].state is FlowState.SERVED]
        heapify(self._heap)

    def _due_us(self, flow: Flow) -> Instant:
        """When a served flow counts as silent if no packet comes."""
        assert flow.grid is not None
        late_us = flow.grid.at(self._options.silent_after) + flow.tolerance_us
        return round(max(late_us, flow.last_us + self._options.silent_least_us)) + 1
