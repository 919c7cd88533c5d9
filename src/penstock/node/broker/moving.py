"""Sessions that go on at another node: taken out of one broker whole, and put into another.

A session that is taken out leaves with everything that waits for its client: the account of the node is as if
those events had never come. Its rows stay on disk until the other node has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock.errors import DigestError, StoreError
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.node.broker.message import qos_of
from penstock.node.broker.records import (
    RETAINED,
    MessageState,
    SessionFacts,
    digest_from,
    event_bytes,
    item_bytes,
    message_from,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.model.instant import Instant
    from penstock.node.broker.journal import Journal
    from penstock.node.broker.session import Session


class MovedMessage(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A message or a digest that waits for the client, or a message that is in flight to it."""

    filter: str
    state: int
    packet_id: int
    body: bytes


class MovedSession(msgspec.Struct, frozen=True, array_like=True):
    """A session between two nodes."""

    facts: SessionFacts
    messages: tuple[MovedMessage, ...] = ()
    received: tuple[int, ...] = ()
    """Packet identifiers of QoS 2 messages of the client that it has not released."""
    carried: dict[str, bytes] = {}
    """State of the session in other parts of the node, by part: its places in reliable streams."""

    @property
    def waiting(self) -> int:
        """Events that wait for the client or are in flight to it, those in digests included."""
        return sum(_events(each) for each in self.messages)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(MovedSession)


def moved_bytes(moved: MovedSession) -> bytes:
    """Encode a session for the way."""
    return _encoder.encode(moved)


def moved_from(data: bytes) -> MovedSession:
    """Decode a session; StoreError if the bytes are damaged."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise StoreError(f"a damaged session: {error}", "another node") from None


def take_out(session: Session, journal: Journal | None, *, upto: int | None = None) -> MovedSession:
    """Describe a detached session whole; the caller removes it from the broker.

    `upto`: only what the journal has up to this place; the rest stays, and is abandoned.
    """
    in_flight: dict[str, int] = {}
    messages: list[MovedMessage] = []
    for each in session.exchange.outgoing.unanswered():
        sent = each.message
        if sent.reader is not None or (upto is not None and not 0 < sent.place <= upto):
            continue  # its stream sends it again; or it came too late
        state = MessageState.SENT_QOS2 if each.qos == 2 else MessageState.SENT_QOS1
        packet_id = each.packet_id | RETAINED * sent.retain
        messages.append(MovedMessage(sent.filter, state, packet_id, event_bytes(sent.event)))
        in_flight[sent.filter] = in_flight.get(sent.filter, 0) + 1
    messages += [
        MovedMessage("", MessageState.RELEASED, packet_id, b"")
        for packet_id in session.exchange.outgoing.released()
    ]
    for subscription in session.held.values():
        items = () if subscription.queue is None else subscription.queue.items()
        late: list[Event | Digest] = []
        if upto is not None:
            places = subscription.places
            late = [
                each
                for each in items
                if isinstance(each, Event | Digest) and not 0 < places.get(id(each), 0) <= upto
            ]
            items = tuple(each for each in items if 0 < places.get(id(each), 0) <= upto)
        messages += _queued(subscription.filter, items)
        if journal is not None:
            journal.let_go(subscription.places.values())
        subscription.hand_over(in_flight.get(subscription.filter, 0))
        for item in late:
            subscription.offer(item, now_us=session.since_us)
    received = tuple(session.exchange.incoming.received())
    return MovedSession(session.facts(), tuple(messages), received)


def _queued(filter_: str, items: tuple[object, ...]) -> Iterator[MovedMessage]:
    for item in items:
        if isinstance(item, Event | Digest):
            state = MessageState.DIGEST if isinstance(item, Digest) else MessageState.QUEUED
            try:
                yield MovedMessage(filter_, state, 0, item_bytes(item))
            except DigestError:
                continue  # counts more events than 64 bits can: no publisher was honest about it


def joined(rest: MovedSession, mine: MovedSession, *, carried: dict[str, bytes]) -> tuple[MovedSession, int]:
    """Put what waited for a client elsewhere in front of what waits here; and the number of events lost.

    Lost are QoS 2 messages whose packet identifiers are in use here: the client may have them or not, and
    only the identifier could tell. With QoS 1 they are sent once more.
    """
    used = {each.packet_id & ~RETAINED for each in mine.messages if each.packet_id}
    messages: list[MovedMessage] = []
    lost = 0
    for each in rest.messages:
        if each.packet_id & ~RETAINED not in used:
            messages.append(each)
        elif each.state == MessageState.SENT_QOS1:
            messages.append(MovedMessage(each.filter, MessageState.QUEUED, 0, each.body))
        else:
            lost += _events(each)
    received = rest.received or mine.received
    return MovedSession(mine.facts, (*messages, *mine.messages), received, carried), lost


def add_waiting(session: Session, rest: MovedSession, journal: Journal | None, *, now_us: Instant) -> int:
    """Queue what waited elsewhere for a client that is connected here.

    Returns the events that cannot be sent any more, as `joined` does.
    """
    lost = 0
    ids = session.exchange.ids
    for each in rest.messages:
        subscription = session.held.get(each.filter)
        packet_id, retain = each.packet_id & ~RETAINED, bool(each.packet_id & RETAINED)
        second = each.state == MessageState.SENT_QOS2
        if subscription is None or each.state == MessageState.RELEASED:
            lost += _events(each)
        elif each.state == MessageState.DIGEST:
            session.delivery.requeue(subscription, digest_from(each.body), 0, now_us=now_us)
        elif second and (journal is None or packet_id in ids):
            lost += 1
        else:
            event = message_from(each.body)
            qos = min(qos_of(event), subscription.options.qos)
            place = session.delivery.journalled(subscription, event, qos)
            if second and place and journal is not None:
                journal.reserve(place, ids, qos=2, retain=retain, packet_id=packet_id)
            session.delivery.requeue(subscription, event, place, now_us=now_us)
    session.drain(now_us=now_us)
    return lost


def _events(each: MovedMessage) -> int:
    if each.state == MessageState.DIGEST:
        return digest_from(each.body).count
    return each.state != MessageState.RELEASED
