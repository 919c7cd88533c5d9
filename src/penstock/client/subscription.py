"""`Subscription`: an asynchronous iterator over events and digests, with its options and its own buffer.

A PUBLISH becomes an event, or a `ReceivedDigest` that stands for events the node dropped.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from penstock import limits
from penstock.client.buffer import Buffer
from penstock.client.receipts import StreamPositions
from penstock.client.statistics import ReceiveStatistics
from penstock.core.queues import DropOldestQueue, PackingQueue, QueueOptions
from penstock.errors import DigestError, InputError, PolicyError
from penstock.model.digest import Digest
from penstock.model.digest_wire import from_message, is_marked
from penstock.model.event import Event
from penstock.mqtt.topics import SHARE, matches, shared_of

if TYPE_CHECKING:
    from penstock.client.receipts import Receipt
    from penstock.core.queues import BoundedQueue, QueueStatistics
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.publish import Publish
    from penstock.mqtt.packets.subscribe import Subscription as Options
    from penstock.policy.columns import Plan
    from penstock.policy.nodes import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionOptions:
    """The options of a subscription."""

    options: Options
    user: tuple[tuple[str, str], ...] = ()
    """User properties of the SUBSCRIBE: policy, content filter and the wish for digests."""
    start: int | None = None
    """Tick to begin with in reliable streams, or None to begin with new messages."""
    plan: Plan | None = None
    """The policy, if its text is known here."""
    when_slow: Literal["wait", "pack"] = "wait"
    buffer_events: int = limits.QUEUE_EVENTS
    acknowledge: Literal["taken", "done"] = "taken"

    def __post_init__(self) -> None:
        if self.acknowledge not in ("taken", "done"):
            raise InputError(f"acknowledge is '{self.acknowledge}'; it is 'taken' or 'done'")
        if self.when_slow not in ("wait", "pack"):
            raise InputError(f"when_slow is '{self.when_slow}'; it is 'wait' or 'pack'")

    @property
    def alone(self) -> bool:
        """Whether a node sends it a separate copy, also of messages that other subscriptions get."""
        judged = any(name in ("policy", "filter") for name, _ in self.user)
        return judged or self.options.no_local or self.options.filter.startswith(SHARE)

    @property
    def choosy(self) -> bool:
        """Whether a node may leave out messages that the filter matches."""
        return self.options.no_local or any(name == "filter" for name, _ in self.user)

    def queue(self) -> BoundedQueue:
        """Make the buffer for items that the program has not taken."""
        options = QueueOptions(capacity_events=self.buffer_events, digests_at_once=True)
        if self.plan is not None:
            return PackingQueue(self.plan, options)
        if self.options.qos:
            # As on a node: QoS 1 and 2 lose nothing by policy, the bound is where the client protects itself.
            options = QueueOptions(
                capacity_events=max(self.buffer_events, limits.FIRM_EVENTS), capacity_bytes=limits.FIRM_BYTES
            )
        return DropOldestQueue(options)


def told(
    *,
    policy: Policy | str | None,
    content: str | None,
    fresh: str | float | None = None,
    digests: str | None = None,
) -> tuple[tuple[str, str], ...]:
    """Return the user properties of a SUBSCRIBE."""
    if digests not in (None, "compact", "json", "off"):
        raise InputError(f"digests is {digests!r}; it is 'compact', 'json' or 'off'")
    time = f"{fresh:g}s" if isinstance(fresh, int | float) else fresh
    said = {
        "policy": _written(policy),
        "filter": content,
        "fresh": time,
        "digests": digests or "on",
    }
    return tuple((name, text) for name, text in said.items() if text is not None)


def _written(policy: Policy | str | None) -> str | None:
    if policy is None or isinstance(policy, str):
        return policy
    from penstock.policy.text.forms import to_json  # noqa: PLC0415  # needs YAML and RE2

    return to_json(policy, compact=True)


def first_tick(start: str | int | None) -> int | None:
    """Return the tick to begin with in reliable streams; raises InputError for a wrong `start`."""
    if start == "earliest":
        return 0
    if isinstance(start, str) or (start is not None and start < 0):
        raise InputError(f"start is {start!r}; it is 'earliest' or a tick")
    return start


def plan_of(policy: Policy | str) -> Plan:
    """Compile a policy or its text; raises PolicyError if the text is wrong."""
    from penstock.policy.columns import Plan  # noqa: PLC0415  # needs numpy
    from penstock.policy.text.forms import parse  # noqa: PLC0415  # needs YAML and RE2

    return Plan(parse(policy, source="policy") if isinstance(policy, str) else policy)


def plan_here(policy: Policy | str | None) -> Plan | None:
    """Compile the policy for the client's own buffer; None for a name that only the node knows."""
    try:
        return None if policy is None else plan_of(policy)
    except PolicyError:
        return None  # a name, or a mistake that the node will explain


class ReceivedDigest(Digest, frozen=True, array_like=True):
    """A digest as a node sent it: with its topic and its JSON object.

        print(item.topic, item.count, item.told["attributes"])

    It has all fields of `Digest`; merging two gives a plain `Digest`.
    """

    topic: str = ""
    told: dict[str, Any] = {}  # noqa: RUF012  # msgspec makes a new one for each
    """The digest as JSON, sent so by the node or made of the compact form here; distinct counts and
    quantiles are estimates."""


class ReceivedEvent(Event, frozen=True, gc=False, eq=False, kw_only=True):
    """An event as a node sent it.

        print(item.topic, item.payload, item.packet.retain)

    It has all fields of `Event`.
    """

    packet: Publish
    """The PUBLISH itself: its QoS, RETAIN and all its properties."""


def item_of(
    message: Publish, *, now_us: Instant, seq: int, filter_: str = ""
) -> ReceivedEvent | ReceivedDigest:
    """Make an event or a digest of a message; one that is wrongly marked as a digest is an event."""
    if is_marked(message.properties.user):
        found = _digest(message, filter_)
        if found is not None:
            return found
    properties = message.properties
    return ReceivedEvent(
        message.topic,
        message.payload,
        now_us,
        seq=seq,
        properties=properties.user,
        content_type=properties.content_type or "",
        packet=message,
    )


def _digest(message: Publish, filter_: str) -> ReceivedDigest | None:
    try:
        read, told = from_message(message.payload)
    except DigestError:
        return None
    fields = {name: getattr(read, name) for name in Digest.__struct_fields__}
    return ReceivedDigest(**fields, topic=message.topic, told={"filter": filter_} | told)


class SubscriptionOwner(Protocol):
    """The client that made a subscription."""

    def relieved(self) -> None:
        """Called when the program has taken items."""
        ...

    def taken(self, receipt: Receipt) -> None:
        """Called when the program has taken a message of QoS 1 or 2."""
        ...

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription at the node."""
        ...


class Subscription:
    """Events and digests that match a topic filter, in order; made by `Client.subscribe`.

        async for item in subscription:
            if isinstance(item, Digest):
                print(f"{item.count} events were dropped here")
            else:
                print(item.topic, item.payload)

    The iteration ends when the subscription or the client is closed. An error of the connection or the node
    is raised from the iteration once all items before it were taken.
    """

    def __init__(self, client: SubscriptionOwner, wanted: SubscriptionOptions, *, number: int) -> None:
        self.filter = wanted.options.filter
        self.wanted = wanted
        self.number = number
        """MQTT subscription identifier; 0: none."""
        self.alone = wanted.alone
        self.strict = wanted.start is not None
        """Whether it accepts of streams only messages with its identifier; others are sent again."""
        self.places = StreamPositions(wanted.start)
        self.granted_qos = wanted.options.qos
        """QoS that the node granted."""
        self._plain = shared_of(self.filter).filter
        self._client = client
        self._buffer: Buffer[Receipt] = Buffer(wanted.queue())
        self._high = max(1, wanted.buffer_events // 2)
        self._low = wanted.buffer_events // 4
        self._high_bytes = self._buffer.queue.options.capacity_bytes // 2
        self._doing: list[Receipt] = []
        """Receipts of items that the program has taken but not marked as done."""
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

    async def __anext__(self) -> ReceivedEvent | Digest:
        item = await self.get()
        if item is None:
            raise StopAsyncIteration
        return item

    async def get(self) -> ReceivedEvent | Digest | None:
        """Wait for the next item; return None when the subscription has ended.

        Raises ClientError if it ended with an error of the connection or the node.
        """
        while (item := self.take()) is None:
            if self._ended:
                if self._error is not None:
                    raise self._error
                return None
            self._some.clear()
            await self._some.wait()
        return item

    def take(self) -> ReceivedEvent | Digest | None:
        """Return the next item if one waits, else None.

        A message of QoS 1 or 2 is acknowledged by this, or by `done` with `acknowledge="done"`.
        """
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
        assert isinstance(item, ReceivedEvent | Digest)
        return item

    def done(self) -> None:
        """With `acknowledge="done"`: acknowledge all messages taken so far.

        Messages that are not acknowledged are sent again after a crash of this program. A node sends no more
        than 1,024 messages ahead.
        """
        doing, self._doing = self._doing, []
        for receipt in doing:
            self._client.taken(receipt)

    async def close(self) -> None:
        """Unsubscribe; items that the program has not taken are discarded and acknowledged."""
        if not self._ended:
            await self._client.unsubscribe(self)

    # -- the client's side -----------------------------------------------------------------------------------

    @property
    def behind(self) -> bool:
        """Whether the buffer is so full that reading should stop."""
        if self.wanted.when_slow != "wait" or self._ended:
            return False
        return len(self._buffer) >= self._high or self._buffer.queue.bytes >= self._high_bytes

    @property
    def behind_still(self) -> bool:
        """Whether the buffer is still too full for reading to resume."""
        if self.wanted.when_slow != "wait" or self._ended:
            return False
        return len(self._buffer) > self._low or self._buffer.queue.bytes > self._high_bytes // 2

    def matches(self, topic: str) -> bool:
        """Whether the filter of the subscription matches a topic."""
        return matches(self._plain, topic)

    def put(self, message: Publish, receipt: Receipt | None, *, now_us: Instant) -> None:
        """Put a message into the buffer, unless it was received before."""
        if not self.places.passes(message.properties.user):
            return
        item = item_of(message, now_us=now_us, seq=self._events + 1, filter_=self.filter)
        if isinstance(item, ReceivedEvent):
            self._events += 1
        else:
            self._digests += 1
            self._digested += item.count
        if receipt is not None:
            receipt.holders += 1
        # A digest may be merged with the one before it; messages packed here count as received.
        held = receipt if isinstance(item, ReceivedEvent) and self.wanted.when_slow == "wait" else None
        dropped = self._buffer.offer(item, held, now_us=now_us)
        for each in dropped if held is receipt or receipt is None else [*dropped, receipt]:
            self._client.taken(each)
        self._some.set()

    def end(self, error: Exception | None = None, *, give_up: bool = False) -> None:
        """End the iteration; items in the buffer can still be taken, unless `give_up` discards them."""
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

    def statistics(self) -> ReceiveStatistics:
        """Return counts of items received, taken, waiting and discarded."""
        queue = self._buffer.queue.statistics()
        events, digested = self._abandoned
        return ReceiveStatistics(
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
        """Return the statistics of the buffer in this client."""
        return self._buffer.queue.statistics()
