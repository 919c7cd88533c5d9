"""Reliable streams against NATS JetStream, both as processes of their own, with Python clients.

Durable publishing, latency, how fast a subscriber that was away catches up, and what a subscriber costs.
Every published message must arrive once and in order, or the benchmark ends with an error.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, Final
from urllib.request import urlopen

from penstock import limits
from penstock.errors import GoalMissed
from penstock.node.service import allow_files
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.bench.streams.publishers import (
    PAYLOAD_BYTES,
    STREAM,
    WRITTEN,
    Audit,
    JetStreamPublisher,
    MqttPublisher,
    WriterPublisher,
)
from penstock_lab.bench.streams.subscribers import (
    Crowd,
    JetStreamLatency,
    JetStreamRecovery,
    MqttLatency,
    MqttRecovery,
)
from penstock_lab.rigs.brokers import OURS, START_S, Broker
from penstock_lab.rigs.local_node import local_node
from penstock_lab.rigs.nats_server import find_nats_server, nats_server
from penstock_lab.rigs.ports import HOST
from penstock_lab.rigs.worker import Worker
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock_lab.bench.result import Progress

NAME: Final = "streams"
SHOWS: Final = Shows(live=True)
BATCHED: Final = 0.5
"""Goal of batched publishing: ours is synced (fsync) before it is acknowledged, JetStream's is not."""
CATCH_UP: Final = 5.0
"""Goal of catching up: this many times as fast as messages come in."""
PER_S: Final = 500
"""Messages per second at which the latency is taken."""
LIVE_PER_S: Final = 1_000
"""Messages per second that come in while a subscriber catches up."""
GREETED: Final = 20
"""Messages that each subscriber of the memory measurement gets."""
SPARE: Final = 200
"""Connections beside those of the subscribers."""


@dataclass(frozen=True, slots=True)
class StreamEffort:
    """Number and size of the measurements."""

    one_by_one: int
    batched: int
    rounds: int
    paced: int
    missed: int
    subscribers: int


QUICK: Final = StreamEffort(200, 5_000, 3, 1_000, 10_000, 100)
FULL: Final = StreamEffort(1_000, 30_000, 5, 10_000, 100_000, 1_000)


@dataclass(frozen=True, slots=True)
class OurNode:
    """A running node of ours that hosts the streams of the benchmark."""

    broker: Broker
    streams_port: int

    def log(self, stream: str = STREAM) -> dict[str, Any]:
        """Return the statistics of the stream's log, from the node's API."""
        sleep(2 * limits.HTTP_FRESH_S)  # the API may answer from a snapshot of this age
        with urlopen(f"{self.broker.http}api/v1/streams?search={stream}") as answer:  # noqa: S310  # its own
            found: dict[str, Any] = json.load(answer)["streams"][0]["log"]
            return found


@contextmanager
def node(**streams: Any) -> Iterator[OurNode]:
    """Run `penstock up` with two streams, in a temporary folder, for the length of the block."""
    host = [{"name": name, "topics": [f"{name}/#"]} for name in (STREAM, WRITTEN)]
    config = {
        "data": "store",
        "sys_interval_s": 0,
        "bounds": {"connections_per_address": FULL.subscribers + SPARE},
        "streams": {"host": host, "listen": {"enabled": True, "port": 0}, **streams},
    }
    with local_node(config) as found:
        yield OurNode(Broker(OURS, found.port, found.pid, found.http), found.streams)


def measure(*, quick: bool, progress: Progress) -> BenchmarkResult:
    """Measure ours and the rival's in turn."""
    start = perf_counter()
    _, version = find_nats_server()
    rival = f"JetStream {version}"
    effort = QUICK if quick else FULL
    allow_files(effort.subscribers + SPARE)  # the nodes inherit the raised limit
    steps = (
        ("publishing", _publishing),
        ("publishing, log in JetStream", _on_nats),
        ("latency", _latency),
        ("catching up", _recovery),
        ("subscribers", _memory),
    )
    rows: list[BenchmarkRow] = []
    for number, (what, step) in enumerate(steps):
        progress(number, len(steps), what)
        rows += step(effort, rival)
    note = (
        f"{PAYLOAD_BYTES}-byte payloads, Python clients on both sides (ours and nats-py), one connection "
        f"each; publishing and latency are medians of {effort.rounds} rounds, taking turns, catching up and "
        "memory are taken once; each message arrived once and in order; "
        "ours is on the disk (fsync) before it is acknowledged, JetStream's file storage is written and "
        "synced now and then; our log in JetStream is as durable as that"
    )
    return BenchmarkResult(NAME, tuple(rows), perf_counter() - start, note=note)


def _publishing(effort: StreamEffort, rival: str) -> list[BenchmarkRow]:
    """Rows of publishing one by one and with many messages under way."""
    rows = []
    with node() as ours, nats_server() as nats, ExitStack() as stack:
        mqtt = stack.enter_context(Worker("MQTT publisher", MqttPublisher, ours.broker.port))
        writer = stack.enter_context(Worker("StreamWriter", WriterPublisher, ours.streams_port))
        other = stack.enter_context(Worker("JetStream publisher", JetStreamPublisher, nats.url))
        sent = 0
        for window in (1, 100, 1_000):
            messages = effort.one_by_one if window == 1 else effort.batched
            rates: dict[Worker, list[float]] = {mqtt: [], writer: [], other: []}
            before = ours.log()
            for number in range(-1, effort.rounds):  # the first round warms up
                for worker, found in rates.items():
                    worker.ask((messages, window))
                    took_s = worker.answer()
                    if number >= 0:
                        found.append(messages / took_s)
                sent += messages
            after = ours.log()
            theirs = median(rates[other])
            goal = None if window == 1 else BATCHED
            how = "one by one" if window == 1 else f"{window:,} under way"
            for name, worker in (("MQTT QoS 1", mqtt), ("StreamWriter", writer)):
                own = median(rates[worker])
                rows.append(
                    BenchmarkRow(
                        f"durable publish, {how}, {name}",
                        own,
                        "msg/s",
                        rival,
                        theirs,
                        own / theirs,
                        goal,
                        fails_if="each message has an fsync of its own, not many of them one together",
                    )
                )
            rows += _commits(before, after, how)
        with Worker("audit", Audit, ours.streams_port) as audit:
            for stream in (STREAM, WRITTEN):
                audit.ask((stream, sent))
                audit.answer()
    return rows


def _commits(before: dict[str, Any], after: dict[str, Any], how: str) -> list[BenchmarkRow]:
    commits = after["commits"] - before["commits"]
    took_us = after["commits"] * after["commit_us"] - before["commits"] * before["commit_us"]
    together = (after["committed"] - before["committed"]) / max(1, commits)
    return [
        BenchmarkRow(f"commits of our log, {how}, MQTT QoS 1", 1e6 * commits / max(1, took_us), "commits/s"),
        BenchmarkRow(f"messages per commit, {how}, MQTT QoS 1", together, "msg"),
    ]


def _on_nats(effort: StreamEffort, rival: str) -> list[BenchmarkRow]:
    """Rows of our node with its logs in JetStream: our protocol, as durable as the rival."""
    rows = []
    with nats_server() as nats, node(log="nats", nats={"servers": [nats.url]}) as ours, ExitStack() as stack:
        mqtt = stack.enter_context(Worker("MQTT publisher", MqttPublisher, ours.broker.port))
        writer = stack.enter_context(Worker("StreamWriter", WriterPublisher, ours.streams_port))
        other = stack.enter_context(Worker("JetStream publisher", JetStreamPublisher, nats.url))
        rates: dict[Worker, list[float]] = {mqtt: [], writer: [], other: []}
        window, sent = 1_000, 0
        for number in range(-1, effort.rounds):
            for worker, found in rates.items():
                worker.ask((effort.batched, window))
                took_s = worker.answer()
                if number >= 0:
                    found.append(effort.batched / took_s)
            sent += effort.batched
        theirs = median(rates[other])
        for who, worker in (("MQTT QoS 1", mqtt), ("StreamWriter", writer)):
            own = median(rates[worker])
            name = f"publish, log in JetStream, {window:,} under way, {who}"
            rows.append(BenchmarkRow(name, own, "msg/s", rival, theirs, own / theirs))
        with Worker("audit", Audit, ours.streams_port) as audit:
            for stream in (STREAM, WRITTEN):
                audit.ask((stream, sent))
                audit.answer()
    return rows


def _latency(effort: StreamEffort, rival: str) -> list[BenchmarkRow]:
    found: dict[str, tuple[list[float], list[float]]] = {"p50": ([], []), "p99": ([], [])}
    with node() as ours, nats_server() as nats, ExitStack() as stack:
        workers = (
            stack.enter_context(Worker("MQTT latency", MqttLatency, ours.broker.port)),
            stack.enter_context(Worker("JetStream latency", JetStreamLatency, nats.url)),
        )
        for number in range(-1, effort.rounds):
            for who, worker in enumerate(workers):
                worker.ask((effort.paced // effort.rounds, PER_S))
                took_ns = sorted(worker.answer())
                if number >= 0:
                    last = len(took_ns) - 1
                    found["p50"][who].append(took_ns[last // 2] / 1e6)
                    found["p99"][who].append(took_ns[last * 99 // 100] / 1e6)
    rows = []
    for what, both in found.items():
        own, other = map(median, both)
        name = f"latency at {PER_S} msg/s, {what}"
        rows.append(BenchmarkRow(name, own, "ms", rival, other, other / own, less=True))
    return rows


def _recovery(effort: StreamEffort, rival: str) -> list[BenchmarkRow]:
    took = {}
    with nats_server() as nats, Worker("JetStream recovery", JetStreamRecovery, nats.url) as worker:
        worker.ask((effort.missed, LIVE_PER_S))
        other_s = worker.answer()
    with node() as ours, Worker("recovery", MqttRecovery, ours.broker.port) as worker:
        worker.ask((effort.missed, LIVE_PER_S))
        took["where it is published"] = worker.answer()
    with (
        node(node="north", neighbours=[{"name": "south"}]) as ours,
        _follower(ours) as port,
        Worker("recovery at another node", MqttRecovery, ours.broker.port, port) as worker,
    ):
        worker.ask((effort.missed, LIVE_PER_S))
        took["at another node"] = worker.answer()
    rows = []
    for where, own_s in took.items():
        name = f"catching up {effort.missed:,} messages while {LIVE_PER_S:,} msg/s come in, {where}"
        times = effort.missed / LIVE_PER_S / own_s
        rows += [
            BenchmarkRow(
                f"{name}, times real time",
                times,
                "×",
                "real time",
                1.0,
                times,
                CATCH_UP,
                fails_if="the log is read message by message, or new messages take all turns",
            ),
            BenchmarkRow(f"{name}, time", own_s, "s", rival, other_s, other_s / own_s, less=True),
        ]
    return rows


@contextmanager
def _follower(ours: OurNode) -> Iterator[int]:
    """Run a second node that gets the streams of the first; yields its MQTT port."""
    neighbour = {"name": "north", "host": HOST, "port": ours.streams_port}
    config = {"data": "store", "sys_interval_s": 0, "streams": {"node": "south", "neighbours": [neighbour]}}
    with local_node(config) as found:
        deadline_s = perf_counter() + START_S
        while not _known(found.http):
            if perf_counter() > deadline_s:
                raise GoalMissed(f"the second node has not heard of the stream after {START_S} s")
            sleep(limits.HTTP_FRESH_S)
        yield found.port


def _known(http: str) -> bool:
    with urlopen(f"{http}api/v1/streams?search={STREAM}") as answer:  # noqa: S310  # of our own node
        return bool(json.load(answer)["streams"])


def _memory(effort: StreamEffort, _: str) -> list[BenchmarkRow]:
    with node() as ours, Worker("subscribers", Crowd, ours.broker.port) as crowd:
        crowd.ask((10, 1, GREETED))  # the first subscribers also pay for what the node allocates once
        crowd.answer()
        before = ours.broker.memory_bytes()
        crowd.ask((effort.subscribers, GREETED + 1, GREETED))
        crowd.answer()
        after = ours.broker.memory_bytes()
    each_kb = (after - before) / effort.subscribers / 1_000
    return [
        BenchmarkRow(
            f"memory of a node with {effort.subscribers:,} subscribers of a stream", after / 1e6, "MB"
        ),
        BenchmarkRow("memory for each of them", each_kb, "KB"),
    ]
