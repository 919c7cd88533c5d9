"""All readers of one session: what its connection drains, and which acknowledgements belong to streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.event import stamp_of
from penstock.mqtt.packets.publish import Pubcomp, Pubrec, Pubrel
from penstock.node.broker.extensions import SessionSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.publish import Ack
    from penstock.mqtt.sessions.exchange import ExchangeStep
    from penstock.node.broker.link import AckReceiver, Sent
    from penstock.node.broker.session import Session
    from penstock.node.broker.subscription import Subscription
    from penstock.node.streams.sessions.reader import SessionReader


class SessionReaders(SessionSource):
    """The readers of one session, by stream."""

    def __init__(self, session: Session, drain_soon: Callable[[], None]) -> None:
        self.session = session
        self._drain_soon = drain_soon
        """Has the session drained in a later turn of the event loop."""
        self.readers: dict[str, SessionReader] = {}
        self._releasing: dict[int, tuple[AckReceiver, int]] = {}
        """QoS 2 messages that the client has and has not completed, by packet identifier: sender and tick."""
        self._unsaved: set[int] = set()
        """Packet identifiers in `_releasing` that are not on disk yet: their PUBREL waits."""

    # -- sending ---------------------------------------------------------------------------------------------

    @property
    def unsafe(self) -> bool:
        """Whether a message is in flight that is not on disk, so that it must not be sent again."""
        return any(reader.sender.unsaved for reader in self.readers.values())

    @property
    def behind(self) -> bool:
        """Whether a stream has messages for the session that could not be sent."""
        return any(not reader.place.live or reader.place.rewound for reader in self.readers.values())

    def drain(self, *, now_us: Instant) -> None:
        """Send what was missed, as much as the connection and its window take."""
        done = True
        for name in list(self.readers):
            reader = self.readers[name]
            reader.try_rewind()
            if not reader.place.live:
                before = self.session.delivery.sent
                done &= reader.catch_up(now_us=now_us)
                if self.session.delivery.sent > before:  # the other streams come first the next time
                    self.readers[name] = self.readers.pop(name)
        if not done:
            self._drain_soon()

    def lost_link(self) -> None:
        """The session has lost its connection."""
        for reader in self.readers.values():
            reader.lost_link()

    # -- acknowledgements ------------------------------------------------------------------------------------

    def settles(self, ack: Ack, step: ExchangeStep[Sent]) -> bool:
        """Take the acknowledgement of a message of a stream; False if it is for another message."""
        packet_id, sent = ack.packet_id, step.settled
        if sent is not None and sent.reader is not None:
            if isinstance(step.reply, Pubrel):
                self._received(sent.reader, sent.tick, packet_id)
            else:
                sent.reader.acknowledged(sent.tick, packet_id)
            return True
        if isinstance(ack, Pubcomp) or (isinstance(ack, Pubrec) and step.reply is None):
            return self._completed(packet_id)
        return isinstance(ack, Pubrec) and (self.holds_pubrel(packet_id) or self._received_before(packet_id))

    def _received(self, sender: AckReceiver, tick: int, packet_id: int) -> bool:
        """The client has a QoS 2 message; returns whether its PUBREL waits for the disk."""
        if not sender.received(tick, packet_id):
            return False
        self._releasing[packet_id] = (sender, tick)
        self._unsaved.add(packet_id)
        return True

    def _received_before(self, packet_id: int) -> bool:
        """Take the PUBREC of a QoS 2 message that was sent before a restart, and not again since.

        False if there is no such message.
        """
        for reader in self.readers.values():
            tick = reader.place.take_unsent(packet_id)
            if tick is not None:
                self.session.exchange.outgoing.supersede(packet_id, released=True)
                return self._received(reader.sender, tick, packet_id)
        return False

    def holds_pubrel(self, packet_id: int) -> bool:
        """Whether the PUBREL of this message waits for the disk."""
        return packet_id in self._unsaved

    def _completed(self, packet_id: int) -> bool:
        """The client has answered a PUBREL; returns whether that was for a message of a stream."""
        found = self._releasing.pop(packet_id, None)
        if found is None:
            return False
        sender, tick = found
        sender.completed(tick, packet_id)
        return True

    def release(self, packet_id: int) -> None:
        """Send a PUBREL: it is on disk that the client has the QoS 2 message."""
        self._unsaved.discard(packet_id)
        if packet_id in self._releasing and self.session.link is not None:
            self.session.link.send(Pubrel(packet_id))

    def safe(self, pubrels: list[Pubrel]) -> list[Pubrel]:
        """The PUBRELs that a new connection may begin with."""
        return [each for each in pubrels if each.packet_id not in self._unsaved]

    def restore_released(self, sender: AckReceiver, tick: int, packet_id: int) -> None:
        """Note a QoS 2 message that was released before a restart."""
        self._releasing[packet_id] = (sender, tick)

    # -- retained messages -----------------------------------------------------------------------------------

    def covers(self, subscription: Subscription, event: Event) -> bool:
        """Whether a subscription also gets this retained message as a message of its stream."""
        stamp = stamp_of(event.properties)
        reader = self.readers.get(stamp[0]) if stamp is not None else None
        if stamp is None or reader is None:
            return False
        filter_ = subscription.filter
        start = reader.place.rewound.get(filter_, reader.place.starts.get(filter_))
        return start is not None and stamp[1] >= start
