"""Another node of the cluster, as the broker sees it: a receiver of messages behind a link."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from penstock.core.cluster.asking import Asking
from penstock.core.cluster.peer import PeerLink
from penstock.core.cluster.sharing import SharedEvent
from penstock.core.slots.lanes import Lane
from penstock.mqtt.topics import shared_of
from penstock.mqtt.trees import TopicTree
from penstock.node.broker.message import Message
from penstock.node.cluster.records import shared_item_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.core.cluster.copies import Outgoing, OutgoingRun
    from penstock.core.cluster.interest import ReceiverClass
    from penstock.core.cluster.view import Sighting
    from penstock.core.slots.lanes import Assigned
    from penstock.model.digest import Digest
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.node.broker.runs import Run

OWN: Final = "$"
"""Topics that begin with this are a node's own and stay there."""


class PeerHost(Protocol):
    """The cluster as a peer sees it."""

    def outgoing(self, event: Event) -> Outgoing | None:
        """The message as it crosses links; None: it stays at this node, or was sent to all nodes already."""
        ...

    def outgoing_run(self, run: Run) -> OutgoingRun:
        """A run of messages as it crosses links."""
        ...

    def number_of(self, event: Event) -> int:
        """The number of an event that leaves this node, the same for all nodes."""
        ...

    def send_soon(self, peer: ClusterPeer) -> None:
        """Send what a peer has to send at the end of this turn of the event loop."""
        ...

    def send_now(self, peer: ClusterPeer) -> None:
        """Send what a peer has to send within this turn."""
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
        self.wait_us = wait_us
        self._filters: TopicTree[str, str] = TopicTree()
        self.link = PeerLink(
            wanted,
            self._filters.match,
            capacity_events=capacity_events,
            capacity_bytes=capacity_bytes,
        )
        self.link.backlog.relieve = self._relieve
        self.asking = Asking()
        """Questions to the other node that wait for their answers."""
        self._handed: deque[tuple[int, int, Instant, Callable[[], None]]] = deque()
        """Who waits until the other node has the events up to a serial number, and those for shared groups
        up to another one, and until when."""
        self._told: deque[tuple[Instant, Callable[[], None]]] = deque()
        """Who waits until the other node knows what is wanted here, and until when."""
        self.answering = 0
        """Questions of the other node that are being answered."""
        self.held = 0
        """Acknowledgements that wait for the disk."""
        self.newest = 0
        """Highest number of an event that has come from the other node."""
        self.number = 0
        """Number of the event from the other node that receivers here get at the moment."""
        self.received = 0
        """Events that have come from the other node."""
        self.damaged = 0
        """Frames that could not be read, and items that were refused."""

    # -- for the broker --------------------------------------------------------------------------------------

    def deliver(self, event: Event, *, origin: object, now_us: Instant) -> bool:
        """Take a message that was published at this node; those of other nodes go no further."""
        if isinstance(origin, ClusterPeer) or event.topic.startswith(OWN):
            return False
        out = self._host.outgoing(event)
        flow = event.flow if type(event) is Message else None
        if out is not None:
            if flow is None or not self._ahead(out, flow, now_us):
                self.link.offer(out, now_us=now_us)
            self._host.send_soon(self)
        elif flow is not None:
            flow.flow.last_other_us = now_us  # a retained message was queued with the others
        return type(event) is Message and event.retain if out is None else True

    def _ahead(self, out: Outgoing, flow: Assigned, now_us: Instant) -> bool:
        """Let a message of a flow overtake what waits for the link, if it came in its slot."""
        after_us = flow.flow.last_other_us
        if flow.lane is Lane.RESERVED and self.link.backlog.offer_ahead(out, after_us=after_us):
            return True
        flow.flow.last_other_us = now_us
        return False

    @property
    def keeping_up(self) -> bool:
        """Whether nothing waits for the other node, so that a message goes to it at once."""
        return self.link.has_room and self.link.backlog.empty

    def deliver_run(self, run: Run, *, now_us: Instant, alone: bool = False) -> None:
        """Take messages that were published at this node, as the bytes they came in.

        A message that comes `alone` is sent within this call: another turn of the event loop would take a
        tenth of the time that it needs to the other node.
        """
        self.link.offer(self._host.outgoing_run(run), now_us=now_us)
        if alone:
            self._host.send_now(self)
        else:
            self._host.send_soon(self)

    def _relieve(self) -> None:
        """More has come in one turn than the queue holds: it drops nothing that the link takes at once."""
        if self.link.has_room:
            self._host.send_now(self)

    def share(self, event: Event, groups: tuple[str, ...], *, tried: tuple[str, ...] = ()) -> None:
        """Take a message for one member at that node of each of these shared groups.

        `tried` are nodes that had it and had nobody for it.
        """
        data = shared_item_of(event, self._host.number_of(event), groups, tried)
        self.link.shared.offer(SharedEvent(event, groups, data))
        self._host.send_soon(self)

    def for_groups(self, out: SharedEvent, groups: tuple[str, ...]) -> SharedEvent:
        """A message that waits, for some of its groups only."""
        return SharedEvent(
            out.event, groups, shared_item_of(out.event, self._host.number_of(out.event), groups, ())
        )

    def share_digest(self, group: str, digest: Digest) -> None:
        """Take a digest for a member at that node of a shared group."""
        self.link.shared.tell(group, digest)
        self._host.send_soon(self)

    def group_changed(self, group: str, attached: int, members: int) -> None:
        """A shared group has so many members here: tell the other node."""
        if not shared_of(group).filter.startswith(OWN):
            self.link.groups.change(group, attached, members)
            self._host.send_soon(self)

    def interest_changed(self, filter_: str, *, wanted: bool) -> None:
        """Subscriptions of this node have changed: tell the other nodes."""
        if not filter_.startswith(OWN):
            self.link.interest.change(filter_, wanted=wanted)
            self._host.send_soon(self)

    def class_began(self, receivers: ReceiverClass) -> None:
        """Tell the other node of a class of receivers."""
        self.link.interest.begin(receivers)
        self._host.send_soon(self)

    def class_ended(self, number: int, *, moved: bool) -> None:
        """Tell the other node that a class of receivers has ended."""
        self.link.interest.end(number, moved=moved)
        self._host.send_soon(self)

    def plain_renewed(self, number: int) -> None:
        """Tell the other node the number of the class of receivers without a policy."""
        self.link.interest.renew_plain(number)
        self._host.send_soon(self)

    def receivers(self) -> Iterable[tuple[str, str]]:
        """The filters of the other node, each with the text of a policy behind it; empty: without one."""
        return self.link.theirs.receivers()

    def when_handed(self, then: Callable[[], None]) -> None:
        """Call back when the other node has all messages so far; a node that is away is not waited for."""
        link = self.link
        upto, shared = link.backlog.serial, link.shared.serial
        if (link.settled >= upto and link.shared.settled >= shared) or not link.connected:
            then()
        else:
            self._handed.append((upto, shared, self._host.now_us() + self.wait_us, then))

    # -- for the cluster -------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way to the node, or it is away; and nothing from it to the disk."""
        return (not self.link.connected or self.link.idle) and not self.held

    def when_told(self, then: Callable[[], None]) -> None:
        """Call back when the other node knows what is wanted here; a node that is away is not waited for."""
        if self.link.told or not self.link.connected:
            then()
        else:
            self._told.append((self._host.now_us() + self.wait_us, then))

    def wants(self, added: Iterable[str], removed: Iterable[str]) -> None:
        """The other node's filters have changed."""
        for filter_ in added:
            self._filters.add(filter_, filter_, filter_)
        for filter_ in removed:
            self._filters.remove(filter_, filter_)

    def settle(self, *, now_us: Instant) -> None:
        """Call back those who have waited long enough, or for nothing more."""
        everything = not self.link.connected
        settled, shared = self.link.settled, self.link.shared.settled
        while self._handed:
            upto, upto_shared, until_us, then = self._handed[0]
            if not everything and (upto > settled or upto_shared > shared) and until_us > now_us:
                break
            self._handed.popleft()
            then()
        while self._told and (everything or self.link.told or self._told[0][0] <= now_us):
            self._told.popleft()[1]()


def when_told(peers: Iterable[ClusterPeer], answer: Callable[[], None]) -> Callable[[], None]:
    """Wrap an answer that has to wait until all nodes that are there know what is wanted here."""
    waiting = [peer for peer in peers if peer.link.connected and not peer.link.told]
    if not waiting:
        return answer

    def wait() -> None:
        missing = len(waiting)

        def told() -> None:
            nonlocal missing
            missing -= 1
            if not missing:
                answer()

        for peer in waiting:
            peer.when_told(told)

    return wait
