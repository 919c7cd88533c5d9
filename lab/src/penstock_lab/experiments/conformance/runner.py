"""Plays byte-level MQTT cases against a running broker, one after the other, each on its own connection.

The runner judges leniently where the standard leaves freedom: a CONNACK or DISCONNECT by its reason code, and
a plain close where the case shows one with a reason; the report counts how often that happened. Everything
else must arrive byte for byte.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import MqttError, Unreachable
from penstock.mqtt.codes import V4, V5, Kind
from penstock.mqtt.packets.connect import PINGREQ, PINGRESP, Connect
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode, encode
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Publish, Pubrec, Pubrel
from penstock.mqtt.packets.subscribe import Subscribe, Subscription, Unsubscribe
from penstock_lab.experiments.conformance.vectors import (
    ConnectionCheck,
    ExternalPublish,
    Receive,
    Request,
    Send,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from penstock.mqtt.packets.packet import Packet
    from penstock_lab.experiments.conformance.vectors import Case, Message

GOAL: Final = 0.98
"""Share of the cases that must pass."""

WAIT_S: Final = 20.0
"""Longest wait for an answer or for the end of a connection; either normally takes milliseconds."""

EXTERNAL: Final = "external"
"""Client identifier of the second client."""

DEPARTURES: Final = {
    "CONNECT: v3.1 CONNECT: 10 ok": "MQTT 3.1, the draft before 3.1.1, is not spoken",
    "CONNECT: v3.1 CONNECT: 14 ok": "MQTT 3.1, the draft before 3.1.1, is not spoken",
    "CONNECT: v3.1 CONNECT: 10 empty client ID": "MQTT 3.1 is not spoken: refused for that, not for the name",
}
"""Cases that our node fails on purpose, and why."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one case."""

    case: Case
    problem: str
    """The failure as a sentence; empty if the case passed."""
    silent: bool = False
    """Whether the broker closed the connection without the CONNACK or DISCONNECT that states a reason."""

    @property
    def ok(self) -> bool:
        """Whether the case passed."""
        return not self.problem

    def as_json(self) -> dict[str, Any]:
        """A failure in `penstock conformance --json`."""
        return {
            "file": self.case.file,
            "group": self.case.group,
            "name": self.case.name.strip(),
            "version": self.case.version,
            "problem": self.problem,
            "reason": DEPARTURES.get(self.case.title, ""),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all cases."""

    broker: str
    results: tuple[Result, ...]
    seconds: float

    @property
    def failures(self) -> list[Result]:
        """The cases that failed."""
        return [result for result in self.results if not result.ok]

    @property
    def share(self) -> float:
        """Share of the cases that passed."""
        return 1 - len(self.failures) / len(self.results)

    @property
    def ok(self) -> bool:
        """Whether the goal is reached."""
        return self.share >= GOAL

    def by_file(self) -> list[tuple[str, int, int]]:
        """Return (file, cases, cases passed) of each file."""
        files = dict.fromkeys(result.case.file for result in self.results)
        return [
            (
                file,
                sum(result.case.file == file for result in self.results),
                sum(result.case.file == file and result.ok for result in self.results),
            )
            for file in files
        ]

    def as_json(self) -> dict[str, Any]:
        """The shape of `penstock conformance --json`."""
        return {
            "conformance": "mqtt",
            "broker": self.broker,
            "cases": len(self.results),
            "passed": len(self.results) - len(self.failures),
            "closed_without_a_word": sum(result.silent for result in self.results),
            "share": round(self.share, 4),
            "goal": GOAL,
            "ok": self.ok,
            "files": [
                {"file": file, "cases": cases, "passed": passed} for file, cases, passed in self.by_file()
            ],
            "failures": [result.as_json() for result in self.failures],
            "seconds": round(self.seconds, 1),
        }


def run_cases(
    cases: Sequence[Case], *, host: str, port: int, broker: str, progress: Callable[[int, int, str], None]
) -> Report:
    """Run every case; Unreachable if the broker is not there."""
    start = time.perf_counter()
    results = []
    for number, case in enumerate(cases):
        progress(number, len(cases), case.file)
        results.append(run_case(case, host=host, port=port))
    progress(len(cases), len(cases), "done")
    return Report(broker, tuple(results), time.perf_counter() - start)


def run_case(case: Case, *, host: str, port: int) -> Result:
    """Run one case on a connection of its own."""
    version = V5 if case.version == V5 else V4
    with _Peer(host, port, version) as peer:
        try:
            if case.connect:
                peer.connect(case.name)
            for message in case.messages:
                _step(peer, message, host=host, port=port)
            peer.check(connected=not case.expect_disconnect)
        except _Otherwise as otherwise:
            return Result(case, str(otherwise))
        except MqttError as error:
            return Result(case, f"what the broker sent cannot be read: {error}")
        return Result(case, "", silent=peer.silent)


def _step(peer: _Peer, message: Message, *, host: str, port: int) -> None:
    match message:
        case Send():
            peer.send(message.data)
        case Receive():
            peer.expect(message.data)
        case ExternalPublish():
            with _Peer(host, port, peer.version) as other:
                other.connect(EXTERNAL)
                other.publish(message)
        case Request():
            peer.request(message)
        case ConnectionCheck():
            peer.check(connected=message.connected)


class _Otherwise(Exception):
    """A case failed; the message says why."""


class _Peer:
    """A raw MQTT connection that sends any bytes, valid or not."""

    def __init__(self, host: str, port: int, version: int) -> None:
        self.version = version
        self.silent = False
        self._closed = False
        self._framer = Framer()
        self._frames: list[bytes] = []
        try:
            self._socket = socket.create_connection((host, port), timeout=WAIT_S)
        except OSError as error:
            raise Unreachable(f"{host}:{port}: {error.strerror or error}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except ConnectionError:
            self._closed = True

    def next(self) -> bytes | None:
        """The next packet; None if the connection is closed."""
        while not self._frames:
            try:
                chunk = self._socket.recv(65_536) if not self._closed else b""
            except ConnectionError:
                chunk = b""
            except TimeoutError:
                raise _Otherwise(f"nothing came for {WAIT_S:g} s, and the connection is open") from None
            if not chunk:
                self._closed = True
                return None
            self._frames = self._framer.feed(chunk)
        return self._frames.pop(0)

    def expect(self, expected: bytes) -> None:
        found = self.next()
        if found is None and _says_why(expected):
            self.silent = True
            return
        if found is None:
            raise _Otherwise(f"the connection was closed; {expected.hex()} should have come")
        if not _alike(found, expected):
            raise _Otherwise(f"{found.hex()} came; it should have been {expected.hex()}")

    def connect(self, client_id: str) -> None:
        quiet = Properties(request_problem_information=False) if self.version == V5 else NONE
        self._ask(Connect(client_id, version=self.version, properties=quiet), "a CONNECT")

    def publish(self, message: ExternalPublish) -> None:
        sent = Publish(
            message.topic, message.payload, message.qos, message.retain, packet_id=1 if message.qos else 0
        )
        if not message.qos:
            self.send(encode(sent, self.version))
            self.check(connected=True)  # the acknowledgement shows that the broker has it
            return
        if isinstance(self._ask(sent, "the second client's PUBLISH"), Pubrec):
            self._ask(Pubrel(1), "the second client's PUBREL")

    def request(self, message: Request) -> None:
        if message.what == "subscribe":
            self._ask(Subscribe(1, (Subscription(message.topic, message.qos),)), "a SUBSCRIBE")
        else:
            self._ask(Unsubscribe(1, (message.topic,)), "an UNSUBSCRIBE")

    def check(self, *, connected: bool) -> None:
        if connected:
            self.send(PINGREQ)
            found = self.next()
            if found is None:
                raise _Otherwise("the connection was closed")
            if found != PINGRESP:
                raise _Otherwise(f"{found.hex()} came unexpectedly")
            return
        while (found := self.next()) is not None:
            if found[0] >> 4 not in (Kind.DISCONNECT, Kind.CONNACK):
                raise _Otherwise(f"{found.hex()} came; the connection should have been closed")

    def _ask(self, packet: Packet, what: str) -> Packet:
        self.send(encode(packet, self.version))
        found = self.next()
        if found is None:
            raise _Otherwise(f"the connection was closed after {what}")
        answer = decode(found, self.version)
        reasons = getattr(answer, "reasons", None) or (getattr(answer, "reason", 0),)
        if any(reason >= 0x80 for reason in reasons):
            raise _Otherwise(f"{what} was refused: {answer}")
        return answer


def _says_why(expected: bytes) -> bool:
    """Return whether a packet only states why the connection ends, which a server may leave out."""
    kind = expected[0] >> 4
    return kind == Kind.DISCONNECT or (kind == Kind.CONNACK and expected[3] != 0)


def _alike(found: bytes, expected: bytes) -> bool:
    if found[0] != expected[0]:
        return False
    kind = found[0] >> 4
    if kind == Kind.CONNACK:
        return found[3] == expected[3]
    if kind == Kind.DISCONNECT:
        return found[2:3] == expected[2:3]
    return found == expected
