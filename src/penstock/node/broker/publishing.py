"""Takes what clients publish, as runs or single messages, and hands it to the receivers.

What a client sends beyond its rates (`ClientRates`) is read later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.errors import ProtocolError
from penstock.mqtt.codes import V5, Reason
from penstock.mqtt.packets.fanout import spans
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.properties import NONE
from penstock.mqtt.sessions.exchange import Arrival
from penstock.node.access.rate import ClientRates
from penstock.node.broker.answers import adopt
from penstock.node.broker.message import expiry_of, message_of
from penstock.node.broker.replies import Replies
from penstock.node.broker.runs import QOS0, QOS1, AcknowledgedRun, Run, split_qos1

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.properties import Properties
    from penstock.node.broker.host import ClientLink, Host
    from penstock.node.broker.message import Message
    from penstock.node.broker.receivers import Target
    from penstock.node.broker.routes import Fan
    from penstock.node.broker.session import Session


PUBACK_START: Final = b"\x40\x02"
"""The bytes before the packet identifier of a PUBACK without a reason code."""


SAMPLED: Final = 15
"""One of so many lone messages and one more is timed."""


class Publisher:
    """Takes what the client of one connection publishes."""

    __slots__ = (
        "_broker",
        "_connection",
        "_fans",
        "_gate",
        "_most",
        "_mqtt",
        "_now_us",
        "_rates",
        "_replies",
        "_router",
        "_said",
        "_session",
        "_version",
        "routes",
    )

    def __init__(self, broker: Host, connection: ClientLink, session: Session) -> None:
        self._broker = broker
        self._connection = connection
        self._session = session
        self._mqtt = session.version
        """The version of MQTT that the connection speaks."""
        self._router = broker.router
        self._now_us = 0
        self._gate = broker.gate
        self._fans: dict[bytes, Fan] = broker.router.known
        """Fans by topic, as far as they are remembered."""
        self.routes = self._fans
        """Fans by topic for the scan of runs, which asks `miss` for a topic that is not there."""
        self._version = -1
        self._most = broker.terms.maximum_packet_bytes
        self._replies = Replies(session, connection, journal=broker.journal)
        self._said: Properties | None = None
        """Properties of the answer to the present message; listeners with slots have some."""
        bounds = broker.config.bounds
        self._rates = None
        if bounds.messages_per_s or bounds.bytes_per_s:
            self._rates = ClientRates(bounds.messages_per_s, bounds.bytes_per_s)

    def begin(self, now_us: Instant) -> None:
        """Begin to read a chunk of received bytes."""
        self._now_us = now_us
        if self._version != self._router.version or self._gate is not self._broker.gate:
            self._forget()

    def _forget(self) -> None:
        """Forget the fans of topics: a subscription or the access rules have changed."""
        self._version = self._router.version
        self._gate = self._broker.gate
        # An access list makes the fans of topics this client's own.
        self.routes = self._fans = self._router.known if self._gate.open else {}

    def miss(self, topic: bytes) -> Fan | None:
        """The fan of a topic that `routes` does not know; None if it is no topic."""
        denied = None if self._gate.open else self._denied
        return self._router.look_up_plain(topic, self._fans, denied=denied)

    def _fan(self, topic: bytes) -> Fan:
        if self._version != self._router.version:  # a SUBSCRIBE may have come with it
            self._forget()
        found = self._fans.get(topic)
        if found is None:
            denied = None if self._gate.open else self._denied
            found = self._router.look_up(topic, self._fans, denied=denied)
        return found

    def _denied(self, topic: str) -> bool:
        """Whether the client may not publish on a topic: asked once for each topic, not for each message."""
        session = self._session
        allowed = self._gate.may_publish(session.user, session.client_id, topic)
        if not allowed:
            self._broker.client_log.denied(
                session.client_id, user=session.user, may_not="publish on", topic=topic
            )
        return not allowed

    def lone(self, chunk: bytes, now_us: Instant) -> bool:  # noqa: C901, PLR0912 (see below)
        """Forward a plain QoS 0 message that came alone; False, and nothing is done, if it is not so simple.

        All in one place: when little goes on the processor's caches are cold, and every further function,
        object and list costs microseconds.
        """
        known = self._version == self._router.version  # else what is remembered may not hold any more
        if chunk[0] != QOS0 or self._rates is not None or not (known and 4 <= len(chunk) <= self._most):
            return False
        length, at = chunk[1], 2
        if length > 127:
            length, at = length & 127 | chunk[2] << 7, 3
        if at + length != len(chunk) or length < 2 or not 0 < chunk[at - 1] < 128:
            return False
        topic_end = at + 2 + (chunk[at] << 8 | chunk[at + 1])
        fan = self._fans.get(chunk[at + 2 : topic_end])
        session = self._session
        if fan is None or topic_end > len(chunk):
            return False
        targets = fan.plain4
        if self._mqtt == V5:
            targets = fan.plain5
            if topic_end == len(chunk) or chunk[topic_end]:
                return False
        far = fan.far
        if len(targets) + len(far) != len(fan.all) or not fan.all:
            return False
        for target in targets:
            if not target.delivery.keeping_up:
                return False
        # Several nodes may get it through each other: what is for them has to be sent together.
        if far and (len(far) > 1 or not far[0].keeping_up):
            return False
        session.published += 1
        self._broker.messages_received += 1
        for target in targets:
            receiver = target.delivery
            target.subscription.direct += 1
            receiver.sent += 1
            out = receiver.out
            assert out is not None
            out.write_now(chunk)
        if far:
            sender, seq = session.client_id, session.published
            run = Run(chunk, 1, version=self._mqtt, sender=sender, seq=seq, now_us=now_us)
            far[0].deliver_run(run, now_us=now_us, alone=True)
        if targets and not session.published & SAMPLED:
            targets[0].subscription.latency.add(self._broker.clock() - now_us)
        return True

    # -- runs ------------------------------------------------------------------------------------------------

    def run(self, fan: Fan, data: bytes, count: int, first: int) -> None:
        """Plain messages for the same receivers, of the QoS that their first byte says."""
        if first == QOS1:
            self._run_acknowledged(fan, data, count)
            return
        broker, session = self._broker, self._session
        seq = session.published + 1
        session.published += count
        broker.messages_received += count
        if self._rates is not None:
            self._rates.spend(count, len(data), now_us=self._now_us)
        if fan.into is None and not fan.wanted and not self._unwanted(fan, count):
            return
        now_us = self._now_us
        run = Run(data, count, version=self._mqtt, sender=session.client_id, seq=seq, now_us=now_us)
        if fan.into is not None:
            fan.into.run(run, self._connection)
            return
        for target in fan.plain5:
            target.delivery.deliver_run(target.subscription, run)
        for target in fan.plain4:
            target.delivery.deliver_run(target.subscription, run)
        for peer in fan.far:
            peer.deliver_run(run, now_us=now_us)
        if fan.special:
            for event in run.events():
                for receiver in fan.special:
                    receiver.deliver(event, origin=session, now_us=now_us)

    def _run_acknowledged(self, fan: Fan, data: bytes, count: int) -> None:
        """Plain messages of QoS 1: together, or one by one if one of them must be looked at."""
        taken = self._run_qos1 if fan.into is None else self._run_into
        if not taken(fan, data, count):
            for frame in Framer().feed(data):
                self.frame(frame)

    def _unwanted(self, fan: Fan, count: int) -> bool:
        """Count messages that nobody gets; returns whether a tap wants to see them."""
        if fan.denied:
            self._broker.count_refused("publish not allowed", count)
        else:
            self._broker.unrouted += count
        return bool(fan.special)

    def _run_qos1(self, fan: Fan, data: bytes, count: int) -> bool:
        """Send QoS 1 messages on and answer them; False, and nothing is done, if one must be looked at."""
        session, broker = self._session, self._broker
        targets = fan.plain5 if self._mqtt == V5 else fan.plain4
        if fan.far:
            return self._run_far(fan, targets, data, count)
        if len(targets) != len(fan.all) or not targets or session.exchange.incoming.in_flight:
            return False
        if not all(target.delivery.takes_qos1(target.subscription, count) for target in targets):
            return False
        session.published += count
        broker.messages_received += count
        if self._rates is not None:
            self._rates.spend(count, len(data), now_us=self._now_us)
        heads, packet_ids, tails = split_qos1(data)
        for target in targets:
            target.delivery.deliver_qos1(target.subscription, heads, tails)
        self._connection.output.write(PUBACK_START + PUBACK_START.join(packet_ids))
        return True

    def _run_far(self, fan: Fan, targets: list[Target], data: bytes, count: int) -> bool:
        """Send QoS 1 messages on, to other nodes, too; they are answered when these have them."""
        session, broker, now_us = self._session, self._broker, self._now_us
        if len(targets) + len(fan.far) != len(fan.all) or self._replies.choked():
            return False
        if not all(target.delivery.takes_qos1(target.subscription, count) for target in targets):
            return False
        heads, raw, tails = split_qos1(data)
        packet_ids = [int.from_bytes(packet_id, "big") for packet_id in raw]
        if not session.exchange.incoming.arrive_many(packet_ids):
            return False
        if broker.journal is not None:
            broker.journal.begin()
        seq, version = session.published + 1, self._mqtt
        session.published += count
        broker.messages_received += count
        if self._rates is not None:
            self._rates.spend(count, len(data), now_us=now_us)
        for target in targets:
            target.delivery.deliver_qos1(target.subscription, heads, tails)
        run = AcknowledgedRun(data, count, version=version, sender=session.client_id, seq=seq, now_us=now_us)
        for peer in fan.far:
            peer.deliver_run(run, now_us=now_us)
        self._replies.when_handed(packet_ids, 1, len(data), fan.peers)
        return True

    def _run_into(self, fan: Fan, data: bytes, count: int) -> bool:
        """Give QoS 1 messages to the sink of their topic, which answers them; False: read them one by one."""
        assert fan.into is not None
        if not fan.into.run_qos1(self._session, self._connection, data, now_us=self._now_us):
            return False
        self._broker.messages_received += count
        if self._rates is not None:
            self._rates.spend(count, len(data), now_us=self._now_us)
        return True

    # -- messages --------------------------------------------------------------------------------------------

    def frame(self, frame: bytes) -> None:
        """Handle a PUBLISH that is not part of a run."""
        session = self._session
        first, topic, packet_id, properties_at, payload_at = spans(frame, self._mqtt)
        properties = NONE
        if payload_at > properties_at:
            properties = self._broker.properties(frame[properties_at:payload_at])
            if properties.subscription_ids:
                raise ProtocolError("only a server sends it", where="PUBLISH subscription identifier")
        if not topic or properties.topic_alias is not None:
            topic = self._connection.rules.aliases_in.resolve(topic, properties.topic_alias)
        fan = self._fan(topic)
        self._broker.messages_received += 1
        if self._rates is not None:
            self._rates.spend(1, len(frame), now_us=self._now_us)
        qos = first >> 1 & 3
        if qos:
            arrival = session.exchange.incoming.arrive(packet_id, qos=qos)
            # With QoS 1 the first of a packet identifier is new on each connection.
            if session.orphans and (qos == 2 or first & 8) and adopt(session, packet_id, qos):
                return
            if arrival is not Arrival.NEW:
                if arrival is Arrival.AGAIN:
                    self._replies.again(packet_id, qos)
                return
            self._replies.check_disk(packet_id, stored_elsewhere=fan.into is not None)
        session.published += 1
        now_us = self._now_us
        message = message_of(
            topic.decode(),
            frame[payload_at:],
            topic_bytes=topic,
            now_us=now_us,
            sender=session.client_id,
            seq=session.published,
            qos=qos,
            retain=bool(first & 1),
            properties=properties,
            expires_us=expiry_of(properties, now_us),
        )
        if fan.into is not None:
            into = fan.into
            if qos:
                into.publish(message, session, self._connection, packet_id)
            else:
                into.publish_qos0(message, self._connection)
            return
        reason = self._accept(message, fan, qos)
        if qos:
            self._acknowledge(message, fan, packet_id, reason)

    def _accept(self, message: Message, fan: Fan, qos: int) -> int:
        """Hand a message on; the reason code to answer with."""
        broker = self._broker
        if broker.journal is not None:
            broker.journal.begin()
        if fan.denied:
            broker.count_refused("publish not allowed")
            return Reason.NOT_AUTHORIZED
        if qos and self._replies.choked():
            broker.count_refused("store behind")
            return Reason.QUOTA_EXCEEDED
        return broker.accept(message, fan, origin=self._session, now_us=self._now_us)

    def _acknowledge(self, message: Message, fan: Fan, packet_id: int, reason: int) -> None:
        """Answer a message of QoS 1 or 2 when it is safe, and in the hands of the nodes that want it."""
        if fan.peers and reason < Reason.UNSPECIFIED:
            self._replies.when_handed((packet_id,), message.qos, message.size, fan.peers)
        else:
            self._replies.when_safe(packet_id, message.qos, reason, self._said)

    def pause_s(self) -> float:
        """How long to read nothing, so that the client stays within its rates."""
        return 0.0 if self._rates is None else self._rates.wait_s(now_us=self._now_us)
