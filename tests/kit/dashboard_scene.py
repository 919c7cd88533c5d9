"""A node with something on every page of its dashboard: the scene of the screenshots."""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import paho.mqtt.client as paho
import pyarrow as pa
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from penstock.pipeline.tables.control_tables import write_version
from penstock_lab.rigs.ports import free_port
from tests.kit.dashboard_node import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TOKEN = "token-of-the-scene"  # noqa: S105

SETTINGS = """
listeners: [{port: 0, slots: true}]
http: {port: 0, base_url: "https://penstock.example.org", token: %s}
data: data
queues: {events: 200}
anonymous: loopback
acl:
  - {allow: false, user: guest, topic: "ward/#"}
  - {user: anonymous}
access_file: access.yaml
policies:
  vitals:
    attribute: pulse
    digest: [count, mean, min, max]
    urgent: {gt: 120}
    levels:
      - drop: {delta: 5}
      - drop: {within: [50, 100]}
      - keep: {latest: 10}
streams:
  host:
    - {name: orders, topics: ["orders/#"]}
channels:
  enabled: true
  interval_s: 1s
  polling: {networks: [127.0.0.0/8], least_s: 100ms, host_polls: 1000000, robots: "off"}
notify:
  networks: [127.0.0.0/8]
  webhook: {enabled: true}
  feeds: {enabled: true}
policy_table: control/policies
cluster: {name: ward, node: n1, zone: east, listen: "tcp/127.0.0.1:%d"}
"""

OTHER = """
listeners: [{port: 0}]
http: {port: 0}
data: ""
cluster: {name: ward, node: n2, zone: west, listen: "tcp/127.0.0.1:%d", join: ["tcp/127.0.0.1:%d"]}
"""
"""The second node of the cluster."""

LATEST = "name: {0}\nlevels:\n  - keep: {{latest: {1}}}\n"
"""A policy of the control table."""


def wait(done: Callable[[], bool], meanwhile: Callable[[], object] = lambda: time.sleep(0.02)) -> None:
    """Wait for something, for minutes if need be."""
    deadline_s = time.monotonic() + 180
    while not done():
        assert time.monotonic() < deadline_s, "it did not happen within three minutes"
        meanwhile()


class Site:
    """A web page that changes, and a receiver of webhooks."""

    def __init__(self) -> None:
        site = self
        self.lines = ["Opening hours: 9 to 17", "Train 17: on time", "Train 42: on time"]

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer("".join(f"<p>{line}</p>" for line in site.lines))

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self._answer("")

            def _answer(self, body: str) -> None:
                data = f"<!doctype html><title>Departures</title><body>{body}".encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Scene:
    """The node, with a few calls of its API."""

    def __init__(self, node: Node, site: Site) -> None:
        self.node = node
        self.site = site

    def ask(self, path: str, body: Any = None) -> Any:
        """Answer of the API."""
        request = Request(  # noqa: S310  # our own node
            f"{self.node.url}api/v1{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"},
        )
        with urlopen(request, timeout=120) as answer:  # noqa: S310
            return json.load(answer)


def connected(port: int, client_id: str, *, on_its_own: bool = True) -> paho.Client:
    """A client whose loop runs in a thread, or is run by its owner."""
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5)
    client.connect("127.0.0.1", port, keepalive=600)
    if on_its_own:
        client.loop_start()
    wait(client.is_connected, (lambda: time.sleep(0.02)) if on_its_own else (lambda: client.loop(0.05)))
    return client


def subscribed(client: paho.Client, filter_: str, *, qos: int = 0, policy: str = "") -> None:
    """Subscribe a client whose loop its owner runs, and wait for the answer."""
    answered: list[bool] = []
    client.on_subscribe = lambda *_: answered.append(True)
    properties = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
    if policy:
        properties.UserProperty = [("policy", policy)]
    client.subscribe(filter_, qos, properties=properties)
    wait(lambda: bool(answered), lambda: client.loop(0.05))


def closed(client: paho.Client) -> None:
    """Go, whether anybody still runs its loop or not."""
    socket = client.socket()
    client.disconnect()
    client.loop_stop()
    if socket is not None:
        socket.close()


class Sensors:
    """Readings of a ward and of a house, and orders of a stream, until closed."""

    def __init__(self, port: int) -> None:
        self._client = connected(port, "sensors")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        # Many at first, so that the phone is behind soon; then few, which a busy machine carries as well.
        while not self._stop.wait(0.02 if number < 4_000 else 0.25):
            for _ in range(24):
                number += 1
                payload = json.dumps(
                    {"pulse": 40 + number * 7 % 90, "spo2": 97, "bed": f"A{number % 12}", "note": "x" * 200}
                )
                self._client.publish(f"ward/{number % 12}/pulse", payload)
            room = ("kitchen", "hall", "cellar")[number % 3]
            self._client.publish(f"home/{room}/heat", json.dumps({"celsius": 19 + number % 5}))
            self._client.publish("orders/new", json.dumps({"order": number}), qos=1)

    def close(self) -> None:
        """Publish no more."""
        self._stop.set()
        self._thread.join()
        closed(self._client)


def publish_policies(folder: Path, *rows: tuple[str, str, str], note: str = "") -> None:
    """Write the next version of the control table `policies`: names, clients and texts."""
    names, clients, texts = (list(column) for column in zip(*rows, strict=True))
    table = pa.table({"name": names, "client": clients, "filter": ["ward/#"] * len(rows), "policy": texts})
    write_version(table, folder, name="policies", note=note)


@contextmanager
def other_node(folder: Path, seed: int) -> Iterator[None]:
    """A second node of the cluster, with a reader of what is published at the first."""
    folder.mkdir()
    with ExitStack() as stack:
        node = Node(folder, settings=OTHER % (free_port(), seed))
        stack.callback(node.close)
        reader = connected(node.mqtt_port, "display at the gate")
        stack.callback(closed, reader)
        reader.subscribe("home/#")
        yield


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """A node with a slow phone, a stream, a flow, a page that has changed, and who is told of it; a second
    node in its cluster; and a control table with a second version."""
    with ExitStack() as stack:
        site = Site()
        stack.callback(site.close)
        control, seed = folder / "control" / "policies", free_port()
        publish_policies(control, ("dashboards", "dash-*", LATEST.format("dashboards", 20)))
        node = Node(folder, settings=SETTINGS % (TOKEN, seed))
        stack.callback(node.close)
        publish_policies(
            control,
            ("dashboards", "dash-*", LATEST.format("dashboards", 50)),
            ("kiosks", "kiosk-*", LATEST.format("kiosks", 5)),
            note="2 classes of receivers, after a shadow backtest",
        )
        found = Scene(node, site)
        stack.enter_context(other_node(folder / "n2", seed))
        reader = connected(node.mqtt_port, "wall display")
        stack.callback(closed, reader)
        reader.subscribe([("ward/#", 0), ("home/#", 0), ("orders/#", 1)])
        phone = connected(node.mqtt_port, "phone of ward 3", on_its_own=False)
        stack.callback(closed, phone)
        subscribed(phone, "ward/#", policy="vitals")
        reader.publish("home/door", "closed", qos=1, retain=True).wait_for_publish(120)
        reader.publish("home/kitchen/light", '{"on": true}', qos=1, retain=True).wait_for_publish(120)
        stack.callback(Sensors(node.mqtt_port).close)
        found.ask("/channels/add", {"url": f"{site.url}/departures", "tags": ["trains", "daily"]})
        found.ask("/access/users/set", {"name": "ann", "password": "a long password"})
        found.ask("/access/rules/set", {"rules": [{"user": "ann", "topic": "home/#"}]})
        hook = f"webhook:{site.url}/hook"
        found.ask("/channels/subscribe", {"who": hook, "url": f"{site.url}/departures"})
        wait(lambda: any(one["version"] for one in found.ask("/channels")["channels"]))
        site.lines[1] = "Train 17: 20 minutes late"
        wait(lambda: found.ask("/notify")["sent"] > 0)
        wait(lambda: bool(found.ask("/slow")["subscriptions"]))
        wait(lambda: bool(found.ask("/flows")["flows"]))
        wait(lambda: found.ask("/tables")["tables"][0]["version"] == 2)
        wait(lambda: found.ask("/cluster")["status"]["total"]["handed"] > 0)
        yield found
