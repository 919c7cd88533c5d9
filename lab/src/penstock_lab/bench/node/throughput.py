"""A node of ours against Debian's Mosquitto: throughput and latency, both as processes of their own."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Final

from penstock.mqtt.codes import V5
from penstock_lab.bench.load.client import PAYLOAD_BYTES, WINDOW, LoadShape
from penstock_lab.bench.load.generator import Load, Paced
from penstock_lab.bench.load.relay import Relay
from penstock_lab.bench.node import behind
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.rigs.brokers import Broker, find_mosquitto, mosquitto, our_node
from penstock_lab.rigs.worker import Worker
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock_lab.bench.result import Progress

NAME: Final = "node"
SHOWS: Final = Shows(
    live=True,
    paper="PACK",
    figures=dict.fromkeys(("QoS 0, 1 → 16", "latency, 1 → 16", "policies at work"), "Figure 7"),
)
RIVAL_SETTINGS: Final = ("max_queued_messages 0", "max_queued_bytes 0")
"""No bounds: with its defaults Mosquitto would drop."""
PROMPT: Final = "set_tcp_nodelay true"
"""Set where Mosquitto is faster with it, which is not so for bulk."""
QUEUE_EVENTS: Final = 2 * WINDOW
"""Room in each queue of ours: more than can be on its way, so nothing is dropped here either."""
POLICY: Final = "levels: [{drop: {within: [50, 100], attribute: pulse}}, {keep: {latest: 10}}]"
PER_S: Final = 1_000
"""Messages of which the latency is taken."""
PER_S_MANY: Final = 200
"""Messages of which the latency is taken where 16 receivers in one process read each of them."""
LATENCY: Final = 1 / 1.2
"""Goal for latency: at most 1.2 times the rival's."""
WITH_POLICY: Final = 1 / 1.1
"""Goal for installed policies that have nothing to do: they may cost a tenth."""

AGAINST_RIVAL: Final = (
    (LoadShape(name="QoS 0, 1 → 1"), 6.0),
    (LoadShape(name="QoS 0, 1 → 50", receivers=50), 30.0),
    (LoadShape(name="QoS 0, 50 → 1", senders=50), 5.0),
    (LoadShape(name="QoS 1, 1 → 1", qos=1), 4.0),
)
"""Loads, each with the ratio that is its goal."""

PLAIN: Final = LoadShape(name="QoS 0, 1 → 16, no policy", receivers=16, version=V5)
POLICED: Final = LoadShape(name="QoS 0, 1 → 16, a policy each", receivers=16, version=V5, policy=POLICY)
SLOTTED: Final = (
    LoadShape(name="QoS 0, 1 → 1"),
    LoadShape(name="QoS 1, 1 → 1", qos=1),
)
"""Loads at a listener with time slots, against one without: each message is classified there."""
KEPT: Final = LoadShape(name="QoS 1, 1 → 1, session kept", qos=1, kept=True)
"""Ours has each message on disk before anybody gets it; the rival keeps sessions in memory."""

_SINGLY: Final = "messages that come together are read, routed or written one by one"
_WAIT: Final = "a message that comes alone waits for others"
_numbers: Final = count(1)


@dataclass(frozen=True, slots=True)
class NodeEffort:
    """Number and length of runs: many short ones in turn, so that other load hits both sides alike."""

    run_s: float
    pairs: int
    """Pairs of runs against the rival."""
    pairs_own: int
    """Pairs of runs against our own node with other settings, where a tenth matters."""
    paced_s: float
    pairs_paced: int
    """Pairs of runs that measure latency."""
    pairs_stalled: int
    """Most pairs of runs beside a stalled receiver, if fewer do not tell whether the goal is reached."""


QUICK: Final = NodeEffort(0.08, 11, 31, 0.3, 11, 150)
FULL: Final = NodeEffort(0.15, 31, 61, 0.5, 31, 300)


def measure(*, quick: bool, progress: Progress) -> BenchmarkResult:
    """Run every load against both brokers."""
    start = perf_counter()
    find_mosquitto()
    effort = QUICK if quick else FULL
    ours_config = {"queues": {"events": QUEUE_EVENTS}, "sys_interval_s": 0}
    done = len(AGAINST_RIVAL)
    steps = done + 7
    rows: list[BenchmarkRow] = []
    with (
        our_node(ours_config) as ours,
        our_node(ours_config | {"listeners": [{"kind": "tcp", "slots": True}]}) as slotted,
        our_node(ours_config | {"data": "store"}) as durable,
        mosquitto(*RIVAL_SETTINGS) as rival,
        mosquitto(*RIVAL_SETTINGS, PROMPT) as prompt_rival,
        Worker("relay", Relay) as relay,
    ):
        relay.ask(None)
        nothing = Broker("relay", relay.answer(), 0)
        for shape, goal in AGAINST_RIVAL:
            progress(len(rows), steps, shape.name)
            other_broker = prompt_rival if shape.qos else rival
            own, other = _throughput((ours, shape), (other_broker, shape), effort.run_s, effort.pairs)
            rows.append(
                BenchmarkRow(shape.name, own, "msg/s", rival.name, other, own / other, goal, fails_if=_SINGLY)
            )
        progress(done, steps, f"latency at {PER_S} msg/s")
        rows += _latency(ours, prompt_rival, effort)
        progress(done + 1, steps, "a policy that has nothing to do")
        rows += _policy(ours, effort)
        progress(done + 2, steps, "one of ten stalls")
        rows += behind.stalled(ours, run_s=effort.run_s, least=effort.pairs_own, most=effort.pairs_stalled)
        progress(done + 3, steps, "policies at work")
        rows += behind.at_work(ours, rival, run_s=effort.run_s, pairs=effort.pairs)
        progress(done + 4, steps, "time slots")
        for shape in SLOTTED:
            own, other = _throughput((slotted, shape), (ours, shape), effort.run_s, effort.pairs)
            rows.append(
                BenchmarkRow(f"{shape.name}, time slots", own, "msg/s", "no slots", other, own / other)
            )
        progress(done + 5, steps, "on disk")
        own, other = _throughput((durable, KEPT), (prompt_rival, KEPT), effort.run_s, effort.pairs)
        rows.append(BenchmarkRow(KEPT.name, own, "msg/s", f"{rival.name}, in memory", other, own / other))
        progress(done + 6, steps, "the generator by itself")
        rows += [_ceiling(nothing, shape, effort) for shape, _ in AGAINST_RIVAL]
        note = (
            f"{PAYLOAD_BYTES}-byte payloads, MQTT 3.1.1, with policies MQTT 5; deliveries per second; "
            f"medians of {effort.pairs} pairs of runs, {effort.pairs_own} against ourselves; every message "
            f"sent arrived; {rival.name}: no bounds on queues, set_tcp_nodelay false for QoS 0, where that "
            f"is faster, else true; ours: queues of {QUEUE_EVENTS} events, TCP_NODELAY"
        )
    return BenchmarkResult(NAME, tuple(rows), perf_counter() - start, note=note)


def _throughput(
    one: tuple[Broker, LoadShape], other: tuple[Broker, LoadShape], run_s: float, pairs: int
) -> tuple[float, float]:
    """Deliveries per second of both."""
    with ExitStack() as stack:
        runs: list[Callable[[], float]] = []
        for broker, shape in (one, other):
            load = stack.enter_context(Load(shape, broker=broker.name, port=broker.port))
            messages = load.messages_for(run_s)
            runs.append(lambda load=load, messages=messages: load.run(messages))  # type: ignore[misc]
        return _medians(runs[0], runs[1], pairs)


def _medians(one: Callable[[], float], other: Callable[[], float], pairs: int) -> tuple[float, float]:
    """Return the medians of both sides; they run in turn, and who goes first alternates."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(pairs):
        for who in (0, 1) if number % 2 == 0 else (1, 0):
            taken[who].append((one, other)[who]())
    return median(taken[0]), median(taken[1])


def _latency(ours: Broker, rival: Broker, effort: NodeEffort) -> list[BenchmarkRow]:
    shape = LoadShape(name=f"latency, 1 → 1 at {PER_S} msg/s")
    return [
        BenchmarkRow(
            f"{shape.name}, {what}",
            own,
            "µs",
            rival.name,
            other,
            other / own,
            LATENCY,
            fails_if=_WAIT,
            less=True,
        )
        for what, (own, other) in _paced((ours, shape), (rival, shape), PER_S, effort).items()
    ]


def _policy(ours: Broker, effort: NodeEffort) -> list[BenchmarkRow]:
    """The paper's Figure 7: what it costs to have policies installed."""
    own, other = _throughput((ours, POLICED), (ours, PLAIN), effort.run_s, effort.pairs_own)
    cause, plain = "a policy is looked at where nothing waits", "no policies"
    rows = [BenchmarkRow(POLICED.name, own, "msg/s", plain, other, own / other, WITH_POLICY, fails_if=cause)]
    found = _paced((ours, POLICED), (ours, PLAIN), PER_S_MANY, effort)
    name = f"latency, 1 → 16 at {PER_S_MANY} msg/s, a policy each"
    for what, (own, other) in found.items():
        goal = WITH_POLICY if what == "p50" else None
        rows.append(
            BenchmarkRow(
                f"{name}, {what}", own, "µs", plain, other, other / own, goal, fails_if=cause, less=True
            )
        )
    return rows


def _ceiling(nothing: Broker, shape: LoadShape, effort: NodeEffort) -> BenchmarkRow:
    with Load(shape, broker=nothing.name, port=nothing.port) as load:
        messages = load.messages_for(effort.run_s)
        return BenchmarkRow(
            f"generator alone, {shape.name}", median(load.run(messages) for _ in range(effort.pairs)), "msg/s"
        )


def _paced(
    one: tuple[Broker, LoadShape], other: tuple[Broker, LoadShape], per_s: int, effort: NodeEffort
) -> dict[str, tuple[float, float]]:
    """Median and 99th percentile of both, in microseconds."""
    messages = int(per_s * effort.paced_s)
    found: dict[str, tuple[list[float], list[float]]] = {"p50": ([], []), "p99": ([], [])}
    with ExitStack() as stack:
        workers = []
        for broker, shape in (one, other):
            worker = Worker(
                f"{broker.name}: {shape.name}", Paced, shape, f"pace-{next(_numbers):03}", broker.port
            )
            workers.append(stack.enter_context(worker))
        for number in range(-1, effort.pairs_paced):  # the first pair warms up
            for who in (0, 1) if number % 2 == 0 else (1, 0):
                workers[who].ask((messages, per_s))
                took_ns = sorted(workers[who].answer())
                if number >= 0:
                    last = len(took_ns) - 1
                    found["p50"][who].append(took_ns[last // 2] / 1_000)
                    found["p99"][who].append(took_ns[last * 99 // 100] / 1_000)
    return {what: (median(own), median(others)) for what, (own, others) in found.items()}
