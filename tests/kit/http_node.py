"""A broker with its HTTP server on free ports, minimal clients, answers checked by the OpenAPI document."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import jsonschema
from yarl import URL

from penstock.mqtt.packets.connect import Connect
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode, encode
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Publish
from penstock.mqtt.packets.subscribe import Suback, Subscribe, Subscription
from penstock.node.access.gate import Gate
from penstock.node.broker.broker import Broker
from penstock.node.broker.listeners import Listeners
from penstock.node.config.schema import Config, Http, Listener, Queues
from penstock.node.http import HttpServer, openapi, start_http
from penstock.node.observe.status import Observed
from tests.kit.flows import start_flows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.mqtt.packets.packet import Packet

DOCUMENT = openapi.document()
VITALS = """
name: vitals
attribute: pulse
digest: [count, mean]
levels:
  - drop: {delta: 5}
  - drop: {within: [50, 100]}
  - keep: {latest: 10}
"""


def check_answer(method: str, path: str, status: int, kind: str, body: Any) -> None:
    """Hold an answer to what the OpenAPI document promises about it."""
    template = next(
        known
        for known in DOCUMENT["paths"]
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", known), path)
        and method.lower() in DOCUMENT["paths"][known]
    )
    answers = DOCUMENT["paths"][template][method.lower()]["responses"]
    promised = answers.get(str(status), answers["default"])["content"]
    assert kind in promised
    schema = {**promised[kind]["schema"], "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(schema).validate(body)


class Client:
    """An MQTT client of few words; unless told to read on, it reads only what it waits for."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._framer = Framer()
        self._frames: list[bytes] = []

    async def hear(self) -> Packet:
        """The next packet."""
        while not self._frames:
            data = await asyncio.wait_for(self._reader.read(65_536), 120)
            assert data, "the node closed the connection"
            self._frames += self._framer.feed(data)
        return decode(self._frames.pop(0), 5)

    async def subscribe(self, filter_: str, *, policy: str = "") -> Suback:
        """Subscribe, with a policy or without."""
        properties = Properties(user=(("policy", policy),)) if policy else Properties()
        self._writer.write(encode(Subscribe(1, (Subscription(filter_),), properties), 5))
        answer = await self.hear()
        assert isinstance(answer, Suback)
        return answer

    async def publish(self, topic: str, payload: bytes) -> None:
        """Publish at QoS 0."""
        self._writer.write(encode(Publish(topic, payload), 5))
        await self._writer.drain()

    async def close(self) -> None:
        """Go without a word."""
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)


class Running:
    """A broker, its HTTP server, and a client of that."""

    def __init__(
        self, observed: Observed, doors: Listeners, server: HttpServer, session: aiohttp.ClientSession
    ) -> None:
        self.observed = observed
        self.broker = observed.broker
        self.server = server
        self.url = f"http://127.0.0.1:{server.port}"
        self._session = session
        self._mqtt_port = doors.listeners[0].port
        self._stack = AsyncExitStack()

    async def client(self, client_id: str, *, expiry_s: int = 0) -> Client:
        """A connected client."""
        # 4 KB, so that a client that does not read is behind soon.
        reader, writer = await asyncio.open_connection("127.0.0.1", self._mqtt_port, limit=4096)
        client = Client(reader, writer)
        self._stack.push_async_callback(client.close)
        properties = Properties(session_expiry_s=expiry_s or None)
        writer.write(encode(Connect(client_id=client_id, properties=properties), 5))
        await client.hear()
        return client

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, Any, dict[str, str]]:
        """Status, body and headers of an answer that keeps what the document promises."""
        self.server._watch.changed()  # or the answer may be a tenth of a second old
        async with self._session.request(method, URL(self.url + path, encoded=True), **options) as answer:
            kind = answer.content_type
            is_json = kind in ("application/json", "application/problem+json")
            body = await answer.json(content_type=None) if is_json else await answer.text()
            if is_json and not path.endswith("openapi.json"):
                check_answer(method, path.partition("?")[0], answer.status, kind, body)
            return answer.status, body, dict(answer.headers)

    async def get(self, path: str, **options: Any) -> Any:
        """The body of a good answer."""
        status, body, _ = await self.ask("GET", f"/api/v1{path}", **options)
        assert status == 200, body
        return body

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        """Status and body."""
        status, found, _ = await self.ask("POST", f"/api/v1{path}", json=body)
        return status, found

    async def live(self, **options: Any) -> aiohttp.ClientResponse:
        """The stream of snapshots."""
        return await self._session.get(f"{self.url}/api/v1/live", **options)

    async def flood(self, topic: str, count: int) -> None:
        """Publish from inside, letting the node breathe."""
        for number in range(count):
            self.broker.publish(topic, b'{"pulse": %d}' % (60 + number % 80) + b" " * 200)
            if number % 50 == 49:
                await asyncio.sleep(0)

    async def stalled(self, client_id: str, filter_: str, *, policy: str = "", count: int = 30_000) -> Client:
        """A client that stops reading until its queue has filled."""
        client = await self.client(client_id)
        await client.subscribe(filter_, policy=policy)
        topic = filter_.replace("#", "x").replace("+", "x")
        for _ in range(count // 500):
            await self.flood(topic, 500)
            rows = (await self.get("/slow"))["subscriptions"]
            if any(one["dropped"] for row in rows for one in row["subscription"]["filters"]):
                return client
        raise AssertionError(f"after {count} events nothing was dropped: {rows}")

    async def close(self) -> None:
        """All clients go."""
        await self._stack.aclose()


@asynccontextmanager
async def running(*, token: str = "", events: int = 100, **settings: Any) -> AsyncIterator[Running]:
    """A broker that listens, with an HTTP server; small queues, so that they fill soon."""
    settings.setdefault("listeners", (Listener(port=0),))
    config = Config(
        http=Http(port=0, token=token),
        data="",
        queues=Queues(events=events),
        **settings,
    )
    broker = Broker(config, gate=Gate(config))
    doors = Listeners(broker.protocol)
    async with AsyncExitStack() as stack:
        broker.start()
        stack.push_async_callback(broker.close)
        flows = start_flows(broker)
        if flows is not None:
            stack.callback(flows.close)
        stack.push_async_callback(doors.close)
        await doors.open(config.listeners, config.bounds)
        observed = Observed(broker, flows=flows)
        server = await start_http(observed, config)
        stack.push_async_callback(server.close)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        found = Running(observed, doors, server, session)
        stack.push_async_callback(found.close)
        yield found
