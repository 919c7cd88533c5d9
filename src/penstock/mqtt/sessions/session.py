"""The server's side of one session: subscriptions, messages in flight, will and expiry.

A session outlives its connection. The owner passes the time in: `timer` says when to call `on_timer`, which
returns what is due: the will, or the end of the session. The owner queues messages beyond the window.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from penstock import limits
from penstock.errors import MqttError, ProtocolError
from penstock.mqtt.codes import V5, Reason
from penstock.mqtt.sessions.exchange import Exchange
from penstock.mqtt.sessions.identifiers import MOST_PACKET_ID
from penstock.mqtt.topics import shared_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.model.instant import Instant
    from penstock.mqtt.packets.connect import Connect, Disconnect, Will
    from penstock.mqtt.packets.publish import Pubrel
    from penstock.mqtt.packets.subscribe import Subscription


class Subscribed(NamedTuple):
    """One subscription of a session."""

    options: Subscription
    subscription_id: int = 0
    """0: none."""


class Subscriptions:
    """Subscriptions of a session by filter; subscribing to a filter again replaces its subscription."""

    __slots__ = ("_held", "most")

    def __init__(self, *, most: int = limits.MQTT_SUBSCRIPTIONS) -> None:
        self.most = most
        self._held: dict[str, Subscribed] = {}

    def __len__(self) -> int:
        """Number of subscriptions."""
        return len(self._held)

    def __iter__(self) -> Iterator[Subscribed]:
        """Iterate over the subscriptions in the order of their first SUBSCRIBE."""
        return iter(self._held.values())

    def get(self, filter_: str) -> Subscribed | None:
        """The subscription with exactly this filter."""
        return self._held.get(filter_)

    def add(self, options: Subscription, *, subscription_id: int = 0) -> bool:
        """Subscribe; returns whether to send retained messages now."""
        known = options.filter in self._held
        if not known and len(self._held) >= self.most:
            raise MqttError(
                f"{self.most} subscriptions; no more are allowed",
                where="SUBSCRIBE",
                reason=Reason.QUOTA_EXCEEDED,
            )
        self._held[options.filter] = Subscribed(options, subscription_id)
        if shared_of(options.filter).group:
            return False  # shared subscriptions get no retained messages (section 4.8.2)
        return options.retain_handling == 0 or (options.retain_handling == 1 and not known)

    def remove(self, filter_: str) -> Subscribed | None:
        """Unsubscribe; returns the subscription that was removed."""
        return self._held.pop(filter_, None)


M = TypeVar("M")

NEVER_S: Final = 0xFFFF_FFFF
"""Session expiry interval of a session that never expires."""


class Due(Enum):
    """The two things that a session's timer triggers."""

    WILL = "publish the will"
    END = "forget the session"


class Happening(NamedTuple):
    """An action that is due."""

    what: Due
    will: Will | None = None


class SessionStatistics(NamedTuple):
    """Figures of a session at one moment."""

    attached: bool
    subscriptions: int
    outgoing: int
    """QoS 1 and 2 messages to the client that are not acknowledged."""
    incoming: int
    """QoS 1 and 2 messages from the client that are not settled."""


class Session(Generic[M]):
    """State a server keeps for a client identifier; M is the owner's type of messages."""

    __slots__ = (
        "_detached_us",
        "_most_expiry_s",
        "attached",
        "client_id",
        "exchange",
        "expiry_s",
        "subscriptions",
        "will",
    )

    def __init__(self, client_id: str, *, exchange: Exchange[M] | None = None) -> None:
        self.client_id = client_id
        self.subscriptions = Subscriptions()
        self.exchange: Exchange[M] = exchange or Exchange()
        self.will: Will | None = None
        self.expiry_s = 0
        """Seconds the session lives without a connection; 0: it ends with the connection; NEVER_S: no end."""
        self.attached = False
        self._most_expiry_s = NEVER_S
        self._detached_us: Instant | None = None

    def attach(
        self, connect: Connect, *, window: int, maximum: int, most_expiry_s: int = NEVER_S
    ) -> list[Pubrel]:
        """Continue the session over a new connection; returns the PUBRELs to send first. A delayed will is
        cancelled.

        `window` is the client's receive maximum (or less), `maximum` ours.
        """
        if connect.version == V5:
            asked_s = connect.properties.session_expiry_s or 0
        else:
            asked_s = 0 if connect.clean_start else NEVER_S
        self._most_expiry_s = most_expiry_s
        self.expiry_s = min(asked_s, most_expiry_s)
        self.will = connect.will
        self.attached = True
        self._detached_us = None
        # MQTT 3.1.1 has no receive maximum, so a client cannot know ours.
        return self.exchange.resume(
            window=window, maximum=maximum if connect.version == V5 else MOST_PACKET_ID
        )

    def leave(self, disconnect: Disconnect) -> None:
        """The client sent a DISCONNECT; call `detach` next."""
        expiry_s = disconnect.properties.session_expiry_s
        if expiry_s is not None:
            if expiry_s and not self.expiry_s:
                raise ProtocolError(
                    f"{expiry_s} s, but the CONNECT set 0: the session ends with the connection",
                    where="DISCONNECT session expiry",
                )  # [MQTT-3.14.2-2]
            self.expiry_s = min(expiry_s, self._most_expiry_s)
        if disconnect.reason == Reason.SUCCESS:
            self.will = None

    def detach(self, *, now_us: Instant) -> list[Happening]:
        """The connection is closed or lost; returns what is due at once."""
        assert self.attached, "the session was not attached"
        self.attached = False
        self._detached_us = now_us
        return self.on_timer(now_us=now_us)

    def end(self) -> list[Happening]:
        """End the session now (clean start, or removed by the operator).

        Returns its will if one is pending.
        """
        will, self.will = self.will, None
        self.attached = False
        self._detached_us = None
        ending = [Happening(Due.END)]
        return [Happening(Due.WILL, will), *ending] if will is not None else ending

    def timer(self) -> Instant | None:
        """When to call `on_timer`."""
        if self._detached_us is None:
            return None
        waits_s = [] if self.expiry_s == NEVER_S else [self.expiry_s]
        if self.will is not None:
            waits_s.append(self.will.properties.will_delay_s or 0)
        return self._detached_us + min(waits_s) * 1_000_000 if waits_s else None

    def on_timer(self, *, now_us: Instant) -> list[Happening]:
        """Return what is due. A will is published at the end of its session at the latest [MQTT-3.1.2-8]."""
        happened: list[Happening] = []
        due_us = self.timer()
        while due_us is not None and due_us <= now_us and self._detached_us is not None:
            if self.expiry_s != NEVER_S and self._detached_us + self.expiry_s * 1_000_000 <= due_us:
                return [*happened, *self.end()]
            happened.append(Happening(Due.WILL, self.will))
            self.will = None
            due_us = self.timer()
        return happened

    def statistics(self) -> SessionStatistics:
        """Figures of the session now."""
        return SessionStatistics(
            attached=self.attached,
            subscriptions=len(self.subscriptions),
            outgoing=self.exchange.outgoing.in_flight,
            incoming=self.exchange.incoming.in_flight,
        )
