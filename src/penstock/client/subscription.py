"""A subscription: an asynchronous iterator over events and digests, with a buffer of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, Self

from penstock.client.buffer import Buffer
from penstock.client.items import item_of
from penstock.client.places import Places
from penstock.client.statistics import Taken
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.mqtt.topics import matches, shared_of

if TYPE_CHECKING:
    from penstock.client.receipts import Receipt
    from penstock.client.wanted import Wanted
    from penstock.core.queues import QueueStatistics
    from penstock.model.instant import Instant
    from penstock.mqtt.publish import Publish


class Client(Protocol):
    """Who made a subscription."""

    def relieved(self) -> None:
        """The program has caught up a little."""
        ...

    def taken(self, receipt: Receipt) -> None:
        """It took a message of QoS 1 or 2."""
        ...

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End it."""
        ...


class Subscription:
    """Events and digests that match a filter, in order: `async for item in subscription`.

    It ends when it is closed, or with the client; an error of the connection or the node is raised from the
    iteration once everything before it was taken.
    """

    def __init__(self, client: Client, wanted: Wanted, *, number: int) -> None:
        self.filter = wanted.options.filter
        self.wanted = wanted
        self.number = number
        """Its MQTT subscription identifier; 0: none."""
        self.alone = wanted.alone
        self.strict = wanted.start is not None
        """Whether it takes of streams only what carries its identifier: all else comes again, in order."""
        self.places = Places(wanted.start)
        self.granted_qos = wanted.options.qos
        """What the node granted."""
        self._plain = shared_of(self.filter).filter
        self._client = client
        self._buffer: Buffer[Receipt] = Buffer(wanted.queue())
        self._high = max(1, wanted.buffer_events // 2)
        self._low = wanted.buffer_events // 4
        self._high_bytes = self._buffer.queue.options.capacity_bytes // 2
        self._doing: list[Receipt] = []
        """What is owed for items that the program has taken and not done with."""
        self._some = asyncio.Event()
        self._ended = False
        self._error: Exception | None = None
        self._events = 0
        self._digests = 0
        self._digested = 0
        self._abandoned = (0, 0)
        """Events, and events counted in digests."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event | Digest:
        item = await self.get()
        if item is None:
            raise StopAsyncIteration
        return item

    async def get(self) -> Event | Digest | None:
        """The next item; None when there will be none any more."""
        while (item := self.take()) is None:
            if self._ended:
                if self._error is not None:
                    raise self._error
                return None
            self._some.clear()
            await self._some.wait()
        return item

    def take(self) -> Event | Digest | None:
        """The next item if one is there; of QoS 1 or 2, it is acknowledged by being taken, or by `done`."""
        found = self._buffer.take()
        if found is None:
            return None
        item, receipt = found
        if receipt is not None:
            if self.wanted.acknowledge == "done":
                self._doing.append(receipt)
            else:
                self._client.taken(receipt)
        if len(self._buffer) <= self._low:
            self._client.relieved()
        assert isinstance(item, Event | Digest)
        return item

    def done(self) -> None:
        """With `acknowledge="done"`: everything taken so far is done with, and acknowledged now.

        What is not comes again after a crash of this program. A node sends no more than 1,024 messages ahead.
        """
        doing, self._doing = self._doing, []
        for receipt in doing:
            self._client.taken(receipt)

    async def close(self) -> None:
        """End the subscription; what the program has not taken is given up and acknowledged."""
        if not self._ended:
            await self._client.unsubscribe(self)

    # -- the client's side -----------------------------------------------------------------------------------

    @property
    def behind(self) -> bool:
        """Whether the program should catch up before more is read."""
        if self.wanted.when_slow != "wait" or self._ended:
            return False
        return len(self._buffer) >= self._high or self._buffer.queue.bytes >= self._high_bytes

    @property
    def behind_still(self) -> bool:
        """Whether it has not caught up enough to read on."""
        if self.wanted.when_slow != "wait" or self._ended:
            return False
        return len(self._buffer) > self._low or self._buffer.queue.bytes > self._high_bytes // 2

    def matches(self, topic: str) -> bool:
        """Whether messages of this topic are for it."""
        return matches(self._plain, topic)

    def put(self, message: Publish, receipt: Receipt | None, *, now_us: Instant) -> None:
        """A message for it, unless it came before."""
        if not self.places.passes(message.properties.user):
            return
        item = item_of(message, now_us=now_us, seq=self._events + 1)
        if isinstance(item, Event):
            self._events += 1
        else:
            self._digests += 1
            self._digested += item.count
        if receipt is not None:
            receipt.holders += 1
        # A digest may be merged with the one before it; what is packed here is in safe hands already.
        held = receipt if isinstance(item, Event) and self.wanted.when_slow == "wait" else None
        dropped = self._buffer.offer(item, held, now_us=now_us)
        for each in dropped if held is receipt or receipt is None else [*dropped, receipt]:
            self._client.taken(each)
        self._some.set()

    def end(self, error: Exception | None = None, *, give_up: bool = False) -> None:
        """Nothing more will come; what is in the buffer can still be taken, unless it is given up."""
        if give_up:
            before, owed = self._buffer.clear()
            events, digested = self._abandoned
            self._abandoned = (events + before.queued, digested + before.queued_digested)
            for each in owed:
                self._client.taken(each)
        if not self._ended:
            self._ended = True
            self._error = error
        self._some.set()

    # -- what can be known -----------------------------------------------------------------------------------

    def statistics(self) -> Taken:
        """What came, and what became of it."""
        queue = self._buffer.queue.statistics()
        events, digested = self._abandoned
        return Taken(
            events=self._events,
            digests=self._digests,
            digested=self._digested,
            taken=queue.delivered - events,
            taken_digested=queue.digested - digested,
            waiting=queue.queued + queue.queued_digested,
            abandoned=events + digested,
            repeated=self.places.repeated,
        )

    def buffer(self) -> QueueStatistics:
        """Its buffer on this side."""
        return self._buffer.queue.statistics()
