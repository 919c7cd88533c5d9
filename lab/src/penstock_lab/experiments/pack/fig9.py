"""The PACK paper's Figure 9 in a cluster: clients move to another node, where messages wait for them.

    publisher ──► n1          the clients were at n1, n2 or n3; while they are away, messages are published
                  n2          for each of them at n1, and each attaches at the next node
                  n3

Time counts from the attach request, the CONNECT that a client sends, to the first message that has waited.
Every message must come, once and in order. The clients move one after the other over a minute, and then all
at once. Beside it the same clients come back to a Mosquitto, which is one node that keeps all sessions.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.cli.html_page import Table
from penstock.errors import GoalMissed, MissingTool
from penstock.node.service import allow_files
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.rigs.brokers import mosquitto
from penstock_lab.rigs.cluster import cluster
from penstock_lab.rigs.returning_clients import Attaching, quantile
from penstock_lab.rigs.worker import GIVE_UP_S, Worker
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from pathlib import Path

    from penstock_lab.experiments.result import Progress

SHOWS: Final = Shows(live=True, paper="PACK", figures={"attach request": "Figure 9"})
NODES: Final = 3
EVENTS: Final = 20
"""Messages that wait for each client."""
GOAL_MS: Final = 100.0
"""Longest time from the attach request to the first message, for 99 of 100 clients over a minute."""
SPARE: Final = 200
"""Connections beside those of the clients."""


class Effort(NamedTuple):
    """Clients, how long their moving takes, and how often all move."""

    clients: int
    over_s: float
    rounds: int


QUICK: Final = Effort(clients=100, over_s=6.0, rounds=1)
FULL: Final = Effort(clients=1_000, over_s=60.0, rounds=3)


class Moved(NamedTuple):
    """Times of clients from CONNECT to the first message that has waited, in milliseconds."""

    spread: list[float]
    """One after the other."""
    at_once: list[float]
    problem: str = ""
    """The message that was lost, or came twice, or in the wrong order."""

    @property
    def told(self) -> str:
        """Both ways of moving in a few words."""
        return f"{_times(self.spread)} one after the other, {_times(self.at_once)} at once"


def reproduce(
    *,
    seed: int,
    quick: bool,
    out: Path | None,  # noqa: ARG001  # there are no pictures
    progress: Progress,
) -> ExperimentResult:
    """Let clients move among three nodes."""
    effort = QUICK if quick else FULL
    allow_files(effort.clients + SPARE)  # the nodes inherit the raised limit
    config = {"bounds": {"connections_per_address": effort.clients + SPARE}}
    progress(0, 2, f"{effort.clients:,} clients among {NODES} nodes")
    with cluster(NODES, on_disk=True, **config) as nodes:
        ours = _move(tuple(node.port for node in nodes), effort, "cluster")
    progress(1, 2, f"{effort.clients:,} clients at one Mosquitto")
    rival, name = None, "Mosquitto"
    try:
        with mosquitto("max_queued_messages 0", "set_tcp_nodelay true") as broker:
            name = broker.name
            rival = _move((broker.port,), effort, name)
    except MissingTool:
        pass  # the row says so
    return ExperimentResult(
        experiment="pack-fig9",
        title="PACK's Figure 9: clients that move to another node",
        setting=f"{effort.clients:,} clients with kept sessions, {EVENTS} QoS 1 messages waiting for each, "
        f"{NODES} nodes with data folders; each attaches at another node than before, over "
        f"{effort.over_s:g} s and then at once; rounds: {effort.rounds}" + (" (shortened)" if quick else ""),
        rows=_rows(ours, rival, name, effort, quick=quick),
        tables=(_table(ours, rival, name),),
        plots=(),
        seed=seed,
    )


def _move(ports: tuple[int, ...], effort: Effort, name: str, *, give_up_s: float = GIVE_UP_S) -> Moved:
    """Have all clients move, in both ways in turn."""
    found = Moved([], [])
    with ExitStack() as stack:
        try:
            worker = stack.enter_context(Worker(name, Attaching, ports, effort.clients, "mover", give_up_s))
            for _ in range(effort.rounds):
                for times, over_s in ((found.spread, effort.over_s), (found.at_once, 0.0)):
                    worker.ask((EVENTS, over_s))
                    times += [(one.first_ns - one.asked_ns) / 1e6 for one in worker.answer()]
        except GoalMissed as error:
            return found._replace(problem=str(error))
    return found


def _rows(
    ours: Moved, rival: Moved | None, name: str, effort: Effort, *, quick: bool = False
) -> tuple[Claim, ...]:
    beside = f"{name} on one node: {rival.told}" if rival is not None and not rival.problem else f"no {name}"
    late = quantile(ours.spread, 99) if ours.spread else float("inf")
    return (
        Claim(
            "messages that were lost, came twice or in the wrong order while clients moved",
            "none",
            ours.problem or f"none of {effort.clients * EVENTS * effort.rounds * 2:,}",
            ok=not ours.problem,
            note="fails with the first one",
        ),
        Claim(
            f"attach request at another node to first event, {effort.clients:,} clients over "
            f"{effort.over_s:g} s, p99",
            "below 1 s",
            _times(ours.spread),
            ok=None if quick else late < GOAL_MS,
            note=f"fails at {GOAL_MS:g} ms: if the session's queue is copied slowly, or nodes ask each other "
            f"one client at a time; judged in the complete run; {beside}",
        ),
        Claim(
            f"attach request at another node to first event, {effort.clients:,} clients at once",
            "below 1 s",
            _times(ours.at_once),
            ok=None,
            note=beside,
        ),
    )


def _times(times: list[float]) -> str:
    if not times:
        return "nobody came back"
    return f"p50 {quantile(times, 50):.1f} ms, p99 {quantile(times, 99):.1f} ms"


def _table(ours: Moved, rival: Moved | None, name: str) -> Table:
    rows = [("three nodes, each time at another one", _times(ours.spread), _times(ours.at_once))]
    if rival is not None:
        rows.append((f"{name}, always the same one", _times(rival.spread), _times(rival.at_once)))
    return Table(
        "From CONNECT to the first waiting message", ("where", "one after the other", "at once"), tuple(rows)
    )
