"""One run of fuzzing: exchanges by seed against a subject, judged all the time and at the end.

A run is judged by: the process lives; its log has no traceback and no error; bystanders are served in time;
once everything is closed, its memory and its open files are back to where they were. The first problem ends
the run; the exchanges that were under way are then tried one by one for the shortest that shows it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import count, islice
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock_lab.experiments.fuzz.bystander import Resident, Unserved, ended, visits
from penstock_lab.experiments.fuzz.leftovers import clear
from penstock_lab.experiments.fuzz.player import play
from penstock_lab.experiments.fuzz.subject import Subject
from penstock_lab.experiments.fuzz.targets.catalogue import TARGETS, exchange_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock_lab.experiments.fuzz.exchange import Door, Exchange
    from penstock_lab.experiments.fuzz.subject import Vitals

Subjects: TypeAlias = Callable[[], AbstractContextManager[Subject]]
"""Starts a process to test."""

AT_ONCE: Final = 12
"""Exchanges under way."""
CHECK_S: Final = 0.1
"""Interval of the checks of process, log and memory."""
WARM: Final = 0.15
"""Share of the time, or of the exchanges, before the memory is taken that must be reached again: modules are
loaded by then."""
CLEAR_S: Final = 10.0
"""Interval in which kept sessions and retained messages are ended: their queues would rightly fill up."""
SETTLE_S: Final = 15.0
"""Longest wait for memory and files to come back."""
MORE_BYTES: Final = 24 << 20
"""Memory that a process may have more at the end: allocators keep some, caches have bounds."""
PEAK_BYTES: Final = 256 << 20
"""Memory that a process may have more at any moment, from clients that are not even known."""
RECENT: Final = 400
"""Exchanges that are suspected if something is found."""
SEARCH_S: Final = 60.0
"""Longest search for the exchange behind a failure."""
LATE: Final = 3
"""Exchanges that are tried alone, the last that were played when the failure was seen."""


@dataclass(slots=True)
class FuzzRun:
    """The result of fuzzing one target: what was sent, what the process used, the first problem."""

    target: str
    seed: int
    exchanges: int = 0
    bytes: int = 0
    seconds: float = 0.0
    before: Vitals | None = None
    after: Vitals | None = None
    peak_bytes: int = 0
    round_trips_s: list[float] = field(default_factory=list)
    """Round trips of the bystander's messages."""
    problem: str = ""
    """The first broken rule, as a sentence; empty if every rule held."""
    suspects: list[Exchange] = field(default_factory=list)
    """The exchanges that broke the rule, or may have."""
    alone: bool = False
    """Whether the suspects show the problem again, on a fresh process."""

    @property
    def ok(self) -> bool:
        """Whether no rule was broken."""
        return not self.problem

    def round_trip_ms(self, share: int) -> float:
        """A percentile of the bystander's round trips."""
        ordered = sorted(self.round_trips_s)
        return ordered[(len(ordered) - 1) * share // 100] * 1e3 if ordered else 0.0


def fuzz(
    target: str,
    *,
    seed: int,
    seconds: float,
    most: int | None = None,
    subjects: Subjects,
    told: Callable[[FuzzRun], None] | None = None,
) -> FuzzRun:
    """Fuzz a fresh process for some seconds, with `most` exchanges at most; `told` is called now and then."""
    run = FuzzRun(target, seed)
    numbers = (exchange_of(target, seed, number) for number in (count() if most is None else range(most)))
    with subjects() as subject:
        asyncio.run(_Judged(run, subject, told).play(numbers, seconds=seconds, most=most))
    if run.suspects:
        _search(run, subjects)
    return run


def replay(target: str, exchanges: Sequence[Exchange], *, seed: int, subjects: Subjects) -> FuzzRun:
    """Play these exchanges, one after the other, against a fresh process."""
    run = FuzzRun(target, seed)
    with subjects() as subject:
        judged = _Judged(run, subject, None, at_once=1)
        asyncio.run(judged.play(iter(exchanges), seconds=None))
    run.suspects, run.alone = list(exchanges), not run.ok
    return run


class _Broken(Exception):
    """A rule was broken; the message says which."""

    def __init__(self, problem: str, exchange: Exchange | None = None) -> None:
        super().__init__(problem)
        self.exchange = exchange
        """The exchange that broke it, if that is known."""


class _Judged:
    """Plays exchanges against one subject and fills in a run."""

    def __init__(
        self,
        run: FuzzRun,
        subject: Subject,
        told: Callable[[FuzzRun], None] | None,
        *,
        at_once: int = AT_ONCE,
    ) -> None:
        self._run = run
        self._subject = subject
        self._told = told
        self._at_once = at_once
        self._recent: list[Exchange] = []
        self._done = False
        self._log_from = subject.log_bytes()

    async def play(
        self, exchanges: Iterator[Exchange], *, seconds: float | None, most: int | None = None
    ) -> None:
        """Play exchanges for some seconds, or all of them if None; there are `most`, if that is known."""
        run, began_s = self._run, monotonic()
        resident = Resident(self._subject.ports["mqtt"])
        doors = _doors(run.target, self._subject)
        tasks = [asyncio.create_task(resident.run())]
        tasks += [asyncio.create_task(visits(door, self._subject.ports[door])) for door in doors]
        try:
            if seconds is not None:
                first = exchanges if most is None else islice(exchanges, int(WARM * most))
                await self._for(first, tasks, WARM * seconds)
            run.before = await self._settled(tasks)
            if seconds is None:
                await self._for(exchanges, tasks, None)
            left_s = 0.0 if seconds is None else seconds * (1 - WARM)
            while left_s > 0 and (most is None or run.exchanges < most):
                await self._for(exchanges, tasks, min(left_s, CLEAR_S))
                left_s -= CLEAR_S
            run.after = await self._settled(tasks, than=run.before)
            self._check(tasks)
        except _Broken as broken:
            run.problem = str(broken)
            run.suspects = list(self._recent) if broken.exchange is None else [broken.exchange]
        finally:
            run.seconds, run.round_trips_s = monotonic() - began_s, resident.round_trips_s
            await ended(tasks)
        if not run.problem:
            self._compare()

    async def _for(
        self, exchanges: Iterator[Exchange], bystanders: list[asyncio.Task[None]], seconds: float | None
    ) -> None:
        until_s = float("inf") if seconds is None else monotonic() + seconds
        players = [asyncio.create_task(self._player(exchanges, until_s)) for _ in range(self._at_once)]
        try:
            while not all(player.done() for player in players):
                done, _ = await asyncio.wait(players, timeout=CHECK_S)
                for player in done:
                    player.result()
                self._check(bystanders)
                if self._told is not None:
                    self._told(self._run)
            await asyncio.sleep(CHECK_S)
            self._check(bystanders)
            await clear(self._subject)
        finally:
            for player in players:
                player.cancel()
            await asyncio.gather(*players, return_exceptions=True)

    async def _player(self, exchanges: Iterator[Exchange], until_s: float) -> None:
        while monotonic() < until_s:
            exchange = next(exchanges, None)
            if exchange is None:
                return
            self._recent.append(exchange)
            del self._recent[:-RECENT]
            self._run.exchanges += 1
            self._run.bytes += exchange.bytes
            problem = await play(exchange, self._subject.ports)
            if problem:
                raise _Broken(problem, exchange)

    def _check(self, bystanders: list[asyncio.Task[None]]) -> None:
        """Raise _Broken if a rule is broken at this moment."""
        if not self._subject.alive:
            raise _Broken("the process has ended" + _told(self._subject.complaint(self._log_from)))
        complaint = self._subject.complaint(self._log_from)
        if complaint:
            raise _Broken("the log says" + _told(complaint))
        self._log_from = self._subject.log_bytes()
        for task in bystanders:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                if isinstance(error, Unserved):
                    raise _Broken(str(error))
                raise error
        taken = self._subject.vitals().resident_bytes
        self._run.peak_bytes = max(self._run.peak_bytes, taken)
        if self._run.before is not None and taken > self._run.before.resident_bytes + PEAK_BYTES:
            raise _Broken(f"the process has grown to {taken >> 20} MB")

    async def _settled(self, bystanders: list[asyncio.Task[None]], *, than: Vitals | None = None) -> Vitals:
        """Wait until memory and files are back, as far as they come back, and return them."""
        self._check(bystanders)
        until_s = monotonic() + (SETTLE_S if than is not None else 1.0)
        found = self._subject.vitals()
        while monotonic() < until_s:
            await asyncio.sleep(CHECK_S)
            self._check(bystanders)
            now = self._subject.vitals()
            if than is None and now == found:
                break
            found = now
            if than is not None and not _grown(than, found):
                break
        return found

    def _compare(self) -> None:
        run = self._run
        assert run.before is not None
        assert run.after is not None
        run.problem = _grown(run.before, run.after)


def _grown(before: Vitals, after: Vitals) -> str:
    """Say all that is more than before; empty: nothing."""
    grown = []
    if after.files > before.files + SPARE_FILES:
        grown.append(f"{after.files} files are open at the end, {before.files} were before")
    if after.resident_bytes > before.resident_bytes + MORE_BYTES:
        grown.append(
            f"{after.resident_bytes / 2**20:.1f} MB are taken at the end, "
            f"{before.resident_bytes / 2**20:.1f} MB were before"
        )
    return "; ".join(grown)


SPARE_FILES: Final = 2
"""The visitor's connection may be open at either moment, and its predecessor be closing."""


def _told(complaint: str) -> str:
    return f":\n{complaint}" if complaint else ""


def _doors(target: str, subject: Subject) -> list[Door]:
    wanted: list[Door] = [TARGETS[target].door] if target in TARGETS else ["mqtt", "http"]
    return [door for door in wanted if door in subject.ports]


# -- which exchange was it ----------------------------------------------------------------------------------


def _search(run: FuzzRun, subjects: Subjects) -> None:
    """Look for one exchange that breaks a rule alone, and for the fewest of its pieces, while time lasts."""
    until_s = monotonic() + SEARCH_S
    tried = run.suspects
    if len(tried) > 1:
        with subjects() as subject:
            tried = asyncio.run(_until_broken(subject, tried[::-1], until_s))
    # A slow machine may see the end of a process only behind the exchange that follows.
    found = next((each for each in tried[: -LATE - 1 : -1] if _breaks(run, each, subjects)), None)
    if found is None:
        return
    run.alone, at = True, 0
    while at < len(found.pieces) and len(found.pieces) > 1 and monotonic() < until_s:
        fewer = replace(found, pieces=found.pieces[:at] + found.pieces[at + 1 :])
        if _breaks(run, fewer, subjects):
            found = fewer
        else:
            at += 1
    run.suspects = [found]


async def _until_broken(subject: Subject, exchanges: list[Exchange], until_s: float) -> list[Exchange]:
    """Play exchanges one by one; returns those until the process ends or complains; none if it is well."""
    for number, exchange in enumerate(exchanges, start=1):
        if monotonic() > until_s:
            break
        problem = await play(exchange, subject.ports)
        await asyncio.sleep(CHECK_S / 2)
        if problem or not subject.alive or subject.complaint():
            return exchanges[:number]
    return []


def _breaks(run: FuzzRun, exchange: Exchange, subjects: Subjects) -> bool:
    return not replay(run.target, [exchange], seed=run.seed, subjects=subjects).ok
