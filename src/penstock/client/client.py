"""The client a program uses: connects, publishes, subscribes, and connects again when the way is lost.

It is put together of small machines: `connection` is one connection, `sending` and `receiving` are its two
halves, which live as long as the client, as does the MQTT session between them.
"""

from __future__ import annotations

import asyncio
import logging
from random import SystemRandom
from secrets import token_hex
from typing import TYPE_CHECKING, Final, Literal, Self

from msgspec.structs import replace

from penstock import limits
from penstock.client.address import read_address
from penstock.client.backoff import pauses_s
from penstock.client.connection import Connection
from penstock.client.message import message
from penstock.client.receiving import Receiver
from penstock.client.sending import Published, Sender
from penstock.client.statistics import ClientStatistics
from penstock.client.subscription import Subscription, Wanted
from penstock.core.queues import QueueOptions
from penstock.errors import (
    BufferFull,
    ClientError,
    ConnectionLost,
    ConnectRefused,
    InputError,
    MqttError,
    PenstockError,
    PolicyError,
    SubscribeRefused,
)
from penstock.mqtt.client_session import Answered, ClientSession, Received, Settled
from penstock.mqtt.connect import Connect
from penstock.mqtt.disconnect import Disconnect
from penstock.mqtt.packet_ids import MOST
from penstock.mqtt.properties import NONE, Properties
from penstock.mqtt.reasons import Reason, explained
from penstock.mqtt.subscribe import Suback, Subscribe
from penstock.mqtt.subscribe import Subscription as Options
from penstock.mqtt.topics import check_filter
from penstock.policy.fast import Plan
from penstock.policy.nodes import Policy
from penstock.policy.read import parse
from penstock.policy.write import to_json

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping

    from penstock.client.receipts import Receipt
    from penstock.mqtt.connect import Will
    from penstock.mqtt.packet import Packet
    from penstock.mqtt.publish import Publish

log = logging.getLogger(__name__)

FINAL: Final = frozenset(
    {
        Reason.UNSUPPORTED_VERSION,
        Reason.CLIENT_ID_NOT_VALID,
        Reason.BAD_USER_NAME_OR_PASSWORD,
        Reason.NOT_AUTHORIZED,
        Reason.BANNED,
        Reason.BAD_AUTHENTICATION_METHOD,
        Reason.USE_ANOTHER_SERVER,
        Reason.SERVER_MOVED,
        Reason.SESSION_TAKEN_OVER,
    }
)
"""Reasons for which the answer to the next attempt would be the same, or should be."""

BLAME: Final = frozenset(
    {
        Reason.MALFORMED_PACKET,
        Reason.PROTOCOL_ERROR,
        Reason.TOPIC_NAME_INVALID,
        Reason.TOPIC_ALIAS_INVALID,
        Reason.PACKET_TOO_LARGE,
        Reason.QUOTA_EXCEEDED,
        Reason.PAYLOAD_FORMAT_INVALID,
    }
)
"""Reasons that lie in what we send; it would be sent again, so after BLAMED of them in a row it is over."""

BLAMED: Final = 3

BREATH: Final = 100
"""Messages published in a row before the event loop gets a turn."""

_WINDOW: Final = MOST // 2
"""Messages unanswered at most; the other half of the packet identifiers is for requests."""


class Client:
    """An MQTT 5 client: `async with Client("mqtt://127.0.0.1:1883") as client: …`.

    When the connection is lost it is made again, after pauses that grow; meanwhile messages wait in a bounded
    buffer. Made for one event loop and one thread.
    """

    def __init__(  # noqa: PLR0913  # each says one thing about a client
        self,
        url: str = "mqtt://127.0.0.1:1883",
        *,
        client_id: str | None = None,
        user: str | None = None,
        password: str | bytes | None = None,
        tls: ssl.SSLContext | None = None,
        session_expiry_s: int | None = None,
        clean_start: bool | None = None,
        keep_alive_s: int = 60,
        will: Will | None = None,
        reconnect: bool = True,
        reconnect_most_s: float = limits.RECONNECT_MOST_S,
        send_policy: Policy | str | None = None,
        send_events: int = limits.QUEUE_EVENTS,
        send_bytes: int = limits.QUEUE_BYTES,
        packet_bytes: int = limits.MQTT_PACKET_BYTES,
        topic_aliases: bool = False,
    ) -> None:
        """Nothing is done yet; wrong arguments are refused.

        `session_expiry_s`: how long the node keeps the session of a client that is away, also beyond this
        program. Without it the session lasts long enough to connect again, and ends with `close`.
        `clean_start`: whether to begin anew; if not said, a session that outlives programs is taken up again.
        `reconnect_most_s`: the longest pause before connecting again; it begins at half a second and doubles.
        `send_policy`: what may go when more waits to be sent than `send_events` and `send_bytes` allow;
        without one, `publish` waits. `topic_aliases`: numbers in the place of topics, both ways: fewer bytes
        on a slow link, more work for the node.
        """
        self._address = read_address(url)
        self._tls = tls
        self._packet_bytes = packet_bytes
        self._reconnects = reconnect
        if not 0 < reconnect_most_s < float("inf"):
            raise InputError(f"reconnect_most_s is {reconnect_most_s}; it is a number of seconds above 0")
        self._pause_most_s = reconnect_most_s
        self._lasting = session_expiry_s is not None
        expiry_s = limits.CLIENT_KEEP_S if session_expiry_s is None else session_expiry_s
        if not 0 <= keep_alive_s <= 0xFFFF or not 0 <= expiry_s <= 0xFFFF_FFFF:
            raise InputError("keep_alive_s goes from 0 to 65,535, session_expiry_s to 4,294,967,295")
        self._connect = Connect(
            client_id=f"penstock-{token_hex(8)}" if client_id is None else client_id,
            clean_start=not (self._lasting and expiry_s) if clean_start is None else clean_start,
            keep_alive_s=keep_alive_s,
            will=will,
            username=user,
            password=password.encode() if isinstance(password, str) else password,
            properties=Properties(
                session_expiry_s=expiry_s,
                receive_maximum=limits.MQTT_RECEIVE_MAXIMUM,
                maximum_packet_size=packet_bytes,
                topic_alias_maximum=limits.MQTT_TOPIC_ALIASES if topic_aliases else None,
            ),
        )
        plan = None if send_policy is None else Plan(_read(send_policy))
        self._session = ClientSession()
        self._receiver = Receiver(self._session)
        options = QueueOptions(capacity_events=send_events, capacity_bytes=send_bytes)
        self._sender = Sender(self._session, options=options, plan=plan)
        self._connection: Connection | None = None
        self._lost = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._asked: dict[str, asyncio.Future[None]] = {}
        """Filters of subscriptions that wait for their answer."""
        self._leaving: dict[str, asyncio.Future[None]] = {}
        """Filters of subscriptions that end."""
        self._over: ClientError | None = None
        self._connections = 0
        self._resumed = 0
        self._breath = 0
        self._blamed = 0
        """How often in a row the node has ended the connection for what we sent."""

    # -- connecting ------------------------------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        """As the node knows it."""
        return self._connect.client_id

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Connect for the first time; ClientError says why it came to nothing, and nothing is tried again."""
        assert self._keeper is None, "connect once"
        await self._attach()
        self._keeper = asyncio.create_task(self._keep())
        self._keeper.add_done_callback(self._kept)

    async def _attach(self) -> None:
        connect = self._connect
        if self._connections:
            # What was meant to begin anew has begun; from now on the session is to go on.
            connect = _again(connect)
        connection = Connection(connect, self, self._address, packet_bytes=self._packet_bytes)
        connack = await connection.open(tls=self._tls)
        again = self._session.resume(
            session_present=connack.session_present,
            window=min(connection.rules.window, _WINDOW),
            maximum=limits.MQTT_RECEIVE_MAXIMUM,
        )
        self._connection = connection
        self._connections += 1
        self._resumed += connack.session_present
        self._lost.clear()
        self._receiver.attach(connection, session_present=connack.session_present)
        self._renew(connection, session_present=connack.session_present)
        self._sender.attach(connection, again)
        connection.begin()

    def _renew(self, connection: Connection, *, session_present: bool) -> None:
        """Ask for what the node does not know: all subscriptions, or those not answered yet."""
        for filter_, leaving in list(self._leaving.items()):
            if session_present:
                connection.send(self._session.unsubscribe(filter_))
            elif not leaving.done():
                leaving.set_result(None)
        for each in self._receiver.held():
            if each.filter not in self._leaving and (not session_present or each.filter in self._asked):
                try:
                    self._ask(connection, each)
                except MqttError as error:  # the node takes less than it did
                    self._refused(each, error)

    async def _keep(self) -> None:
        """Stay connected."""
        loop = asyncio.get_running_loop()
        pauses = self._pauses()
        while True:
            since_s = loop.time()
            await self._lost.wait()
            if loop.time() - since_s > self._pause_most_s:
                pauses = self._pauses()  # else the node lets us in, but not for long
            for pause_s in pauses:
                if self._over is not None:
                    return
                log.warning("connecting again in %.1f s", pause_s)
                await asyncio.sleep(pause_s)
                try:
                    await self._attach()
                except ConnectRefused as error:
                    if error.reason in FINAL:
                        self._fail(ConnectionLost(str(error), reason=error.reason))
                    log.warning("%s", error)
                except ClientError as error:
                    log.warning("%s", error)
                else:
                    log.info("connected to %s", self._address)
                    break

    def _pauses(self) -> Iterator[float]:
        least_s = min(limits.RECONNECT_LEAST_S, self._pause_most_s)
        return pauses_s(SystemRandom(), least_s=least_s, most_s=self._pause_most_s)

    def _kept(self, task: asyncio.Task[None]) -> None:
        """Nobody waits for ever because of a bug."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a bug: the client does not connect again", exc_info=error)
            self._fail(ConnectionLost(f"a bug in Penstock: {type(error).__name__}: {error}"))

    # -- what a connection says ------------------------------------------------------------------------------

    def heard(self, packet: Packet) -> None:
        """A packet of the node."""
        outcome = self._session.receive(packet)
        for each in outcome.send:
            self._sender.send_again(each)
        match outcome.happened:
            case Received(message):
                self._receiver.arrived(message)
            case Settled():
                self._blamed = 0
                self._sender.settled(outcome.happened)
                self._sender.drain()
            case Answered():
                self._answered(outcome.happened)
            case None:
                self._sender.drain()

    def writable(self) -> None:
        """More can be sent."""
        self._sender.drain()

    def gone(self, error: ConnectionLost) -> None:
        """The connection is lost."""
        self._connection = None
        self._sender.detach()
        self._receiver.detach()
        self._blamed += error.reason in BLAME
        if not self._reconnects or error.reason in FINAL or self._blamed >= BLAMED:
            self._fail(error)
        else:
            log.warning("%s", error)
        self._lost.set()

    def _fail(self, error: ClientError) -> None:
        """It is over; everyone is told."""
        if self._over is not None:
            return
        self._over = error
        self._sender.abandon(error)
        self._receiver.end(error)
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(error)
        for waiting in self._leaving.values():
            if not waiting.done():
                waiting.set_result(None)

    async def close(self) -> None:
        """Send what waits, for CLIENT_CLOSE_S at most, then leave; what is not sent is counted."""
        if self._connection is not None and self._over is None:
            try:
                async with asyncio.timeout(limits.CLIENT_CLOSE_S):
                    await self._receiver.wait_for(self._sender.idle())
            except TimeoutError:
                log.warning("closing: not everything was sent and acknowledged")
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        connection, self._connection = self._connection, None
        if self._over is None:
            closed = ConnectionLost("this client is closed")
            self._over = closed
            self._sender.abandon(closed)
            self._receiver.detach()
            self._receiver.end(None)
            for waiting in [*self._asked.values(), *self._leaving.values()]:
                if not waiting.done():
                    waiting.set_exception(closed)
        if connection is not None:
            await connection.close(Disconnect(properties=NONE if self._lasting else _ENDING))

    # -- publishing ------------------------------------------------------------------------------------------

    async def publish(  # noqa: PLR0913  # each is a part of the message
        self,
        topic: str,
        payload: bytes | str = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Mapping[str, str] | None = None,
        content_type: str | None = None,
        expiry_s: int | None = None,
        response_topic: str | None = None,
        correlation_data: bytes | None = None,
    ) -> Published:
        """Publish; with QoS 1 and 2, the answer of the node: PublishRefused if it is no.

        Waits while more waits to be sent than may, unless the client has a policy for that. Whoever stops
        waiting has not taken the message back.
        """
        packet = message(
            topic,
            payload,
            qos=qos,
            retain=retain,
            properties=properties,
            content_type=content_type,
            expiry_s=expiry_s,
            response_topic=response_topic,
            correlation_data=correlation_data,
        )
        done: asyncio.Future[Published] | None = (
            asyncio.get_running_loop().create_future() if packet.qos else None
        )
        self._check()
        if not self._sender.offer(packet, done):
            await self._offer_later(packet, done)
        if done is None:
            await self._breathe()
            return Published()
        return await self._receiver.wait_for(done)

    async def _offer_later(self, packet: Publish, done: asyncio.Future[Published] | None) -> None:
        while True:
            await self._receiver.wait_for(self._sender.room())
            self._check()
            if self._sender.offer(packet, done):
                return

    async def _breathe(self) -> None:
        """Let the loop have a turn now and then, and always when the connection does not take more."""
        self._breath += 1
        if self._breath >= BREATH or self._sender.behind:
            self._breath = 0
            await asyncio.sleep(0)

    def publish_nowait(
        self,
        topic: str,
        payload: bytes | str = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Mapping[str, str] | None = None,
        content_type: str | None = None,
        expiry_s: int | None = None,
    ) -> None:
        """Publish without waiting for anything; BufferFull if there is no room for it to wait."""
        packet = message(
            topic,
            payload,
            qos=qos,
            retain=retain,
            properties=properties,
            content_type=content_type,
            expiry_s=expiry_s,
        )
        self._check()
        if not self._sender.offer(packet, None):
            where = "the node is slow" if self.connected else "there is no connection"
            raise BufferFull(
                f"{self._sender.statistics().waiting} messages wait to be sent and {where}; "
                "wait with `publish`, or give the client a `send_policy`"
            )

    def _check(self) -> None:
        if self._over is not None:
            raise ConnectionLost(str(self._over), reason=getattr(self._over, "reason", None))
        if self._keeper is None:
            raise ClientError("not connected yet: `async with Client(…)`, or `await client.connect()`")

    # -- subscribing -----------------------------------------------------------------------------------------

    async def subscribe(  # noqa: PLR0913  # each is a part of the subscription
        self,
        topic_filter: str,
        *,
        qos: int = 0,
        policy: Policy | str | None = None,
        filter: str | None = None,  # noqa: A002  # as the node calls it
        start: Literal["earliest"] | int | None = None,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
        when_slow: Literal["wait", "pack"] = "wait",
        buffer_events: int = limits.QUEUE_EVENTS,
        acknowledge: Literal["taken", "done"] = "taken",
    ) -> Subscription:
        """Subscribe; SubscribeRefused or PolicyError if the node says no.

        `policy`: what may go when this program is slow: a policy, its text, or the name under which the node
        knows it. `filter`: a content filter, asked by the node before anything is queued. `start`: where to
        begin in reliable streams, a tick or "earliest"; without it, with what comes now. `when_slow`: while
        the program is behind, "wait" stops reading, so the policy works in the node's queue; "pack" reads on,
        and it works in this client's buffer. `acknowledge`: whether messages of QoS 1 and 2 are acknowledged
        as the program takes them, or when it calls `Subscription.done`, so that a crash loses none.
        """
        if qos not in (0, 1, 2) or retain_handling not in (0, 1, 2):
            raise InputError(f"qos is {qos}, retain_handling {retain_handling}; each is 0, 1 or 2")
        check_filter(topic_filter, where="filter")
        self._check()
        if self._receiver.find(topic_filter) is not None:
            raise InputError(f"this client has subscribed to '{topic_filter}' already; close that one first")
        told = {"policy": _written(policy), "filter": filter}
        wanted = Wanted(
            options=Options(
                topic_filter,
                qos,
                no_local=no_local,
                retain_as_published=retain_as_published,
                retain_handling=retain_handling,
            ),
            user=tuple((name, text) for name, text in told.items() if text is not None),
            start=_start(start),
            plan=_plan(policy),
            when_slow=when_slow,
            buffer_events=buffer_events,
            acknowledge=acknowledge,
        )
        number = self._receiver.number_for(
            topic_filter, alone=wanted.alone, choosy=wanted.choosy, strict=wanted.start is not None
        )
        subscription = Subscription(self, wanted, number=number)
        answer = self._asked[topic_filter] = asyncio.get_running_loop().create_future()
        self._receiver.add(subscription)
        try:
            if self._connection is not None:
                self._ask(self._connection, subscription)
            await self._receiver.wait_for(answer)
        except BaseException:
            self._receiver.remove(subscription)
            subscription.end(give_up=True)
            raise
        finally:
            self._asked.pop(topic_filter, None)
        return subscription

    def _ask(self, connection: Connection, subscription: Subscription) -> None:
        numbered = subscription.number and connection.rules.granted.subscription_ids_available != 0
        start = subscription.places.start
        user = subscription.wanted.user + (() if start is None else (("start", str(start)),))
        properties = Properties(user=user, subscription_ids=(subscription.number,) if numbered else ())
        options = subscription.wanted.options
        connection.check(Subscribe(1, (options,), properties))
        connection.send(self._session.subscribe(options, properties=properties))

    def _answered(self, found: Answered) -> None:
        if not isinstance(found.answer, Suback):
            for filter_ in found.request.filters:  # type: ignore[union-attr]  # the session has paired them
                leaving = self._leaving.get(filter_)
                if leaving is not None and not leaving.done():
                    leaving.set_result(None)
            return
        filter_ = found.request.subscriptions[0].filter  # type: ignore[union-attr]
        waiting = self._asked.get(filter_)
        subscription = self._receiver.find(filter_)
        if subscription is None:  # whoever asked has stopped waiting
            return
        (reason,) = found.answer.reasons
        if reason < Reason.UNSPECIFIED:
            subscription.granted_qos = reason
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
            return
        self._refused(subscription, _refusal(filter_, found.answer, reason))

    def _refused(self, subscription: Subscription, error: PenstockError) -> None:
        waiting = self._asked.get(subscription.filter)
        if waiting is None:  # asked for again after the node had lost the session
            subscription.end(error)
        elif not waiting.done():
            waiting.set_exception(error)

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; `Subscription.close` is the usual way."""
        if self._receiver.find(subscription.filter) is not subscription:
            return
        if self._over is None:
            leaving = self._leaving[subscription.filter] = asyncio.get_running_loop().create_future()
            try:
                if self._connection is not None:
                    self._connection.send(self._session.unsubscribe(subscription.filter))
                await self._receiver.wait_for(leaving)
            finally:
                del self._leaving[subscription.filter]
        subscription.end(give_up=True)
        self._receiver.remove(subscription)
        self._receiver.relieved()

    def relieved(self) -> None:
        """A subscription's program has caught up a little."""
        self._receiver.relieved()

    def taken(self, receipt: Receipt) -> None:
        """A message of QoS 1 or 2 is in the program's hands."""
        self._receiver.receipts.taken(receipt)

    # -- what can be known -----------------------------------------------------------------------------------

    def statistics(self) -> ClientStatistics:
        """The client at this moment."""
        return ClientStatistics(
            client_id=self.client_id,
            connected=self.connected,
            connections=self._connections,
            resumed=self._resumed,
            reading=not self._receiver.paused,
            sent=self._sender.statistics(),
            received=self._receiver.statistics(),
            unclaimed=self._receiver.unclaimed,
            unwanted=self._receiver.unwanted,
            unacknowledged=len(self._receiver.receipts),
        )


_ENDING: Final = Properties(session_expiry_s=0)


def _again(connect: Connect) -> Connect:
    return replace(connect, clean_start=not connect.properties.session_expiry_s)


def _read(policy: Policy | str) -> Policy:
    return policy if isinstance(policy, Policy) else parse(policy, source="policy")


def _written(policy: Policy | str | None) -> str | None:
    return to_json(policy, compact=True) if isinstance(policy, Policy) else policy


def _start(start: str | int | None) -> int | None:
    if start == "earliest":
        return 0
    if isinstance(start, str) or (start is not None and start < 0):
        raise InputError(f"start is {start!r}; it is 'earliest' or a tick")
    return start


def _plan(policy: Policy | str | None) -> Plan | None:
    """The policy for this client's own buffer; None for one that only the node knows."""
    try:
        return None if policy is None else Plan(_read(policy))
    except PolicyError:
        return None  # a name, or a mistake that the node will explain


def _refusal(filter_: str, answer: Suback, reason: int) -> PolicyError | SubscribeRefused:
    said = answer.properties.reason_string
    kinds = {name for name, _ in answer.properties.user}
    if kinds & {"policy-error", "filter-error"}:
        return PolicyError(said or f"the node refused it for '{filter_}'")
    problem = f"'{filter_}': {explained(reason)}"
    return SubscribeRefused(f"{problem}: {said}" if said else problem, reason=reason)
