"""Count the bytecodes of Python that a node runs for a message: exact, however busy the machine is.

    python tools/bytecodes.py                                   this tree
    PYTHONPATH=../before/src python tools/bytecodes.py          another one, a worktree of an earlier commit
    python tools/bytecodes.py --slots                           at a listener with time slots

A broker without sockets gets messages of each kind, few and many; what the many take more is divided by how
many more they are. Bytecodes are no time, but where two trees take the same number of them on a path, that
path has not become slower by what was added elsewhere.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock.mqtt.codes import V4, V5
from penstock.mqtt.packets.connect import Connect
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Publish
from penstock.mqtt.packets.subscribe import Subscribe, Subscription
from penstock.node.access.gate import Gate
from penstock.node.broker.broker import Broker
from penstock.node.config.schema import Config, Queues
from penstock.node.slots.flows import Flows
from penstock.node.slots.publisher import add_flows

if TYPE_CHECKING:
    from types import FrameType

    from penstock.node.broker.connection import Connection

FEW, MANY, CHUNK = 500, 2_500, 50
PAYLOAD = bytes(100)
PLAIN = encode(Publish("t", PAYLOAD), V4) * CHUNK
QOS1 = b"".join(encode(Publish("t", PAYLOAD, qos=1, packet_id=number + 1), V4) for number in range(CHUNK))
NAMED = encode(Publish("t", PAYLOAD, properties=Properties(user=(("a", "b"),))), V5) * CHUNK
TOPICS = b"".join(encode(Publish(f"t/{number}", PAYLOAD), V4) for number in range(CHUNK))
SLOTS = "--slots" in sys.argv[1:]


@dataclass(frozen=True, slots=True)
class Kind:
    """Messages in one chunk, and how their receivers read."""

    name: str
    chunk: bytes
    count: int = CHUNK
    receivers: int = 1
    version: int = V4
    step_us: int = 10
    stalled: bool = False
    """The receiver reads nothing."""
    catches_up: bool = False
    """It stalls for each chunk and then reads it."""


KINDS = (
    Kind("QoS 0, runs", PLAIN),
    Kind("QoS 0, runs, ten receivers", PLAIN, receivers=10),
    Kind("QoS 0, runs, each on another topic", TOPICS),
    Kind("QoS 0, one at a time", PLAIN[: len(PLAIN) // CHUNK], count=1, step_us=1_000),
    Kind("QoS 1, runs", QOS1),
    Kind("with properties", NAMED, version=V5),
    Kind("QoS 0, receiver stalled", PLAIN, stalled=True),
    Kind("QoS 0, receiver stalls and catches up", PLAIN, catches_up=True),
    Kind("with properties, receiver stalled", NAMED, version=V5, stalled=True),
    Kind("with properties, receiver stalls and catches up", NAMED, version=V5, catches_up=True),
)


class Nowhere:
    """A transport that takes all, or says that it is full."""

    full = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def get_write_buffer_size(self) -> int:
        return int(self.full)

    def write(self, data: bytes) -> None:
        pass

    def set_write_buffer_limits(self, **_: int) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


class Counter:
    """Bytecodes while it is on."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> Counter:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.count += event == "opcode"
        return self


async def measure(kind: Kind, messages: int) -> int:
    """Bytecodes of so many messages."""
    now_us = 1_800_000_000_000_000
    config = Config(data="", queues=Queues(events=200), sys_interval_s=0)
    if SLOTS:
        config = replace(config, listeners=(replace(config.listeners[0], slots=True),))
    broker = Broker(config, gate=Gate(config), clock=lambda: now_us)
    if SLOTS:
        add_flows(
            broker, Flows(config.slots, clock=lambda: now_us, publish=broker.publish, router=broker.router)
        )
    broker.start()

    async def peer(name: str) -> Connection:
        connection = broker.protocol(config.listeners[0])
        connection.connection_made(Nowhere())  # type: ignore[arg-type]
        connection.data_received(encode(Connect(client_id=name, version=kind.version), kind.version))
        while connection.session is None:
            await asyncio.sleep(0)
        return connection

    async def stall(connection: Connection, *, full: bool) -> None:
        connection.transport.full = full  # type: ignore[union-attr]
        (connection.pause_writing if full else connection.resume_writing)()
        await asyncio.sleep(0)

    sender = await peer("sender")
    receivers = [await peer(f"receiver-{number}") for number in range(kind.receivers)]
    for receiver in receivers:
        receiver.data_received(encode(Subscribe(1, (Subscription("t/#", qos=0),)), kind.version))
    await asyncio.sleep(0)
    if kind.stalled:
        await stall(receivers[0], full=True)
    counter = Counter()
    sys.settrace(counter)
    for _ in range(messages // kind.count):
        now_us += kind.step_us
        if kind.catches_up:
            await stall(receivers[0], full=True)
        sender.data_received(kind.chunk)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if kind.catches_up:
            await stall(receivers[0], full=False)
    sys.settrace(None)
    if broker.messages_received != messages:
        sys.exit(f"{kind.name}: {broker.messages_received} messages of {messages} were taken")
    return counter.count


def main() -> None:
    """Print a line for each kind."""
    gc.disable()
    for kind in KINDS:
        few, many = (asyncio.run(measure(kind, messages)) for messages in (FEW, MANY))
        print(f"{(many - few) / (MANY - FEW):8.2f}  {kind.name}")  # a program


if __name__ == "__main__":
    main()
