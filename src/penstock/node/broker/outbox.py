"""Holds the PUBLISH packets of QoS 1 and 2 for a kept session back until the disk has their messages.

A client holds the packet identifier of a QoS 2 message until PUBREL. If a PUBLISH left before the disk has
message and identifier, a node that is killed and started again would send the message once more as a new one,
and would give the identifier, which the client still holds, to another message, which the client would drop.

So such packets collect in an outbox until the transaction that holds their rows is written: the one that the
publisher's acknowledgement waits for, too. Whatever is sent to the client meanwhile goes behind them. When an
outbox is full the session is behind, and messages wait in the queues of their subscriptions.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from penstock import limits

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.node.broker.journal import Journal
    from penstock.node.broker.link import Outlet, Sampled, Writer


class HeldDelivery(Protocol):
    """The part of a session whose packets an outbox holds."""

    out: Writer | None
    """Where messages are written."""
    outbox: Outbox | None
    """The outbox of the present connection, if something waits there."""
    keeping_up: bool


class _Batch:
    """Frames that one transaction sets free, and frames that go behind them."""

    __slots__ = ("frames", "number", "since_us", "size")

    def __init__(self, number: int, since_us: Instant) -> None:
        self.number = number
        """Transactions begun when the first frame came: the next one sets them free."""
        self.since_us = since_us
        self.frames: list[bytes] = []
        self.size = 0


class Outbox:
    """The packets of one connection that wait for the disk, in order (a `Writer`)."""

    __slots__ = ("_batches", "_delivery", "_journal", "_output", "_size", "sampled")

    def __init__(self, delivery: HeldDelivery, output: Outlet, journal: Journal) -> None:
        self._delivery = delivery
        self._output = output
        self._journal = journal
        self._batches: list[_Batch] = []
        self._size = 0
        self.sampled: Sampled | None = None
        """The subscription whose latency is measured when the next packets leave."""

    @property
    def full(self) -> bool:
        """Whether so much waits that whatever comes belongs in the queues of subscriptions."""
        return self._size > limits.HELD_BYTES

    def hold(self, frame: bytes, *, now_us: Instant) -> None:
        """Send a frame when all that was noted in the journal so far is on disk."""
        journal, batches = self._journal, self._batches
        if not batches or batches[-1].number != journal.transaction:
            batch = _Batch(journal.transaction, now_us)
            batches.append(batch)
            self._delivery.out = self
            # Of the session, not of the outbox: that goes with its connection, however long the disk takes.
            journal.send_when_safe(partial(_let_go, self._delivery, batch.number))
        self.write(frame)

    def write(self, data: bytes) -> None:
        """Send behind what waits."""
        batch = self._batches[-1]
        batch.frames.append(data)
        batch.size += len(data)
        self._size += len(data)
        if self._size > limits.HELD_BYTES:
            self._delivery.keeping_up = False

    def write_now(self, data: bytes) -> None:
        """Send behind what waits: nothing overtakes it."""
        self.write(data)

    def let_go(self, number: int) -> None:
        """The disk has what the batches up to this number need: send them."""
        batches = self._batches
        safe = [batch for batch in batches if batch.number <= number]
        if not safe:
            return
        del batches[: len(safe)]
        self._size -= sum(batch.size for batch in safe)
        if not batches:
            self._delivery.out, self._delivery.outbox = self._output, None
        self._output.sampled, self.sampled = self.sampled, None
        frames = [frame for batch in safe for frame in batch.frames]
        self._output.write_late(b"".join(frames), since_us=safe[0].since_us)


def _let_go(delivery: HeldDelivery, number: int) -> None:
    """The disk has what was noted before the transaction after that number began.

    The connection may be another one by now: what was in flight waits in its outbox, for the same disk.
    """
    if delivery.outbox is not None:
        delivery.outbox.let_go(number)
