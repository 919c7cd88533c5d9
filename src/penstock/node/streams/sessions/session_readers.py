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
    """One session's readers, by stream."""

    def __init__(self, session: Session, later: Callable[[], None]) -> None:
        self._session = session
        self._later = later
        """Has `drain` called in another turn of the loop."""
        self.readers: dict[str, SessionReader] = {}
        self._releasing: dict[int, tuple[AckReceiver, int]] = {}
        """QoS 2 messages that the client has and did not complete, by packet identifier."""
        self._unsafe: set[int] = set()
        """Those of them that the disk does not know of yet: their PUBREL waits."""

    # -- sending ---------------------------------------------------------------------------------------------

    @property
    def unsafe(self) -> bool:
        """Whether something is in flight that the disk does not know of, so that it must not be repeated."""
        return any(reader.unsafe for reader in self.readers.values())

    @property
    def behind(self) -> bool:
        """Whether a stream has something for the session that could not be sent."""
        return any(not reader.live or reader.rewound for reader in self.readers.values())

    def drain(self, *, now_us: Instant) -> None:
        """Send what was missed, as much as connection and window take."""
        done = True
        for name in list(self.readers):
            reader = self.readers[name]
            reader.try_rewind()
            if not reader.live:
                before = self._session.delivery.sent
                done &= reader.catch_up(now_us=now_us)
                if self._session.delivery.sent > before:  # the others are before it the next time
                    self.readers[name] = self.readers.pop(name)
        if not done:
            self._later()

    def lost_link(self) -> None:
        """The connection is gone."""
        for reader in self.readers.values():
            reader.lost_link()

    # -- acknowledgements ------------------------------------------------------------------------------------

    def settles(self, ack: Ack, step: ExchangeStep[Sent]) -> bool:
        """Note an acknowledgement of a message of a stream; False: it is for another message."""
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

    def _received(self, reader: AckReceiver, tick: int, packet_id: int) -> bool:
        """The client has a QoS 2 message; whether its PUBREL waits for the disk."""
        if not reader.received(tick, packet_id):
            return False
        self._releasing[packet_id] = (reader, tick)
        self._unsafe.add(packet_id)
        return True

    def _received_before(self, packet_id: int) -> bool:
        """Whether the client says so of a QoS 2 message from before a restart that was not sent again yet."""
        for reader in self.readers.values():
            tick = reader.unsent(packet_id)
            if tick is not None:
                self._session.exchange.outgoing.supersede(packet_id, released=True)
                return self._received(reader, tick, packet_id)
        return False

    def holds_pubrel(self, packet_id: int) -> bool:
        """Whether the PUBREL of this message waits for the disk."""
        return packet_id in self._unsafe

    def _completed(self, packet_id: int) -> bool:
        """The client has answered a PUBREL; whether it was for a message of a stream."""
        found = self._releasing.pop(packet_id, None)
        if found is None:
            return False
        reader, tick = found
        reader.completed(tick, packet_id)
        return True

    def release(self, packet_id: int) -> None:
        """The disk knows that the client has a QoS 2 message: say PUBREL."""
        self._unsafe.discard(packet_id)
        if packet_id in self._releasing and self._session.link is not None:
            self._session.link.send(Pubrel(packet_id))

    def safe(self, pubrels: list[Pubrel]) -> list[Pubrel]:
        """Those that a new connection may begin with."""
        return [each for each in pubrels if each.packet_id not in self._unsafe]

    def restore_released(self, reader: SessionReader, tick: int, packet_id: int) -> None:
        """A QoS 2 message that was released before a restart."""
        self._releasing[packet_id] = (reader, tick)

    # -- retained messages -----------------------------------------------------------------------------------

    def covers(self, subscription: Subscription, event: Event) -> bool:
        """Whether a subscription gets this retained message as a message of its stream, too."""
        stamp = stamp_of(event.properties)
        reader = self.readers.get(stamp[0]) if stamp is not None else None
        if stamp is None or reader is None:
            return False
        filter_ = subscription.filter
        start = reader.rewound.get(filter_, reader.starts.get(filter_))
        return start is not None and stamp[1] >= start
