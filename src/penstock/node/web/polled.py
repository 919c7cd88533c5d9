"""A channel as the poller holds it: as little as can be, since there are many."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import Task

    from penstock.core.channels.polling import Plan, PollState
    from penstock.model.instant import Instant
    from penstock.node.web.fetched import Fetched
    from penstock.node.web.host_queue import HostQueue


class Polled:
    """One channel."""

    __slots__ = ("due_us", "host", "parked", "plan", "removed", "state", "task")

    def __init__(self, plan: Plan, state: PollState, host: HostQueue) -> None:
        self.plan = plan
        self.state = state
        self.host = host
        self.due_us: Instant | None = None
        """When to decide about it again; None: it waits elsewhere, or is being fetched."""
        self.parked = False
        """Whether it stands in a queue, of its host or for a free fetch."""
        self.removed = False
        self.task: Task[Fetched | None] | None = None
        """The fetch under way."""

    def timer(self) -> Instant | None:
        """When to look."""
        return None if self.removed else self.due_us
