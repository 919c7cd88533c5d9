"""Clients that come: how long the first waiting message takes, and what those that do nothing cost.

Clients detach, messages pile up for each, and all attach again at once: the paper's Figure 9, with its number
of clients and with sixty times as many. Time counts from the attach request, the CONNECT that a client sends,
to the first message that has waited. Everything that waited must arrive, in order. Beside it, the same
clients come back with nothing waiting: the difference is what the messages cost all of them together.

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
from penstock_lab.bench.node.idle_clients import Idle
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.rigs.brokers import mosquitto, our_node
from penstock_lab.rigs.returning_clients import Attaching, quantile
from penstock_lab.rigs.worker import Worker
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from penstock_lab.bench.result import Progress
    from penstock_lab.rigs.brokers import Broker

NAME: Final = "attach"
SHOWS: Final = Shows(live=True, paper="PACK", figures={"attach request": "Figure 9"})
IDLE: Final = 5_000
"""Clients that attach at once and then do nothing."""
IDLE_KB: Final = 5.0
"""Memory of an idle client that we want to stay below."""
IDLE_TIMES: Final = 1.5
"""How many times as long as the rival's the attaching of all of them may take."""
FEW: Final = 100
"""Clients that connect at the same time in the last row: few enough for the accept queue of Mosquitto, so
that none has to try again."""
SETTLE_S: Final = 1.5
"""Pause before the memory of a broker is measured."""
CLIENTS: Final = 1_000
EVENTS: Final = 20
"""Messages that wait for each client."""
PAPERS_CLIENTS: Final = 16
"""Receivers of the paper's Figure 7, for which its Figure 9 stays below a second."""
TIMES_FEW: Final = 10
"""The few clients come back so many times as often: a percentile needs many."""
GOAL_MS: Final = 100.0
"""Longest time from the attach request to the first event for so few clients."""
GOAL_MANY_MS: Final = 1_000.0
"""Longest time to the first event for CLIENTS at once: the paper's second."""
PERHAPS: Final = (
    "what waits is read or sent slowly, or one client's messages are sent before another's CONNECT is read"
)
WAITS: Final = "clients wait for one another: for the disk, or in a queue of connections that is too short"
SPARE: Final = 200
"""Connections beside those of the clients."""


@dataclass(slots=True)
class Taken:
    """Times of one broker's clients, in milliseconds."""

    empty: list[float] = field(default_factory=list)
    """Times from opening the connection to CONNACK, of clients for whom nothing waits."""
    waited: list[float] = field(default_factory=list)
    """Times from CONNECT to the first message that waited: the paper's Figure 9."""
    total: list[float] = field(default_factory=list)
    """Times from opening the connection to the first message that waited."""

    def note(self, worker: Worker) -> None:
        """Detach and attach all clients, first without and then with waiting messages, and keep the times."""
        worker.ask(0)
        self.empty += [one.connack_ns / 1e6 for one in worker.answer()]
        worker.ask(EVENTS)
        for one in worker.answer():
            self.waited.append((one.first_ns - one.asked_ns) / 1e6)
            self.total.append(one.first_ns / 1e6)


def measure(*, quick: bool, progress: Progress) -> BenchmarkResult:
    """Detach and attach the clients of both brokers in turn."""
    start = perf_counter()
    rounds = 2 if quick else 5
    few, many = (Taken(), Taken()), (Taken(), Taken())
    allow_files(CLIENTS + SPARE)  # the brokers inherit the raised limit
    config = {"data": "store", "bounds": {"connections_per_address": CLIENTS + SPARE}}
    with our_node(config) as node, mosquitto("max_queued_messages 0", "set_tcp_nodelay true") as rival:
        progress(0, 5, f"{PAPERS_CLIENTS} clients come back")
        come_back((node, rival), few, clients=PAPERS_CLIENTS, rounds=TIMES_FEW * rounds)
        progress(1, 5, f"{CLIENTS} clients come back")
        come_back((node, rival), many, clients=CLIENTS, rounds=rounds)
    times = 1 if quick else 3
    idle: list[_IdleTaken] = []
    for kept, under_way in ((False, IDLE), (True, IDLE), (False, FEW)):
        progress(2 + len(idle), 5, f"{IDLE} idle clients")
        idle.append(_idle(kept=kept, under_way=under_way, rounds=times))
    return BenchmarkResult(
        NAME,
        (*rows_of(few, many, rival.name), *_idle_rows(idle, rival.name)),
        perf_counter() - start,
        note=f"clients attach at once, {EVENTS} QoS 1 messages waiting for each; {rounds} rounds, "
        f"{TIMES_FEW * rounds} of few clients; an attach request is a CONNECT that is sent; "
        f"ours keeps sessions and messages on disk, {rival.name} in memory; idle clients: {IDLE} with one "
        f"subscription each, MQTT 5, of fresh brokers, the median",
    )


def come_back(
    brokers: tuple[Broker, Broker], taken: tuple[Taken, Taken], *, clients: int, rounds: int
) -> None:
    """Let clients of both brokers come back in turn, and keep their times."""
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Worker(broker.name, Attaching, broker.port, clients, f"of-{clients}"))
            for broker in brokers
        ]
        for number in range(rounds):
            for who in (0, 1) if number % 2 == 0 else (1, 0):
                taken[who].note(workers[who])


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


def _idle_rows(idle: list[_IdleTaken], rival: str) -> list[BenchmarkRow]:
    clean, kept, few = idle

    def row(
        name: str, unit: str, both: tuple[list[float], list[float]], goal: float | None = None
    ) -> BenchmarkRow:
        own, other = (max(median(each), 0.001) for each in both)
        return BenchmarkRow(name, own, unit, rival, other, other / own, goal, fails_if=WAITS, less=True)

    own_kb = median(clean.kb[0])
    return [
        BenchmarkRow(
            "memory of an idle client",
            own_kb,
            "kB",
            "the goal",
            IDLE_KB,
            IDLE_KB / own_kb,
            1.0,
            fails_if="a session holds objects and buffers before it needs them",
            less=True,
        ),
        row("memory of an idle client", "kB", clean.kb),
        row("memory of an idle client, session kept", "kB", kept.kb),
        row(f"{IDLE:,} clients attach at once", "s", clean.seconds, 1 / IDLE_TIMES),
        row(f"{IDLE:,} clients attach at once, sessions kept", "s", kept.seconds),
        row(f"{IDLE:,} clients attach, {FEW} at a time", "s", few.seconds),
    ]


def rows_of(few: tuple[Taken, Taken], many: tuple[Taken, Taken], rival: str) -> list[BenchmarkRow]:
    """Figure 9 for as many clients as the paper's and for a thousand, then where the time goes."""
    rows: list[BenchmarkRow] = []
    for (own, _), clients, goal_ms, bound, note in (
        (few, PAPERS_CLIENTS, GOAL_MS, "a tenth of the paper's bound", "as many clients as the paper's"),
        (many, CLIENTS, GOAL_MANY_MS, "the paper's bound", "sixty times the paper's clients"),
    ):
        late = quantile(own.waited, 99)
        name = f"attach request to first event, {clients:,} clients at once, p99"
        rows.append(
            BenchmarkRow(
                name, late, "ms", bound, goal_ms, goal_ms / late, 1.0, note, fails_if=PERHAPS, less=True
            )
        )
    for pair, clients in ((few, PAPERS_CLIENTS), (many, CLIENTS)):
        for share in (50, 99):
            own_ms, other_ms = (quantile(each.waited, share) for each in pair)
            name = f"attach request to first event, {clients:,} clients at once, p{share}"
            rows.append(BenchmarkRow(name, own_ms, "ms", rival, other_ms, other_ms / own_ms, less=True))
    for name, both in (
        ("start to first event", [each.total for each in many]),
        ("start to CONNACK, nothing waiting", [each.empty for each in many]),
    ):
        for share in (50, 99):
            own_ms, other_ms = (quantile(each, share) for each in both)
            what = f"{name}, {CLIENTS:,} clients at once, p{share}"
            rows.append(BenchmarkRow(what, own_ms, "ms", rival, other_ms, other_ms / own_ms, less=True))
    return rows
