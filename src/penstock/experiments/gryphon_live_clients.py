"""Publishers and subscribers of the live tree: MQTT clients that number messages and check that."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Self

from penstock.client import Client
from penstock.model.event import Event
from penstock.sim.streams_gryphon import PAYLOAD, PUBENDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.client import Subscription
    from penstock.client.local_node import LocalNode

LEAVES: Final = ("SB1", "SB2")
SUBSCRIBERS: Final = 2
"""At each leaf."""
WINDOW_S: Final = 0.2
"""Of messages that a publisher has in flight, as in the paper."""


class Clients:
    """One publisher for each stream at PB, some subscribers of all streams at each leaf."""

    def __init__(self, nodes: Mapping[str, LocalNode], *, rate: int) -> None:
        self._nodes = nodes
        self._every_s = len(PUBENDS) / rate
        self._stack = AsyncExitStack()
        self._publishers: dict[str, Client] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._publishing: list[asyncio.Task[None]] = []
        self.acknowledged = dict.fromkeys(PUBENDS, 0)
        """Messages of each stream for which the publisher has the node's word."""
        self.got: dict[str, dict[str, list[int]]] = {}
        """By subscriber and stream: the numbers of what came."""

    async def __aenter__(self) -> Self:
        try:
            for pubend in PUBENDS:
                client = Client(self._nodes["PB"].url, client_id=f"publisher {pubend}")
                self._publishers[pubend] = await self._stack.enter_async_context(client)
            for leaf in LEAVES:
                for number in range(SUBSCRIBERS):
                    await self._subscribe(leaf, f"{leaf} subscriber {number + 1}")
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    def start(self) -> None:
        """Publish from now on."""
        self._publishing = [asyncio.create_task(self._publish(pubend)) for pubend in PUBENDS]

    async def stop(self) -> None:
        """Publish no more; what is in flight is answered, or abandoned."""
        for task in self._publishing:
            task.cancel()
        await asyncio.gather(*self._publishing, return_exceptions=True)

    async def problems(self, *, within_s: float) -> list[str]:
        """What subscribers were told wrongly, once everything acknowledged has had time to come."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + within_s
        while loop.time() < end_s and not self._complete():
            await asyncio.sleep(0.1)
        return [
            problem
            for name, streams in self.got.items()
            for pubend in PUBENDS
            for problem in problems_of(name, pubend, streams[pubend], self.acknowledged[pubend])
        ]

    def _complete(self) -> bool:
        return all(
            len(streams[pubend]) >= self.acknowledged[pubend]
            for streams in self.got.values()
            for pubend in PUBENDS
        )

    async def _subscribe(self, leaf: str, name: str) -> None:
        client = await self._stack.enter_async_context(Client(self._nodes[leaf].url, client_id=name))
        self.got[name] = {pubend: [] for pubend in PUBENDS}
        subscription = await client.subscribe("live/+", qos=1)
        self._tasks.append(asyncio.create_task(self._listen(self.got[name], subscription)))

    async def _listen(self, got: dict[str, list[int]], subscription: Subscription) -> None:
        async for item in subscription:
            assert isinstance(item, Event)  # nothing of a stream is packed
            got[item.topic.removeprefix("live/")].append(int.from_bytes(item.payload[:4]))

    async def _publish(self, pubend: str) -> None:
        """One message after the other, with a bounded number in flight: held acknowledgements slow it."""
        client = self._publishers[pubend]
        window = asyncio.Semaphore(max(1, round(WINDOW_S / self._every_s)))
        under_way: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        number = 0
        try:
            while True:
                await window.acquire()
                task = asyncio.create_task(self._send(client, pubend, number, window))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                number += 1
                due_s = max(due_s + self._every_s, loop.time() - WINDOW_S)
                await asyncio.sleep(max(0.0, due_s - loop.time()))
        finally:
            await asyncio.wait(under_way, timeout=10) if under_way else None
            for task in list(under_way):
                task.cancel()

    async def _send(self, client: Client, pubend: str, number: int, window: asyncio.Semaphore) -> None:
        payload = number.to_bytes(4) + bytes(PAYLOAD - 4)
        await client.publish(f"live/{pubend}", payload, qos=1)
        self.acknowledged[pubend] = max(self.acknowledged[pubend], number + 1)
        window.release()

    async def _close(self) -> None:
        await self.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()


def problems_of(name: str, pubend: str, got: list[int], acknowledged: int) -> list[str]:
    """What is wrong with the numbers of one stream that a subscriber got; so many were acknowledged."""
    if len(got) < acknowledged:
        return [f"{name} never got {acknowledged - len(got)} acknowledged messages of {pubend}"]
    if got != list(range(len(got))):
        at = next(place for place, number in enumerate(got) if number != place)
        what = "twice" if got[at] in got[:at] else "out of order"
        return [f"{name} got message {got[at]} of {pubend} {what}, in the place of {at}"]
    return []
