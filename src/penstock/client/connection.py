"""One MQTT connection to a node: bytes to packets and back, keep alive, CONNECT and DISCONNECT.

Frames are decoded and handled one by one, so that reading can stop between two messages. All packets sent
in one turn of the event loop are written at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Protocol

from penstock import limits
from penstock.client.transport import open_link
from penstock.errors import ConnectionLost, ConnectRefused, MqttError, Unreachable
from penstock.mqtt.codes import DISCONNECT_FROM_CLIENT, Reason, explained
from penstock.mqtt.packets.connect import PINGREQ, Connack, Disconnect
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.sessions.client import ClientConnection, ClientState
from penstock.mqtt.sessions.identifiers import AliasesOut

if TYPE_CHECKING:
    import ssl

    from penstock.client.transport import Address, Link
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.connect import Connect
    from penstock.mqtt.packets.packet import Packet


class ConnectionOwner(Protocol):
    """The owner of a connection, which the connection calls with packets and at its end."""

    def heard(self, packet: Packet) -> None:
        """Handle a packet of the node; raises MqttError if the protocol does not allow it."""
        ...

    def writable(self) -> None:
        """Called when the connection takes more packets."""
        ...

    def gone(self, error: ConnectionLost) -> None:
        """Called once when the connection has ended, if it had begun."""
        ...


class Connection:
    """One connection; `open` is called once."""

    def __init__(
        self,
        connect: Connect,
        owner: ConnectionOwner,
        address: Address,
        *,
        packet_bytes: int,
    ) -> None:
        self.rules = ClientConnection(connect)
        self.blocked = False
        """Whether the send buffer of the link is full."""
        self._owner = owner
        self._address = address
        self._framer = Framer(max_bytes=packet_bytes)
        self._frames: deque[bytes] = deque()
        self._reading = True
        self._dealing = False
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Connack] = self._loop.create_future()
        self._link: Link | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._patient_until_us: Instant = 0
        """Before this time a missing PINGRESP is no fault: it may be among the bytes not read yet."""
        self._begun = False
        self._over: ConnectionLost | None = None

    def _now_us(self) -> Instant:
        return int(self._loop.time() * 1_000_000)

    @property
    def alive(self) -> bool:
        """Whether packets can be sent."""
        return self.rules.state is ClientState.CONNECTED

    # -- the first words -------------------------------------------------------------------------------------

    async def open(self, *, tls: ssl.SSLContext | None) -> Connack:
        """Connect; raises Unreachable or ConnectRefused. Then `begin` must be called."""
        try:
            self._link = await open_link(self._address, self, tls=tls)
        except BaseException:
            self._answer.cancel()
            raise
        self._link.write(self.rules.start(now_us=self._now_us()))
        try:
            async with asyncio.timeout(limits.MQTT_CONNECT_S):
                connack = await self._answer
        except TimeoutError:
            self._link.abort()
            raise Unreachable(
                f"{self._address}: no CONNACK within {limits.MQTT_CONNECT_S} s; is this an MQTT port?"
            ) from None
        except BaseException:
            self._link.abort()
            raise
        if connack.reason:
            self._link.abort()
            raise ConnectRefused(
                self._refusal(connack),
                reason=connack.reason,
                elsewhere=connack.properties.server_reference or "",
            )
        if self._over is not None:
            raise self._over
        if not self.rules.aliases_in.maximum:
            self.rules.aliases_out = AliasesOut(0)
        return connack

    def begin(self) -> None:
        """Start to handle packets; call it in the same turn of the loop in which `open` returned."""
        self._begun = True
        self._set_timer()
        self.resume()

    def _refusal(self, connack: Connack) -> str:
        said = connack.properties.reason_string
        elsewhere = connack.properties.server_reference
        return (
            f"{self._address}: refused: {explained(connack.reason)}"
            + (f": {said}" if said else "")
            + (f"; it names another server: {elsewhere}" if elsewhere else "")
        )

    # -- what comes ------------------------------------------------------------------------------------------

    def received(self, chunk: bytes) -> None:
        """Handle bytes from the link."""
        self._frames.extend(self._framer.feed(chunk))
        self._deal()

    def _deal(self) -> None:
        """Handle frames until reading stops; handling a packet may stop or resume reading."""
        if self._dealing:
            return
        self._dealing = True
        try:
            while self._frames and self._reading and self._over is None:
                self._take(self._frames.popleft())
            if self._framer.fault is not None and not self._frames and self._over is None:
                self._fail(self._framer.fault)
        finally:
            self._dealing = False

    def _take(self, frame: bytes) -> None:
        try:
            packet = self.rules.receive(frame)
            if isinstance(packet, Connack):
                self._reading = False
                # Messages behind CONNACK wait until the owner has resumed its session and calls `begin`.
                self._answer.set_result(packet)
            elif isinstance(packet, Disconnect):
                self._dismissed(packet)
            else:
                self._owner.heard(packet)
        except MqttError as error:
            self._fail(error)

    def _dismissed(self, packet: Disconnect) -> None:
        said = packet.properties.reason_string
        problem = f"{self._address}: the node ended it: {explained(packet.reason)}"
        elsewhere = packet.properties.server_reference or ""
        self._end(
            ConnectionLost(
                f"{problem}: {said}" if said else problem, reason=packet.reason, elsewhere=elsewhere
            )
        )

    def pause(self) -> None:
        """Stop reading: messages wait at the node, whose queue has the policy."""
        if self._reading:
            self._reading = False
            if self._link is not None:
                self._link.pause_reading()

    def resume(self) -> None:
        """Resume reading after `pause`."""
        if self._reading:
            return
        self._reading = True
        # A PINGRESP may be among what was not read meanwhile: allow one interval of pings before judging.
        self._patient_until_us = self._now_us() + self.rules.keep_alive_s * 750_000
        self._deal()
        if self._reading and self._link is not None:
            self._link.resume_reading()

    # -- what goes -------------------------------------------------------------------------------------------

    def send(self, packet: Packet) -> None:
        """Send a packet; raises MqttError if the node said that it does not accept such packets."""
        self._write(self.rules.encode(packet, now_us=self._now_us()))

    def check(self, packet: Packet) -> None:
        """Raise MqttError if the node does not accept such a packet, before the packet gets an identifier."""
        self.rules.encode(packet, now_us=self._now_us())

    def _write(self, frame: bytes) -> None:
        if not self._unsent:
            # One write for all packets of this turn: fewer system calls and TCP segments.
            self._loop.call_soon(self._flush)
        self._unsent.append(frame)
        self._unsent_bytes += len(frame)
        if self._unsent_bytes >= limits.FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        if unsent and self._over is None and self._link is not None:
            self._link.write(b"".join(unsent))

    def may_write(self, *, now: bool) -> None:
        """Note whether the send buffer of the link is full."""
        self.blocked = not now
        if now and self._over is None:
            self._owner.writable()

    # -- keep alive ------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        due_us = self.rules.timer()
        if due_us is not None:
            least_us = self._now_us() + self.rules.keep_alive_s * 10_000
            self._timer = self._loop.call_at(max(due_us, least_us) / 1_000_000, self._on_timer)

    def _on_timer(self) -> None:
        now_us = self._now_us()
        if not self._reading or now_us < self._patient_until_us:
            # Whether the node answers cannot be known while nothing is read; it must hear from us anyway.
            self._write(PINGREQ)
            self._timer = self._loop.call_later(self.rules.keep_alive_s * 0.75, self._on_timer)
            return
        try:
            ping = self.rules.on_timer(now_us=now_us)
        except MqttError as error:
            self._fail(error)
            return
        if ping:
            self._write(ping)
        self._set_timer()

    # -- the last words --------------------------------------------------------------------------------------

    async def close(self, packet: Disconnect) -> None:
        """Send DISCONNECT and close the link."""
        if self.alive and self._link is not None:
            self._write(encode(packet, self.rules.version))
            self._flush()
        self._stop(ConnectionLost(f"{self._address}: closed by this program"))
        if self._link is not None:
            await self._link.close()

    def _fail(self, error: MqttError) -> None:
        """End the connection: the node broke the protocol, or does not answer."""
        if self.alive:
            reason = error.reason if error.reason in DISCONNECT_FROM_CLIENT else Reason.UNSPECIFIED
            said = Properties(reason_string=str(error)[: limits.MQTT_REASON_CHARACTERS])
            self._write(encode(Disconnect(reason, said), self.rules.version))
            self._flush()
        self._end(ConnectionLost(f"{self._address}: {error}"))

    def lost(self, error: Exception | None) -> None:
        """Handle the end of the link."""
        self._end(ConnectionLost(f"{self._address}: the connection broke: {error or 'closed by the node'}"))

    def _end(self, error: ConnectionLost) -> None:
        if self._over is not None:
            return
        self._stop(error)
        if self._link is not None:
            self._link.abort()
        if not self._answer.done():
            self._answer.set_exception(Unreachable(f"{error}; before the CONNACK: is this an MQTT port?"))
        if self._begun:
            self._owner.gone(error)

    def _stop(self, error: ConnectionLost) -> None:
        self._over = error
        self.rules.close()
        self._frames.clear()
        if self._timer is not None:
            self._timer.cancel()
