"""The journal: which rows of the store change when messages, sessions and retained messages do.

The group commit of `node/store` writes the rows. A publisher's answer waits for the transaction that holds
its message, so nothing acknowledged is lost. A message that is settled before its row was written is never
written: a client that keeps up costs the disk little.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock import limits
from penstock.core.queues import PackingQueue
from penstock.errors import DigestError, printable
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.node.broker.records import RETAINED, MessageState, event_bytes, item_bytes, session_bytes
from penstock.node.broker.status import StoreStatus
from penstock.node.store import tables as sql
from penstock.node.store.row_backlog import RowBacklog
from penstock.node.store.writer import GroupCommit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.mqtt.sessions.identifiers import PacketIds
    from penstock.node.broker.records import SessionFacts
    from penstock.node.broker.subscription import Subscription
    from penstock.node.store.tables import Store

log = logging.getLogger(__name__)

GAP: Final = 64
"""Distance between the places of two messages. Digests get the places in between: the first half is for those
behind the message, the second for those before the next message, which may belong to another session."""


class _Reserved(NamedTuple):
    """A packet identifier that a message has before it is sent."""

    ids: PacketIds
    packet_id: int
    qos: int
    transaction: int
    """Number of the transaction before the one that has it."""


class Journal:
    """Notes what happens to messages and sessions as rows; answers wait until the rows are on disk."""

    def __init__(self, store: Store, *, last_place: int = 0) -> None:
        """`last_place` is the highest that the store holds: places of new messages follow it."""
        self._store = store
        self._last_place = last_place + -last_place % GAP
        """The place of the newest message; never that of a digest between two messages."""
        self._rows = RowBacklog(store, key=sql.place_of)
        """Messages have their places as numbers."""
        self._commits = GroupCommit(
            self._rows,
            name=store.path,
            meanwhile="publishers of what must survive a restart wait for their acknowledgement",
        )
        self._unsafe = False
        """Whether something was noted since `begin` that its publisher's answer must wait for."""
        self._reserved: dict[int, _Reserved] = {}
        """Packet identifiers of messages that wait, by place."""
        self._event: Event | None = None
        self._body = b""
        """The last message and its bytes: the next receiver mostly gets the same."""
        self._unwritable = False
        """Whether the log has a digest that cannot be written: one is enough."""
        self._sends = 0
        """Callbacks of `send_when_safe` that wait: all others are answers."""

    # -- messages of sessions --------------------------------------------------------------------------------

    def accepted(self, subscription: Subscription, event: Event) -> int:
        """Note a QoS 1 or 2 message for a session that is kept; returns the place it has from now on."""
        place = self._last_place = self._last_place + GAP
        if event is not self._event:
            self._event, self._body = event, event_bytes(event)
        self._rows.add_numbered(
            place,
            sql.PUT_MESSAGE,
            (
                place,
                subscription.client_id,
                subscription.filter,
                MessageState.QUEUED,
                0,
                self._body,
            ),
        )
        if not self._commits.scheduled:
            self._commits.soon()
        self._unsafe = True
        return place

    def kept(self, subscription: Subscription, digest: Digest) -> int:
        """Note a digest of another node for a session that is kept; returns its place."""
        place = self._last_place = self._last_place + GAP
        self._put(place, subscription, digest)
        self._unsafe = True
        return place

    def reserve(self, place: int, ids: PacketIds, *, qos: int, retain: bool, packet_id: int = 0) -> None:
        """Give a message that has to wait the packet identifier under which it will be sent, with its row.

        So it can leave as soon as its client takes it. After a crash it counts as sent: it may have been.
        `packet_id` is a free one that the message has to keep.
        """
        if packet_id:
            ids.hold(packet_id)
        else:
            packet_id = ids.take()
        self._reserved[place] = _Reserved(ids, packet_id, qos, self._commits.begun)
        self.sent(place, packet_id=packet_id, qos=qos, retain=retain)

    def take_reserved(self, place: int, qos: int) -> tuple[int, bool]:
        """The packet identifier of a message that is sent now, 0: none is reserved; whether it is on disk."""
        found = self._reserved.pop(place, None)
        if found is None:
            return 0, False
        if found.qos != qos:  # the client has subscribed anew
            found.ids.free(found.packet_id)
            return 0, False
        return found.packet_id, self._commits.written > found.transaction

    def sent(self, place: int, *, packet_id: int, qos: int, retain: bool) -> None:
        """Note that a message is in flight under a packet identifier, before it leaves."""
        state = MessageState.SENT_QOS2 if qos == 2 else MessageState.SENT_QOS1
        packet_id |= RETAINED * retain
        row = self._rows.fresh(place)
        if row is None:
            self._note(sql.MOVE_MESSAGE, state, packet_id, place)
        else:
            statement, old = row
            self._rows.replace(place, (statement, (*old[:3], state, packet_id, old[5])))

    def released(self, place: int, packet_id: int) -> None:
        """Note that the client has a QoS 2 message, before it is sent a PUBREL."""
        self._note(sql.MOVE_MESSAGE, MessageState.RELEASED, packet_id, place)

    def settled(self, place: int) -> None:
        """Note that a message was delivered or dropped, and can be deleted."""
        if self._reserved and (found := self._reserved.pop(place, None)) is not None:
            found.ids.free(found.packet_id)
        if not self._rows.cancel(place):
            self._note(sql.END_MESSAGE, place)

    def packed(self, subscription: Subscription, *, merged: bool) -> None:
        """Something was queued, or merged into the last digest. If the queue gave up items for it, note what
        the queue holds now."""
        queue = subscription.queue
        if queue is None:
            return
        dropped = queue.dropped - subscription.dropped_before
        # A queue that drops its oldest event each time is compared only now and then, since that takes a look
        # at the whole queue. Until then the store holds rows of dropped events, which do no harm.
        seldom = dropped < limits.JOURNAL_DROPS and not isinstance(queue, PackingQueue)
        # A pack that drops nothing may still merge digests.
        packs = queue.packs - subscription.packs_before
        if not merged and not packs and (not dropped or seldom):
            return
        subscription.dropped_before += dropped
        subscription.packs_before += packs
        items = queue.items()
        alive = {id(item) for item in items}
        places = subscription.places
        for key in [key for key in places if key not in alive]:
            self.settled(places.pop(key))
        taken = set(places.values())
        first = next((places[id(item)] for item in items if id(item) in places), 0)
        before = 0
        for item in items:
            place = places.get(id(item), 0)
            if isinstance(item, Digest) and not place:
                place = places[id(item)] = self._beside(before, first, taken)
                taken.add(place)
                self._put(place, subscription, item)
            before = place or before

    def _beside(self, before: int, first: int, taken: set[int]) -> int:
        """A place for a digest: behind the item at place `before`, or in front of the one at `first`; behind
        all messages if that place is taken."""
        place = before + 1 if before else first - 1
        half = GAP // 2
        free = 0 < place % GAP < half if before else first > 0 and place % GAP >= half
        if free and place not in taken:
            return place
        self._last_place += GAP
        return self._last_place

    def moved_in(self, client_id: str, filter_: str, state: MessageState, packet_id: int, body: bytes) -> int:
        """Note a message of a session that comes from another node; returns its place."""
        place = self._last_place = self._last_place + GAP
        self._rows.add_numbered(place, sql.PUT_MESSAGE, (place, client_id, filter_, state, packet_id, body))
        if not self._commits.scheduled:
            self._commits.soon()
        self._unsafe = True
        return place

    def let_go(self, places: Iterable[int]) -> None:
        """Messages leave with their session for another node; their rows stay until that one has them."""
        for place in places:
            self._reserved.pop(place, None)

    def keep_queue(self, subscription: Subscription) -> None:
        """The node stops: note all that waits, QoS 0 included. (After a crash, QoS 0 may be missing.)"""
        queue = subscription.queue
        if queue is None:
            return
        for place in subscription.places.values():
            self.settled(place)
        subscription.places.clear()
        for item in queue.items():
            if isinstance(item, Event | Digest):
                self._last_place += GAP
                self._put(self._last_place, subscription, item)

    def _put(self, place: int, subscription: Subscription, item: Event | Digest) -> None:
        state = MessageState.DIGEST if isinstance(item, Digest) else MessageState.QUEUED
        client_id, filter_ = subscription.client_id, subscription.filter
        try:
            body = item_bytes(item)
        except DigestError as error:  # publishers said they stand for more events than 64 bits can count
            if not self._unwritable:
                self._unwritable = True
                log.warning("%s", printable(f"client '{client_id}', filter '{filter_}': {error}"))
            return
        self._note(sql.PUT_MESSAGE, place, client_id, filter_, state, 0, body)

    # -- sessions and retained messages ----------------------------------------------------------------------

    def received(self, client_id: str, packet_id: int) -> None:
        """Note that a QoS 2 message of this client was accepted."""
        self._note(sql.PUT_RECEIVED, client_id, packet_id)
        self._unsafe = True

    def completed(self, client_id: str, packet_id: int) -> None:
        """Note that the client released a QoS 2 message: its packet identifier is free."""
        self._note(sql.END_RECEIVED, client_id, packet_id)

    def retained(self, event: Event) -> None:
        """Note the retained message of a topic; one without payload ends it."""
        if event.payload:
            self._note(sql.PUT_RETAINED, event.topic, event_bytes(event))
        else:
            self._note(sql.END_RETAINED, event.topic)
        self._unsafe = True

    def session_changed(self, client_id: str, facts: SessionFacts) -> None:
        """Note a session that is kept, whose expiry, subscriptions or connection have changed."""
        self._note(sql.PUT_SESSION, client_id, session_bytes(facts))
        self._unsafe = True

    def session_ended(self, client_id: str) -> None:
        """Note that a session is gone, or will not outlive its connection."""
        self._note(sql.END_SESSION, client_id)
        self._note(sql.END_MESSAGES, client_id)
        self._note(sql.END_ALL_RECEIVED, client_id)

    # -- writing ---------------------------------------------------------------------------------------------

    @property
    def fault(self) -> str:
        """Why the last transaction failed; empty if it did not."""
        return self._commits.fault

    @property
    def last_place(self) -> int:
        """The place of the newest message."""
        return self._last_place

    @property
    def choked(self) -> bool:
        """Whether so much waits for the disk that nothing more should be accepted."""
        return self._commits.choked

    @property
    def behind(self) -> bool:
        """Whether something is not on disk yet."""
        return self._commits.behind

    def begin(self) -> None:
        """A request begins: what is noted from now on must be on disk before it is answered."""
        self._unsafe = False

    def hold(self, safe: Callable[[], None], *, behind: bool = False) -> bool:
        """Call `safe` when what was noted since `begin` is on disk; False if nothing was: answer at once.

        `behind`: an earlier answer to the same client waits, and this one must not overtake it.
        """
        if not self._unsafe and not behind:
            return False
        self._unsafe = False
        self._commits.after_commit(safe)
        return True

    @property
    def transaction(self) -> int:
        """Number of the next transaction: what is noted while it stays the same is written together."""
        return self._commits.begun

    def send_when_safe(self, send: Callable[[], None]) -> None:
        """Call `send`, which lets packets leave for a receiver, when what was noted so far is on disk."""

        def call() -> None:
            self._sends -= 1
            send()

        self._sends += 1
        self._commits.after_commit(call)

    async def committed(self) -> None:
        """Wait until what was noted so far is on disk; cancelled if it is not when the journal closes."""
        await self._commits.committed()

    def start(self) -> None:
        """Write from now on, from the running loop."""
        self._commits.start()

    def _note(self, statement: str, *parameters: Any) -> None:
        self._rows.add(statement, parameters)
        if not self._commits.scheduled:
            self._commits.soon()

    def status(self) -> StoreStatus:
        """The journal at this moment."""
        commits = self._commits
        return StoreStatus(fault=commits.fault, rows=commits.rows, answers=commits.waiting - self._sends)

    async def close(self) -> None:
        """Write the rest and let go of the file; StoreError if it cannot be written."""
        await self._commits.close(self._store.close)
