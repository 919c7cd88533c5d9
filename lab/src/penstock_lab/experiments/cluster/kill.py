"""A cluster of real nodes under faults: every promise of it is a row.

    publishers ──► n1 ──┐
                   n2 ──┼── all know all, every link through a way that can be cut and slowed
                   n3 ──┘     subscribers at n2, n3 …: QoS 0; QoS 1 and 2 with kept sessions; with a policy
                              clients that move twice a second: between n1 and n2, and among all nodes

All nodes are processes with folders of their own. Each round brings one fault while publishing goes on: a
node is killed and started again, frozen and thawed, cut off from all others, or a link is slow. Then the
cluster comes to rest. The node of the publishers is not killed, since what it has accepted for a node that is
away waits in its memory, and n2 is not killed either: its subscribers must account for every message.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.html_page import Table
from penstock.errors import InputError, NodeError
from penstock_lab.experiments.cluster.clients import STAY_S, Publisher, Subscriber, Traveller
from penstock_lab.experiments.cluster.moving import MovingJudge, Storm
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.rigs.cluster import ClusterNode, await_met
from penstock_lab.rigs.direct_ways import direct_ways
from penstock_lab.rigs.way import way
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock_lab.experiments.result import Progress
    from penstock_lab.rigs.way import Way

SHOWS: Final = Shows(live=True)
NODES: Final = 5
QUICK_NODES: Final = 3
ROUNDS: Final = 40
QUICK_ROUNDS: Final = 6
PER_S: Final = 40.0
"""Messages per second of each publisher."""
QUEUE_EVENTS: Final = 100
"""Events that may wait for a node: less than a long fault brings, so that digests have to tell the rest."""
POLICY: Final = "levels: [{keep: {latest: 20}}]"
SETTLE_S: Final = 240.0
"""The cluster is not at rest by then: it never will be."""
STILL: Final = 4
"""Looks at which nothing has come to anybody: a session that a node has parked is asked for every 5 s."""
NOTICE_S: Final = 60.0
"""A cut that is not noticed by then, on a machine that is busy, is none."""
SLOW_BYTES_PER_S: Final = 4_000.0
FAULTS: Final = ("kill", "freeze", "cut off", "slow link")
LASTS_S: Final = {"kill": (0.1, 3.0), "freeze": (0.2, 6.0), "cut off": (0.5, 5.0), "slow link": (1.0, 4.0)}
"""How long each fault lasts. A node that is frozen for more than three seconds is away to the others."""


def reproduce(
    *,
    seed: int,
    quick: bool,
    out: Path | None,  # noqa: ARG001  # there are no pictures
    progress: Progress,
    rounds: str | None = None,
) -> ExperimentResult:
    """Bring faults over a cluster; InputError if an option is wrong."""
    count = QUICK_ROUNDS if quick else ROUNDS
    if rounds is not None:
        if not rounds.isdecimal() or not 0 < int(rounds) <= 100_000:
            raise InputError(f"--rounds is '{rounds}': a number from 1 on")
        count = int(rounds)
    nodes = QUICK_NODES if quick else NODES
    replay = f"penstock reproduce cluster-kill --rounds {count} --seed {seed}" + " --quick" * quick
    with TemporaryDirectory(prefix="penstock-cluster-kill-") as folder:
        dice = Random(seed)  # noqa: S311  # repeatable on purpose
        run = Run(Path(folder), nodes, dice, rounds=count, progress=progress)
        asyncio.run(run.play())
    return ExperimentResult(
        experiment="cluster-kill",
        title="A cluster under kill -9, frozen nodes and cut links",
        setting=f"{count} faults, {nodes} nodes; {PER_S:g} messages/s with each QoS at n1, subscribers "
        f"at all others, clients that move twice a second; links keep {QUEUE_EVENTS} events"
        + (" (shortened)" if quick else ""),
        rows=tuple(run.rows(replay)),
        tables=(run.faults_table(), run.subscribers_table()),
        plots=(),
        seed=seed,
        rival="wanted",
    )


class Run:
    """The nodes, their links, their clients, and the faults."""

    def __init__(self, folder: Path, count: int, dice: Random, *, rounds: int, progress: Progress) -> None:
        self._folder = folder
        self._count = count
        self._dice = dice
        self._rounds = rounds
        self._progress = progress
        self.nodes: list[ClusterNode] = []
        self._ways: dict[frozenset[str], Way] = {}
        self._publishers: list[Publisher] = []
        self._local: Publisher | None = None
        self.subscribers: list[Subscriber] = []
        self.travellers: list[Traveller] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.faults: dict[str, int] = dict.fromkeys(FAULTS, 0)
        self.noticed: dict[str, int] = dict.fromkeys(FAULTS, 0)
        """Faults after which another node was away to the first one."""
        self.killed: set[str] = set()
        self.storms: list[Storm] = []
        self.abandoned = 0
        """Events that nodes tell as abandoned, at the end or before they were killed."""
        self.problem = ""
        self.status: dict[str, dict[str, Any]] = {}
        """Status of the cluster at the end of the run, as each node reports it."""

    # -- the run ---------------------------------------------------------------------------------------------

    async def play(self) -> None:
        """Start everything, bring the faults, and wait until all messages are accounted for."""
        async with AsyncExitStack() as stack:
            try:
                await self._begin(stack)
                order: list[str] = []
                for number in range(self._rounds):
                    order = order or self._dice.sample(FAULTS, len(FAULTS))
                    fault = order.pop()
                    self._progress(number, self._rounds, fault)
                    await self._bring(fault)
                    await self._rest()
                    self.storms[-1].end_s = asyncio.get_running_loop().time()
                self._progress(self._rounds, self._rounds, "waiting for the rest")
                await self._end()
            except NodeError as error:
                self.problem = str(error)
            finally:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _begin(self, stack: AsyncExitStack) -> None:
        for number in range(1, self._count + 1):
            name = f"n{number}"
            ways = []
            for other in self.nodes:
                between = await stack.enter_async_context(way(other.fabric))
                self._ways[frozenset((name, other.name))] = between
                ways.append(between.port)
            direct = await stack.enter_async_context(direct_ways(partial(self._between, name)))
            node = ClusterNode(
                self._folder,
                name,
                join=ways,
                data=str(self._folder / name),
                cluster={
                    "queue_events": QUEUE_EVENTS,
                    "gossip": False,  # else they find ways around a cut
                    "direct_advertise": direct.address,
                },
            )
            direct.to = node.direct
            stack.callback(node.process.end)
            self.nodes.append(node)
            await asyncio.to_thread(node.process.start)
        await asyncio.to_thread(await_met, self.nodes)
        for node in self.nodes[1:]:
            self.subscribers += [
                Subscriber(f"{node.name}-qos-0", node.url, qos=0, kept=False),
                Subscriber(f"{node.name}-qos-1", node.url, qos=1, kept=True),
                Subscriber(f"{node.name}-qos-2", node.url, qos=2, kept=True),
                Subscriber(f"{node.name}-policy", node.url, qos=1, kept=True, policy=POLICY),
            ]
        everywhere = {node.name: node.url for node in self.nodes}
        alive = {node.name: node.url for node in self.nodes[:2]}
        self.travellers = [
            Traveller("moving-qos-1", alive, qos=1),
            Traveller("moving-qos-2", alive, qos=2),
            Traveller("moving-policy", alive, qos=1, policy=POLICY),
            Traveller("roaming-qos-1", everywhere, qos=1),
            Traveller("roaming-qos-2", everywhere, qos=2),
        ]
        everybody = [*self.subscribers, *self.travellers]
        self._tasks += [asyncio.create_task(each.run()) for each in everybody]
        async with asyncio.timeout(SETTLE_S):
            for each in everybody:
                await each.ready.wait()
        self._publishers = [Publisher(self.nodes[0].url, qos, per_s=PER_S) for qos in (0, 1, 2)]
        self._tasks += [asyncio.create_task(each.run()) for each in self._publishers]

    def _between(self, one: str, other: str) -> Way | None:
        """The way between two nodes."""
        return self._ways.get(frozenset((one, other)))

    async def _bring(self, fault: str) -> None:
        """One fault: it begins, lasts, and ends."""
        dice = self._dice
        await asyncio.sleep(dice.uniform(0.2, 1.0))
        lasts_s = dice.uniform(*LASTS_S[fault])
        self.faults[fault] += 1
        match fault:
            case "kill":
                node = dice.choice(self.nodes[2:])
                self.killed.add(node.name)
                self.abandoned += await asyncio.to_thread(node.abandoned)
                self._begins(node.name)
                await asyncio.to_thread(node.process.kill)
                await self._lasting(fault, node, lasts_s)
                await asyncio.to_thread(node.process.start)
            case "freeze":
                node = dice.choice(self.nodes)
                self._begins(node.name)
                node.process.freeze()
                try:
                    await self._lasting(fault, node, lasts_s)
                finally:
                    node.process.thaw()
            case "cut off":
                node = dice.choice(self.nodes)
                cut = [link for pair, link in self._ways.items() if node.name in pair]
                self._begins(node.name)
                for each in cut:
                    each.shut()
                await self._lasting(fault, node, lasts_s)
                for each in cut:
                    each.open = True
            case _:
                pair, link = dice.choice(list(self._ways.items()))
                self._begins(*pair, link=True)
                link.bytes_per_s = SLOW_BYTES_PER_S
                await asyncio.sleep(lasts_s)
                link.bytes_per_s = 0.0

    def _begins(self, *names: str, link: bool = False) -> None:
        self.storms.append(Storm(frozenset(names), link, asyncio.get_running_loop().time()))

    async def _lasting(self, fault: str, victim: ClusterNode, lasts_s: float) -> None:
        """Wait as long as the fault lasts, a cut until it is noticed; note whether another node has."""
        await asyncio.sleep(lasts_s)
        watcher = next(node for node in self.nodes if node is not victim)
        until_s = asyncio.get_running_loop().time() + NOTICE_S * (fault == "cut off")
        while True:
            members = (await asyncio.to_thread(watcher.status))["members"]
            if any(row["name"] == victim.name and row["state"] == "away" for row in members):
                self.noticed[fault] += 1
                return
            if asyncio.get_running_loop().time() >= until_s:
                return
            await asyncio.sleep(0.1)

    async def _rest(self) -> None:
        """Wait until all nodes know each other again and nothing waits for any of them."""
        await asyncio.to_thread(await_met, self.nodes, within_s=SETTLE_S)
        until_s = asyncio.get_running_loop().time() + SETTLE_S
        for node in self.nodes:
            while waiting := _waiting(await asyncio.to_thread(node.status)):
                if asyncio.get_running_loop().time() > until_s:
                    raise NodeError(f"after {SETTLE_S:g} s {waiting} events of {node.name} are still waiting")
                await asyncio.sleep(0.05)

    async def _end(self) -> None:
        """Stop publishing, and wait until every subscriber has what there is to come."""
        for each in self._publishers:
            each.stop()
        running = self._tasks[-len(self._publishers) :]
        done, late = await asyncio.wait(running, timeout=SETTLE_S)
        if late:
            raise NodeError(f"{len(late)} publishers have no answer after {SETTLE_S:g} s")
        for task in done:
            task.result()
        await self._rest()
        until_s = asyncio.get_running_loop().time() + SETTLE_S
        count, still = -1, 0
        while asyncio.get_running_loop().time() < until_s:
            owing = [each for each in self.subscribers if each.missing(self.sent) > 0]
            strict = [each for each in owing if self._strict(each)]
            total = sum(each.notes.count for each in [*self.subscribers, *self.travellers])
            still = still + 1 if total == count else 0
            moving = any(one.missing(self.sent) > 0 for one in self.travellers)
            if not strict and still >= (STILL if moving else 1):
                break
            count = total
            await asyncio.sleep(4 * STAY_S)
        for node in self.nodes:
            self.status[node.name] = await asyncio.to_thread(node.status)
            self.abandoned += await asyncio.to_thread(node.abandoned)

    # -- the judgement ---------------------------------------------------------------------------------------

    @property
    def sent(self) -> dict[int, int]:
        """Messages published with each QoS."""
        return {each.qos: each.sent for each in self._publishers}

    def _strict(self, one: Subscriber) -> bool:
        """Whether a subscriber must account for every message: its node was not killed."""
        return one.name.partition("-")[0] not in self.killed

    def rows(self, replay: str) -> Iterable[Claim]:
        """The promises, each as a row."""
        sent, total = self.sent, sum(self.sent.values())

        def row(what: str, bad: list[str], good: str, fails: str, *, tried: bool = True) -> Claim:
            said = f"{len(bad)}, first {bad[0]}" if bad else good
            note = f"fails {fails}" + (f"; again: {replay}" if bad else "")
            return Claim(what, "none", said, ok=not bad if tried else None, note=note)

        strict = [one for one in self.subscribers if self._strict(one)]
        lost = [f"{one.name}: {missing:+,} of {total:,}" for one in strict if (missing := one.missing(sent))]
        if not total:
            lost = ["nothing was published"]
        digested = sum(one.notes.digested for one in strict)
        yield row(
            "link cut or slow, node frozen: messages that neither came nor are in a digest",
            [self.problem] if self.problem else lost,
            f"none of {total:,} at {len(strict)} subscribers; {digested:,} in digests",
            "if one subscriber at a node that was not killed misses one, or gets one more",
        )
        abandoned = sum(one["events"]["abandoned"] for one in self.status.values())
        kept = [one for one in self.subscribers if one.kept and not self._strict(one)]
        untold = [
            f"{one.name}: {missing:,} missing, {abandoned:,} abandoned"
            for one in kept
            if (missing := one.missing(sent)) > abandoned or missing < 0
        ]
        yield row(
            "node killed: messages that its kept sessions miss and no account tells as abandoned",
            untold,
            f"none of {total:,} at {len(kept)} sessions; {abandoned:,} abandoned on the way to killed nodes",
            "if a kept session misses more than was on its way when its node was killed",
            tried=bool(kept),
        )
        twice = [
            f"{one.name}: {number}"
            for one in self.subscribers
            for number in one.again(killed=not self._strict(one))
        ]
        yield row(
            "messages that came twice",
            twice,
            f"none at {len(self.subscribers)} subscribers",
            "with the first one; QoS 1 may repeat after its node was killed",
        )
        yield row(
            "messages out of order within their topic",
            [f"{one.name}: {one.notes.order[0]}" for one in self.subscribers if one.notes.order],
            f"none at {len(self.subscribers)} subscribers",
            "with the first one",
        )
        uneven = [
            f"{name}: {one['events']}"
            for name, one in self.status.items()
            if not one["balanced"] or _waiting(one) or not _even(one["events"])
        ]
        first = self.status.get("n1", {}).get("events", {})
        yield row(
            "accounts that are not equal at rest: accepted = handed + digested + abandoned, at every node",
            uneven if self.status else ["no account: the run was cut short"],
            f"none; n1: {first.get('accepted', 0):,} = {first.get('handed', 0):,} + "
            f"{first.get('digested', 0):,} + {first.get('abandoned', 0):,}",
            "if an event of a link is in no account, or waits for ever",
        )
        yield Claim(
            "every node came back, all met, and everything came to rest",
            "yes",
            self.problem or "yes",
            ok=not self.problem,
            note=f"fails if a node is not let in again or a link stands still for {SETTLE_S:g} s"
            + (f"; again: {replay}" if self.problem else ""),
        )
        judge = MovingJudge(self.travellers, self._publishers, self.storms)
        yield from judge.rows(row, counted=self.abandoned)
        cut, noticed = self.faults["cut off"], self.noticed["cut off"]
        yield Claim(
            "cuts after which the others had lost the node: links really go through their ways",
            "all",
            f"{noticed} of {cut}",
            ok=noticed == cut if cut else None,
            note="fails if two nodes find a way around a cut: then the rows above say less",
        )

    def faults_table(self) -> Table:
        """How often each fault was brought."""
        rows = tuple((fault, str(count), str(self.noticed[fault])) for fault, count in self.faults.items())
        return Table("Faults", ("fault", "times", "node away to others at the end of it"), rows)

    def subscribers_table(self) -> Table:
        """Messages that each subscriber received."""
        rows = tuple(
            (
                one.name + (" (killed)" if not self._strict(one) else ""),
                f"{sum(map(len, one.notes.got.values())):,}",
                f"{one.notes.digested:,}",
                f"{one.missing(self.sent):,}",
                f"{len(one.notes.again):,}",
            )
            for one in [*self.subscribers, *self.travellers]
        )
        return Table("Subscribers", ("who", "got", "in digests", "missing", "came again"), rows)


def _waiting(status: dict[str, Any]) -> int:
    """Events of a node that wait for another one, or are on their way."""
    events: dict[str, int] = status["events"]
    return events["queued"] + events["in_flight"]


def _even(events: dict[str, int]) -> bool:
    return events["accepted"] == sum(
        events[fate] for fate in ("handed", "digested", "queued", "in_flight", "abandoned")
    )
