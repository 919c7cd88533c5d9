"""Random bytes and damaged packets against everything that reads from the network.

    python -m tests.mqtt.packets.fuzz_codec --runs 1000000 --seed 7

Whatever comes in, only MqttError comes out; what is read can be written, and read again as the same. A
failure prints the seed of its run: `--seed N --runs 1` repeats it.
"""

from __future__ import annotations

import argparse
import random
import sys
from typing import Final

from penstock.errors import MqttError
from penstock.mqtt.codes import Kind
from penstock.mqtt.fields import encode_varint
from penstock.mqtt.packets import fanout
from penstock.mqtt.packets.connect import Auth, Connack, Connect, Disconnect, Pingreq, Will
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import Packet, decode, encode, kind_of
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Puback, Publish, Pubrec
from penstock.mqtt.packets.subscribe import Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from penstock.mqtt.sessions.server import ServerConnection, ServerState, Terms

_PAIRS: Final = (("a", "b"), ("a", "c"))
_WORDED: Final = Properties(reason_string="why", user=_PAIRS)
SEEDS: Final[tuple[Packet, ...]] = (
    Connect("client", will=Will("w", b"x", 1, True), username="u", password=b"p"),
    Connect("", properties=Properties(session_expiry_s=5, receive_maximum=3, topic_alias_maximum=2)),
    Connack(properties=Properties(assigned_client_id="x", maximum_qos=1, maximum_packet_size=99)),
    Publish("a/b", b"payload"),
    Publish("a/b", b"payload", qos=2, dup=True, packet_id=300, retain=True),
    Publish("", properties=Properties(topic_alias=2, message_expiry_s=9, response_topic="r", user=_PAIRS)),
    Puback(1),
    Pubrec(2, 0x97, _WORDED),
    Subscribe(3, (Subscription("a/+", 1), Subscription("$share/g/#")), Properties(subscription_ids=(200,))),
    Suback(4, (0, 0x87), _WORDED),
    Unsubscribe(5, ("a", "b/#")),
    Unsuback(6, (0, 0x11)),
    Disconnect(0x82, _WORDED),
    Auth(0x18, Properties(authentication_method="m", authentication_data=b"d")),
    Pingreq(),
)  # fmt: skip
_CORPUS: Final = [encode(seed, 5) for seed in SEEDS] + [
    encode(seed, 4) for seed in SEEDS if getattr(seed, "properties", None) is NONE
]
_TELLING: Final = (0x00, 0x01, 0x02, 0x7F, 0x80, 0xFF, 0x0B, 0x23, 0x26)
"""Ends of ranges, and identifiers of properties."""


def damaged(rng: random.Random) -> bytes:
    """A packet with a few bytes changed, added or taken away; the length mostly put right again."""
    frame = bytearray(rng.choice(_CORPUS))
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(frame) + 1)
        match rng.randrange(4):
            case 0 if at < len(frame):
                frame[at] = rng.randrange(256)
            case 1 if at < len(frame):
                frame[at] = rng.choice(_TELLING)
            case 2:
                frame[at:at] = rng.randbytes(rng.randint(1, 4))
            case _:
                del frame[at : at + rng.randint(1, 4)]
    if len(frame) > 1 and rng.random() < 0.8:
        frame[1:2] = encode_varint(len(frame) - 2)
    return bytes(frame)


def run(seed: int) -> int:
    """One run; how many packets could be read."""
    rng = random.Random(seed)
    stream = b"".join(damaged(rng) for _ in range(rng.randint(1, 4)))
    if rng.random() < 0.1:
        stream = rng.randbytes(rng.randint(0, 64))
    framer, whole = Framer(max_bytes=4096), Framer(max_bytes=4096)
    cut = rng.randrange(len(stream) + 1)
    frames = framer.feed(stream[:cut]) + framer.feed(stream[cut:])
    assert frames == whole.feed(stream), "cut or not, the frames are the same"
    assert str(framer.fault) == str(whole.fault)
    version = rng.choice((4, 5))
    connection = _connected(version) if rng.random() < 0.5 else ServerConnection(Terms(), now_us=0)
    return sum(_read(frame, version) for frame in frames) + _serve(connection, frames)


def _read(frame: bytes, version: int) -> bool:
    if frame[0] >> 4 == 3:
        _look_inside(frame, version)
    try:
        packet = decode(frame, version)
    except MqttError as error:
        if error.reason < 0x80 or not error.where:
            raise AssertionError(f"says not what is wrong, or where: {error}") from error
        return False
    if isinstance(packet, Connect):
        version = packet.version
    again = encode(packet, version)
    assert decode(again, version) == packet, packet
    return True


def _look_inside(frame: bytes, version: int) -> None:
    try:
        _, _, _, properties_at, payload_at = fanout.spans(frame, version)
        assert 2 < properties_at <= payload_at <= len(frame), (properties_at, payload_at)
        fanout.forwarded(fanout.properties_of(frame[properties_at:payload_at]), subscription_ids=(1,))
    except MqttError:
        pass


def _connected(version: int) -> ServerConnection:
    connection = ServerConnection(Terms(), now_us=0)
    connection.receive(encode(Connect("c", version=version), version))
    connection.accept(session_present=False, now_us=0)
    return connection


def _serve(connection: ServerConnection, frames: list[bytes]) -> int:
    """The frames as a server sees them, to the first error and its farewell."""
    read = 0
    for frame in frames:
        try:
            connection.receive(frame)
        except MqttError as error:
            said = connection.farewell(error)
            assert connection.state is ServerState.CLOSED
            assert not said or kind_of(said) in (Kind.CONNACK, Kind.DISCONNECT)
            return read
        read += 1
        if connection.state is ServerState.DECIDING:
            connection.accept(session_present=False, now_us=0)
        if connection.state is ServerState.CLOSED:
            return read
    return read


def fuzz(*, runs: int, seed: int) -> int:
    """So many runs from a seed on; how many packets could be read."""
    read = 0
    for each in range(seed, seed + runs):
        try:
            read += run(each)
        except Exception:
            sys.stderr.write(f"run with --seed {each} --runs 1 fails\n")
            raise
    return read


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    found = fuzz(runs=chosen.runs, seed=chosen.seed)
    sys.stdout.write(f"{chosen.runs} runs, {found} packets read, nothing but MqttError raised\n")
