"""Requests of a connected client other than PUBLISH: subscribe, acknowledge, ping, disconnect."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.errors import (
    BadAddress,
    ChannelError,
    ChannelRefused,
    ChannelsFull,
    MqttError,
    PolicyError,
    StreamError,
)
from penstock.mqtt.codes import V5, Reason
from penstock.mqtt.packets.connect import PINGRESP, Disconnect, Pingreq
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Ack, Pubcomp
from penstock.mqtt.packets.subscribe import Suback, Subscribe, Unsuback, Unsubscribe
from penstock.node.broker.subscription import DigestForm, Subscription
from penstock.policy.content import ContentFilter
from penstock.policy.params import DURATION, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.mqtt.packets.packet import Packet
    from penstock.mqtt.packets.subscribe import Subscription as Options
    from penstock.node.broker.host import ClientLink
    from penstock.node.broker.policies import Chosen
    from penstock.node.broker.session import Session

POLICY = "policy"
"""User property of SUBSCRIBE: a policy's text, or the name of a registered one."""

FILTER = "filter"
"""User property of SUBSCRIBE: a content filter."""

FRESH = "fresh"
"""User property of SUBSCRIBE: the time that no event should wait longer."""

DIGESTS = "digests"
"""User property of SUBSCRIBE: whether digests come in the stream, and in which form."""


def handle(connection: ClientLink, session: Session, packet: Packet) -> None:
    """Handle a packet, which the rules of the connection have found legal."""
    match packet:
        case Ack():
            reply = session.acks.receive(packet)
            if isinstance(reply, Pubcomp):
                _released(connection, session, reply)
            elif reply is not None:
                connection.send(reply)
        case Subscribe():
            _subscribe(connection, session, packet)
        case Unsubscribe():
            _unsubscribe(connection, session, packet)
        case Pingreq():
            connection.output.write(PINGRESP)
        case Disconnect():
            session.leave(packet)
            connection.why = f"DISCONNECT, reason {packet.reason:#04x}" if packet.reason else "DISCONNECT"
            connection.close()
        case _:
            raise AssertionError(packet)


def _released(connection: ClientLink, session: Session, reply: Pubcomp) -> None:
    """A QoS 2 message is released, perhaps once more; that must be on disk before it is answered.

    Else a restart would take the next message with its packet identifier for the same one.
    """
    journal = connection.broker.journal
    send: Callable[[], None] = partial(connection.send, reply)
    for listener in connection.broker.listeners:
        if listener.released(session, reply.packet_id):
            listener.when_durable(send)
            return
        if reply.reason:  # it may have been one of theirs
            send = partial(listener.when_durable, send)
    if journal is not None and session.expiry_s:
        journal.hold(send, behind=True)
    else:
        send()


def _subscribe(connection: ClientLink, session: Session, packet: Subscribe) -> None:
    reasons: list[int] = []
    problems: list[tuple[str, PolicyError | ChannelError | StreamError]] = []
    wanted: list[Subscription] = []
    for options in packet.subscriptions:
        try:
            retained, subscription = _subscribe_one(connection, session, packet, options)
        except (PolicyError, ChannelError, StreamError) as error:
            problems.append((options.filter, error))
            reasons.append(_reason(error))
        except MqttError as error:
            reasons.append(error.reason)
        else:
            reasons.append(options.qos)
            if retained:
                wanted.append(subscription)
    if session.version != V5:
        reasons = [reason if reason < 0x80 else Reason.UNSPECIFIED for reason in reasons]
    broker = connection.broker
    _answer(connection, session, Suback(packet.packet_id, tuple(reasons), _explained(problems)))
    for subscription in wanted:
        session.owe_retained(subscription)
    session.drain(now_us=broker.now_us)


def _answer(connection: ClientLink, session: Session, packet: Packet) -> None:
    """Subscriptions have changed; a session that is kept is on disk before the client is told."""
    journal = connection.broker.journal
    send: Callable[[], None] = partial(connection.send, packet)
    for listener in connection.broker.listeners:
        send = listener.held_back(session, send)
    if journal is not None:
        journal.begin()
        session.save()
        if journal.hold(send):
            return
    send()


def _subscribe_one(
    connection: ClientLink, session: Session, packet: Subscribe, options: Options
) -> tuple[bool, Subscription]:
    """Make one subscription; whether retained messages are to be sent."""
    broker = connection.broker
    if not broker.gate.may_subscribe(session.user, session.client_id, options.filter):
        broker.count_refused("subscribe not allowed")
        broker.client_log.denied(
            session.client_id, user=session.user, may_not="subscribe to", topic=options.filter
        )
        raise MqttError(
            f"'{options.filter}' is not allowed; see `acl` of the node",
            where="SUBSCRIBE",
            reason=Reason.NOT_AUTHORIZED,
        )
    asked = dict(reversed(packet.properties.user))  # the first of a name counts
    for listener in broker.listeners:
        listener.check(session.client_id, options.filter, asked)
    chosen = broker.policies.chosen(
        client_id=session.client_id, filter_=options.filter, asked=asked.get(POLICY)
    )
    content = ContentFilter(asked[FILTER]) if FILTER in asked else None
    number = packet.properties.subscription_ids[0] if packet.properties.subscription_ids else 0
    retained = session.subscriptions.add(options, subscription_id=number)
    subscription = Subscription(
        session.client_id,
        options,
        subscription_id=number,
        chosen=chosen,
        content=content,
        queueing=broker.queueing,
        form=_form(asked.get(DIGESTS, "")),
        fresh_us=_fresh(asked[FRESH], chosen) if FRESH in asked else None,
    )
    return retained, broker.subscribe(session, subscription, asked)


def _fresh(asked: str, chosen: Chosen) -> int:
    """The time that a client asks for, in place of the policy's own."""
    if chosen.plan is None:
        raise PolicyError("a subscription without a policy has no levels to keep a time with", source=FRESH)
    try:
        found: int = DURATION.parse(asked)
    except PolicyError as error:
        raise error.of(FRESH) from None
    return found


def _form(asked: str) -> DigestForm:
    """The form of digests that a client asks for; an MQTT 3.1.1 client cannot ask, and gets JSON."""
    try:
        return DigestForm(asked)
    except ValueError:
        allowed = ", ".join(form.value for form in DigestForm if form.value)
        raise PolicyError(f"found {shown(asked)}", source=DIGESTS, allowed=allowed) from None


def _reason(error: PolicyError | ChannelError | StreamError) -> Reason:
    match error:
        case BadAddress():
            return Reason.TOPIC_FILTER_INVALID
        case ChannelsFull():
            return Reason.QUOTA_EXCEEDED
        case ChannelRefused():
            return Reason.NOT_AUTHORIZED
        case _:
            return Reason.IMPLEMENTATION_SPECIFIC


def _explained(problems: list[tuple[str, PolicyError | ChannelError | StreamError]]) -> Properties:
    """Properties of a SUBACK that say what is wrong with policies, content filters and addresses."""
    if not problems:
        return NONE
    first = str(problems[0][1])
    return Properties(
        reason_string=first[:1024],
        user=tuple((f"{_source(error)}-error", f"{filter_}: {error}"[:4096]) for filter_, error in problems),
    )


def _source(error: PolicyError | ChannelError | StreamError) -> str:
    if isinstance(error, StreamError):
        return "stream"
    return (error.source or POLICY) if isinstance(error, PolicyError) else "channel"


def _unsubscribe(connection: ClientLink, session: Session, packet: Unsubscribe) -> None:
    broker = connection.broker
    reasons = []
    for filter_ in packet.filters:
        session.subscriptions.remove(filter_)
        ended = broker.unsubscribe(session, filter_)
        reasons.append(Reason.SUCCESS if ended else Reason.NO_SUBSCRIPTION_EXISTED)
    _answer(connection, session, Unsuback(packet.packet_id, tuple(reasons) if session.version == V5 else ()))
