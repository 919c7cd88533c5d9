"""The states of flows: changes them, counts refusals, and collects events until the owner takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.slots.flows import FlowState
from penstock.core.slots.lanes import FlowEvent, FlowHappening
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from penstock.core.slots.flows import Flow
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
