"""Clients that come back: how long the first waiting message takes, beyond the connecting itself.

A thousand clients detach, messages pile up for each, and all attach again at once: the paper's Figure 9 with
sixty times its clients. Everything that waited must arrive, in order. Beside it, the same clients come back
with nothing waiting: the difference is what the messages cost all of them together.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Final

from penstock.node.service import allow_files
from penstock_lab.bench.load.worker import Worker
from penstock_lab.bench.node.returning_clients import Attaching
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.rigs.brokers import mosquitto, our_node

if TYPE_CHECKING:
    from penstock_lab.bench.result import Progress

NAME: Final = "attach"
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
    return BenchmarkResult(
        NAME,
        tuple(_rows(ours, others, rival.name)),
        perf_counter() - start,
        note=f"{CLIENTS} clients attach at once, {EVENTS} QoS 1 messages waiting for each; {rounds} rounds; "
        f"{AT_ONCE_MS} ms stands for less, in one piece; "
        f"ours keeps sessions and messages on disk, {rival.name} in memory",
    )


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
