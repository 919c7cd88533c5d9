"""Messages that come from other nodes: this node assigns them to flows and lanes as those of its clients.

The node of the publisher lets the messages of its flows overtake what waits for the link. Here they arrive at
their rate again, so this node detects their flows by itself, admits them to the links of its own receivers,
and knows by itself whether one is in its slot or late. A period that a message declares comes with it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from penstock import limits
from penstock.core.slots.flows import key_of
from penstock.core.slots.lanes import Assigned
from penstock.errors import SlotError
from penstock.node.broker.message import Message, message_of
from penstock.node.slots.declared import of_publish
from penstock.node.slots.flows import Topic
from penstock.node.slots.publisher import watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.node.broker.receivers import Receiver
    from penstock.node.slots.flows import Flows


class FlowsElsewhere:
    """Recognises flows of publishers at other nodes."""

    def __init__(self, flows: Flows) -> None:
        self._flows = flows
        self._topics: dict[tuple[str, str], Topic] = {}
        """Topics by publisher and name."""

    def recognise(self, event: Event, receivers: Sequence[Receiver], now_us: Instant) -> Event:
        """Return a message with its flow and lane; the message itself if its flow was never served."""
        if event.properties:
            self._hear(event, now_us)
        taken = self._flows.take(event.sender, self._topic(event), 1, now_us=now_us)
        if taken is None:
            return event
        watch(receivers, now_us)
        assigned = Assigned(taken[0], taken[1][0])
        if type(event) is Message:
            return msgspec.structs.replace(event, flow=assigned)
        return message_of(
            event.topic,
            event.payload,
            topic_bytes=event.topic.encode(),
            now_us=event.ts_us,
            sender=event.sender,
            seq=event.seq,
            flow=assigned,
        )

    def _hear(self, event: Event, now_us: Instant) -> None:
        """Take a period that the message declares; the node of its publisher has answered if it is wrong."""
        with suppress(SlotError):
            declared = of_publish(event.properties)
            if declared is not None:
                self._flows.tell(event.sender, event.topic, declared, now_us=now_us)

    def _topic(self, event: Event) -> Topic:
        key = (event.sender, event.topic)
        known = self._topics.get(key)
        if known is None:
            if len(self._topics) >= limits.FLOW_TOPICS:
                self._topics.clear()
            known = self._topics[key] = Topic(key_of(*key), event.topic)
        return known
