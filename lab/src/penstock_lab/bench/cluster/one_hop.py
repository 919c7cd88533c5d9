"""One hop: a publisher at one node, a subscriber at another, beside rivals and beside one node alone.

    publisher ──► node A ──► node B ──► subscriber

The rivals are two Mosquittos, the first of which is bridged to the second, and a cluster of two NATS servers.
All contestants are up at the same time and take turns, in many short rounds.
"""

from __future__ import annotations

import select
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.errors import GoalMissed
from penstock_lab.bench.cluster import fan_out, growth
from penstock_lab.bench.load.client import PAYLOAD_BYTES, WINDOW, LoadShape
from penstock_lab.bench.load.generator import Load, Paced
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.rigs.brokers import find_mosquitto, mosquitto_bridge, our_node
from penstock_lab.rigs.cluster import cluster
from penstock_lab.rigs.nats_server import find_nats_server, nats_cluster
from penstock_lab.rigs.worker import Worker
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from penstock_lab.bench.result import Progress

NAME: Final = "cluster"
SHOWS: Final = Shows(live=True)
UNBOUNDED: Final = ("max_queued_messages 0", "max_queued_bytes 0")
"""Lifts the bounds of Mosquitto's queues: with its defaults it would drop messages."""
PROMPT: Final = "set_tcp_nodelay true"
"""Set where Mosquitto is faster with it: for single messages."""
CONFIG: Final[dict[str, Any]] = {"queues": {"events": 2 * WINDOW}, "sys_interval_s": 0}
"""Room in each queue of ours: more than can be on its way."""
PER_S: Final = 1_000
"""Messages of which the latency is taken."""
THROUGHPUT: Final = 5.0
"""Goal: this many times the rate of a Mosquitto bridge."""
LATENCY: Final = 1 / 2
"""Goal: at most twice the latency of one node."""
MEET_S: Final = 120.0
"""Longest wait until a rival passes messages on."""

HOP: Final = "one hop"
ONE: Final = "one node"

_numbers: Final = count(1)


@dataclass(frozen=True, slots=True)
class ClusterEffort:
    """Number and length of the measurements."""

    run_s: float
    rounds: int
    paced_s: float
    rounds_paced: int
    growth: growth.GrowthEffort
    fan_out: fan_out.FanOutEffort


QUICK: Final = ClusterEffort(
    0.1, 9, 0.4, 9, growth.GrowthEffort((1, 2, 8), 2.0, 0.1, 5, 10_000), fan_out.FanOutEffort(8, 100, 100)
)
FULL: Final = ClusterEffort(
    0.2,
    31,
    0.5,
    31,
    growth.GrowthEffort((1, 2, 3, 4, 6, 8), 10.0, 0.2, 15, 10_000),
    fan_out.FanOutEffort(8, 100, 500),
)


class Contestant(NamedTuple):
    """A way from publishers to subscribers."""

    name: str
    from_port: int
    to_port: int
    shape: LoadShape


def measure(*, quick: bool, progress: Progress) -> BenchmarkResult:
    """Run all contestants in turn, then clusters of ours that grow."""
    start = perf_counter()
    find_mosquitto()
    find_nats_server()
    effort = QUICK if quick else FULL
    rows: list[BenchmarkRow] = []
    steps = 5
    with ExitStack() as stack:
        progress(0, steps, "one hop: throughput")
        nodes = stack.enter_context(cluster(2, **CONFIG))
        alone = stack.enter_context(our_node(CONFIG))
        bulk = stack.enter_context(mosquitto_bridge(*UNBOUNDED))
        prompt = stack.enter_context(mosquitto_bridge(*UNBOUNDED, PROMPT))
        nats = stack.enter_context(nats_cluster())
        mqtt, qos1 = LoadShape(name="QoS 0, 1 → 1"), LoadShape(name="QoS 1, 1 → 1", qos=1)
        bridge, routed = f"bridge of {bulk[0].name}", f"NATS {nats[0].version} cluster"
        hop = Contestant(HOP, nodes[0].port, nodes[1].port, mqtt)
        one = Contestant(ONE, alone.port, alone.port, mqtt)
        by_nats = Contestant(routed, nats[0].port, nats[1].port, LoadShape(name="plain", nats=True))
        bulky = Contestant(bridge, bulk[0].port, bulk[1].port, mqtt)
        prompted = Contestant(bridge, prompt[0].port, prompt[1].port, mqtt)
        for each in (hop, one, by_nats, bulky, prompted):
            _await_way(each)
        rows += _throughput((hop, bulky, by_nats, one), effort)
        progress(1, steps, "one hop: QoS 1")
        acked = [each._replace(shape=qos1) for each in (hop, prompted, one)]
        rows += _throughput(acked, effort, goal=None)
        progress(2, steps, "one hop: latency")
        rows += _latency((hop, one, prompted, by_nats), effort)
    progress(3, steps, "growth")
    rows += growth.measure(effort.growth, CONFIG)
    progress(4, steps, "fan-out")
    rows += fan_out.measure(effort.fan_out)
    note = (
        f"{PAYLOAD_BYTES}-byte payloads; a publisher at one node, a subscriber at another; MQTT 3.1.1, plain "
        f"NATS for NATS; medians of {effort.rounds} rounds in which all take turns; every message sent "
        "arrived; all processes share this machine; Mosquitto without bounds on queues, set_tcp_nodelay true "
        "for latency and QoS 1"
    )
    return BenchmarkResult(NAME, tuple(rows), perf_counter() - start, note=note)


def _await_way(who: Contestant) -> None:
    """Wait until messages come through: a bridge or a route may not be up yet."""
    topic = f"way-{next(_numbers):03}"
    with (
        who.shape.connect(who.to_port, f"{topic}-receiver") as receiver,
        who.shape.connect(who.from_port, f"{topic}-sender") as sender,
    ):
        who.shape.subscribe(receiver, topic, qos=0)
        until_s = time.monotonic() + MEET_S
        while not select.select([receiver], [], [], 0.1)[0]:
            if time.monotonic() > until_s:
                raise GoalMissed(f"{who.name} has passed no message on for {MEET_S:g} s")
            sender.sendall(who.shape.frames(topic)[0])


def _throughput(
    who: tuple[Contestant, ...] | list[Contestant], effort: ClusterEffort, goal: float | None = THROUGHPUT
) -> list[BenchmarkRow]:
    """Rows of the first contestant beside each of the others; the goal is against the second one."""
    rates: list[list[float]] = [[] for _ in who]
    with ExitStack() as stack:
        loads = [
            stack.enter_context(
                Load(each.shape, broker=each.name, port=each.to_port, from_port=each.from_port)
            )
            for each in who
        ]
        messages = [load.messages_for(effort.run_s) for load in loads]
        for number in range(effort.rounds):
            for at in _turns(len(who), number):
                rates[at].append(loads[at].run(messages[at]))
    own = median(rates[0])
    return [
        BenchmarkRow(
            f"{HOP}, {who[0].shape.name}, beside {other.name}",
            own,
            "msg/s",
            other.name,
            theirs := median(found),
            own / theirs,
            goal if at == 0 else None,
            fails_if="messages that came together are encoded, sent or delivered one by one",
        )
        for at, (other, found) in enumerate(zip(who[1:], rates[1:], strict=True))
    ]


def _latency(who: tuple[Contestant, ...], effort: ClusterEffort) -> list[BenchmarkRow]:
    """Rows of the first contestant beside each of the others; the goal is against the second one."""
    messages = int(PER_S * effort.paced_s)
    found: list[dict[str, list[float]]] = [{"p50": [], "p99": []} for _ in who]
    with ExitStack() as stack:
        workers = []
        for each in who:
            name = f"pace-{next(_numbers):03}"
            worker = Worker(f"{each.name}: latency", Paced, each.shape, name, each.to_port, each.from_port)
            workers.append(stack.enter_context(worker))
        for number in range(-1, effort.rounds_paced):  # the first round warms up
            for at in _turns(len(who), number):
                workers[at].ask((messages, PER_S))
                took_ns = sorted(workers[at].answer())
                last = len(took_ns) - 1
                if number >= 0:
                    found[at]["p50"].append(took_ns[last // 2] / 1_000)
                    found[at]["p99"].append(took_ns[last * 99 // 100] / 1_000)
    rows = []
    for at, other in enumerate(who[1:], start=1):
        for what in ("p50", "p99"):
            own, theirs = median(found[0][what]), median(found[at][what])
            rows.append(
                BenchmarkRow(
                    f"{HOP}, latency at {PER_S:,} msg/s, {what}, beside {other.name}",
                    own,
                    "µs",
                    other.name,
                    theirs,
                    theirs / own,
                    LATENCY if at == 1 and what == "p50" else None,
                    fails_if="threads hand the message on more often than a hop needs",
                    less=True,
                )
            )
    return rows


def _turns(count: int, number: int) -> list[int]:
    """The order of the systems in a round: each round begins with another one."""
    return [(number + step) % count for step in range(count)]
