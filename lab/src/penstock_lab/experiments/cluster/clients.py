"""Publishers and subscribers of a cluster under faults; each writes down what it has sent or got."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.client import Client
from penstock.client.subscription import ReceivedEvent
from penstock.errors import PenstockError
from penstock.model.digest import Digest
from penstock.model.event import Event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.client import Subscription
    from penstock.model.event import Item

ALL: Final = "kill/#"
FIRM: Final = "kill/firm/#"
"""Messages with QoS 1 and 2: kept sessions get them, whatever happens to a node."""
KEPT_S: Final = 3_600
"""How long a kept session is kept."""
STAY_S: Final = 0.5
"""How long a client that moves stays at a node."""
AGAIN_S: Final = 0.5
"""Longest pause before a client connects again."""


def topic_of(qos: int) -> str:
    """Messages of each QoS have a topic of their own: order is promised within it."""
    return f"kill/firm/{qos}" if qos else "kill/plain/0"


class Publisher:
    """Publishes numbers with one QoS at a steady pace, and goes on where it was after a fault."""

    def __init__(self, url: str, qos: int, *, per_s: float, topic: str = "") -> None:
        self.qos = qos
        self.times: list[float] = []
        """When each message was published; with QoS 1 and 2 all were acknowledged, but for the last."""
        self._topic = topic or topic_of(qos)
        self._pause_s = 1 / per_s
        self._going = True
        self._client = Client(
            url, client_id=f"publisher-{self._topic}", session_expiry_s=KEPT_S, reconnect_most_s=AGAIN_S
        )

    @property
    def sent(self) -> int:
        """Messages published."""
        return len(self.times)

    async def run(self) -> None:
        """Publish until `stop`; the last message is acknowledged then."""
        loop = asyncio.get_running_loop()
        async with self._client as client:
            due_s = loop.time()
            while self._going:
                self.times.append(loop.time())
                await client.publish(self._topic, str(self.sent), qos=self.qos)
                due_s = max(due_s + self._pause_s, loop.time() - 1)
                await asyncio.sleep(max(0.0, due_s - loop.time()))

    def stop(self) -> None:
        """Publish no more."""
        self._going = False


class Again(NamedTuple):
    """A message that had come before."""

    qos: int
    """QoS of its publisher."""
    number: int
    dup: bool
    """Whether the node said that it sends the message again."""


class Late(NamedTuple):
    """A message that came for the first time behind a later one of its topic."""

    qos: int
    number: int
    after: int

    def __str__(self) -> str:
        return f"{self.number} after {self.after} of QoS {self.qos}"


@dataclass(slots=True)
class Notes:
    """The notes of one subscriber."""

    got: dict[int, set[int]] = field(default_factory=lambda: {0: set(), 1: set(), 2: set()})
    """Numbers that came, by the QoS of their publisher."""
    digested: int = 0
    """Messages counted in digests."""
    again: list[Again] = field(default_factory=list)
    order: list[Late] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)

    def take(self, item: Item) -> None:
        """Note what came."""
        if isinstance(item, Digest):
            self.digested += item.count
            return
        assert isinstance(item, Event)
        qos, number = int(item.topic.rpartition("/")[2]), int(item.payload)
        if number in self.got[qos]:
            self.again.append(Again(qos, number, isinstance(item, ReceivedEvent) and item.packet.dup))
            return
        if number < self.last.get(qos, 0):
            self.order.append(Late(qos, number, self.last[qos]))
        self.last[qos] = max(number, self.last.get(qos, 0))
        self.got[qos].add(number)

    @property
    def count(self) -> int:
        """Messages that came, each once, and those that digests count."""
        return sum(map(len, self.got.values())) + self.digested


class Subscriber:
    """Subscribes at one node, and notes what it gets."""

    def __init__(self, name: str, url: str, *, qos: int, kept: bool, policy: str = "") -> None:
        self.name = name
        self.qos = qos
        self.kept = kept
        self.notes = Notes()
        self.ready = asyncio.Event()
        self._url = url
        self._policy = policy

    def missing(self, sent: dict[int, int]) -> int:
        """How many of its messages neither came nor are counted in a digest; `sent` has them by QoS."""
        return sum(count for qos, count in sent.items() if qos or not self.kept) - self.notes.count

    def again(self, *, killed: bool) -> list[str]:
        """Messages that came twice and must not; after its node was `killed`, QoS 1 may repeat."""
        return [
            f"{each.number} of QoS {each.qos}"
            for each in self.notes.again
            if not (killed and min(each.qos, self.qos) == 1)
        ]

    def _client(self) -> Client:
        return Client(
            self._url,
            client_id=self.name,
            session_expiry_s=KEPT_S if self.kept else None,
            clean_start=False if self.kept else None,
            reconnect_most_s=AGAIN_S,
        )

    async def run(self) -> None:
        """Take messages until cancelled."""
        while True:
            with suppress(PenstockError, OSError):  # the node is down: try again
                await self._stay()
            await asyncio.sleep(0)

    async def _stay(self) -> None:
        """Be connected to the node, for as long as it lasts."""
        async with self._client() as client:
            subscription = await client.subscribe(
                FIRM if self.kept else ALL, qos=self.qos, policy=self._policy or None, digests="compact"
            )
            self.ready.set()
            await self._listen(client, subscription)

    async def _listen(self, client: Client, subscription: Subscription) -> None:  # noqa: ARG002
        async for item in subscription:
            self.notes.take(item)


class Traveller(Subscriber):
    """A subscriber with a kept session that goes to another node twice a second."""

    def __init__(self, name: str, places: Mapping[str, str], *, qos: int, policy: str = "") -> None:
        """`places` are the URLs of its nodes by name."""
        self._urls = list(places.values())
        self.nodes = frozenset(places)
        super().__init__(name, self._urls[0], qos=qos, kept=True, policy=policy)
        self.visits = 0
        """How often it was at a node."""

    async def _listen(self, client: Client, subscription: Subscription) -> None:
        """Listen at each node for a while; the client stays the same, as its half of the session does."""
        while True:
            self.visits += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(STAY_S):
                    await super()._listen(client, subscription)
            self._urls = [*self._urls[1:], self._urls[0]]
            await client.move(self._urls[0])
