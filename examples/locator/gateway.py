"""Takes syslog over UDP and publishes it at a node as events; what is no line of an access point is refused.

    python gateway.py mqtt://127.0.0.1:1883

Prints the port it listens on first, and an account at the end (SIGTERM, or standard input that ends).
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections import Counter

from syslog_lines import LONGEST, Refused, event_of

from penstock import Client

TOPIC = "campus/syslog"
END = "campus/end"
WAITING = 10_000
"""Events that may wait for the node; further ones are counted and dropped."""
TOGETHER = 200
"""Events whose confirmations are awaited together."""


class Gateway(asyncio.DatagramProtocol):
    """Reads datagrams; one is one line."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[bytes] = asyncio.Queue(WAITING)
        self.received = self.published = self.overrun = 0
        self.refused: Counter[str] = Counter()

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002  # asyncio's interface
        """Check a line, and put its event in the queue."""
        self.received += 1
        try:
            event = event_of(data)
        except Refused as refused:
            self.refused[refused.reason] += 1
            return
        try:
            self.waiting.put_nowait(json.dumps(event).encode())
        except asyncio.QueueFull:
            self.overrun += 1

    async def publish(self, client: Client) -> None:
        """Publish what waits, until cancelled."""
        while True:
            events = [await self.waiting.get()]
            while len(events) < TOGETHER and not self.waiting.empty():
                events.append(self.waiting.get_nowait())
            await asyncio.gather(*(client.publish(TOPIC, event, qos=1) for event in events))
            self.published += len(events)
            for _ in events:
                self.waiting.task_done()


async def main(url: str) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)  # as much of it as the system allows
    udp.bind(("127.0.0.1", 0))
    async with Client(url, client_id="gateway") as client:
        transport, gateway = await asyncio.get_running_loop().create_datagram_endpoint(Gateway, sock=udp)
        print(json.dumps({"port": udp.getsockname()[1], "longest": LONGEST}), flush=True)
        publishing = asyncio.create_task(gateway.publish(client))
        await over.wait()
        seen = -1
        while seen != gateway.received:  # what the socket still has
            seen = gateway.received
            await asyncio.sleep(0.3)
        transport.close()
        await gateway.waiting.join()
        publishing.cancel()
        account = {
            "received": gateway.received,
            "published": gateway.published,
            "overrun": gateway.overrun,
            "refused": dict(gateway.refused),
        }
        await client.publish(END, json.dumps(account), qos=1, retain=True)
    print(json.dumps(account), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
