"""Sends messages of one stream to one session, and takes the acknowledgements of its client.

A QoS 2 message is sent when its packet identifier is on disk, released (PUBREL) when its arrival is on disk,
and the identifier is free again when it is deleted from disk. Messages that follow a message that waits for
the disk wait behind it.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

from penstock import limits
from penstock.node.broker.link import Sent
from penstock.node.broker.message import expired, frame_of
from penstock.node.streams.sessions.place import Flight

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.mqtt.sessions.identifiers import AliasesOut
    from penstock.node.broker.link import Writer
    from penstock.node.broker.session import Session
    from penstock.node.streams.sessions.items import Choice, StreamItem
    from penstock.node.streams.sessions.place import SessionPlace


class SenderOwner(Protocol):
    """The reader that a sender belongs to, as the sender uses it."""

    def save_now(self, safe: Callable[[], None]) -> None:
        """Write the place to disk in this turn of the event loop; call `safe` when it is there."""
        ...

    def save_soon(self) -> None:
        """Write the place to disk within about a second."""
        ...

    def release(self, packet_id: int) -> None:
        """Send the PUBREL of a QoS 2 message."""
        ...

    def resume(self) -> None:
        """Continue to send in a later turn of the event loop."""
        ...


class _Outbox:
    """Frames that wait until the place is on disk, in order."""

    __slots__ = ("bytes", "frames")

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.bytes = 0


class SessionSender:
    """Sends to one session, from one stream."""

    def __init__(self, session: Session, place: SessionPlace, owner: SenderOwner) -> None:
        self._session = session
        self._place = place
        self._owner = owner
        self._flight = place.flight
        self._outboxes: deque[_Outbox] = deque()
        self._collecting: _Outbox | None = None
        """The outbox for QoS 2 messages of this turn of the event loop."""
        self._unsaved = 0
        """Outboxes whose messages are not on disk yet."""

    @property
    def unsaved(self) -> bool:
        """Whether messages are in flight that are not on disk yet."""
        return self._unsaved > 0

    @property
    def takes_more(self) -> bool:
        """Whether the client reads, and another message may be in flight."""
        return not self._session.delivery.blocked and self._room

    @property
    def _out(self) -> Writer:
        """Where messages are written; a session sends only while it has a connection."""
        out = self._session.delivery.out
        assert out is not None
        return out

    @property
    def _room(self) -> bool:
        """Whether another message may be in flight."""
        return self._session.exchange.outgoing.room > 0 and len(self._flight) < limits.STREAM_FLIGHT

    def close_outbox(self) -> None:
        """The place is being written to disk: messages sent from now on need another write."""
        self._collecting = None

    def lost_link(self) -> None:
        """Drop what waits for the disk: the connection is gone, and the next one gets the messages again."""
        self._outboxes.clear()
        self._collecting = None

    # -- sending ---------------------------------------------------------------------------------------------

    def send(self, item: StreamItem, choice: Choice, now_us: Instant) -> bool:
        """Send a message; False if there is no room for it."""
        session, subscription = self._session, choice.subscription
        qos = min(item.record.qos, choice.qos)
        outgoing = session.exchange.outgoing
        if outgoing.resending or (qos and not self._room):
            return False
        if self._outboxes and self._outboxes[-1].bytes > limits.STREAM_FETCH_BYTES:
            return False
        subscription.direct += 1
        if expired(item.event, now_us):
            subscription.withheld += 1
            return True
        event = session.delivery.in_form(subscription, item.event)
        at_once = qos < 2 or not self._place.durable
        # Messages of other streams may overtake frames that wait for the disk, so these use no topic alias.
        aliases = session.delivery.aliases if at_once and not self._outboxes else None
        if session.delivery.most_bytes:
            fits, aliases = session.delivery.fit(
                event, qos=qos, ids=choice.ids, now_us=now_us, aliases=aliases
            )
            if not fits:
                session.delivery.too_large(subscription, event, now_us)
                return True
        retain = item.record.retain and subscription.options.retain_as_published
        tick, packet_id = item.tick, 0
        if qos:
            sent = Sent(event, retain, choice.ids, 0, self, tick)
            packet_id = outgoing.send(sent, qos=qos)
            self._flight[tick] = packet_id
        frame = self._frame(item, event, packet_id, qos, choice.ids, aliases, retain=retain, now_us=now_us)
        session.delivery.sent += 1
        self._out.sampled = subscription
        if at_once:
            self._write(frame)
        else:
            place = self._place
            place.second[tick] = Flight(tick, packet_id)
            place.given = max(place.given, tick + 1)
            self._write_when_saved(frame)
        return True

    def send_again(self, item: StreamItem, flight: Flight, choice: Choice | None, now_us: Instant) -> bool:
        """Send a QoS 2 message that was in flight before a restart; False if there is no room for it."""
        session = self._session
        if not self._room:
            return False
        ids = choice.ids if choice is not None else ()
        event = session.delivery.in_form(choice.subscription if choice is not None else None, item.event)
        self._place.unsent.discard(item.tick)
        aliases = None if self._outboxes else session.delivery.aliases
        if session.delivery.most_bytes:
            fits, aliases = session.delivery.fit(event, qos=2, ids=ids, now_us=now_us, aliases=aliases)
            if not fits:  # the client accepted larger packets before
                self.completed(item.tick, flight.packet_id)
                return True
        sent = Sent(event, False, ids, 0, self, item.tick)
        session.exchange.outgoing.send_as(flight.packet_id, sent, qos=2)
        self._flight[item.tick] = flight.packet_id
        session.delivery.sent += 1
        frame = frame_of(
            event,
            version=session.version,
            now_us=now_us,
            packet_id=flight.packet_id,
            qos=2,
            retain=False,
            dup=True,
            subscription_ids=ids,
            aliases=aliases,
        )
        self._write(frame)
        return True

    def _frame(
        self,
        item: StreamItem,
        event: Event,
        packet_id: int,
        qos: int,
        ids: tuple[int, ...],
        aliases: AliasesOut | None,
        *,
        retain: bool,
        now_us: Instant,
    ) -> bytes:
        session = self._session
        if item.shareable and event is item.event and not ids and aliases is None:
            head, tail = item.frame(version=session.version, qos=qos, retain=retain)
            return head + packet_id.to_bytes(2, "big") + tail if qos else head
        return frame_of(
            event,
            version=session.version,
            now_us=now_us,
            packet_id=packet_id,
            qos=qos,
            retain=retain,
            subscription_ids=ids,
            aliases=aliases,
        )

    def _write(self, frame: bytes) -> None:
        """Write a frame, behind frames that wait for the disk."""
        if self._outboxes:
            self._outboxes[-1].frames.append(frame)
            self._outboxes[-1].bytes += len(frame)
        else:
            self._out.write(frame)

    def _write_when_saved(self, frame: bytes) -> None:
        """Write a frame when its message is on disk as being in flight."""
        outbox = self._collecting
        if outbox is None:
            outbox = self._collecting = _Outbox()
            self._outboxes.append(outbox)
            self._unsaved += 1
            self._owner.save_now(partial(self._saved, outbox))
        outbox.frames.append(frame)
        outbox.bytes += len(frame)

    def _saved(self, outbox: _Outbox) -> None:
        self._unsaved -= 1
        if self._outboxes and self._outboxes[0] is outbox:  # otherwise its connection is gone
            self._outboxes.popleft()
            self._out.write(b"".join(outbox.frames))
        self._owner.resume()

    # -- acknowledgements (AckReceiver of broker.link) -------------------------------------------------------

    def acknowledged(self, tick: int, packet_id: int) -> None:
        """The client has acknowledged a message, or refused it."""
        self._flight.pop(tick, None)
        if self._place.second.pop(tick, None) is not None:
            self._free_when_saved(packet_id)
        else:
            self._owner.save_soon()

    def received(self, tick: int, packet_id: int) -> bool:
        """The client has a QoS 2 message; True if its PUBREL has to wait until that is on disk."""
        self._flight.pop(tick, None)
        flight = self._place.second.get(tick)
        if flight is None:  # the session ends with its connection, so nothing of it is on disk
            return False
        flight.released = True
        self._owner.save_now(partial(self._owner.release, packet_id))
        return True

    def completed(self, tick: int, packet_id: int) -> None:
        """The client has answered the PUBREL."""
        if self._place.second.pop(tick, None) is not None:
            self._free_when_saved(packet_id)

    def _free_when_saved(self, packet_id: int) -> None:
        """Free a packet identifier when the disk no longer has it as the identifier of this message."""
        ids = self._session.exchange.ids
        ids.hold(packet_id)
        self._owner.save_now(partial(ids.free, packet_id))
