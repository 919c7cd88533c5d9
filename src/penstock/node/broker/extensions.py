"""Interfaces by which other parts of a node extend its broker, which knows none of them by name.

`TopicSink`        takes what is published on some topics in the place of all receivers (reliable streams)
`SessionSource`    feeds one session besides the queues of its subscriptions (stream readers, lanes of slots)
`Peer`             another node: receives what its subscribers want, and is told what is wanted here
`SessionListener`  is asked before a subscription is made, and told of subscriptions and ends of sessions
`Elsewhere`        fetches the session of a client that comes from another node

When a part starts, it or `service` adds its sinks to `Router.sinks`, its peers by `Router.add_peer`, its
sources to `Session.sources` and its listeners to `Broker.listeners`; `Sessions.elsewhere` is one or none.
Without extensions these are empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.core.cluster.interest import ReceiverClass
    from penstock.core.slots.lanes import Assigned
    from penstock.model.digest import Digest
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.publish import Ack, Pubrel
    from penstock.mqtt.sessions.exchange import ExchangeStep
    from penstock.node.broker.answers import PublishingLink, PublishingSession
    from penstock.node.broker.link import Sent
    from penstock.node.broker.message import Message
    from penstock.node.broker.runs import Run
    from penstock.node.broker.subscription import Subscription


class TopicSink(Protocol):
    """Takes what is published on its topics; nothing of it is routed to subscriptions by the broker."""

    def accept(self, message: Message, /) -> int:
        """Take a message of the node itself, or a will; the reason code for its publisher."""
        ...

    def publish_qos0(self, message: Message, connection: PublishingLink, /) -> None:
        """Take a message of QoS 0."""
        ...

    def publish(
        self, message: Message, session: PublishingSession, connection: PublishingLink, packet_id: int, /
    ) -> None:
        """Take a message of QoS 1 or 2 that has arrived, and acknowledge it later."""
        ...

    def run(self, run: Run, connection: PublishingLink, /) -> None:
        """Take plain messages of QoS 0."""
        ...

    def run_qos1(
        self, session: PublishingSession, connection: PublishingLink, data: bytes, /, *, now_us: Instant
    ) -> bool:
        """Take plain messages of QoS 1; False, and nothing is done, if one must be looked at alone."""
        ...


class SessionSource:
    """Base of what feeds one session besides its queues; each method does nothing unless overridden.

    A source sends through the session's connection and window, in three places of a drain: before the
    queues, behind them, and behind the retained messages.
    """

    __slots__ = ()

    @property
    def blocks(self) -> bool:
        """Whether messages wait here that later ones must not overtake: the session does not keep up."""
        return False

    @property
    def behind(self) -> bool:
        """Whether something for the session could not be sent, so that it must be drained."""
        return False

    @property
    def unsafe(self) -> bool:
        """Whether something is in flight that the disk does not know of: nothing may be sent again yet."""
        return False

    def offer(
        self,
        subscription: Subscription,  # noqa: ARG002
        event: Event,  # noqa: ARG002
        place: int,  # noqa: ARG002
        flow: Assigned,  # noqa: ARG002
        *,
        now_us: Instant,  # noqa: ARG002
    ) -> bool:
        """Take a message of a flow that cannot be sent now; False: it belongs in the subscription's queue."""
        return False

    def drain_before_queues(self, *, now_us: Instant) -> None:
        """Send what goes ahead of the queues."""

    def drain_after_queues(self, *, now_us: Instant) -> None:
        """Send what goes behind the queues, before retained messages."""

    def drain(self, *, now_us: Instant) -> None:
        """Send what goes last, as much as connection and window take."""

    def flush(self, *, now_us: Instant) -> None:
        """Give messages taken by `offer` back to the queues: a subscription ends, or the link is lost."""

    def lost_link(self) -> None:
        """The session has lost its connection."""

    def settles(self, ack: Ack, step: ExchangeStep[Sent]) -> bool:  # noqa: ARG002
        """Note an acknowledgement of one of its own messages; False: it is for another's message."""
        return False

    def holds_pubrel(self, packet_id: int) -> bool:  # noqa: ARG002
        """Whether the PUBREL of a QoS 2 message waits for the disk; the source sends it then."""
        return False

    def safe(self, pubrels: list[Pubrel]) -> list[Pubrel]:
        """The PUBRELs that a new connection may begin with."""
        return pubrels

    def covers(self, subscription: Subscription, event: Event) -> bool:  # noqa: ARG002
        """Whether a subscription gets this retained message from the source anyway."""
        return False


class SessionIdentity(Protocol):
    """The facts about a session that listeners are given."""

    client_id: str
    expiry_s: int
    """Seconds the session lives without a connection; 0: it ends with the connection."""

    @property
    def origin(self) -> str:
        """Names this session among all of its client, past and future ones included."""
        ...


class SessionListener:
    """Base of what follows sessions and their subscriptions; each method does nothing unless overridden."""

    @property
    def ready(self) -> bool:
        """Whether the listener has started: until then no session ends and no will is published."""
        return True

    def check(self, client_id: str, filter_: str, asked: Mapping[str, str]) -> None:
        """Refuse a subscription by PolicyError, ChannelError or StreamError.

        `asked` are the user properties of the SUBSCRIBE.
        """

    def subscribed(self, subscription: Subscription, asked: Mapping[str, str], *, again: bool) -> None:
        """A subscription was made; `again`: its filter was subscribed to before, maybe with other options."""

    def unsubscribed(self, session: SessionIdentity, filter_: str) -> None:
        """A subscription has ended."""

    def held_back(self, session: SessionIdentity, answer: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Wrap the answer to a SUBSCRIBE or UNSUBSCRIBE if it must wait for this listener's disk."""
        return answer

    def released(self, session: SessionIdentity, packet_id: int) -> bool:  # noqa: ARG002
        """A client releases a QoS 2 message; whether one of this listener's sinks had it."""
        return False

    def when_durable(self, then: Callable[[], None]) -> None:
        """Call back when everything noted so far, releases above all, is on disk."""
        then()

    def carried(self, session: SessionIdentity) -> dict[str, bytes]:  # noqa: ARG002
        """A session goes to another node: what this listener has of it, under names of its own."""
        return {}

    def came(self, session: SessionIdentity, carried: Mapping[str, bytes]) -> bool:  # noqa: ARG002
        """A session has come from another node with what listeners had of it there; whether this one goes on
        with that. StoreError if it is damaged."""
        return False

    def ended(self, session: SessionIdentity) -> None:
        """A session has departed; its subscriptions have ended before."""


class Elsewhere(Protocol):
    """Sessions at other nodes."""

    def knows_here(self, client_id: str) -> bool:
        """Whether a client has its session at this node, so that nobody else has to be asked."""
        ...

    async def fetch(self, client_id: str, *, clean: bool) -> None:
        """A client connects: have its session at another node come here, or end if it begins anew.

        Afterwards the session is among those of this node, detached, if there is one.
        """
        ...

    def attached(self, session: SessionIdentity) -> None:
        """A client is connected to its session here."""
        ...


class Peer(Protocol):
    """Another node. The router gives it the messages that are wanted there, and says what is wanted here."""

    def __hash__(self) -> int:
        """Peers are told apart by identity."""
        ...

    def deliver(self, event: Event, *, origin: object, now_us: Instant) -> bool:
        """Take a message for subscribers at that node, unless `origin` is this peer; whether it was taken."""
        ...

    @property
    def keeping_up(self) -> bool:
        """Whether nothing waits for that node, so that a message goes to it at once."""
        ...

    def deliver_run(self, run: Run, *, now_us: Instant, alone: bool = False) -> None:
        """Take a run of messages for subscribers at that node, as the bytes they came in.

        `alone`: nothing else is going on; do not wait for others.
        """
        ...

    def receivers(self) -> Iterable[tuple[str, str]]:
        """The filters of that node, each with the text of a policy behind it; empty: without one."""
        ...

    def when_handed(self, then: Callable[[], None]) -> None:
        """Call back when that node has all messages it was given so far, or when waiting is of no use."""
        ...

    def share(self, event: Event, groups: tuple[str, ...]) -> None:
        """Take a message for one member at that node of each of these shared groups."""
        ...

    def share_digest(self, group: str, digest: Digest) -> None:
        """Take a digest for a member at that node of a shared group."""
        ...

    def group_changed(self, group: str, attached: int, members: int) -> None:
        """A shared group has so many connected members at this node, and so many in all."""
        ...

    def interest_changed(self, filter_: str, *, wanted: bool) -> None:
        """The first receiver without a policy has subscribed to a filter at this node, or none is left."""
        ...

    def class_began(self, receivers: ReceiverClass) -> None:
        """The first receiver with this filter and policy has subscribed at this node."""
        ...

    def class_ended(self, number: int, *, moved: bool) -> None:
        """A class has no receivers any more; `moved`: they are in others and get what waits for this one."""
        ...

    def plain_renewed(self, number: int) -> None:
        """The class of all receivers without a policy has this number from now on."""
        ...
