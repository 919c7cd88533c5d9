"""The link to one incarnation of another node, both directions: interest, events, digests, acknowledgements.

The owner gives it the events that are wanted there (`offer`), the filters that are wanted here (`interest`),
and every frame that comes (`received`). It sends what `frames` returns whenever something has changed, and
calls `retry` when `timer` says so. Interest and what a node says of itself go ahead of events and do not wait
for the window; questions, answers, events and retained messages share it, in this order.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from penstock import limits
from penstock.core.cluster.backlog import Backlog, LinkAccount
from penstock.core.cluster.frames import (
    Ack,
    Ahead,
    Carried,
    For,
    ack_frame,
    decode_frame,
    decode_items,
    encode_item,
)
from penstock.core.cluster.interest import OwnInterest, PeerInterest
from penstock.core.cluster.link import LinkReceiver, LinkSender
from penstock.core.cluster.sharing import GroupQueue, OwnGroups, PeerGroups
from penstock.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.core.cluster.backlog import Taken
    from penstock.core.cluster.copies import Outgoing, OutgoingRun
    from penstock.core.cluster.frames import About, Answer, Ask, Item, Wants
    from penstock.model.instant import Instant


class Addressed(NamedTuple):
    """An event for some classes of receivers only, or one that has overtaken others."""

    classes: frozenset[int] | None
    """None: for everybody."""
    item: Carried
    ahead: bool = False


class Received(NamedTuple):
    """Items and news that a received frame contains."""

    items: list[Item | Addressed]
    """New items in order; the owner handles them, then sends `acknowledgement`."""
    again: list[bytes]
    """Frames to send at once: the other end misses them, or its frame came again."""
    settled: bool
    """Whether the other end has acknowledged something new."""


class _Flight(NamedTuple):
    """Events and digests of one frame without acknowledgement."""

    number: int
    first: int
    """Serial number of the first event."""
    taken: Taken


class PeerLink:
    """Everything between this node and one incarnation of another one."""

    def __init__(
        self,
        wanted: Iterable[str],
        filters_of: Callable[[str], Iterable[str]],
        *,
        capacity_events: int = limits.CLUSTER_QUEUE_EVENTS,
        capacity_bytes: int = limits.CLUSTER_QUEUE_BYTES,
        window_bytes: int = limits.CLUSTER_WINDOW_BYTES,
    ) -> None:
        """`wanted` are the filters of this node; `filters_of` finds those of the other node by topic."""
        self.interest = OwnInterest(wanted)
        self.theirs = PeerInterest()
        self.backlog = Backlog(
            filters_of, self.theirs, capacity_events=capacity_events, capacity_bytes=capacity_bytes
        )
        self.groups = OwnGroups()
        self.their_groups = PeerGroups()
        self.shared = GroupQueue(capacity_events=capacity_events, capacity_bytes=capacity_bytes)
        self._sender = LinkSender(window_bytes=window_bytes)
        self._receiver: LinkReceiver[list[Item | Addressed]] = LinkReceiver(window_bytes=window_bytes)
        self._about: bytes | None = None
        self._snapshot: Iterator[bytes] | None = None
        self._kept: Callable[[str], bytes | None] = lambda _: None
        self._words: deque[bytes] = deque()
        """Questions and answers that wait for room."""
        self._flights: deque[_Flight] = deque()
        self._told_in = 0
        """Number of the frame in which the interest of this node was last told."""
        self.connected = True
        """Whether the other node is in view; while it is not, nothing is sent."""

    # -- to the other node -----------------------------------------------------------------------------------

    def offer(self, out: Outgoing | OutgoingRun, *, now_us: Instant) -> None:
        """Accept events for the other node."""
        self.backlog.offer(out, now_us=now_us)

    def rebound(self, capacity_events: int, capacity_bytes: int, *, now_us: Instant) -> None:
        """Change how much may wait for the other node."""
        self.backlog.rebound(capacity_events, capacity_bytes, now_us=now_us)
        self.shared.rebound(capacity_events, capacity_bytes)

    def say(self, about: About) -> None:
        """Tell the other node about this one; only the last word counts."""
        self._about = encode_item(about)

    def post(self, word: Ask | Answer) -> None:
        """Send a question or an answer; ClusterError if too many wait."""
        if len(self._words) >= limits.CLUSTER_ASKS:
            raise ClusterError(f"{limits.CLUSTER_ASKS} questions and answers wait for the link already")
        self._words.append(encode_item(word))

    def begin_snapshot(self, topics: Iterable[str], kept: Callable[[str], bytes | None]) -> None:
        """Send the retained messages of these topics besides the events, fetched when there is room for them.

        `kept` makes an item of a topic's present message; it is asked again where a message is dropped.
        """
        self._kept = kept
        self._snapshot = (item for topic in topics if (item := kept(topic)) is not None)

    def owe(self, topics: Iterable[str]) -> None:
        """Send the retained messages of these topics once more, as they are when there is room for them."""
        self.backlog.owed.update(dict.fromkeys(topics))

    @property
    def pending(self) -> bool:
        """Whether something is to be sent, now or when there is room."""
        return bool(
            not self.backlog.empty
            or self._about is not None
            or self.interest.pending
            or self.groups.pending
            or self._words
            or not self.shared.empty
            or self._snapshot is not None
            or self.backlog.owed
        )

    def frames(self, *, now_us: Instant) -> list[bytes]:
        """Frames to send now."""
        made: list[bytes] = []
        while self.connected and self.pending:
            items: list[bytes] = []
            if self._about is not None:
                items.append(self._about)
                self._about = None
            if self.interest.pending:
                items.append(encode_item(self.interest.told()))
                self._told_in = self._sender.last + 1
            if self.groups.pending:
                items.append(encode_item(self.groups.told()))
                self._told_in = self._sender.last + 1
            first, taken = self.backlog.head, None
            if self._sender.room:
                most = min(self._sender.room, limits.CLUSTER_FRAME_BYTES)
                if self._words:
                    most = max(1, most - self._next_words(items, most))
                if not self.shared.empty:
                    items += self.shared.take(most // 2, self._sender.last + 1)
                if self._snapshot is not None or self.backlog.owed:
                    items += self._next_of_snapshot(most // 2)
                if not self.backlog.empty:
                    taken = self.backlog.take(most)
                    items += taken.items
            if not items:
                break
            made.append(self._sender.send(b"".join(items), now_us=now_us))
            if taken is not None:
                self._flights.append(_Flight(self._sender.last, first, taken))
        return made

    def _next_words(self, items: list[bytes], most_bytes: int) -> int:
        """Add questions and answers to a frame, at least one; returns their bytes."""
        size = 0
        while self._words and (not size or size + len(self._words[0]) <= most_bytes):
            items.append(self._words.popleft())
            size += len(items[-1])
        return size

    def _next_of_snapshot(self, most_bytes: int) -> list[bytes]:
        items: list[bytes] = []
        size = 0
        while size < most_bytes:
            if self._snapshot is not None:
                item = next(self._snapshot, None)
                if item is None:
                    self._snapshot = None
            elif self.backlog.owed:
                topic = next(iter(self.backlog.owed))
                del self.backlog.owed[topic]
                item = self._kept(topic)
            else:
                break
            if item is not None:
                items.append(item)
                size += len(item)
        return items

    def timer(self) -> Instant | None:
        """When to call `retry`."""
        return self._sender.timer() if self.connected else None

    def retry(self, *, now_us: Instant) -> list[bytes]:
        """Frames to send again because no acknowledgement has come for long."""
        return self._sender.retry(now_us=now_us) if self.connected else []

    def lost(self) -> None:
        """The other node is out of view: send nothing."""
        self.connected = False

    def renewed(self, *, now_us: Instant) -> list[bytes]:
        """Go on with an incarnation that was away; returns the frames to send again."""
        self.connected = True
        return self._sender.renewed(now_us=now_us)

    # -- from the other node ---------------------------------------------------------------------------------

    def received(self, frame: bytes, *, now_us: Instant) -> Received:
        """Read a frame; ClusterError, and nothing has changed, if it is damaged."""
        found = decode_frame(frame)
        if isinstance(found, Ack):
            before = self._sender.acknowledged_upto
            again = self._sender.acknowledged(found, now_us=now_us)
            settled = self._sender.acknowledged_upto > before
            self._land()
            if found.closed:
                self._reclaim(now_us)
            return Received([], again, settled)
        receiver, number = self._receiver, found.number
        taken: list[list[Item | Addressed]] = []
        if not receiver.knows(number):
            taken = receiver.takes(number, list(_addressed(decode_items(found.body))), len(frame))
        # Its first frame says that the other node knows this one: what was sent before it did is lost.
        again = self._sender.renewed(now_us=now_us) if taken and number == 1 else []
        reply = receiver.ask(now_us=now_us) if taken else receiver.reply(number, now_us=now_us)
        if reply is not None:
            again.append(ack_frame(reply))
        return Received([item for items in taken for item in items], again, settled=False)

    def wants(self, wants: Wants) -> tuple[list[str], list[str]]:
        """Take a change of the other node's interest; returns the filters that are new, and that have ended.

        ClusterError, and nothing changes, if it does not follow what came before or is too much.
        """
        added, removed = self.theirs.apply(wants)
        self.backlog.changed(wants, removed)
        return added, removed

    @property
    def taken(self) -> int:
        """Number of the last frame whose items were handed out."""
        return self._receiver.upto

    def acknowledgement(self, upto: int) -> bytes:
        """The frame that says that everything up to a frame is in the hands of this node."""
        return ack_frame(self._receiver.acknowledgement(upto))

    def farewell(self) -> bytes:
        """The frame that says that this node stops, and takes nothing more."""
        return ack_frame(self._receiver.farewell())

    def inherit(self, before: PeerLink, *, now_us: Instant) -> None:
        """Take over what waits for an earlier incarnation of the other node, and was never sent to it."""
        self.theirs.presume(before.theirs.filters)
        self.backlog.inherit(before.backlog, now_us=now_us)
        self.shared.inherit(before.shared)

    def _land(self) -> None:
        upto = self._sender.acknowledged_upto
        self.shared.landed(upto)
        while self._flights and self._flights[0].number <= upto:
            self.backlog.landed(self._flights.popleft().taken)

    def _reclaim(self, now_us: Instant) -> None:
        """The other node stops and has not taken what is not acknowledged: that waits for its next start."""
        self._sender.withdraw()
        self.shared.reclaim()
        while self._flights:
            self.backlog.give_back(self._flights.pop().taken, now_us=now_us)
        self.connected = False

    # -- what can be known -----------------------------------------------------------------------------------

    @property
    def settled(self) -> int:
        """Serial number up to which every event is in the hands of the other node, or in a digest."""
        unsettled = self.backlog.unsettled
        return (min(self._flights[0].first, unsettled) if self._flights else unsettled) - 1

    @property
    def told(self) -> bool:
        """Whether the other node has acknowledged everything that is wanted here."""
        pending = self.interest.pending or self.groups.pending
        return not pending and self._told_in <= self._sender.acknowledged_upto

    @property
    def has_room(self) -> bool:
        """Whether the other node is in view, and something may be sent to it now."""
        return self.connected and self._sender.room > 0

    @property
    def idle(self) -> bool:
        """Whether the other node has everything, and knows everything that is wanted here."""
        waits = self._words or self._snapshot is not None or self.backlog.owed or not self.backlog.empty
        waits = waits or not self.shared.empty
        return self.told and not waits and not self._sender.in_flight

    @property
    def round_trip_us(self) -> int:
        """Smoothed time from sending a frame to its acknowledgement; 0: not known."""
        return self._sender.round_trip_us

    @property
    def resent(self) -> int:
        """Frames that were sent again."""
        return self._sender.resent

    @property
    def in_flight_bytes(self) -> int:
        """Bytes sent and not acknowledged."""
        return self._sender.in_flight_bytes

    def account(self) -> LinkAccount:
        """Every event accepted for the other node, and what became of it."""
        in_flight = sum(each.taken.shared for each in self._flights)
        return self.backlog.account(in_flight) + self.shared.account()

    def abandon(self) -> LinkAccount:
        """Give the other node up; returns the account, in which nothing waits any more.

        Events whose digests never arrived count as abandoned: as many as one receiver there misses at most.
        """
        untold = self.backlog.untold(each.taken for each in self._flights)
        self.backlog.abandon()
        self.shared.abandon()
        self._words.clear()
        self._snapshot = None
        account = self.account()
        self._flights.clear()
        self.connected = False
        untold = min(untold, account.digested)
        return LinkAccount(
            account.accepted,
            account.handed,
            account.digested - untold,
            abandoned=account.abandoned + account.in_flight + untold,
        )


def _addressed(items: Iterable[Item]) -> Iterator[Item | Addressed]:
    """Put an event together with the item before it that is about it; ClusterError if there is no event."""
    about: For | Ahead | None = None
    for item in items:
        if about is not None:
            if not isinstance(item, Carried):
                raise ClusterError("classes of receivers, or a lane, without an event")
            ahead = isinstance(about, Ahead)
            yield Addressed(None if isinstance(about, Ahead) else frozenset(about.classes), item, ahead)
            about = None
        elif isinstance(item, For | Ahead):
            about = item
        else:
            yield item
    if about is not None:
        raise ClusterError("a frame ends between classes of receivers and their event")
