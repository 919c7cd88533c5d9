"""A simulated publisher: wants to publish at a rate, and waits while too much is not acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.sim.streams_node import StreamNode
    from penstock.sim.world import World


class StreamPublisher:
    """One pubend's publishers as one: every message is new; what a crash swallowed is not sent again."""

    def __init__(
        self,
        world: World,
        node: StreamNode,
        pubend: str,
        *,
        every_us: int,
        window: int,
        body: Callable[[int], bytes],
        until_us: int,
        start_us: int = 0,
    ) -> None:
        self.published = 0
        self._world = world
        self._node = node
        self._pubend = pubend
        self._every_us = every_us
        self._window = window
        self._body = body
        self._until_us = until_us
        self._waiting: dict[int, None] = {}
        self._life = node.crashes
        self._blocked = False
        node.on_acknowledged[pubend] = self._acknowledged
        world.clock.at(start_us, self._turn)

    def _turn(self) -> None:
        """The next message is due."""
        if self._world.now_us >= self._until_us:
            return
        if self._node.crashes != self._life:  # the connection is new: nothing is in flight any more
            self._life = self._node.crashes
            self._waiting.clear()
        if len(self._waiting) >= self._window:
            self._blocked = True
            # A node that is down acknowledges nothing: look again.
            self._world.clock.after(10 * self._every_us, self._look_again)
            return
        self._blocked = False
        tick = self._node.publish(self._pubend, self._body(self.published))
        if tick is not None:
            self.published += 1
            self._waiting[tick] = None
        self._world.clock.after(self._every_us, self._turn)

    def _look_again(self) -> None:
        if self._blocked and self._node.crashes != self._life:
            self._turn()
        elif self._blocked:
            self._world.clock.after(10 * self._every_us, self._look_again)

    def _acknowledged(self, tick: int) -> None:
        self._waiting.pop(tick, None)
        if self._blocked and len(self._waiting) < self._window:
            self._blocked = False
            self._world.clock.at(self._world.now_us, self._turn)
