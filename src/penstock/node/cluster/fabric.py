"""The network as a cluster needs it: it tells which nodes are there, and takes frames to them.

Zenoh implements it (`zenoh_fabric.py`), direct connections beside Zenoh (`direct/fabric.py`), and a network
inside one process, for tests. A fabric may drop, repeat and reorder frames; the links in `core/cluster` put
that right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.core.cluster.view import Sighting


class FabricEvents(Protocol):
    """Calls that a fabric makes to its node, in the event loop of the node."""

    def appeared(self, seen: Sighting) -> None:
        """A node is there; the same may be told again."""
        ...

    def vanished(self, seen: Sighting) -> None:
        """A node is not there any more, or cannot be reached."""
        ...

    def received(self, sender: Sighting, frame: bytes) -> None:
        """A node has sent a frame."""
        ...


class Fabric(Protocol):
    """Carries frames between the nodes of a cluster."""

    @property
    def address(self) -> str:
        """Address at which other nodes join."""
        ...

    @property
    def refused(self) -> int:
        """Connections of others that never became a node: a wrong secret, or no node at all."""
        ...

    @property
    def problem(self) -> str:
        """Why this node is alone although it should not be; empty if nothing is wrong."""
        ...

    async def open(self, events: FabricEvents) -> None:
        """Listen, join, and announce this node; NodeError if that cannot be."""
        ...

    async def close(self) -> None:
        """Leave: the others are told at once."""
        ...

    def send(self, to: Sighting, frame: bytes) -> None:
        """Send a frame without waiting; it may be lost."""
        ...

    def join(self, addresses: tuple[str, ...]) -> None:
        """Look for other nodes at these addresses from now on, while this one is alone."""
        ...

    def forget(self, to: Sighting) -> None:
        """No more frames go to this node."""
        ...

    def is_direct(self, to: Sighting) -> bool:
        """Whether frames to this node go over a connection of their own at the moment."""
        ...
