"""Parts that plug into a broker which knows none of them: a sink, a listener, a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import StreamError
from penstock.mqtt.codes import Reason
from penstock.mqtt.packets.connect import Disconnect, Pingreq, Pingresp
from penstock.node.broker.extensions import SessionListener, SessionSource
from tests.kit.peer import node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.instant import Instant
    from penstock.node.broker.answers import PublishingLink, PublishingSession
    from penstock.node.broker.extensions import SessionIdentity
    from penstock.node.broker.message import Message
    from penstock.node.broker.runs import Run
    from penstock.node.broker.session import Session
    from penstock.node.broker.subscription import Subscription


class Sink:
    """Takes messages under `sunk/`; refuses those with a QoS, which it has no disk for."""

    def __init__(self) -> None:
        self.got: list[bytes] = []

    def find(self, topic: str) -> Sink | None:
        return self if topic.startswith("sunk/") else None

    def accept(self, message: Message) -> int:
        self.got.append(message.payload)
        return Reason.SUCCESS

    def publish_qos0(self, message: Message, connection: PublishingLink) -> None:  # noqa: ARG002
        self.got.append(message.payload)

    def publish(
        self, message: Message, session: PublishingSession, connection: PublishingLink, packet_id: int
    ) -> None:
        self.got.append(message.payload)
        connection.send(session.exchange.incoming.answer(packet_id, reason=Reason.QUOTA_EXCEEDED))

    def run(self, run: Run, connection: PublishingLink) -> None:  # noqa: ARG002
        self.got += [payload for _, payload in run.parts()]

    def run_qos1(
        self, session: PublishingSession, connection: PublishingLink, data: bytes, *, now_us: Instant
    ) -> bool:
        del session, connection, data, now_us
        return False


class Listener(SessionListener):
    """Remembers what it was told; refuses subscriptions that ask for what is forbidden."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def check(self, client_id: str, filter_: str, asked: Mapping[str, str]) -> None:  # noqa: ARG002
        if "forbidden" in asked:
            raise StreamError("this is forbidden")

    def subscribed(self, subscription: Subscription, asked: Mapping[str, str], *, again: bool) -> None:
        self.told.append(f"{subscription.client_id} {subscription.filter} {dict(asked)} {again}")

    def unsubscribed(self, session: SessionIdentity, filter_: str) -> None:
        self.told.append(f"{session.client_id} without {filter_}")

    def ended(self, session: SessionIdentity) -> None:
        self.told.append(f"{session.client_id} ended")


class Greeting(SessionSource):
    """Sends one packet behind everything else, when the session is first drained."""

    def __init__(self, session: Session, packet: bytes) -> None:
        self._session = session
        self._packet = packet

    @property
    def behind(self) -> bool:
        return bool(self._packet)

    def drain(self, *, now_us: Instant) -> None:  # noqa: ARG002
        packet, self._packet = self._packet, b""
        if packet and self._session.link is not None:
            self._session.link.output.write(packet)


async def test_a_sink_takes_messages_in_the_place_of_receivers() -> None:
    async with node() as running:
        sink = Sink()
        running.broker.router.sinks.append(sink.find)
        subscriber, publisher = await running.connect("s"), await running.connect("p")
        await subscriber.subscribe("#")
        publisher.publish0("sunk/a", b"0")
        assert (await publisher.publish1("sunk/a", b"1")).reason == Reason.QUOTA_EXCEEDED
        running.broker.publish("sunk/b", b"2")
        await publisher.publish1("other", b"3")
        assert await subscriber.payloads(1) == [b"3"]
        assert sink.got == [b"0", b"1", b"2"]


async def test_a_listener_refuses_subscriptions_and_is_told_of_others() -> None:
    async with node() as running:
        listener = Listener()
        running.broker.listeners.append(listener)
        peer = await running.connect("c")
        refused = await peer.subscribe("a", user=(("forbidden", "yes"),))
        assert refused.reasons == (Reason.IMPLEMENTATION_SPECIFIC,)
        assert refused.properties.reason_string == "this is forbidden"
        assert listener.told == []
        await peer.subscribe("a", user=(("start", "1"),))
        await peer.subscribe("a")
        await peer.subscribe("b")
        await peer.unsubscribe("a", "c")
        peer.send(Disconnect())
        assert await peer.closed()
        assert listener.told == [
            "c a {'start': '1'} False",
            "c a {} True",
            "c b {} False",
            "c without a",
            "c without b",
            "c ended",
        ]


async def test_a_source_feeds_a_session_besides_its_queues() -> None:
    async with node() as running:
        peer = await running.connect("c")
        session = running.broker.sessions.get("c")
        assert session is not None
        session.sources.append(Greeting(session, b"\x30\x08\x00\x02hi\x00you"))
        peer.send(Pingreq())
        await peer.answer(Pingresp)
        assert await peer.payloads(1) == [b"you"]
