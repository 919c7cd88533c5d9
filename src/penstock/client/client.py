"""`Client`, the MQTT client of a program: connects, publishes, subscribes, and reconnects after a loss.

`reconnect` stays connected, `connection` is one connection, `sending` and `receiving` are the two halves,
which live as long as the client and its MQTT session, and `subscribing` knows who waits for which
subscription.
"""

from __future__ import annotations

import asyncio
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Final, Literal, Self

from penstock import limits
from penstock.client.message import message
from penstock.client.nodes import Nodes, read_addresses
from penstock.client.receiver_policy import ReceiverPolicy
from penstock.client.receiving import Receiver
from penstock.client.reconnect import ConnectOptions, Keeper
from penstock.client.sending import Published, Sender
from penstock.client.statistics import ClientStatistics
from penstock.client.subscribing import SubscribeRequests
from penstock.client.subscription import (
    Subscription,
    SubscriptionOptions,
    first_tick,
    plan_here,
    plan_of,
    told,
)
from penstock.core.queues import QueueOptions
from penstock.errors import BufferFull, ClientError, ConnectionLost, InputError
from penstock.mqtt.packets.connect import Connect
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.subscribe import Subscription as Options
from penstock.mqtt.sessions.client import ClientSession
from penstock.mqtt.topics import check_filter

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from penstock.client.receipts import Receipt
    from penstock.mqtt.packets.connect import Will
    from penstock.mqtt.packets.publish import Publish
    from penstock.policy.nodes import Policy

BREATH: Final = 100
"""Messages published in a row before the event loop gets a turn."""


class Client:
    """An MQTT 5 client for asyncio that knows policies and digests.

        async with Client("mqtt://127.0.0.1:1883") as client:
            ward = await client.subscribe("ward/+", policy="vitals")
            await client.publish("ward/1", '{"pulse": 71}', qos=1)
            async for item in ward:
                print(item)

    When the connection is lost the client connects again, after pauses that grow; meanwhile messages wait in
    a bounded buffer. A client belongs to one event loop and one thread.
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
        receivers_of: str | None = None,
        send_events: int = limits.QUEUE_EVENTS,
        send_bytes: int = limits.QUEUE_BYTES,
        packet_bytes: int = limits.MQTT_PACKET_BYTES,
        topic_aliases: bool = False,
    ) -> None:
        """Check the arguments; `connect` or `async with` connects.

        * `url`: the node, as `mqtt://host:1883`, `mqtts://`, `ws://` or `wss://`; or several of one cluster,
          as `mqtt://a,b:1884`. The client keeps to the one that answers, tries the next when that one is
          down or refuses, and follows a node that names another server.
        * `client_id`: name of the client at the node; a random one if omitted.
        * `user`, `password`: for nodes with users.
        * `tls`: the certificates to trust, for `mqtts://` and `wss://`; those of the system if omitted.
        * `session_expiry_s`: how long the node keeps the session of a client that is away, also beyond this
          program. Without it the session lasts long enough to connect again, and ends with `close`.
        * `clean_start`: whether to start with an empty session; if omitted, a session that outlives programs
          is resumed.
        * `keep_alive_s`: longest silence before the client and the node check the connection; 0: never.
        * `will`: message that the node publishes when the connection is lost.
        * `reconnect`: whether to connect again after a loss.
        * `reconnect_most_s`: longest pause before connecting again; the first is half a second, each next
          one twice as long.
        * `send_policy`: which messages may be dropped when more wait to be sent than `send_events` and
          `send_bytes` allow; without a policy `publish` waits instead.
        * `receivers_of`: in place of a `send_policy`, a topic filter: the node tells the policy of those who
          receive its topics, and the client packs by it if all have the same one and receive everything
          there. Such a client publishes on these topics alone, and nothing retained.
        * `packet_bytes`: largest packet that is accepted.
        * `topic_aliases`: send numbers instead of topics, both ways: fewer bytes on a slow link, more work
          for the node.

        Raises InputError for an argument out of its bounds, PolicyError for a wrong `send_policy`.
        """
        if not 0 < reconnect_most_s < float("inf"):
            raise InputError(f"reconnect_most_s is {reconnect_most_s}; it is a number of seconds above 0")
        lasting = session_expiry_s is not None
        expiry_s = limits.CLIENT_KEEP_S if session_expiry_s is None else session_expiry_s
        if not 0 <= keep_alive_s <= 0xFFFF or not 0 <= expiry_s <= 0xFFFF_FFFF:
            raise InputError("keep_alive_s goes from 0 to 65,535, session_expiry_s to 4,294,967,295")
        connect = Connect(
            client_id=f"penstock-{token_hex(8)}" if client_id is None else client_id,
            clean_start=not (lasting and expiry_s) if clean_start is None else clean_start,
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
        if receivers_of is not None and send_policy is not None:
            raise InputError("a client has a send_policy of its own, or that of its receivers_of; not both")
        way = ConnectOptions(
            nodes=Nodes(read_addresses(url)),
            connect=connect,
            tls=tls,
            packet_bytes=packet_bytes,
            reconnect=reconnect,
            pause_most_s=reconnect_most_s,
            lasting=lasting,
        )
        self._client_id = connect.client_id
        session = ClientSession()
        self._receiver = Receiver(session)
        self._sender = Sender(
            session,
            options=QueueOptions(capacity_events=send_events, capacity_bytes=send_bytes),
            plan=None if send_policy is None else plan_of(send_policy),
        )
        self._policy = None if receivers_of is None else ReceiverPolicy(receivers_of, self._sender.pack_by)
        self._asking = SubscribeRequests(session, self._receiver)
        self._keeper = Keeper(
            way, session=session, sender=self._sender, receiver=self._receiver, asking=self._asking
        )
        self._breath = 0

    # -- connecting ------------------------------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        """Name of the client at the node."""
        return self._client_id

    @property
    def connected(self) -> bool:
        """Whether the client has a connection at this moment."""
        return self._keeper.connection is not None

    @property
    def address(self) -> str:
        """Address of the node that the client is connected to, or was last."""
        return str(self._keeper.address)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Connect for the first time.

        Raises Unreachable if nothing answers and ConnectRefused if the node refuses; neither is retried.
        """
        await self._keeper.connect()
        if self._policy is not None:
            await self._policy.start(partial(self.subscribe, qos=1))

    async def close(self) -> None:
        """Send what waits, for CLIENT_CLOSE_S at most, then disconnect.

        Messages that are not sent are counted as `abandoned` in `statistics()`.
        """
        if self._policy is not None:
            await self._policy.stop()
        await self._keeper.close()

    async def move(self, url: str) -> None:
        """Go to another node of the cluster; session, subscriptions and what waits come along.

            await client.move("mqtt://10.0.0.2:1883")

        If that node does not let the client in, the client goes to one of its list, or back; `address` says
        where it is. Raises InputError for a wrong address, ConnectionLost if the client is closed or has
        given up.
        """
        (address,) = found if len(found := read_addresses(url)) == 1 else (None,)
        if address is None or address.secure != self._keeper.address.secure:
            raise InputError(f"'{url}': one address, with TLS if this client came with it, and else without")
        self._check()
        await self._keeper.move(address)

    def _check(self, packet: Publish | None = None) -> None:
        if packet is not None and self._policy is not None:
            self._policy.check(packet)
        over = self._keeper.over
        if over is not None:
            raise ConnectionLost(str(over), reason=getattr(over, "reason", None))
        if not self._keeper.begun:
            raise ClientError("not connected yet: `async with Client(…)`, or `await client.connect()`")

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
        """Publish a message; with QoS 1 and 2, wait for the node's answer.

            answer = await client.publish("ward/1", '{"pulse": 71}', qos=1)

        Without a `send_policy` the call waits while the send buffer is full. Cancelling the call does not
        withdraw the message.

        * `topic`, `payload`: text is encoded as UTF-8.
        * `qos`: 0, 1 or 2. `retain`: the node keeps the message for later subscribers.
        * `properties`: user properties. `content_type`: such as `application/json`.
        * `expiry_s`: seconds after which the message is no longer delivered.
        * `response_topic`, `correlation_data`: for requests and replies over MQTT.

        Raises PublishRefused if the node refuses the message, InputError for a wrong argument, ConnectionLost
        if the client is closed or has given up.
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
        self._check(packet)
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
        """Give the event loop a turn every BREATH messages, and whenever the connection is full."""
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
        """Publish without waiting, also not for an answer; the arguments are those of `publish`.

        Raises BufferFull if the send buffer is full and the client has no `send_policy`.
        """
        packet = message(
            topic,
            payload,
            qos=qos,
            retain=retain,
            properties=properties,
            content_type=content_type,
            expiry_s=expiry_s,
        )
        self._check(packet)
        if not self._sender.offer(packet, None):
            where = "the node is slow" if self.connected else "there is no connection"
            raise BufferFull(
                f"{self._sender.statistics().waiting} messages wait to be sent and {where}; "
                "wait with `publish`, or give the client a `send_policy`"
            )

    # -- subscribing -----------------------------------------------------------------------------------------

    async def subscribe(  # noqa: PLR0913  # each is a part of the subscription
        self,
        topic_filter: str,
        *,
        qos: int = 0,
        policy: Policy | str | None = None,
        filter: str | None = None,  # noqa: A002  # as the node calls it
        fresh: str | float | None = None,
        digests: Literal["compact", "json", "off"] | None = None,
        start: Literal["earliest"] | int | None = None,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
        when_slow: Literal["wait", "pack"] = "wait",
        buffer_events: int = limits.QUEUE_EVENTS,
        acknowledge: Literal["taken", "done"] = "taken",
    ) -> Subscription:
        """Subscribe to a topic filter and return an iterator over what arrives.

            ward = await client.subscribe("ward/+", qos=1, policy=open("vitals.yaml").read())

        * `topic_filter`: with wildcards, as `ward/+` or `ward/#`. `qos`: the highest to receive.
        * `policy`: which events may be dropped when this program is slow: a policy, its text, or the name of
          a policy that is registered at the node.
        * `filter`: a content filter; the node queues only events that pass.
        * `fresh`: the time that no event should wait longer, as "1s" or in seconds, in place of the policy's.
        * `digests`: digests come in the place of events that were dropped because this program was slow. Both
          forms in which a node writes them are read; "off": none come, the node tells of them on `$digest/…`.
        * `start`: where to begin in reliable streams, a tick or "earliest"; if omitted, with new messages.
        * `no_local`, `retain_as_published`, `retain_handling`: options of MQTT 5.
        * `when_slow`: while the program is behind, "wait" stops reading, so that the policy works in the
          node's queue; "pack" reads on, and the policy works in the client's buffer of `buffer_events`.
        * `acknowledge`: whether messages of QoS 1 and 2 are acknowledged when the program takes them
          ("taken"), or when it calls `Subscription.done` ("done"), so that a crash loses none.

        Raises SubscribeRefused or PolicyError if the node refuses, InputError for a wrong argument.
        """
        if qos not in (0, 1, 2) or retain_handling not in (0, 1, 2):
            raise InputError(f"qos is {qos}, retain_handling {retain_handling}; each is 0, 1 or 2")
        check_filter(topic_filter, where="filter")
        self._check()
        if self._receiver.find(topic_filter) is not None:
            raise InputError(f"this client has subscribed to '{topic_filter}' already; close that one first")
        wanted = SubscriptionOptions(
            options=Options(
                topic_filter,
                qos,
                no_local=no_local,
                retain_as_published=retain_as_published,
                retain_handling=retain_handling,
            ),
            user=told(policy=policy, content=filter, fresh=fresh, digests=digests),
            start=first_tick(start),
            plan=plan_here(policy),
            when_slow=when_slow,
            buffer_events=buffer_events,
            acknowledge=acknowledge,
        )
        number = self._receiver.number_for(
            topic_filter, alone=wanted.alone, choosy=wanted.choosy, strict=wanted.start is not None
        )
        subscription = Subscription(self, wanted, number=number)
        await self._asking.begin(subscription, self._keeper.connection)
        return subscription

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription. Programs call `Subscription.close`, which calls this."""
        await self._asking.left(subscription.filter)
        if self._receiver.find(subscription.filter) is not subscription:
            return
        if self._keeper.over is None:
            await self._asking.end(subscription, self._keeper.connection)
        subscription.end(give_up=True)
        self._receiver.remove(subscription)
        self._receiver.relieved()

    def relieved(self) -> None:
        """Called by a subscription when its program has taken items: reading may resume."""
        self._receiver.relieved()

    def taken(self, receipt: Receipt) -> None:
        """Called by a subscription when its program has taken a message of QoS 1 or 2."""
        self._receiver.receipts.taken(receipt)

    # -- what can be known -----------------------------------------------------------------------------------

    def statistics(self) -> ClientStatistics:
        """Return counts of connections, of messages sent and of items received."""
        return ClientStatistics(
            client_id=self.client_id,
            connected=self.connected,
            connections=self._keeper.connections,
            resumed=self._keeper.resumed,
            reading=not self._receiver.paused,
            sent=self._sender.statistics(),
            received=self._receiver.statistics(),
            unclaimed=self._receiver.unclaimed,
            unwanted=self._receiver.unwanted,
            unacknowledged=len(self._receiver.receipts),
        )
