"""Reliable streams under `kill -9`: no acknowledged message is lost, none comes twice, order is kept.

    publishers ──► PB ──► IB ──► SB ──► subscribers (QoS 1, QoS 2)
                   └────► a reader with a consumer

All are processes. Each round kills one of them at a random moment and starts it again; publishing goes on. In
the end every acknowledged message must be in the files of all subscribers.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from penstock.cli.html_page import Table
from penstock.errors import InputError, NodeError
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.experiments.streams.processes import PER_S, KillTree
from penstock_lab.experiments.streams.programs import AGAIN, TWICE
from penstock_lab.rigs.nats_server import nats_server
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock_lab.experiments.result import Progress
    from penstock_lab.rigs.process import Process

SHOWS: Final = Shows(live=True)
ROUNDS: Final = 50
QUICK_ROUNDS: Final = 6
RUN_S: Final = (0.1, 1.0)
"""Pause between two rounds."""
DOWN_S: Final = (0.0, 0.6)
"""Pause between killing a process and starting it again."""
SETTLE_S: Final = 240.0
"""Messages that have not arrived by then count as lost."""
SPARK_SETTLE_S: Final = 600.0
"""Longest wait for messages where a Spark query reads: it takes half a minute or longer to start."""

ROLES: Final = {
    "pb": "publisher node",
    "ib": "intermediate node",
    "sb": "subscriber node",
    "QoS 1": "client, QoS 1",
    "QoS 2": "client, QoS 2",
    "reader": "StreamReader",
    "spark": "Spark query",
}


def reproduce(
    *,
    seed: int,
    quick: bool,
    out: Path | None,  # noqa: ARG001  # there are no pictures
    progress: Progress,
    rounds: str | None = None,
    log: str = "file",
    spark: str = "",
    victims: Collection[str] = (),
) -> ExperimentResult:
    """Kill and restart processes; InputError if an option is wrong. Default `victims`: all kinds in turn."""
    count = QUICK_ROUNDS if quick else ROUNDS
    if rounds is not None:
        if not rounds.isdecimal() or not 0 < int(rounds) <= 100_000:
            raise InputError(f"--rounds is '{rounds}': a number from 1 on")
        count = int(rounds)
    if log not in ("file", "nats"):
        raise InputError(f"--log is '{log}': file or nats")
    replay = (
        f"penstock reproduce streams-kill --rounds {count} --seed {seed} --log {log}"
        + " --spark" * bool(spark)
    )
    with ExitStack() as stack:
        nats = stack.enter_context(nats_server()).url if log == "nats" else ""
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="penstock-kill-")))
        world = KillTree(folder, nats=nats, spark=bool(spark))
        stack.callback(world.end)
        settle_s = SPARK_SETTLE_S if spark else SETTLE_S
        dice = Random(seed)  # noqa: S311  # repeatable on purpose
        run = _Run(world, victims, dice, rounds=count, settle_s=settle_s, progress=progress)
        try:
            run.play()
            problem = ""
        except NodeError as error:
            problem = str(error)
        judged = [judge(name, world) for name in world.subscribers]
        return ExperimentResult(
            experiment="streams-kill",
            title="Reliable streams under kill -9",
            setting=f"{count} rounds, log: {log}; three nodes in a row; {PER_S} messages/s published with "
            f"QoS 2 and {PER_S} by a StreamWriter" + (" (shortened)" if quick else ""),
            rows=_rows(judged, problem, replay),
            tables=(_victims(run), _readers(judged)),
            plots=(),
            seed=seed,
            rival="wanted",
        )


class _Run:
    """The processes, and the rounds in which they are killed."""

    def __init__(
        self,
        world: KillTree,
        victims: Collection[str],
        dice: Random,
        *,
        rounds: int,
        settle_s: float,
        progress: Progress,
    ) -> None:
        self._world = world
        self._dice = dice
        self._rounds = rounds
        self._settle_s = settle_s
        self._progress = progress
        everybody: dict[str, Process] = {**world.nodes, **world.subscribers}
        self.victims = {name: one for name, one in everybody.items() if not victims or name in victims}
        self._written: dict[str, int] = {}
        """Size of each subscriber's file when it was last started."""
        self.back_s: dict[str, list[float]] = {name: [] for name in self.victims}

    def play(self) -> None:
        """Start all processes, kill them in turn, and wait until every message has arrived."""
        world, dice = self._world, self._dice
        self._progress(0, self._rounds, "starting")
        for process in (*world.nodes.values(), *world.subscribers.values(), *world.publishers.values()):
            process.start()
        order: list[str] = []
        for number in range(self._rounds):
            if not order:
                order = dice.sample(list(self.victims), len(self.victims))
            name = order.pop()
            self._progress(number, self._rounds, ROLES[name])
            if name in world.subscribers:
                self._at_work(name)
            time.sleep(dice.uniform(*RUN_S))
            victim = self.victims[name]
            victim.kill()
            time.sleep(dice.uniform(*DOWN_S))
            begin_s = time.monotonic()
            self._written[name] = self._size(name)
            victim.start()
            self.back_s[name].append(time.monotonic() - begin_s)
        self._progress(self._rounds, self._rounds, "waiting for the rest")
        for name, publisher in world.publishers.items():
            if not publisher.finish(self._settle_s):
                raise NodeError(
                    f"publisher {name} is not done after {self._settle_s:g} s: {publisher.said()}"
                )
        self._settle()

    def _at_work(self, name: str) -> None:
        """Wait until a subscriber has processed something since its start; a Spark query starts slowly."""
        deadline_s = time.monotonic() + self._settle_s
        while self._size(name) <= self._written.get(name, 0):
            if time.monotonic() > deadline_s:
                raise NodeError(f"{ROLES[name]} has processed nothing for {self._settle_s:g} s")
            time.sleep(0.05)

    def _size(self, name: str) -> int:
        path = self._world.file(name)
        return path.stat().st_size if path.exists() else 0

    def _settle(self) -> None:
        """Wait until all subscribers have everything, or the time limit is reached."""
        deadline_s = time.monotonic() + self._settle_s
        while time.monotonic() < deadline_s:
            if not any(judge(name, self._world).lost for name in self._world.subscribers):
                return
            time.sleep(0.5)


@dataclass(slots=True)
class Judged:
    """One subscriber's file compared with what was acknowledged."""

    name: str
    seen: int = 0
    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    """Acknowledged messages that are not in the file."""
    twice: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    again: int = 0
    """Messages that came again after the subscriber was killed and were recognised by their ticks."""


def judge(name: str, world: KillTree) -> Judged:
    """Compare a subscriber's file with what was acknowledged to the publishers."""
    found = Judged(name)
    seen: dict[tuple[str, int], int] = {}
    last_tick, last = -1, dict.fromkeys(world.publishers, 0)
    for line in _lines(world.file(name)):
        mark, tick_text, publisher, number_text = line.split()
        tick, number = int(tick_text), int(number_text)
        message = f"{publisher} {number} (tick {tick})"
        if mark == AGAIN:
            found.again += 1
            if seen.get((publisher, number)) != tick:
                found.order.append(f"{message} came again as another")
            continue
        if mark == TWICE or (publisher, number) in seen:
            found.twice.append(message)
            continue
        if tick <= last_tick or number <= last[publisher]:
            found.order.append(f"{message} after {publisher} {last[publisher]} (tick {last_tick})")
        last_tick, last[publisher] = tick, number
        seen[publisher, number] = tick
    found.seen = len(seen)
    for publisher, process in world.publishers.items():
        for line in _lines(world.file(process.name)):
            found.acknowledged += 1
            if (publisher, int(line)) not in seen:
                found.lost.append(f"{publisher} {line}")
    return found


def _lines(path: Path) -> list[str]:
    """Return the complete lines of a file; none if the file does not exist."""
    text = path.read_text() if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


def _rows(judged: list[Judged], problem: str, replay: str) -> tuple[Claim, ...]:
    def row(what: str, found: dict[str, list[str]], good: str) -> Claim:
        bad = {name: some for name, some in found.items() if some}
        said = "; ".join(f"{name}: {len(some):,}, first {some[0]}" for name, some in bad.items())
        return Claim(
            what,
            "none",
            said or good,
            ok=not bad,
            note="fails with the first one" + (f"; again: {replay}" if bad else ""),
        )

    acknowledged = min((one.acknowledged for one in judged), default=0)
    lost = row(
        "acknowledged messages lost", {one.name: one.lost for one in judged}, f"none of {acknowledged:,}"
    )
    return (
        # A run that was cut short still has messages on their way.
        Claim(lost.what, lost.paper, "not judged", ok=None) if problem else lost,
        row("messages delivered twice", {one.name: one.twice for one in judged}, "none"),
        row("messages out of order", {one.name: one.order for one in judged}, "none"),
        Claim(
            "every process came back and everything settled",
            "yes",
            problem or "yes",
            ok=not problem,
            note="fails if a process does not start again, or the streams stand still"
            + (f"; again: {replay}" if problem else ""),
        ),
        Claim(
            "messages acknowledged to publishers",
            "some",
            f"{acknowledged:,}",
            ok=acknowledged > 0,
            note="fails if a stream got none: then the rows above say nothing",
        ),
    )


def _victims(run: _Run) -> Table:
    rows = tuple(
        (
            ROLES[name],
            str(process.kills),
            f"{max(run.back_s[name]):.1f} s" if run.back_s[name] else "–",
        )
        for name, process in run.victims.items()
    )
    return Table("Killed and started again", ("who", "times", "slowest start"), rows)


def _readers(judged: list[Judged]) -> Table:
    rows = tuple(
        (ROLES[one.name], f"{one.acknowledged:,}", f"{one.seen:,}", f"{one.again:,}") for one in judged
    )
    header = ("who", "acknowledged", "processed", "came again after a kill, known by tick")
    return Table("What subscribers wrote down", header, rows)
