"""How flows stand: their states, why they are refused and for how long, and what is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.slots.control_treatment import FlowEvent, Happening
from penstock.core.slots.flows import State
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from penstock.core.slots.flows import Flow
    from penstock.model.instant import Instant

AGAIN_US: Final = SECOND_US
"""A flow that was refused is tried again after this, then after twice as long …"""

AGAIN_MOST: Final = 6
"""… doubled so many times at most: about a minute."""


class Standing:
    """Changes states, counts refusals and keeps what happened until somebody asks."""

    def __init__(self) -> None:
        self.refused: dict[str, int] = {}
        """Flows not admitted or served no more, by reason."""
        self._events: list[FlowEvent] = []

    def become(self, flow: Flow, state: State, reason: str, now_us: Instant) -> None:
        """A flow's state from now on."""
        if flow.state is not state:
            flow.since_us = now_us
        flow.state, flow.reason = state, reason

    def happened(
        self, what: Happening, flow: Flow, now_us: Instant, reason: str = "", retry_us: int = 0
    ) -> None:
        """Something its owner should know."""
        self._events.append(FlowEvent(what, flow, now_us, reason, retry_us))

    def events(self) -> list[FlowEvent]:
        """Take what happened."""
        events, self._events = self._events, []
        return events

    def refuse(
        self, flow: Flow, what: Happening, reason: str, now_us: Instant, again_us: Instant = 0
    ) -> None:
        """Not served; the same refusal again is no news."""
        self.count(reason)
        news = what is Happening.LEFT or _short(flow.reason) != _short(reason)
        self.become(flow, State.REFUSED, reason, now_us)
        if news:
            self.happened(what, flow, now_us, reason, again_us)

    def defer(self, flow: Flow, what: Happening, reason: str, now_us: Instant) -> None:
        """Not served: tried again later, each time after twice as long, until it was served for so long."""
        again_us = wait_us(flow.failures)
        flow.failures += 1
        flow.again_us = now_us + again_us
        self.refuse(flow, what, reason, now_us, again_us)

    def count(self, reason: str) -> str:
        """Something could not be served: by what its reason says before the colon."""
        short = _short(reason)
        self.refused[short] = self.refused.get(short, 0) + 1
        return reason


def wait_us(failures: int) -> Instant:
    """How long a flow waits that failed so often before."""
    return AGAIN_US << min(failures, AGAIN_MOST)


def _short(reason: str) -> str:
    """A reason without what differs from case to case."""
    return reason.partition(":")[0]
