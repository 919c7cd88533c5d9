"""The outbox: one bounded queue for each subscriber and policy, packed by that policy.

The outbox touches no disk and no clock. `take_rows` returns what must survive a restart, `OutboxWriter`
writes it, `restore` makes the queues again. Every change taken is sent, counted in a digest that was sent,
forgotten with its subscription, or waiting (`OutboxStatistics.conserved`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.channels.difference import to_json
from penstock.core.queues import PackingQueue, QueueOptions
from penstock.model.digest import Digest
from penstock.model.digest_wire import from_bytes, to_bytes
from penstock.model.event import Event
from penstock.node.notify import subscriber_queue as sql
from penstock.node.notify.status import OutboxStatistics
from penstock.node.notify.subscriber_queue import HeldChanges, SubscriberQueue, changes_in, when
from penstock.node.notify.transport import PAUSED, RETURNED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.core.channels.delta import Delta
    from penstock.core.channels.subscriptions import ChannelSubscription
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.node.store.database import Row
    from penstock.policy.columns import Plan


class Outbox:
    """The queues of all subscribers."""

    def __init__(self, plan_of: Callable[[str], Plan], options: QueueOptions) -> None:
        self._plan_of = plan_of
        """Makes the plan of a subscription's policy, or of the default policy if that cannot be read."""
        self._options = options
        self._lanes: dict[str, dict[str, SubscriberQueue]] = {}
        self._held: dict[str, dict[str, HeldChanges]] = {}
        self._encoded: tuple[Delta, bytes] | None = None
        """The last change and its bytes, which all its subscribers share."""
        self._place = 0
        self._rows: list[Row] = []
        self._all = False
        """Whether all rows are written again, because too many waited for the disk."""
        self.noted: Callable[[], None] = lambda: None
        """Called when there are rows to write."""
        self._taken = self._sent = self._digested = self._forgotten = self._waiting = 0

    # -- in --------------------------------------------------------------------------------------------

    def put(self, subscribed: ChannelSubscription, delta: Delta, *, now_us: Instant) -> None:
        """Take a change for a subscriber; while the subscription is paused it is only counted."""
        who, url, policy = subscribed.who, delta.url, subscribed.policy
        self._taken += 1
        self._waiting += 1
        if subscribed.paused:
            self._hold(who, url, policy, delta.at_us)
            return
        self.release(who, url, now_us=now_us)
        lane = self._lane(who, policy)
        lane.seq += 1
        if self._encoded is None or self._encoded[0] is not delta:
            self._encoded = (delta, to_json(delta))
        event = sql.event(url, self._encoded[1], ts_us=delta.at_us, seq=lane.seq)
        self._offer(who, policy, event, now_us=now_us)

    def _hold(self, who: str, url: str, policy: str, at_us: Instant) -> None:
        one = Digest(1, at_us, at_us, 0, 0, ((PAUSED, 1),))
        before = self._held.setdefault(who, {}).get(url)
        held = self._held[who][url] = HeldChanges(policy, one if before is None else before.digest.merge(one))
        self._note(sql.HOLD, who, url, policy, to_bytes(held.digest))

    def release(self, who: str, url: str, *, now_us: Instant) -> None:
        """End the pause of a subscription: changes during the pause become one digest."""
        found = self._held.get(who, {}).pop(url, None)
        if found is not None:
            if not self._held[who]:
                del self._held[who]
            self._note(sql.RELEASE, who, url)
            self._offer(who, found.policy, found.digest, now_us=now_us)

    def _offer(self, who: str, policy: str, item: Event | Digest, *, now_us: Instant) -> None:
        lane = self._lane(who, policy)
        packs = lane.queue.packs
        lane.queue.offer(item, now_us=now_us)
        merged = isinstance(item, Digest) and lane.queue.items()[-1] is not item
        if lane.queue.packs > packs or merged:
            self._rewrite(who, policy, lane)
        else:
            self._write(who, policy, lane, item)

    def _lane(self, who: str, policy: str) -> SubscriberQueue:
        lanes = self._lanes.setdefault(who, {})
        if policy not in lanes:
            lanes[policy] = SubscriberQueue(PackingQueue(self._plan_of(policy), self._options))
        return lanes[policy]

    # -- out -------------------------------------------------------------------------------------------

    def next(self, who: str) -> Event | Digest | None:
        """Return what to send next; the same item until `settled` is called."""
        lanes = self._lanes.get(who, {}).values()
        for lane in lanes:
            if lane.sending is not None:
                return lane.sending
        full = [(when(head), lane) for lane in lanes if (head := lane.queue.head()) is not None]
        if not full:
            return None
        lane = min(full, key=lambda pair: pair[0])[1]
        (item,) = lane.queue.take(1)
        assert isinstance(item, Event | Digest)
        lane.sending = item
        return item

    def settled(self, who: str, item: Event | Digest) -> None:
        """Remove an item that was sent; nothing changes if its subscription ended meanwhile."""
        lanes = self._lanes.get(who, {})
        for policy, lane in lanes.items():
            if lane.sending is item:
                lane.sending = None
                self._note(sql.END, lane.places.pop(id(item)))
                self._waiting -= changes_in(item)
                if isinstance(item, Event):
                    self._sent += 1
                else:
                    self._digested += item.count
                self._sweep(who, policy)
                return

    def returned(self, who: str, what: Delta | Digest, *, now_us: Instant) -> None:
        """Put an item that counted as sent but came back into a digest."""
        if isinstance(what, Digest):
            self._digested -= what.count
            self._waiting += what.count
            self._offer(who, "", what, now_us=now_us)
        else:
            self._sent -= 1
            self._waiting += 1
            digest = Digest(1, what.at_us, what.at_us, 0, 0, ((RETURNED, 1),))
            self._offer(who, "", digest, now_us=now_us)

    def forget(self, who: str, url: str) -> None:
        """Drop the changes of a subscription that ended; digests shared with other channels stay."""
        held = self._held.get(who, {}).pop(url, None)
        if held is not None:
            if not self._held[who]:
                del self._held[who]
            self._note(sql.RELEASE, who, url)
            self._lose(held.digest.count)
        for policy, lane in list(self._lanes.get(who, {}).items()):
            kept = [item for item in lane.items() if not (isinstance(item, Event) and item.sender == url)]
            gone = len(lane.items()) - len(kept)
            if not gone:
                continue
            self._lose(gone)
            if isinstance(lane.sending, Event) and lane.sending.sender == url:
                lane.sending = None
            queue = PackingQueue(self._plan_of(policy), self._options)
            queue.absorb(kept[lane.sending is not None :], now_us=0)
            lane.queue = queue
            self._rewrite(who, policy, lane)
            self._sweep(who, policy)

    def drop(self, who: str) -> None:
        """Drop everything of a subscriber that ended all subscriptions."""
        for url in list(self._held.get(who, {})):
            self._lose(self._held[who].pop(url).digest.count)
            self._note(sql.RELEASE, who, url)
        self._held.pop(who, None)
        for policy, lane in self._lanes.pop(who, {}).items():
            self._lose(sum(map(changes_in, lane.items())))
            self._note(sql.END_LANE, who, policy)

    def _lose(self, count: int) -> None:
        self._waiting -= count
        self._forgotten += count

    def _sweep(self, who: str, policy: str) -> None:
        """Delete a queue that is empty: most subscribers are up to date most of the time."""
        if not self._lanes[who][policy].items():
            del self._lanes[who][policy]
            if not self._lanes[who]:
                del self._lanes[who]

    # -- rows for the store ----------------------------------------------------------------------------

    def _write(self, who: str, policy: str, lane: SubscriberQueue, item: Item) -> None:
        statement, parameters = self._row(who, policy, lane, item)
        self._note(statement, *parameters)

    def _row(self, who: str, policy: str, lane: SubscriberQueue, item: Item) -> Row:
        place = self._place = self._place + 1
        lane.places[id(item)] = place
        return sql.row(place, who, policy, item)

    def _rewrite(self, who: str, policy: str, lane: SubscriberQueue) -> None:
        """Write all rows of a queue again, because it packed some items into digests."""
        self._note(sql.END_LANE, who, policy)
        lane.places.clear()
        for item in lane.items():
            self._write(who, policy, lane, item)

    def _note(self, statement: str, *parameters: object) -> None:
        if len(self._rows) >= limits.JOURNAL_ROWS:
            self.unwritten()
        if not self._all:
            self._rows.append((statement, parameters))
        self.noted()

    def unwritten(self) -> None:
        """Write all rows with the next transaction, because the last one failed."""
        self._rows.clear()
        self._all = True

    @property
    def unwritten_rows(self) -> int:
        """Return how many rows wait to be written, about."""
        return max(1, self._waiting) if self._all else len(self._rows)

    def take_rows(self) -> list[Row]:
        """Return the rows to write, in this order and in one transaction."""
        rows, self._rows = self._rows, []
        if self._all:
            self._all = False
            rows = [(sql.END_ALL, ()), (sql.RELEASE_ALL, ())]
            for who, lanes in self._lanes.items():
                for policy, lane in lanes.items():
                    lane.places.clear()
                    rows += [self._row(who, policy, lane, item) for item in lane.items()]
            for who, held in self._held.items():
                rows += [
                    (sql.HOLD, (who, url, one.policy, to_bytes(one.digest))) for url, one in held.items()
                ]
        return rows

    def restore(self, waiting: Iterable[sql.WaitingRow], held: Iterable[sql.HeldRow]) -> None:
        """Restore the queues from stored rows; DigestError if a row is damaged."""
        found: dict[tuple[str, str], list[Item]] = {}
        for place, who, policy, url, ts_us, seq, body in waiting:
            lane = self._lane(who, policy)
            item = sql.event(url, body, ts_us=ts_us, seq=seq) if url else from_bytes(body)
            lane.seq = max(lane.seq, seq)
            lane.places[id(item)] = place
            found.setdefault((who, policy), []).append(item)
            self._taken += changes_in(item)
            self._waiting += changes_in(item)
            self._place = max(self._place, place)
        for (who, policy), items in found.items():
            lane = self._lane(who, policy)
            lane.queue.absorb(items, now_us=max(map(when, items)))
            if len(lane.queue) != len(items):  # the bound is smaller than before, or digests were merged
                self._rewrite(who, policy, lane)
        for who, url, policy, body in held:
            digest = from_bytes(body)
            self._held.setdefault(who, {})[url] = HeldChanges(policy, digest)
            self._taken += digest.count
            self._waiting += digest.count

    # -- status ----------------------------------------------------------------------------------------

    def waiting(self) -> Iterator[str]:
        """Return the subscribers for whom something waits that is not paused."""
        yield from self._lanes

    def holds(self, who: str, delta: Delta) -> bool:
        """Whether a change waits for a subscriber, as itself or counted while paused."""
        held = self._held.get(who, {}).get(delta.url)
        if held is not None and held.digest.from_us <= delta.at_us <= held.digest.to_us:
            return True
        events = (item for lane in self._lanes.get(who, {}).values() for item in lane.items())
        return any(
            isinstance(item, Event) and item.sender == delta.url and item.payload == to_json(delta)
            for item in events
        )

    def waits(self, who: str) -> bool:
        """Whether something waits for a subscriber that is not paused."""
        return who in self._lanes

    def count(self, who: str) -> int:
        """Return the number of changes that wait for one subscriber."""
        lanes = sum(changes_in(item) for lane in self._lanes.get(who, {}).values() for item in lane.items())
        return lanes + sum(held.digest.count for held in self._held.get(who, {}).values())

    def statistics(self) -> OutboxStatistics:
        """Return the numbers of all queues together."""
        return OutboxStatistics(
            taken=self._taken,
            sent=self._sent,
            digested=self._digested,
            waiting=self._waiting,
            forgotten=self._forgotten,
            subscribers=len(self._lanes) + sum(who not in self._lanes for who in self._held),
        )
