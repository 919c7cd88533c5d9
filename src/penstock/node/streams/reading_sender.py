"""Sends messages of a stream to a session, and hears what the client says about them.

QoS 2 goes by the disk: a message is sent when its packet identifier is there, released when its arrival is,
and the identifier is free when it is forgotten there. What follows a message that waits for the disk waits
behind it.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from penstock import limits
from penstock.node.link import Sent
from penstock.node.message import expired, frame_of
from penstock.node.streams.cursors import Flight
from penstock.node.streams.reading_place import Place

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.mqtt.aliases import AliasesOut
    from penstock.node.link import Link
    from penstock.node.session import Session
    from penstock.node.streams.choosing import Choice
    from penstock.node.streams.cursors import Cursor
    from penstock.node.streams.reading_item import Item
    from penstock.node.streams.reading_stream import StreamReaders


class _Outbox:
    """What waits for the disk, in order."""

    __slots__ = ("bytes", "frames", "link")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.frames: list[bytes] = []
        self.bytes = 0


class Sender(Place):
    """To one session, of one stream."""

    def __init__(self, session: Session, stream: StreamReaders) -> None:
        super().__init__(session, stream)
        self._outboxes: deque[_Outbox] = deque()
        self._collecting: _Outbox | None = None
        """The one that QoS 2 messages of this turn of the loop go into."""
        self._unsafe = 0
        """How many the disk does not know of."""

    def write_down(self) -> Cursor:
        """What is to survive a restart; what is given out from now on needs another row."""
        self._collecting = None
        return super().write_down()

    def lost_link(self) -> None:
        """The connection is gone; what was sent is sent again over the next."""
        self._outboxes.clear()
        self._collecting = None

    @property
    def _room(self) -> bool:
        """Whether another message may be in flight."""
        return self.session.exchange.outgoing.room > 0 and len(self._flight) < limits.STREAM_FLIGHT

    @property
    def takes_more(self) -> bool:
        """Whether its client reads."""
        link = self.session.link
        return link is not None and not link.paused and self._room

    def _give(self, item: Item, choice: Choice, now_us: Instant) -> bool:
        """Send a message; False if there is no room for it."""
        session, subscription = self.session, choice.subscription
        link = session.link
        assert link is not None
        qos = min(item.record.qos, choice.qos)
        outgoing = session.exchange.outgoing
        if outgoing.resending or (qos and not self._room):
            return False
        if self._outboxes and self._outboxes[-1].bytes > limits.STREAM_FETCH_BYTES:
            return False
        subscription.direct += 1
        if expired(item.event, now_us) or not session.fits(item.event, choice.ids, now_us):
            subscription.withheld += 1
            return True
        retain = item.record.retain and subscription.options.retain_as_published
        tick, packet_id = item.tick, 0
        if qos:
            sent = Sent(item.event, retain, choice.ids, 0, self, tick)
            packet_id = outgoing.send(sent, qos=qos)
            self._flight[tick] = packet_id
        safe = qos < 2 or not self.durable
        # Others may be sent before what waits for the disk: it says no alias that they would use.
        aliases = session.aliases if safe and not self._outboxes else None
        frame = self._frame(item, packet_id, qos, choice.ids, aliases, retain=retain, now_us=now_us)
        session.sent += 1
        link.sampled = subscription
        if not safe:
            self._second[tick] = Flight(tick, packet_id)
            self._given = max(self._given, tick + 1)
            self._write_when_safe(link, frame)
        else:
            self._write(link, frame)
        return True

    def _send_again(self, item: Item, flight: Flight, choice: Choice | None, now_us: Instant) -> bool:
        """A QoS 2 message that was in flight before a restart."""
        session = self.session
        link = session.link
        assert link is not None
        if not self._room:
            return False
        ids = choice.ids if choice is not None else ()
        self._unsent.discard(item.tick)
        if not session.fits(item.event, ids, now_us):  # its client took larger ones before
            self.completed(item.tick, flight.packet_id)
            return True
        sent = Sent(item.event, False, ids, 0, self, item.tick)
        session.exchange.outgoing.send_as(flight.packet_id, sent, qos=2)
        self._flight[item.tick] = flight.packet_id
        session.sent += 1
        frame = frame_of(
            item.event,
            version=session.version,
            now_us=now_us,
            packet_id=flight.packet_id,
            qos=2,
            retain=False,
            dup=True,
            subscription_ids=ids,
            aliases=None if self._outboxes else session.aliases,
        )
        self._write(link, frame)
        return True

    def _frame(
        self,
        item: Item,
        packet_id: int,
        qos: int,
        ids: tuple[int, ...],
        aliases: AliasesOut | None,
        *,
        retain: bool,
        now_us: Instant,
    ) -> bytes:
        session = self.session
        if item.shareable and not ids and aliases is None:
            head, tail = item.frame(version=session.version, qos=qos, retain=retain)
            return head + packet_id.to_bytes(2, "big") + tail if qos else head
        return frame_of(
            item.event,
            version=session.version,
            now_us=now_us,
            packet_id=packet_id,
            qos=qos,
            retain=retain,
            subscription_ids=ids,
            aliases=aliases,
        )

    def _write(self, link: Link, frame: bytes) -> None:
        """Send it, behind what waits for the disk."""
        if self._outboxes:
            self._outboxes[-1].frames.append(frame)
            self._outboxes[-1].bytes += len(frame)
        else:
            link.write(frame)

    def _write_when_safe(self, link: Link, frame: bytes) -> None:
        """Send when the disk knows what is in flight; what comes meanwhile stays behind it."""
        outbox = self._collecting
        if outbox is None:
            outbox = self._collecting = _Outbox(link)
            self._outboxes.append(outbox)
            self._unsafe += 1
            self.stream.save_now(self, partial(self._safe, outbox))
        outbox.frames.append(frame)
        outbox.bytes += len(frame)

    def _safe(self, outbox: _Outbox) -> None:
        self._unsafe -= 1
        if self._outboxes and self._outboxes[0] is outbox:  # else the connection it was for is gone
            self._outboxes.popleft()
            outbox.link.write(b"".join(outbox.frames))
        self.stream.go_on(self.session)

    @property
    def unsafe(self) -> bool:
        """Whether something is in flight that the disk does not know of."""
        return self._unsafe > 0

    # -- acknowledgements ------------------------------------------------------------------------------------

    def acknowledged(self, tick: int, packet_id: int) -> None:
        """See link.Reader."""
        self._flight.pop(tick, None)
        if self._second.pop(tick, None) is not None:
            self._free_when_safe(packet_id)
        else:
            self.stream.save_soon(self)

    def received(self, tick: int, packet_id: int) -> bool:
        """See link.Reader."""
        self._flight.pop(tick, None)
        flight = self._second.get(tick)
        if flight is None:  # the session ends with its connection
            return False
        flight.released = True
        self.stream.save_now(self, partial(self.stream.release, self.session, packet_id))
        return True

    def completed(self, tick: int, packet_id: int) -> None:
        """The client has answered the PUBREL."""
        if self._second.pop(tick, None) is not None:
            self._free_when_safe(packet_id)

    def _free_when_safe(self, packet_id: int) -> None:
        """The identifier is another's when the disk has forgotten that it was this message's."""
        ids = self.session.exchange.ids
        ids.hold(packet_id)
        self.stream.save_now(self, partial(ids.free, packet_id))
