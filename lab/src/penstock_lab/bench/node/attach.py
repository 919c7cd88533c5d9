"""Clients that come: how long the first waiting message takes, and what those that do nothing cost.

A thousand clients detach, messages pile up for each, and all attach again at once: the paper's Figure 9 with
sixty times its clients. Everything that waited must arrive, in order. Beside it, the same clients come back
with nothing waiting: the difference is what the messages cost all of them together.

Thousands of other clients attach to fresh brokers, subscribe to a topic each and stay: how long that takes,
and how much memory one of them costs.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Final

from penstock.node.service import allow_files
from penstock_lab.bench.load.worker import Worker
from penstock_lab.bench.node.idle_clients import Idle
from penstock_lab.bench.node.returning_clients import Attaching
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.rigs.brokers import mosquitto, our_node
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from penstock_lab.bench.result import Progress

NAME: Final = "attach"
SHOWS: Final = Shows(live=True, paper="PACK", figures={"attach request": "Figure 9"})
IDLE: Final = 5_000
"""Clients that attach at once and then do nothing."""
IDLE_KB: Final = 5.0
"""Memory of an idle client that we want to stay below."""
IDLE_TIMES: Final = 1.5
"""How many times as long as the rival's the attaching of all of them may take."""
FEW: Final = 100
"""As many clients are under way at a time in the last row: Mosquitto's queue in the kernel holds them all, so
that none has to try again."""
SETTLE_S: Final = 1.5
"""Until a broker's memory is looked at."""
CLIENTS: Final = 1_000
EVENTS: Final = 20
"""Messages that wait for each client."""
GOAL_MS: Final = 100.0
AT_ONCE_MS: Final = 0.1
"""Shorter times are shown as this: CONNACK and message came in one read."""
SPARE: Final = 200
"""Connections beside those of the clients."""


@dataclass(slots=True)
class _Taken:
    """Times of one broker's clients, in milliseconds."""

    empty: list[float] = field(default_factory=list)
    """From the start to CONNACK, nothing waiting."""
    connack: list[float] = field(default_factory=list)
    """From the start to CONNACK, messages waiting."""
    first: list[float] = field(default_factory=list)
    """From CONNACK to the first message."""
    total: list[float] = field(default_factory=list)
    """From the start to the first message."""

    def note(self, worker: Worker) -> None:
        """Detach and attach all clients, first without and then with waiting messages, and keep the times."""
        worker.ask(0)
        self.empty += [connack_ns / 1e6 for connack_ns, _ in worker.answer()]
        worker.ask(EVENTS)
        for connack_ns, first_ns in worker.answer():
            self.connack.append(connack_ns / 1e6)
            self.first.append((first_ns - connack_ns) / 1e6)
            self.total.append(first_ns / 1e6)


def measure(*, quick: bool, progress: Progress) -> BenchmarkResult:
    """Detach and attach the clients of both brokers in turn."""
    start = perf_counter()
    rounds = 2 if quick else 5
    allow_files(CLIENTS + SPARE)  # the brokers inherit the raised limit
    ours, others = _Taken(), _Taken()
    with ExitStack() as stack:
        rival = stack.enter_context(mosquitto("max_queued_messages 0", "set_tcp_nodelay true"))
        config = {"data": "store", "bounds": {"connections_per_address": CLIENTS + SPARE}}
        node = stack.enter_context(our_node(config))
        workers = [
            stack.enter_context(Worker(broker.name, Attaching, broker.port, CLIENTS))
            for broker in (node, rival)
        ]
        for number in range(rounds):
            for who in (0, 1) if number % 2 == 0 else (1, 0):
                progress(2 * number + who, 2 * rounds, (node, rival)[who].name)
                (ours, others)[who].note(workers[who])
    times = 1 if quick else 3
    clean, kept = (_idle(kept=kept, under_way=IDLE, rounds=times) for kept in (False, True))
    few = _idle(kept=False, under_way=FEW, rounds=times)
    return BenchmarkResult(
        NAME,
        (*_rows(ours, others, rival.name), *_idle_rows(clean, kept, few, rival.name)),
        perf_counter() - start,
        note=f"{CLIENTS} clients attach at once, {EVENTS} QoS 1 messages waiting for each; {rounds} rounds; "
        f"{AT_ONCE_MS} ms stands for less, in one piece; "
        f"ours keeps sessions and messages on disk, {rival.name} in memory; idle clients: {IDLE} with one "
        f"subscription each, MQTT 5, of fresh brokers, the median",
    )


@dataclass(slots=True)
class _IdleTaken:
    """Figures of idle clients, ours and the rival's, one of each round."""

    kb: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    """Memory of one client."""
    seconds: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    """From the first connection to the last SUBACK."""


def _idle(*, kept: bool, under_way: int, rounds: int) -> _IdleTaken:
    """Attach idle clients to fresh brokers: memory that was freed before would not be counted again."""
    allow_files(IDLE + SPARE)
    found = _IdleTaken()
    bounds = {"connections": IDLE + SPARE, "connections_per_address": IDLE + SPARE}
    for _ in range(rounds):
        with (
            our_node({"data": "store", "bounds": bounds}) as node,
            mosquitto("set_tcp_nodelay true") as rival,
        ):
            for who, broker in enumerate((node, rival)):
                with Worker(broker.name, Idle, broker.port, IDLE) as worker:
                    before = broker.memory_bytes()
                    worker.ask((kept, under_way))
                    found.seconds[who].append(worker.answer())
                    sleep(SETTLE_S)
                    found.kb[who].append((broker.memory_bytes() - before) / IDLE / 1e3)
    return found


def _idle_rows(clean: _IdleTaken, kept: _IdleTaken, few: _IdleTaken, rival: str) -> list[BenchmarkRow]:
    def row(
        name: str, unit: str, both: tuple[list[float], list[float]], goal: float | None = None
    ) -> BenchmarkRow:
        own, other = (max(median(each), 0.001) for each in both)
        return BenchmarkRow(name, own, unit, rival, other, other / own, goal)

    own_kb = median(clean.kb[0])
    return [
        BenchmarkRow("memory of an idle client", own_kb, "kB", "the goal", IDLE_KB, IDLE_KB / own_kb, 1.0),
        row("memory of an idle client", "kB", clean.kb),
        row("memory of an idle client, session kept", "kB", kept.kb),
        row(f"{IDLE:,} clients attach at once", "s", clean.seconds, 1 / IDLE_TIMES),
        row(f"{IDLE:,} clients attach at once, sessions kept", "s", kept.seconds),
        row(f"{IDLE:,} clients attach, {FEW} at a time", "s", few.seconds),
    ]


def _rows(ours: _Taken, others: _Taken, rival: str) -> list[BenchmarkRow]:
    late = _quantile(ours.first, 99)
    rows = [
        BenchmarkRow("CONNACK to first message, p99", late, "ms", "the goal", GOAL_MS, GOAL_MS / late, 1.0)
    ]
    for what, share in (("p50", 50), ("p99", 99)):
        compared = {
            "CONNACK to first message": (ours.first, others.first),
            "start to first message": (ours.total, others.total),
            "start to CONNACK, nothing waiting": (ours.empty, others.empty),
        }
        for name, both in compared.items():
            own, other = (_quantile(found, share) for found in both)
            rows.append(BenchmarkRow(f"{name}, {what}", own, "ms", rival, other, other / own))
    return rows


def _quantile(values: list[float], share: int) -> float:
    ordered = sorted(values)
    return max(ordered[(len(ordered) - 1) * share // 100], AT_ONCE_MS)
