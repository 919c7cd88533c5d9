"""A tiny MQTT server with a fault on demand, to see that a judge of servers can fail.

    python -m tests.kit.faulty_server FAULT

It serves well-behaved clients of one kind: CONNECT, SUBSCRIBE and QoS 1 messages, echoed to their sender.
Its fault shows when somebody else connects. Prints its port when it is ready.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar

from penstock.mqtt.codes import V5
from penstock.mqtt.packets.connect import Connack, Connect
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode, encode
from penstock.mqtt.packets.publish import Puback, Publish
from penstock.mqtt.packets.subscribe import Suback, Subscribe
from penstock_lab.experiments.fuzz.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.mqtt.packets.packet import Packet

KNOWN = ("bystander", "visitor")
"""Client identifiers of clients that are served."""


class Server(asyncio.Protocol):
    """One connection."""

    leaked: ClassVar[list[bytes]] = []
    strangers = 0

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._framer = Framer()
        self._known = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer a client that is known; commit the fault for any other."""
        assert self._transport is not None
        if not self._known and not any(name.encode() in data for name in KNOWN):
            Server.strangers += 1
            self._commit(data)
            self._transport.close()
            return
        self._known = True
        for frame in self._framer.feed(data):
            self._answer(decode(frame, V5))

    def _answer(self, packet: Packet) -> None:
        assert self._transport is not None
        if isinstance(packet, Connect):
            self._transport.write(encode(Connack(), V5))
        elif isinstance(packet, Subscribe):
            self._transport.write(encode(Suback(packet.packet_id, (1,)), V5))
        elif isinstance(packet, Publish):
            self._transport.write(encode(Puback(packet.packet_id), V5))
            if self._fault != "lose" or not Server.strangers or int(packet.payload) % 5:
                self._transport.write(encode(packet, V5))

    def _commit(self, data: bytes) -> None:
        match self._fault:
            case "crash" if data[:1] != b"\x10":
                os._exit(3)
            case "traceback":
                raise ValueError("a fault that was asked for")
            case "memory":
                Server.leaked.append(os.urandom(1 << 18))
            case "files":
                os.dup(0)
            case "stall":
                time.sleep(3)


async def _serve(fault: str) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Server(fault), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


@contextmanager
def faulty_server(fault: str) -> Iterator[Subject]:
    """Run the server with this fault for the length of the block."""
    with (
        TemporaryDirectory() as folder,
        Path(folder, "log").open("w") as log,
        Popen(
            [sys.executable, "-m", __name__, fault], stdout=PIPE, stderr=log, stdin=PIPE, text=True
        ) as process,
    ):
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            yield Subject(process.pid, {"mqtt": port}, Path(folder, "log"))
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
