"""The part of a broker that the window uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.slots.flows import FlowStatistics
    from penstock.model.event import Event
    from penstock.node.status import NodeStatus


class Tap(Protocol):
    """Events seen as they are accepted, until it is closed."""

    def close(self) -> None:
        """No more of them."""
        ...


class Watched(Protocol):
    """What can be asked of a broker, and what it can be told."""

    def status(self) -> NodeStatus:
        """The node at this moment."""
        ...

    def flow_rows(self) -> list[FlowStatistics] | None:
        """Flows of constant rate; None if no listener has slots."""
        ...

    def tap(self, filter_: str, seen: Callable[[Event], None], /) -> Tap:
        """Call `seen` with every accepted event that matches the filter."""
        ...

    def install_policy(self, client_id: str, filter_: str, policy: str | None, /) -> None:
        """Replace the policy of a live subscription; PolicyError if it is bad."""
        ...

    def disconnect(self, client_id: str, /, *, reason: int) -> bool:
        """End a client's connection; False if there is none."""
        ...

    def is_own(self, topic: str, /) -> bool:
        """Whether only the node publishes on a topic."""
        ...

    def publish(self, topic: str, payload: bytes, /, *, qos: int = 0, retain: bool = False) -> None:
        """A message from inside the node."""
        ...
