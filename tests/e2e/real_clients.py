"""Clients that others wrote, behind one face: paho, aiomqtt, the Mosquitto tools, and npm's mqtt."""

from __future__ import annotations

import asyncio
import fcntl
import json
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

import aiomqtt
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOST = "127.0.0.1"
KEEP_S = 300
WAIT_S = 120
INSTALL_S = 300


def wait(happened: Callable[[], object], *, seconds: float = WAIT_S) -> None:
    deadline_s = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline_s, "it did not happen"
        time.sleep(0.01)


@dataclass(frozen=True)
class Heard:
    """A message as a client shows it."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    digest: bool = False


@dataclass(frozen=True)
class How:
    """How to connect."""

    port: int
    client_id: str
    version: int = 5
    keep: bool = False
    """The session goes on without the connection."""
    will: tuple[str, bytes] | None = None


class Client(Protocol):
    """One connection."""

    heard: list[Heard]

    def subscribe(self, topic: str, *, qos: int = 0, policy: str = "") -> None: ...
    def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False) -> None: ...
    def vanish(self) -> None:
        """Go without a word."""

    def close(self) -> None:
        """Say goodbye, unless it is gone already."""


def properties(kind: int, **values: Any) -> Properties:
    made = Properties(kind)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        setattr(made, name, value)
    return made


def is_digest(message: Any) -> bool:
    found = getattr(getattr(message, "properties", None), "UserProperty", [])
    return ("penstock-digest", "2") in found


class Paho:
    """paho-mqtt."""

    def __init__(self, how: How) -> None:
        self.heard: list[Heard] = []
        self._v5 = how.version == 5
        self._answers: list[Any] = []
        version = paho.MQTTv5 if self._v5 else paho.MQTTv311
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=how.client_id,
            protocol=version,
            clean_session=None if self._v5 else not how.keep,
        )
        self._client.on_connect = lambda *args: self._answers.append(args[3])
        self._client.on_subscribe = lambda *args: self._answers.append(args[3])
        self._client.on_message = self._on_message
        if how.will is not None:
            self._client.will_set(*how.will, qos=1)
        more: dict[str, Any] = {}
        if self._v5:
            more["clean_start"] = not how.keep
            more["properties"] = properties(
                PacketTypes.CONNECT, SessionExpiryInterval=KEEP_S if how.keep else 0
            )
        self._client.connect(HOST, how.port, **more)
        self._client.loop_start()
        wait(lambda: self._answers)
        assert not self._answers.pop().is_failure

    def _on_message(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        self.heard.append(
            Heard(message.topic, bytes(message.payload), message.qos, message.retain, is_digest(message))
        )

    def subscribe(self, topic: str, *, qos: int = 0, policy: str = "") -> None:
        more = properties(PacketTypes.SUBSCRIBE, UserProperty=("policy", policy)) if policy else None
        self._client.subscribe(topic, qos, properties=more)
        wait(lambda: self._answers)
        assert not self._answers.pop()[0].is_failure

    def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False) -> None:
        self._client.publish(topic, payload, qos, retain).wait_for_publish(WAIT_S)

    def vanish(self) -> None:
        sock = self._client.socket()
        assert sock is not None
        self._client.loop_stop()
        sock.close()

    def close(self) -> None:
        if self._client.socket() is not None:
            self._client.disconnect()
            self._client.loop_stop()


class Aiomqtt:
    """aiomqtt, in an event loop of its own."""

    def __init__(self, how: How) -> None:
        self.heard: list[Heard] = []
        self._how = how
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()
        self._do(self._enter())
        self._reading = asyncio.run_coroutine_threadsafe(self._read(), self._loop)

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)

    async def _enter(self) -> None:
        how = self._how
        self._client = aiomqtt.Client(
            HOST,
            how.port,
            identifier=how.client_id,
            protocol=aiomqtt.ProtocolVersion.V5,
            clean_start=not how.keep,
            will=aiomqtt.Will(*how.will, qos=1) if how.will is not None else None,
            properties=properties(PacketTypes.CONNECT, SessionExpiryInterval=KEEP_S if how.keep else 0),
        )
        await self._client.__aenter__()

    async def _read(self) -> None:
        with suppress(aiomqtt.MqttError):
            async for message in self._client.messages:
                assert isinstance(message.payload, bytes)
                self.heard.append(
                    Heard(
                        message.topic.value, message.payload, message.qos, message.retain, is_digest(message)
                    )
                )

    def subscribe(self, topic: str, *, qos: int = 0, policy: str = "") -> None:
        more = properties(PacketTypes.SUBSCRIBE, UserProperty=("policy", policy)) if policy else None
        (granted,) = self._do(self._client.subscribe(topic, qos, properties=more))
        assert not granted.is_failure

    def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False) -> None:
        self._do(self._client.publish(topic, payload, qos, retain))

    def vanish(self) -> None:
        sock = self._client._client.socket()
        assert isinstance(sock, socket.socket)
        self._loop.call_soon_threadsafe(sock.shutdown, socket.SHUT_RDWR)
        self._end()

    def close(self) -> None:
        if not self._loop.is_closed():
            self._end()

    def _end(self) -> None:
        async def leave() -> None:
            with suppress(aiomqtt.MqttError):
                await self._client.__aexit__(None, None, None)

        self._do(leave())
        self._reading.cancel()
        self._do(asyncio.sleep(0))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Tools:
    """mosquitto_pub and mosquitto_sub."""

    def __init__(self, how: How) -> None:
        self.heard: list[Heard] = []
        self._how = how
        self._common = ["-h", HOST, "-p", str(how.port), "-V", "mqttv5" if how.version == 5 else "mqttv311"]
        self._sub: subprocess.Popen[str] | None = None
        self._subscribed = False
        if how.keep:  # what the session already holds arrives without another word
            self._listen([])

    def _listen(self, arguments: list[str]) -> None:
        if self._sub is not None:
            self._end(kill=False)
        how = self._how
        more = ["-c"] if how.keep else []
        if how.keep and how.version == 5:
            more += ["-x", str(KEEP_S)]
        if how.will is not None:
            more += ["--will-topic", how.will[0], "--will-payload", how.will[1].decode(), "--will-qos", "1"]
        more += ["-F", "HEARD %t %q %r %x %P"]
        arguments = arguments or ["-t", f"nothing/{how.client_id}"]
        self._sub = subprocess.Popen(
            ["stdbuf", "-oL", "mosquitto_sub", *self._common, "-d", "-i", how.client_id, *more, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._subscribed = False
        self._thread = Thread(target=self._read, args=(self._sub,))
        self._thread.start()
        wait(lambda: self._subscribed)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("HEARD "):
                _, topic, qos, retain, payload, *user = line.rstrip("\n").split(" ", 5)
                digest = bool(user) and "penstock-digest:2" in user[0]
                self.heard.append(Heard(topic, bytes.fromhex(payload), int(qos), retain == "1", digest))
            self._subscribed |= line.startswith("Subscribed")

    def subscribe(self, topic: str, *, qos: int = 0, policy: str = "") -> None:
        more = ["-D", "subscribe", "user-property", "policy", policy] if policy else []
        self._listen(["-t", topic, "-q", str(qos), *more])

    def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False) -> None:
        more = ["-r"] if retain else []
        command = ["mosquitto_pub", *self._common, "-t", topic, "-q", str(qos), *more, "-s"]
        subprocess.run(command, input=payload, timeout=WAIT_S, check=True)

    def vanish(self) -> None:
        self._end(kill=True)

    def close(self) -> None:
        self._end(kill=False)

    def _end(self, *, kill: bool) -> None:
        if self._sub is None:
            return
        self._sub.kill() if kill else self._sub.terminate()
        self._sub.wait()
        self._thread.join()
        assert self._sub.stdout is not None
        self._sub.stdout.close()
        self._sub = None


SCRIPT = """
const mqtt = require('mqtt');
const how = JSON.parse(process.argv[2]);
const say = (what) => process.stdout.write(JSON.stringify(what) + '\\n');
const options = { clientId: how.id, protocolVersion: how.version, clean: !how.keep, reconnectPeriod: 0 };
if (how.version === 5) options.properties = { sessionExpiryInterval: how.keep ? how.keepS : 0 };
if (how.will) options.will = { topic: how.will[0], payload: how.will[1], qos: 1 };
const client = mqtt.connect(`mqtt://${how.host}:${how.port}`, options);
client.on('connect', () => say({ done: 'connect' }));
client.on('error', (error) => { say({ failed: String(error) }); process.exit(1); });
client.on('message', (topic, payload, packet) => {
  const user = (packet.properties && packet.properties.userProperties) || {};
  say({ topic, payload: payload.toString('hex'), qos: packet.qos, retain: packet.retain,
        digest: user['penstock-digest'] === '2' });
});
const answer = (what) => (error) => say(error ? { failed: String(error) } : { done: what });
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const it = JSON.parse(line);
  if (it.do === 'subscribe') {
    const options = { qos: it.qos };
    if (it.policy) options.properties = { userProperties: { policy: it.policy } };
    client.subscribe(it.topic, options, answer('subscribe'));
  } else if (it.do === 'publish') {
    client.publish(it.topic, Buffer.from(it.payload, 'hex'), { qos: it.qos, retain: it.retain },
                   answer('publish'));
  } else client.end(false, {}, () => process.exit(0));
});
"""


@dataclass
class Npm:
    """npm's mqtt in a Node process; `folder` is where it is installed."""

    how: How
    folder: Path
    heard: list[Heard] = field(default_factory=list)

    def __post_init__(self) -> None:
        how = self.how
        asked = {"id": how.client_id, "version": how.version, "keep": how.keep, "keepS": KEEP_S}
        asked |= {"host": HOST, "port": how.port}
        if how.will is not None:
            asked["will"] = [how.will[0], how.will[1].decode()]
        self._done: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            ["node", "-e", SCRIPT, "client", json.dumps(asked)],
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = Thread(target=self._read)
        self._thread.start()
        try:
            self._answered()
        except BaseException:
            self.vanish()  # what is left open would fail later tests
            raise

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "topic" in said:
                said["payload"] = bytes.fromhex(said["payload"])
                self.heard.append(Heard(**said))
            else:
                self._done.append(said)

    def _answered(self) -> None:
        wait(lambda: self._done or self._process.poll() is not None)
        assert self._done, f"Node has ended with {self._process.poll()}"
        said = self._done.pop()
        assert "done" in said, said

    def _ask(self, **what: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def subscribe(self, topic: str, *, qos: int = 0, policy: str = "") -> None:
        self._ask(do="subscribe", topic=topic, qos=qos, policy=policy)
        self._answered()

    def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False) -> None:
        self._ask(do="publish", topic=topic, payload=payload.hex(), qos=qos, retain=retain)
        self._answered()

    def vanish(self) -> None:
        self._process.kill()
        self._end()

    def close(self) -> None:
        if self._process.poll() is None:
            self._ask(do="end")
            self._end()

    def _end(self) -> None:
        self._process.wait(WAIT_S)
        self._thread.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


def install_npm_mqtt(folder: Path) -> str:
    """Put npm's mqtt into a folder, once; empty, or why that is not possible.

    Tests run in several processes: the first installs it, the others wait, and none sees half of it.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "node and npm are not installed"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done, whole = folder / "done", folder / "node_modules"
        if done.is_file():
            return ""
        shutil.rmtree(whole, ignore_errors=True)  # an installation that was broken off
        command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "mqtt@5"]
        try:
            npm = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"npm does not get the package mqtt within {INSTALL_S} s"
        if npm.returncode:
            return f"npm cannot install the package mqtt: {npm.stderr.strip()[:200]}"
        done.touch()
        return ""
