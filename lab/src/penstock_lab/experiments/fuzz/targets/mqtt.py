"""Valid exchanges of MQTT clients, from CONNECT to DISCONNECT, with packets of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.mqtt.codes import V4, V5, Reason
from penstock.mqtt.fields import encode_varint
from penstock.mqtt.packets.connect import PINGREQ, Auth, Connect, Disconnect, Will
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Puback, Pubcomp, Publish, Pubrec, Pubrel
from penstock.mqtt.packets.subscribe import Subscribe, Subscription, Unsubscribe
from penstock_lab.experiments.fuzz.exchange import INTEGERS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from penstock.mqtt.packets.packet import Packet

CLIENTS: Final = ("", *(f"fuzz-{number}" for number in range(8)))
TOPICS: Final = ("fuzz/a", "fuzz/b/c", "fuzz/ü", "orders/1", "web/http", "fuzz", "a/b/c/d/e/f/g")
FILTERS: Final = (
    *TOPICS,
    "#",
    "+/a",
    "fuzz/#",
    "fuzz/+/c",
    "orders/#",
    "$SYS/#",
    "$digest/#",
    "$share/crew/fuzz/#",
)
PAYLOADS: Final = (
    b"",
    b"12.5",
    b'{"pulse": 71, "id": "a"}',
    b"\xff\xfe",
    b"x" * 300,
    b"\xa1epulse\x18G",
    b"y" * 4_000,
)
POLICIES: Final = (
    "levels: [{keep: {latest: 2}}]",
    "{attribute: pulse, digest: [mean], levels: [{drop: {within: [50, 100]}}]}",
    "none-of-this-name",
)
TOKENS: Final = (
    b"\x00\x00",
    b"\xff\xff",
    b"\x00\x04MQTT\x05",
    b"\x00\x04MQTT\x04",
    b"\xed\xa0\x80",
    b"\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x01",
    b"#",
    b"+",
    b"$share/",
    b"$share//",
    b"$SYS/",
    b"/" * 300,
    b"\x0b\x00",
    b"\x23\x00\x01",
    b"\x26\x00\x06policy\x00\x01{",
    b"\x26\x00\x06filter\x00\x02: ",
    PINGREQ,
    b"\xf0\x00",
    b"\xe0\x00",
)


def valid(dice: Random) -> list[bytes]:
    """Return the packets of one client, one piece each."""
    version = dice.choice((V4, V5, V5))
    packets: list[Packet] = [_connect(dice, version)]
    packets += [_request(dice, version, number) for number in range(1, dice.randint(1, 8))]
    if dice.random() < 0.6:
        packets.append(Disconnect(dice.choice((0, Reason.DISCONNECT_WITH_WILL)) if version == V5 else 0))
    return [encode(packet, version) for packet in packets]


def _connect(dice: Random, version: int) -> Connect:
    will = None
    if dice.random() < 0.3:
        will = Will(
            dice.choice(TOPICS),
            dice.choice(PAYLOADS),
            qos=dice.randrange(3),
            retain=dice.random() < 0.3,
            properties=Properties(will_delay_s=dice.choice((0, 1)), content_type="x")
            if version == V5
            else NONE,
        )
    properties = NONE
    if version == V5 and dice.random() < 0.7:
        properties = Properties(
            session_expiry_s=dice.choice((None, 0, 1, 60, 0xFFFF_FFFF)),
            receive_maximum=dice.choice((None, 1, 2, 0xFFFF)),
            maximum_packet_size=dice.choice((None, None, 20, 100, 1 << 20)),
            topic_alias_maximum=dice.choice((None, 0, 1, 10)),
            request_problem_information=dice.choice((None, 0, 1)),
            request_response_information=dice.choice((None, 0, 1)),
            user=(("a", "b"),) * dice.randrange(3),
        )
    name = dice.choice(CLIENTS)
    return Connect(
        name,
        version=version,
        clean_start=not name or dice.random() < 0.5,
        keep_alive_s=dice.choice((0, 1, 60, 0xFFFF)),
        will=will,
        username=dice.choice((None, None, "ann")),
        password=None,
        properties=properties,
    )


def _request(dice: Random, version: int, number: int) -> Packet:
    """One packet after the CONNECT; answers guess the packet identifiers of the node, which begin at 1."""
    v5 = version == V5
    match dice.randrange(12):
        case 0 | 1 | 2 | 3:
            return _publish(dice, number, v5=v5)
        case 4 | 5:
            return _subscribe(dice, number, v5=v5)
        case 6:
            return Unsubscribe(number, (dice.choice(FILTERS),))
        case 7:
            return dice.choice((Puback, Pubrec, Pubrel, Pubcomp))(dice.randint(1, 4))
        case 8:
            return dice.choice((Puback, Pubrec))(dice.randint(1, 4), Reason.UNSPECIFIED if v5 else 0)
        case 9:
            return Pubrel(dice.randint(1, number))
        case 10 if v5:
            return Auth(
                Reason.REAUTHENTICATE, Properties(authentication_method="x", authentication_data=b"y")
            )
        case _:
            return Publish(dice.choice(TOPICS), b"", qos=2, packet_id=number, dup=True)


def _publish(dice: Random, number: int, *, v5: bool) -> Publish:
    qos = dice.randrange(3)
    properties = NONE
    if v5 and dice.random() < 0.5:
        properties = Properties(
            message_expiry_s=dice.choice((None, 0, 60)),
            topic_alias=dice.choice((None, 1, 2)),
            payload_format_indicator=dice.choice((None, 0, 1)),
            content_type=dice.choice((None, "application/json", "")),
            response_topic=dice.choice((None, "fuzz/answers")),
            correlation_data=dice.choice((None, b"", b"1")),
            user=(("unit", "mV"),) * dice.randrange(2),
        )
    return Publish(
        dice.choice(TOPICS),
        dice.choice(PAYLOADS),
        qos,
        retain=dice.random() < 0.2,
        packet_id=number if qos else 0,
        properties=properties,
    )


def _subscribe(dice: Random, number: int, *, v5: bool) -> Subscribe:
    properties = NONE
    if v5 and dice.random() < 0.6:
        user: Sequence[tuple[str, str]] = dice.choice(
            (
                (),
                (("policy", dice.choice(POLICIES)),),
                (("filter", "keep: {gt: 100, attribute: pulse}"),),
                (("from", "earliest"),),
            )
        )
        properties = Properties(subscription_ids=dice.choice(((), (1,), (268_435_455,))), user=tuple(user))
    return Subscribe(
        number,
        tuple(
            Subscription(
                dice.choice(FILTERS[: -1 if v5 else None]),
                qos=dice.randrange(3),
                no_local=v5 and dice.random() < 0.3,
                retain_as_published=v5 and dice.random() < 0.3,
                retain_handling=dice.randrange(3) if v5 else 0,
            )
            for _ in range(dice.randint(1, 3))
        ),
        properties,
    )


def lengths(packet: bytes, dice: Random) -> bytes:
    """Give a packet another remaining length, or another length of a field inside."""
    if dice.random() < 0.5 or len(packet) < 6:
        size = dice.choice((*INTEGERS[:8], len(packet), 20_000, 268_435_455))
        end = 2
        while end < min(5, len(packet)) and packet[end - 1] & 0x80:
            end += 1
        return packet[:1] + encode_varint(size) + packet[end:]
    at = dice.randrange(2, len(packet) - 1)
    return packet[:at] + (dice.choice(INTEGERS) & 0xFFFF).to_bytes(2) + packet[at + 2 :]
