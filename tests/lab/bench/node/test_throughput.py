"""The load generator: nothing lost goes unnoticed; and `penstock bench` of a node as its user runs it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import GoalMissed, MissingTool
from penstock_lab.bench.load.client import LoadShape
from penstock_lab.bench.load.generator import Load, Paced
from penstock_lab.bench.load.relay import Relay
from penstock_lab.bench.node import attach, throughput
from penstock_lab.rigs.brokers import find_mosquitto, our_node
from penstock_lab.rigs.ports import HOST
from penstock_lab.rigs.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

needs_mosquitto = pytest.mark.skipif(
    shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin") is None,
    reason="mosquitto is not installed",
)

SHAPES = [
    LoadShape(name="1 → 1"),
    LoadShape(name="1 → 5", receivers=5, version=5),
    LoadShape(name="5 → 1", senders=5),
    LoadShape(name="QoS 1", qos=1),
    LoadShape(name="QoS 1, MQTT 5", qos=1, version=5),
    LoadShape(name="a policy each", receivers=3, version=5, policy="levels: [{keep: {latest: 10}}]"),
    LoadShape(name="one stalls", receivers=2, stalled=1),
]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with our_node({"queues": {"events": 8_192}}) as broker:
        yield broker.port


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_every_message_arrives(port: int, shape: LoadShape) -> None:
    with Load(shape, broker="penstock", port=port) as load:
        assert all(load.run(messages) > 0 for messages in (1, 1_000, 3_333))


@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[2], SHAPES[3]], ids=lambda shape: shape.name)
def test_a_relay_shows_what_the_generator_can_do(shape: LoadShape) -> None:
    with Worker("relay", Relay) as relay:
        relay.ask(None)
        relay_port = relay.answer()
        for _ in range(2):
            with Load(shape, broker="relay", port=relay_port) as load:
                assert load.run(5_000) > 0


def test_latency_is_taken_of_every_message(port: int) -> None:
    shape = LoadShape(name="paced", receivers=3)
    with Worker("paced", Paced, shape, "pace", port) as worker:
        worker.ask((100, 1_000))
        taken = worker.answer()
    assert len(taken) == 300
    assert min(taken) > 0


class Lossy:
    """A broker that loses a byte, or doubles one, after so many."""

    def __init__(self, *, after: int, extra: bytes, lose: int) -> None:
        self.door = socket.create_server((HOST, 0))
        self.port: int = self.door.getsockname()[1]
        self._after, self._extra, self._lose = after, extra, lose
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with self.door, self.door.accept()[0] as receiver:
            self._greet(receiver)
            asked = receiver.recv(65_536)
            receiver.sendall(b"\x90\x03" + asked[2:4] + b"\0")
            with self.door.accept()[0] as sender:
                self._greet(sender)
                self._pass_on(sender, receiver)

    def _greet(self, client: socket.socket) -> None:
        client.recv(65_536)
        client.sendall(b"\x20\x02\0\0")

    def _pass_on(self, sender: socket.socket, receiver: socket.socket) -> None:
        passed = 0
        while data := sender.recv(65_536):
            passed += len(data)
            if passed > self._after:
                data = data[self._lose :] + self._extra
                self._lose, self._extra = 0, b""
            receiver.sendall(data)


def test_a_message_too_many_is_noticed() -> None:
    lossy = Lossy(after=50_000, extra=b"?", lose=0)
    with (
        Load(SHAPES[0], broker="lossy", port=lossy.port) as load,
        pytest.raises(GoalMissed, match=r"lossy: 1 → 1: 1000\.01 messages arrived of 1000 sent"),
    ):
        load.run(1_000)


def test_a_lost_message_is_noticed() -> None:
    lossy = Lossy(after=50_000, extra=b"", lose=1)
    with (
        Load(LoadShape(name="1 → 1", give_up_s=2), broker="lossy", port=lossy.port) as load,
        pytest.raises(GoalMissed, match="lossy: 1 → 1: 999 of 1000 messages arrived, then none"),
    ):
        load.run(1_000)


def check(found: dict[str, Any], name: str) -> None:
    assert found["bench"] == name
    keys = {"name", "value", "unit", "rival", "rival_value", "ratio", "goal", "ok", "note"}
    assert [row for row in found["rows"] if row.keys() - {"figure"} != keys or row["value"] <= 0] == []
    assert any(row["rival"].startswith("mosquitto 2") for row in found["rows"])
    assert any(row["goal"] for row in found["rows"])


def no_progress(done: int, total: int, what: str) -> None:
    assert 0 <= done <= total, what


@needs_mosquitto
def test_bench_node_runs_every_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "QUICK", throughput.NodeEffort(0.01, 2, 2, 0.05, 2, 4))
    check(throughput.measure(quick=True, progress=no_progress).as_json(), "node")


@needs_mosquitto
def test_bench_attach_lets_everyone_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach, "CLIENTS", 50)
    monkeypatch.setattr(attach, "TIMES_FEW", 1)
    monkeypatch.setattr(attach, "IDLE", 200)
    check(attach.measure(quick=True, progress=no_progress).as_json(), "attach")


@needs_mosquitto
def test_bench_overload_accounts_for_every_reading(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "bench", "overload", "--quick", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    check(found, "overload")
    for rate in ("every 2 s", "every 1 s"):
        (told,) = (row for row in found["rows"] if row["name"] == f"{rate}: readings accounted for")
        assert (told["value"], told["ok"]) == (100.0, True)
    assert list(tmp_path.iterdir()) == []


def test_without_mosquitto_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock_lab.rigs.brokers.shutil.which", lambda *_, **__: None)
    with pytest.raises(MissingTool, match="apt install mosquitto"):
        find_mosquitto()
