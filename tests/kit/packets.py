"""Packets by hypothesis, each as its version allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from penstock.mqtt.codes import ALLOWED, CONNACK_V4, V4, V5, Kind
from penstock.mqtt.packets.connect import Auth, Connack, Connect, Disconnect, Pingreq, Pingresp, Will
from penstock.mqtt.packets.properties import NONE, TABLE, WILL, Form, Properties
from penstock.mqtt.packets.publish import ACKS, Publish
from penstock.mqtt.packets.subscribe import Suback, Subscribe, Subscription, Unsuback, Unsubscribe

if TYPE_CHECKING:
    from penstock.mqtt.packets.packet import Packet

packet_ids = st.integers(1, 65_535)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cn", "Cs"]), max_size=8)
_levels = st.sampled_from(["a", "b", "é", "", "$x", "sensor 1", "🌡"])
topics = st.lists(_levels, min_size=1, max_size=4).map("/".join).filter(bool)
_ends = st.sampled_from(["", "/#", "/+", "/+/#"])
plain_filters = st.sampled_from(["#", "+"]) | st.builds(
    lambda levels, end: "/".join(levels) + end,
    st.lists(_levels.filter(lambda level: level != "$x") | st.just("+"), min_size=1, max_size=4),
    _ends,
).filter(bool)
filters = plain_filters | st.builds("$share/{}/{}".format, st.sampled_from(["g", "häuser"]), plain_filters)
versions = st.sampled_from([V4, V5])

_VALUES: Final[dict[Form, st.SearchStrategy[Any]]] = {
    Form.BIT: st.integers(0, 1),
    Form.U16: st.integers(1, 65_535),
    Form.U32: st.integers(1, 0xFFFF_FFFF),
    Form.VARINT: st.integers(1, 268_435_455),
    Form.TEXT: texts,
    Form.NAME: names,
    Form.TOPIC: topics,
    Form.BINARY: st.binary(max_size=8),
    Form.PAIR: st.tuples(texts, texts),
}


def properties(kind: int) -> st.SearchStrategy[Properties]:
    """Any properties a kind of packet may have."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for rule in TABLE:
        if kind not in rule.where:
            continue
        value = _VALUES[rule.form]
        if rule.field in ("user", "subscription_ids"):
            value = st.lists(value, min_size=1, max_size=3 if kind in rule.many else 1).map(tuple)
        fields[rule.field] = value
    return st.just(NONE) | st.fixed_dictionaries({}, optional=fields).map(lambda chosen: Properties(**chosen))


@st.composite
def wills(draw: st.DrawFn, version: int) -> Will:
    return Will(
        topic=draw(topics),
        payload=draw(st.binary(max_size=8)),
        qos=draw(st.integers(0, 2)),
        retain=draw(st.booleans()),
        properties=draw(properties(WILL)) if version == V5 else NONE,
    )


@st.composite
def connects(draw: st.DrawFn, version: int) -> Connect:
    client_id = draw(names)
    username = draw(st.none() | names)
    found = draw(properties(Kind.CONNECT)) if version == V5 else NONE
    if found.authentication_method is None and found.authentication_data is not None:
        found = NONE
    return Connect(
        client_id=client_id,
        version=version,
        clean_start=draw(st.booleans()) or (version == V4 and not client_id),
        keep_alive_s=draw(st.integers(0, 65_535)),
        will=draw(st.none() | wills(version)),
        username=username,
        password=draw(st.none() | st.binary(max_size=8)) if version == V5 or username is not None else None,
        properties=found,
    )


@st.composite
def publishes(draw: st.DrawFn, version: int) -> Publish:
    qos = draw(st.integers(0, 2))
    found = draw(properties(Kind.PUBLISH)) if version == V5 else NONE
    return Publish(
        topic=draw(topics | st.just("")) if found.topic_alias is not None else draw(topics),
        payload=draw(st.binary(max_size=200)),
        qos=qos,
        retain=draw(st.booleans()),
        dup=bool(qos) and draw(st.booleans()),
        packet_id=draw(packet_ids) if qos else 0,
        properties=found,
    )


@st.composite
def subscriptions(draw: st.DrawFn, version: int) -> Subscription:
    filter_ = draw(filters)
    if version == V4:
        return Subscription(filter_, draw(st.integers(0, 2)))
    return Subscription(
        filter=filter_,
        qos=draw(st.integers(0, 2)),
        no_local=draw(st.booleans()) and not filter_.startswith("$share/"),
        retain_as_published=draw(st.booleans()),
        retain_handling=draw(st.integers(0, 2)),
    )


@st.composite
def connacks(draw: st.DrawFn, version: int) -> Connack:
    reason = int(draw(st.sampled_from(sorted(CONNACK_V4 if version == V4 else ALLOWED[Kind.CONNACK]))))
    return Connack(
        session_present=not reason and draw(st.booleans()),
        reason=reason,
        properties=draw(properties(Kind.CONNACK)) if version == V5 else NONE,
    )


@st.composite
def answers(draw: st.DrawFn, version: int, kind: Kind) -> Packet:
    """Packets of a reason and properties."""
    reason = draw(st.sampled_from(sorted(ALLOWED[kind]))) if version == V5 else 0
    found = draw(properties(kind)) if version == V5 else NONE
    if kind in ACKS:
        return ACKS[kind](draw(packet_ids), reason, found)
    return Disconnect(reason, found) if kind is Kind.DISCONNECT else Auth(reason, found)


@st.composite
def lists(draw: st.DrawFn, version: int, kind: Kind) -> Packet:
    """SUBSCRIBE and its relatives."""
    packet_id = draw(packet_ids)
    found = draw(properties(kind)) if version == V5 else NONE
    if kind is Kind.SUBSCRIBE:
        wanted = draw(st.lists(subscriptions(version), min_size=1, max_size=3))
        return Subscribe(packet_id, tuple(wanted), found)
    if kind is Kind.UNSUBSCRIBE:
        return Unsubscribe(packet_id, tuple(draw(st.lists(filters, min_size=1, max_size=3))), found)
    codes = [0, 1, 2, 0x80] if version == V4 else sorted(ALLOWED[kind])
    reasons = tuple(draw(st.lists(st.sampled_from(codes), min_size=1, max_size=3)))
    if kind is Kind.SUBACK:
        return Suback(packet_id, reasons, found)
    return Unsuback(packet_id, reasons if version == V5 else (), found)


def of_kind(version: int, kind: Kind) -> st.SearchStrategy[Packet]:
    """Packets of one kind."""
    match kind:
        case Kind.CONNECT:
            return connects(version)
        case Kind.CONNACK:
            return connacks(version)
        case Kind.PUBLISH:
            return publishes(version)
        case Kind.PINGREQ:
            return st.just(Pingreq())
        case Kind.PINGRESP:
            return st.just(Pingresp())
        case Kind.SUBSCRIBE | Kind.SUBACK | Kind.UNSUBSCRIBE | Kind.UNSUBACK:
            return lists(version, kind)
        case _:
            return answers(version, kind)


def packets(version: int) -> st.SearchStrategy[Packet]:
    """Any packet of a version."""
    return st.one_of(*(of_kind(version, kind) for kind in Kind if version == V5 or kind is not Kind.AUTH))


both = versions.flatmap(lambda version: st.tuples(st.just(version), packets(version)))
"""A version and one of its packets."""
