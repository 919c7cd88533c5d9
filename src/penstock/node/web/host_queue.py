"""A registrable domain with its budget, and the channels that wait for their turn there."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.channels.polling import HostBudget
    from penstock.model.instant import Instant
    from penstock.node.web.polled import Polled


class HostQueue:
    """One domain. When its budget is used up its channels wait here, and only the domain is woken."""

    __slots__ = ("active", "budget", "channels", "due_us", "kept", "queued", "waiting")

    def __init__(self, budget: HostBudget) -> None:
        self.budget = budget
        self.kept: HostBudget | None = None
        """As it was written down last; None: it is not."""
        self.active = 0
        """Fetches under way."""
        self.queued = 0
        """Channels that wait for a free fetch."""
        self.channels = 0
        """Channels that are fetched from here."""
        self.waiting: deque[Polled] = deque()
        self.due_us: Instant | None = None
        """When there is budget again; None: nobody waits for it."""

    def timer(self) -> Instant | None:
        """When to look."""
        return self.due_us

    def park(self, channel: Polled) -> None:
        """Let a channel wait for its turn; it does so once."""
        if not channel.parked:
            channel.parked = True
            self.waiting.append(channel)

    def unpark(self) -> Polled:
        """Who waited longest."""
        channel = self.waiting.popleft()
        channel.parked = False
        return channel

    def unused(self, now_us: Instant) -> bool:
        """Whether it can be forgotten."""
        busy = self.channels or self.active or self.waiting or self.kept is not None
        return not busy and self.budget.idle(now_us)
