"""Retained messages of a cluster at one node: all nodes have all of them, and agree on who wrote one last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.cluster.backlog import Outgoing
from penstock.core.cluster.stamps import Stamps
from penstock.node.broker.message import message_of
from penstock.node.cluster.records import item_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.cluster.stamps import Stamp
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.message import Message


class SharedRetained:
    """Sends the retained messages of this node to all others, and keeps theirs."""

    def __init__(
        self,
        broker: Broker,
        name: str,
        *,
        number: Callable[[], int],
        offer: Callable[[Outgoing], None],
    ) -> None:
        """`name` is this node's; `number` makes the next number of its events; `offer` sends to all nodes."""
        self._broker = broker
        self._number = number
        self._offer = offer
        self._stamps = Stamps(name)
        self._accepting = False
        """Whether a message of another node is being handled."""
        self.last: Message | None = None
        """The retained message that was sent to all nodes last."""
        self.number = 0
        """Number of that message among the events of this node."""

    def changed(self, message: Message) -> None:
        """A retained message has changed at this node: all nodes get it, whether they want it or not."""
        if self._accepting or message.topic.startswith(self._broker.router.own):
            return
        if self._broker.router.find(message.topic).into is not None:
            return  # of a reliable stream, which stays at its host
        number = self._number()
        stamp = self._stamps.write(
            message.topic, at_us=message.ts_us, number=number, deleted=not message.payload
        )
        self.last, self.number = message, number
        data = item_of(message, number, stamp=stamp)
        self._offer(Outgoing(message, data, number=number, retained=True))

    def topics(self) -> list[str]:
        """Topics with a retained message, or whose message was deleted, for a node that has joined."""
        topics = self._broker.retained.topics("#")
        self._stamps.keep_only(topics)
        return [*topics, *(topic for topic, _ in self._stamps.deleted())]

    def item(self, topic: str) -> bytes | None:
        """The retained message of a topic as it is now, or its deletion; None if there is neither."""
        if topic.startswith(self._broker.router.own):
            return None
        message = self._broker.retained.get(topic, now_us=self._broker.clock())
        stamp = self._stamps.of(topic, at_us=0 if message is None else message.ts_us)
        if message is None:
            if not stamp.origin:
                return None
            message = message_of(topic, b"", topic_bytes=topic.encode(), now_us=stamp.at_us, retain=True)
        return item_of(message, 0, stamp=stamp, kept_only=True)

    def left_by(self, name: str) -> list[str]:
        """Topics whose message a node that is gone has brought here: others may not have it."""
        return self._stamps.left_by(name)

    def keep(self, message: Message, stamp: Stamp, *, through: str) -> None:
        """Keep a retained message that another node has brought if it was written last."""
        now_us = self._broker.clock()
        known = self._broker.retained.get(message.topic, now_us=now_us)
        if known is not None and self._stamps.of(message.topic, at_us=known.ts_us) >= stamp:
            return
        deleted = not message.payload
        if not self._stamps.later(message.topic, stamp, deleted=deleted, through=through, now_us=now_us):
            return
        self._accepting = True
        try:
            if not self._broker.keep_retained(message):
                self._stamps.forget(message.topic)
        finally:
            self._accepting = False
