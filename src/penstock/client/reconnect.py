"""Keeps a client connected: one connection after another carries the session, until an error is final."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from itertools import chain
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from penstock import limits
from penstock.client.connection import Connection
from penstock.client.nodes import ELSEWHERE, FINAL
from penstock.core.backoff import pauses_s
from penstock.errors import ClientError, ConnectionLost, ConnectRefused
from penstock.mqtt.codes import Reason
from penstock.mqtt.packets.connect import Disconnect
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.sessions.client import Answered, Received, Settled
from penstock.mqtt.sessions.identifiers import MOST_PACKET_ID

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from penstock.client.nodes import Nodes
    from penstock.client.receiving import Receiver
    from penstock.client.sending import Sender
    from penstock.client.subscribing import SubscribeRequests
    from penstock.client.transport import Address
    from penstock.mqtt.packets.connect import Connect
    from penstock.mqtt.packets.packet import Packet
    from penstock.mqtt.sessions.client import ClientSession

log = logging.getLogger(__name__)

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
"""Reason codes that blame what the client sends, and would send again: after BLAMED in a row it gives up."""

BLAMED: Final = 3

_WINDOW: Final = MOST_PACKET_ID // 2
"""Bound of messages without an answer; the other half of the packet identifiers is for requests."""

_ENDING: Final = Properties(session_expiry_s=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """Settings of a client's connections."""

    nodes: Nodes
    connect: Connect
    tls: ssl.SSLContext | None
    packet_bytes: int
    reconnect: bool
    pause_most_s: float
    lasting: bool
    """Whether the session outlives the program."""


class Keeper:
    """Keeps a client connected: connects again after every loss."""

    def __init__(
        self,
        way: ConnectOptions,
        *,
        session: ClientSession,
        sender: Sender,
        receiver: Receiver,
        asking: SubscribeRequests,
    ) -> None:
        self._way = way
        self._session = session
        self._sender = sender
        self._receiver = receiver
        self._asking = asking
        self.connection: Connection | None = None
        """The present connection; None while disconnected."""
        self.over: ClientError | None = None
        """Why the client has given up; None while it has not."""
        self.connections = 0
        self.resumed = 0
        self._lost = asyncio.Event()
        self._there = asyncio.Event()
        """Whether there is a connection, or will be none any more."""
        self._task: asyncio.Task[None] | None = None
        self._blamed = 0
        """How many connections in a row the node has ended because of what the client sent."""
        self._elsewhere = ""
        """Servers that the node named when it ended the last connection, or where the program wants to go."""
        self._asked = False
        """Whether the program wants to go there."""
        self._hops: deque[float] = deque(maxlen=limits.CLIENT_HOPS)
        """When the client last followed a node's word without a pause."""

    @property
    def address(self) -> Address:
        """The node that has answered last; before that the first of the list."""
        return self._way.nodes.present

    @property
    def begun(self) -> bool:
        """Whether the client has been connected before."""
        return self._task is not None

    async def connect(self) -> None:
        """Connect for the first time; raises ClientError if that fails, and does not retry."""
        assert self._task is None, "connect once"
        await self._attach()
        self._task = asyncio.create_task(self._keep())
        self._task.add_done_callback(self._kept)

    async def _attach(self) -> None:
        """Connect to the first node that lets this client in; raises ClientError if none does."""
        elsewhere, self._elsewhere = self._elsewhere, ""
        attempt = self._way.nodes.attempt(elsewhere)
        for address in attempt:
            try:
                await self._attach_to(address)
            except ClientError as error:
                if len(self._way.nodes) > 1 or isinstance(error, ConnectRefused):
                    log.info("%s", error)
                attempt.failed(address, error)
            else:
                return
        raise attempt.error()

    async def _attach_to(self, address: Address) -> None:
        connect = self._way.connect
        if self.connections:
            # clean_start applies to the first connection only: later ones resume the session.
            connect = replace(connect, clean_start=not connect.properties.session_expiry_s)
        connection = Connection(connect, self, address, packet_bytes=self._way.packet_bytes)
        connack = await connection.open(tls=self._way.tls)
        again = self._session.resume(
            session_present=connack.session_present,
            window=min(connection.rules.window, _WINDOW),
            maximum=limits.MQTT_RECEIVE_MAXIMUM,
        )
        self._way.nodes.answered(address)
        self.connection = connection
        self.connections += 1
        self.resumed += connack.session_present
        self._lost.clear()
        self._there.set()
        self._receiver.attach(connection, session_present=connack.session_present)
        self._asking.renew(connection, session_present=connack.session_present)
        self._sender.attach(connection, again)
        connection.begin()

    async def _keep(self) -> None:
        """Connect again after each loss, until the client is closed or an error is final."""
        loop = asyncio.get_running_loop()
        pauses = self._pauses()
        while True:
            since_s = loop.time()
            await self._lost.wait()
            # Only a long connection resets the pauses: a node may accept each connection and drop it at once.
            if loop.time() - since_s > self._way.pause_most_s:
                pauses = self._pauses()
            for pause_s in chain((0.0,), pauses) if self._may_hop() else pauses:
                if self.over is not None:
                    return
                if pause_s:
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
                    log.info("connected to %s", self._way.nodes.present)
                    break

    def _may_hop(self) -> bool:
        """Whether to go to the servers that the node has named at once: not if nodes send it round."""
        if self._asked or not self._elsewhere:
            asked, self._asked = self._asked, False
            return asked
        now_s = asyncio.get_running_loop().time()
        hops = self._hops
        if len(hops) == hops.maxlen and now_s - hops[0] < limits.CLIENT_HOPS_S:
            return False
        hops.append(now_s)
        return True

    def _pauses(self) -> Iterator[float]:
        most_s = self._way.pause_most_s
        return pauses_s(SystemRandom(), least_s=min(limits.RECONNECT_LEAST_S, most_s), most_s=most_s)

    def _kept(self, task: asyncio.Task[None]) -> None:
        """End everything when this task fails, so that no call waits for ever because of a bug."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a bug: the client does not connect again", exc_info=error)
            self._fail(ConnectionLost(f"a bug in Penstock: {type(error).__name__}: {error}"))

    # -- what a connection says ------------------------------------------------------------------------------

    def heard(self, packet: Packet) -> None:
        """Handle a packet of the node."""
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
                self._asking.answered(outcome.happened)
            case None:
                self._sender.drain()

    def writable(self) -> None:
        """Send waiting messages: the connection takes more."""
        self._sender.drain()

    def gone(self, error: ConnectionLost) -> None:
        """Handle the loss of the connection: give up, or let the task connect again."""
        self._detach()
        self._blamed += error.reason in BLAME
        moved = error.reason in ELSEWHERE and bool(error.elsewhere or len(self._way.nodes) > 1)
        self._elsewhere = error.elsewhere if moved else ""
        final = error.reason in FINAL and not moved
        if not self._way.reconnect or final or self._blamed >= BLAMED:
            self._fail(error)
        else:
            log.warning("%s", error)
        self._lost.set()

    def _detach(self) -> None:
        self.connection = None
        self._there.clear()
        self._sender.detach()
        self._receiver.detach()

    async def move(self, address: Address) -> None:
        """Leave the present node for another one; raises the error for which the client has given up."""
        connection = self.connection
        self._elsewhere, self._asked = str(address), True
        if connection is not None:
            self._detach()
            self._lost.set()
            await connection.close(Disconnect())
        await self._there.wait()
        if self.over is not None:
            raise self.over

    # -- the end ---------------------------------------------------------------------------------------------

    def _fail(self, error: ClientError) -> None:
        """Give up: fail all waiting calls and end all subscriptions with the error."""
        if self.over is not None:
            return
        self.over = error
        self._there.set()
        self._sender.abandon(error)
        self._receiver.end(error)
        self._asking.give_up(error, closed=False)

    async def close(self) -> None:
        """Send what waits, for CLIENT_CLOSE_S at most, then disconnect."""
        if self.connection is not None and self.over is None:
            try:
                async with asyncio.timeout(limits.CLIENT_CLOSE_S):
                    await self._receiver.wait_for(self._sender.idle())
            except TimeoutError:
                log.warning("closing: not everything was sent and acknowledged")
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        connection, self.connection = self.connection, None
        if self.over is None:
            closed = self.over = ConnectionLost("this client is closed")
            self._there.set()
            self._sender.abandon(closed)
            self._receiver.detach()
            self._receiver.end(None)
            self._asking.give_up(closed, closed=True)
        if connection is not None:
            await connection.close(Disconnect(properties=NONE if self._way.lasting else _ENDING))
