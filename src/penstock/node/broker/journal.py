"""The journal: writes what must survive a restart while it happens.

Rows collect during a turn of the event loop and are written by a thread, one transaction at a time; what
comes meanwhile is the next transaction. A publisher's answer waits for the transaction that holds its
message, so nothing acknowledged is lost. A message that is settled before its row was written is not
written.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from penstock import limits
from penstock.core.queues import PackingQueue
from penstock.errors import StoreError
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.node.broker.records import MessageState, event_bytes, item_bytes, session_bytes
from penstock.node.broker.status import StoreStatus
from penstock.node.store import tables as sql

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.broker.delivery import Delivery
    from penstock.node.broker.session import Session
    from penstock.node.broker.subscription import Subscription
    from penstock.node.store.database import Row
    from penstock.node.store.tables import Store

log = logging.getLogger(__name__)


GAP: Final = 64
"""Between the places of messages, for digests: the first half for those behind the message, the second for
those before the next one, which may be another session's."""


class Journal:
    """The rows to be written, and who waits for them."""

    def __init__(self, store: Store, *, last_place: int = 0) -> None:
        self._store = store
        self._last_place = last_place + -last_place % GAP
        """Of a message; a digest's is one of those between two messages'."""
        self._rows: list[Row | None] = []
        self._fresh: dict[int, int] = {}
        """Where in `_rows` messages are that no transaction holds yet."""
        self._waiting: list[Callable[[], None]] = []
        self._unsafe = False
        """Whether something was noted that its publisher's answer must wait for."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._writing: asyncio.Future[None] | None = None
        self._under_way = (0, 0)
        """Rows in the transaction that is being written, and answers that wait for it."""
        self._scheduled = False
        self.fault = ""
        """Why the last transaction failed; empty if it did not."""

    # -- messages of sessions --------------------------------------------------------------------------------

    def accepted(self, session: Delivery, subscription: Subscription, event: Event) -> int:
        """A QoS 1 or 2 message was accepted for a session that is kept; its place from now on."""
        place = self._last_place = self._last_place + GAP
        self._fresh[place] = len(self._rows)
        self._note(
            sql.PUT_MESSAGE,
            place,
            session.client_id,
            subscription.filter,
            MessageState.QUEUED,
            0,
            event_bytes(event),
        )
        self._unsafe = True
        return place

    def sent(self, place: int, *, packet_id: int, qos: int) -> None:
        """It is in flight."""
        state = MessageState.SENT_QOS2 if qos == 2 else MessageState.SENT_QOS1
        at = self._fresh.get(place)
        row = self._rows[at] if at is not None else None
        if at is not None and row is not None:
            old = row[1]
            self._rows[at] = (row[0], (*old[:3], state, packet_id, old[5]))
        else:
            self._note(sql.MOVE_MESSAGE, state, packet_id, place)

    def released(self, place: int, packet_id: int) -> None:
        """The client has it (QoS 2) and was sent a PUBREL."""
        self._note(sql.MOVE_MESSAGE, MessageState.RELEASED, packet_id, place)

    def settled(self, place: int) -> None:
        """Nobody needs it any more."""
        at = self._fresh.pop(place, None)
        if at is not None:
            self._rows[at] = None
        else:
            self._note(sql.END_MESSAGE, place)

    def packed(self, session: Delivery, subscription: Subscription, *, merged: bool) -> None:
        """Something was queued, or merged into the last digest: if events or digests are gone for it, write
        down what the queue holds now."""
        queue = subscription.queue
        if queue is None:
            return
        dropped = queue.dropped - subscription.dropped_before
        # Dropping the oldest one by one is written down now and then: rows that are too many do no harm.
        seldom = dropped < limits.JOURNAL_DROPS and not isinstance(queue, PackingQueue)
        if not merged and (not dropped or seldom):
            return
        subscription.dropped_before += dropped
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
                self._put(place, session, subscription, item)
            before = place or before

    def _beside(self, before: int, first: int, taken: set[int]) -> int:
        """A digest's place behind another, or before the first one; at the end if neither is free."""
        place = before + 1 if before else first - 1
        half = GAP // 2
        free = 0 < place % GAP < half if before else first > 0 and place % GAP >= half
        if free and place not in taken:
            return place
        self._last_place += GAP
        return self._last_place

    def keep_queue(self, session: Session, subscription: Subscription) -> None:
        """The node ends: write down what waits, QoS 0 included, which nobody would miss after a crash."""
        queue = subscription.queue
        if queue is None:
            return
        for place in subscription.places.values():
            self.settled(place)
        subscription.places.clear()
        for item in queue.items():
            if isinstance(item, Event | Digest):
                self._last_place += GAP
                self._put(self._last_place, session, subscription, item)

    def _put(self, place: int, session: Delivery, subscription: Subscription, item: Event | Digest) -> None:
        state = MessageState.DIGEST if isinstance(item, Digest) else MessageState.QUEUED
        self._note(sql.PUT_MESSAGE, place, session.client_id, subscription.filter, state, 0, item_bytes(item))

    # -- everything else -------------------------------------------------------------------------------------

    def received(self, session: Session, packet_id: int) -> None:
        """A QoS 2 message of this client was accepted."""
        self._note(sql.PUT_RECEIVED, session.client_id, packet_id)
        self._unsafe = True

    def completed(self, session: Session, packet_id: int) -> None:
        """The client released it."""
        self._note(sql.END_RECEIVED, session.client_id, packet_id)

    def retained(self, event: Event) -> None:
        """A topic's retained message has changed."""
        if event.payload:
            self._note(sql.PUT_RETAINED, event.topic, event_bytes(event))
        else:
            self._note(sql.END_RETAINED, event.topic)
        self._unsafe = True

    def session_changed(self, session: Session) -> None:
        """Its expiry, its subscriptions or its connection have changed."""
        if session.expiry_s:
            self._note(sql.PUT_SESSION, session.client_id, session_bytes(session))
            session.written = True
            self._unsafe = True
        elif session.written:
            self.session_ended(session)

    def session_ended(self, session: Session) -> None:
        """It departed, or will with its connection."""
        if session.written:
            session.written = False
            self._note(sql.END_SESSION, session.client_id)
            self._note(sql.END_MESSAGES, session.client_id)
            self._note(sql.END_ALL_RECEIVED, session.client_id)

    # -- writing ---------------------------------------------------------------------------------------------

    @property
    def choked(self) -> bool:
        """Whether so much waits for the disk that nothing more should be accepted."""
        return len(self._rows) + self._under_way[0] > limits.JOURNAL_ROWS

    @property
    def behind(self) -> bool:
        """Whether something is not on disk yet."""
        return bool(self._rows) or self._writing is not None

    def begin(self) -> None:
        """A request begins: what is noted from now on must be on disk before it is answered."""
        self._unsafe = False

    def hold(self, safe: Callable[[], None], *, behind: bool = False) -> bool:
        """Call `safe` when what was noted since `begin` is on disk; False: nothing was.

        `behind`: an earlier answer to the same client waits, and this one must not overtake it.
        """
        if not self._unsafe and not behind:
            return False
        self._unsafe = False
        self._waiting.append(safe)
        if not self._scheduled:
            self._soon()
        return True

    def start(self) -> None:
        """Write from now on, from the running loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="penstock-store")
        if self._rows:
            self._soon()

    def _note(self, statement: str, *parameters: Any) -> None:
        self._rows.append((statement, parameters))
        if not self._scheduled:
            self._soon()

    def _soon(self, delay_s: float = 0.0) -> None:
        if self._loop is not None and self._writing is None:
            self._scheduled = True
            if delay_s:
                self._loop.call_later(delay_s, self._begin)
            else:
                self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        """Hand what has collected to the thread."""
        self._scheduled = False
        if self._writing is not None or self._thread is None or self._loop is None:
            return
        rows = [row for row in self._rows if row is not None]
        waiting = self._waiting
        self._rows, self._waiting, self._fresh = [], [], {}
        if not rows:
            for safe in waiting:
                safe()
            return
        self._under_way = len(rows), len(waiting)
        self._writing = self._loop.run_in_executor(self._thread, self._store.write, rows)
        self._writing.add_done_callback(lambda done: self._written(done, rows, waiting))

    def _written(
        self, done: asyncio.Future[None], rows: list[Row], waiting: list[Callable[[], None]]
    ) -> None:
        self._writing = None
        self._under_way = 0, 0
        error = done.exception()
        if error is None:
            if self.fault:
                log.warning("the store can be written again")
            self.fault = ""
            for safe in waiting:
                safe()
            if self._rows or self._waiting:
                self._soon()
            return
        # Nobody is answered: what was accepted is in memory, and tried again until it is on disk.
        text = str(error) if isinstance(error, StoreError) else repr(error)
        if text != self.fault:
            log.error(
                "%s; trying again every %g s, until then publishers of what must survive a restart wait for "
                "their acknowledgement",
                text,
                limits.JOURNAL_RETRY_S,
            )
        self.fault = text
        self._fresh = {place: at + len(rows) for place, at in self._fresh.items()}
        self._rows = [*rows, *self._rows]
        self._strike_out()
        self._waiting = [*waiting, *self._waiting]
        self._soon(limits.JOURNAL_RETRY_S)

    def _strike_out(self) -> None:
        """Try again only the newest of rows that take one another's place: a full disk may stay full."""
        newer: set[tuple[Any, ...]] = set()
        for at, row in reversed(list(enumerate(self._rows))):
            place = sql.place_of(row) if row is not None else None
            if place in newer:
                self._rows[at] = None
            elif place is not None:
                newer.add(place)

    def status(self) -> StoreStatus:
        """The journal at this moment."""
        rows, answers = self._under_way
        return StoreStatus(
            fault=self.fault, rows=len(self._rows) + rows, answers=len(self._waiting) + answers
        )

    async def close(self) -> None:
        """Write the rest and let go of the file; StoreError if it cannot be written."""
        tried = False
        while self._writing is not None or (self._rows and not (self.fault and tried)):
            if self._writing is None:  # once more if the disk was full: it may not be any more
                tried = True
                self._begin()
            await asyncio.sleep(0.001)
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        fault = self.fault
        self._store.close()
        if fault:
            raise StoreError(f"{len(self._rows)} rows could not be written: {fault}", self._store.path)
