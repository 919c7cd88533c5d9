"""Another node of the cluster, as the broker sees it: a receiver of messages behind a link."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from penstock.core.cluster.peer import PeerLink
from penstock.mqtt.trees import TopicTree
from penstock.node.broker.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.core.cluster.backlog import Outgoing
    from penstock.core.cluster.view import Sighting
    from penstock.model.event import Event
    from penstock.model.instant import Instant

OWN: Final = "$"
"""Topics that begin with this are a node's own and stay there."""


class PeerHost(Protocol):
    """The cluster as a peer sees it."""

    def outgoing(self, event: Event) -> Outgoing | None:
        """The message as it crosses links; None: it stays at this node, or was sent to all nodes already."""
        ...

    def send_soon(self, peer: ClusterPeer) -> None:
        """Send what a peer has to send at the end of this turn of the event loop."""
        ...

    def now_us(self) -> Instant:
        """The time."""
        ...


class ClusterPeer:
    """One incarnation of another node."""

    def __init__(
        self,
        host: PeerHost,
        seen: Sighting,
        wanted: Iterable[str],
        *,
        capacity_events: int,
        capacity_bytes: int,
        wait_us: int,
    ) -> None:
        """`wanted` are the filters of this node; `wait_us` is how long an answer waits for the other one."""
        self.seen = seen
        self._host = host
        self._wait_us = wait_us
        self._filters: TopicTree[str, str] = TopicTree()
        self.link = PeerLink(
            wanted,
            self._filters.match,
            capacity_events=capacity_events,
            capacity_bytes=capacity_bytes,
        )
        self._handed: deque[tuple[int, Instant, Callable[[], None]]] = deque()
        """Who waits until the other node has the events up to a serial number, and until when."""
        self._told: deque[tuple[Instant, Callable[[], None]]] = deque()
        """Who waits until the other node knows what is wanted here, and until when."""
        self.held = 0
        """Acknowledgements that wait for the disk."""
        self.received = 0
        """Events that have come from the other node."""
        self.damaged = 0
        """Frames that could not be read, and items that were refused."""

    # -- for the broker --------------------------------------------------------------------------------------

    def deliver(self, event: Event, *, origin: object, now_us: Instant) -> bool:  # noqa: ARG002
        """Take a message that was published at this node; those of other nodes go no further."""
        if isinstance(origin, ClusterPeer) or event.topic.startswith(OWN):
            return False
        out = self._host.outgoing(event)
        if out is not None:
            self.link.offer(out)
            self._host.send_soon(self)
        return type(event) is Message and event.retain if out is None else True

    def interest_changed(self, filter_: str, *, wanted: bool) -> None:
        """Subscriptions of this node have changed: tell the other nodes."""
        if not filter_.startswith(OWN):
            self.link.interest.change(filter_, wanted=wanted)
            self._host.send_soon(self)

    def when_handed(self, then: Callable[[], None]) -> None:
        """Call back when the other node has all messages so far; a node that is away is not waited for."""
        upto = self.link.backlog.accepted
        if self.link.settled >= upto or not self.link.connected:
            then()
        else:
            self._handed.append((upto, self._host.now_us() + self._wait_us, then))

    # -- for the cluster -------------------------------------------------------------------------------------

    def when_told(self, then: Callable[[], None]) -> None:
        """Call back when the other node knows what is wanted here; a node that is away is not waited for."""
        if self.link.told or not self.link.connected:
            then()
        else:
            self._told.append((self._host.now_us() + self._wait_us, then))

    def wants(self, added: Iterable[str], removed: Iterable[str]) -> None:
        """The other node's filters have changed."""
        for filter_ in added:
            self._filters.add(filter_, filter_, filter_)
        for filter_ in removed:
            self._filters.remove(filter_, filter_)
            self.link.backlog.forget(filter_)

    def settle(self, *, now_us: Instant) -> None:
        """Call back those who have waited long enough, or for nothing more."""
        everything = not self.link.connected
        while self._handed and (
            everything or self._handed[0][0] <= self.link.settled or self._handed[0][1] <= now_us
        ):
            self._handed.popleft()[2]()
        while self._told and (everything or self.link.told or self._told[0][0] <= now_us):
            self._told.popleft()[1]()
