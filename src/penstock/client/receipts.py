"""Received messages that the program has not taken yet: acknowledgements, and positions in reliable streams.

A QoS 1 message that was not acknowledged when a connection broke comes again over the next connection. It
is still in the buffer then, or was taken meanwhile: it is not handed out twice. A message of a reliable
stream is identified by stream and tick, because a node that was killed sends it again with another packet
identifier. Ticks only grow within a subscription: to begin earlier, subscribe anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits
from penstock.model.event import stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.event import User
    from penstock.mqtt.packets.publish import Publish


class StreamPositions:
    """Positions of one subscription by stream; beyond a bound, longest silent streams are forgotten."""

    def __init__(self, start: int | None = None) -> None:
        self._start = start
        self._next: dict[str, int] = {}
        self.repeated = 0
        """Messages that were received before and are left out."""

    @property
    def start(self) -> int | None:
        """Tick to begin with if the node has forgotten the subscription, None for new messages."""
        return min(self._next.values(), default=self._start)

    def passes(self, user: User) -> bool:
        """Whether a message with these properties is new, or belongs to no stream."""
        stamp = stamp_of(user)
        if stamp is None:
            return True
        stream, tick = stamp
        if tick < self._next.get(stream, self._start or 0):
            self.repeated += 1
            return False
        self._next.pop(stream, None)
        if len(self._next) >= limits.CLIENT_STREAMS:
            del self._next[next(iter(self._next))]
        self._next[stream] = tick + 1
        return True


class Receipt:
    """The acknowledgement that is owed for one message."""

    __slots__ = ("here", "holders", "packet_id", "qos", "stamp")

    def __init__(self, packet_id: int, qos: int, stamp: tuple[str, int] | None) -> None:
        self.packet_id = packet_id
        self.qos = qos
        self.stamp = stamp
        """Stream and tick of a message of a reliable stream."""
        self.holders = 0
        """How many subscriptions hold the message in their buffers."""
        self.here = True
        """Whether the message arrived over the present connection."""


class Receipts:
    """All acknowledgements that are owed in one session."""

    def __init__(self, acknowledge: Callable[[int], None]) -> None:
        self._acknowledge = acknowledge
        self._open: dict[int, Receipt] = {}
        self._stamped: dict[tuple[str, int], Receipt] = {}
        """QoS 1 messages of streams, by stream and tick."""
        self._early: set[int] = set()
        """QoS 1 messages taken while the connection they came over was gone."""

    def __len__(self) -> int:
        """How many messages the program has not taken yet."""
        return len(self._open)

    def arrived(self, message: Publish) -> Receipt | None:
        """Return the receipt of a message; None if the message was received before.

        A message of a stream may come again for a subscription that did not get it: its receipt is the same.
        """
        packet_id = message.packet_id
        stamp = stamp_of(message.properties.user) if message.qos == 1 else None
        if stamp is not None:
            return self._open_stamped(packet_id, stamp)
        if message.qos == 1 and message.dup:
            if packet_id in self._early:
                self._early.discard(packet_id)
                self._acknowledge(packet_id)
                return None
            known = self._open.get(packet_id)
            if known is not None and known.stamp is None:
                known.here = True
                return None
        self._early.discard(packet_id)
        receipt = self._open[packet_id] = Receipt(packet_id, message.qos, None)
        return receipt

    def _open_stamped(self, packet_id: int, stamp: tuple[str, int]) -> Receipt:
        self._early.discard(packet_id)
        receipt = self._stamped.get(stamp)
        if receipt is None:
            receipt = self._stamped[stamp] = Receipt(packet_id, 1, stamp)
        elif self._open.get(receipt.packet_id) is receipt:
            del self._open[receipt.packet_id]
        receipt.packet_id = packet_id
        receipt.here = True
        self._open[packet_id] = receipt
        return receipt

    def taken(self, receipt: Receipt) -> None:
        """Release one hold on a message; acknowledge it when none is left."""
        receipt.holders -= 1
        if receipt.holders > 0:
            return
        if receipt.stamp is not None and self._stamped.get(receipt.stamp) is receipt:
            del self._stamped[receipt.stamp]
        if self._open.get(receipt.packet_id) is not receipt:
            return
        del self._open[receipt.packet_id]
        if receipt.qos == 2 or receipt.here:
            self._acknowledge(receipt.packet_id)
        # Messages of streams need no entry: subscriptions recognise their ticks when they are sent again.
        elif receipt.stamp is None:
            self._early.add(receipt.packet_id)

    def detached(self) -> None:
        """Mark all receipts as received over an earlier connection."""
        for receipt in self._open.values():
            receipt.here = False

    def forget(self) -> None:
        """Forget all receipts: the node has lost the session and expects no acknowledgement."""
        self._open.clear()
        self._stamped.clear()
        self._early.clear()
