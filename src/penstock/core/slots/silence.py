"""Finds served flows that stopped sending: a heap with one deadline for each."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from penstock.core.slots.flows import Flow, FlowState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.slots.options import ControlOptions
    from penstock.model.instant import Instant


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
