"""Messages of QoS 1 and 2 that the program has not taken yet: each is acknowledged when it was.

A QoS 1 message that was not acknowledged when a connection broke comes again over the next. It is still in
the buffer then, or was taken meanwhile: either way it is not handed out twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.mqtt.publish import Publish


class Receipt:
    """What is owed for one message."""

    __slots__ = ("here", "holders", "packet_id", "qos")

    def __init__(self, packet_id: int, qos: int) -> None:
        self.packet_id = packet_id
        self.qos = qos
        self.holders = 0
        """Subscriptions that have it in their buffers."""
        self.here = True
        """Whether it came over the present connection."""


class Receipts:
    """All that are owed in one session."""

    def __init__(self, acknowledge: Callable[[int], None]) -> None:
        self._acknowledge = acknowledge
        self._open: dict[int, Receipt] = {}
        self._early: set[int] = set()
        """QoS 1 messages taken while the connection they came over was gone."""

    def __len__(self) -> int:
        """Messages not taken yet."""
        return len(self._open)

    def arrived(self, message: Publish) -> Receipt | None:
        """The receipt of a message; None if it is one that came before."""
        packet_id = message.packet_id
        if message.qos == 1 and message.dup:
            if packet_id in self._early:
                self._early.discard(packet_id)
                self._acknowledge(packet_id)
                return None
            known = self._open.get(packet_id)
            if known is not None:
                known.here = True
                return None
        self._early.discard(packet_id)
        receipt = self._open[packet_id] = Receipt(packet_id, message.qos)
        return receipt

    def taken(self, receipt: Receipt) -> None:
        """One holder has let go of the message; the last one's word is the acknowledgement."""
        receipt.holders -= 1
        if receipt.holders > 0 or self._open.get(receipt.packet_id) is not receipt:
            return
        del self._open[receipt.packet_id]
        if receipt.qos == 2 or receipt.here:
            self._acknowledge(receipt.packet_id)
        else:
            self._early.add(receipt.packet_id)

    def detached(self) -> None:
        """The connection is gone."""
        for receipt in self._open.values():
            receipt.here = False

    def forget(self) -> None:
        """The session is gone: nobody waits for these acknowledgements."""
        self._open.clear()
        self._early.clear()
