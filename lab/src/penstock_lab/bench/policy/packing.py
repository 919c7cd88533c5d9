"""Packing one queue: the fast evaluator against the loop a programmer would write for that one policy.

Rivals get the same queue, events whose attributes were read before, and must give the same result, digests
included; the benchmark checks that before it takes time. It shows the reference evaluator beside them, and
what the first pack of a queue costs, when payloads must be decoded and attributes read.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.policy import evaluate
from penstock.policy.columns import Plan
from penstock.policy.text.python_form import drop, keep, policy
from penstock_lab.bench.policy import loops
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow, interleaved_ns
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.event import Item
    from penstock.policy.nodes import Policy
    from penstock_lab.bench.result import Progress

NAME: Final = "policy"
SHOWS: Final = Shows(live=True)
EVENTS: Final = 1_000
"""The size of queue for which the goals are set."""
COLUMNAR: Final = 2.0
"""Goal for filters that work on whole arrays: at most half the time of the loop."""
ELSEWHERE: Final = 1.0
"""Goal for filters in which each decision needs the one before it."""
SUMMARY: Final = ("count", "mean", "min", "max")


@dataclass(frozen=True, slots=True)
class QueueContest:
    """A policy, and the loop written by hand for it."""

    name: str
    policy: Policy
    loop: Callable[[list[Event]], list[Item]]
    goal: float


CONTESTS: Final = (
    QueueContest(
        "stateless: drop within [50, 100]",
        policy(drop.within(50, 100), attribute="pulse", digest=SUMMARY),
        loops.within,
        COLUMNAR,
    ),
    QueueContest(
        "stateless: keep gt 110, count only",
        policy(keep.gt(110), attribute="pulse"),
        loops.gt_count,
        COLUMNAR,
    ),
    QueueContest(
        "windowed: drop uniq",
        policy(drop.uniq(), attribute="step", digest=SUMMARY),
        loops.uniq,
        COLUMNAR,
    ),
    QueueContest(
        "windowed: keep latest 100",
        policy(keep.latest(100), attribute="pulse", digest=SUMMARY),
        loops.latest,
        COLUMNAR,
    ),
    QueueContest(
        "windowed: keep latest_by ward",
        policy(keep.latest_by("ward"), attribute="pulse", digest=SUMMARY),
        loops.latest_by,
        ELSEWHERE,
    ),
    QueueContest(
        "dead band: drop delta 5",
        policy(drop.delta(5), attribute="walk", digest={"walk": SUMMARY}),
        loops.delta,
        ELSEWHERE,
    ),
    QueueContest(
        "chain: delta, within, latest 10",
        policy(drop.delta(5), drop.within(50, 100), keep.latest(10), attribute="pulse", digest=SUMMARY),
        loops.chain,
        ELSEWHERE,
    ),
)


def measure(*, quick: bool, progress: Progress) -> BenchmarkResult:
    """Time every contest."""
    start = perf_counter()
    rounds = 5 if quick else 25
    rows: list[BenchmarkRow] = []
    for number, contest in enumerate(CONTESTS):
        progress(number, len(CONTESTS) + 1, contest.name)
        rows += _contest(contest, a_queue(EVENTS), rounds)
    progress(len(CONTESTS), len(CONTESTS) + 1, "first reading")
    rows += [_first_pack(CONTESTS[0], rounds), _decoding(rounds)]
    return BenchmarkResult(
        NAME,
        tuple(rows),
        perf_counter() - start,
        note=f"queues of {EVENTS} events, attributes read before (first pack: not); CPU time per event, "
        f"median of {rounds} interleaved rounds",
    )


def _contest(contest: QueueContest, queue: list[Event], rounds: int) -> list[BenchmarkRow]:
    plan = Plan(contest.policy)
    level = contest.policy.highest
    expected = evaluate.pack(contest.policy, queue, level=level, now_us=0).items
    check_same(plan.pack(queue, level=level, now_us=0).items, expected, contest.name)
    check_same(contest.loop(queue), expected, contest.name)
    taken = interleaved_ns(
        {
            "fast": lambda: plan.pack(queue, level=level, now_us=0),
            "loop": lambda: contest.loop(queue),
            "reference": lambda: evaluate.pack(contest.policy, queue, level=level, now_us=0),
        },
        rounds=rounds,
    )
    fast, loop, reference = (taken[name] / len(queue) for name in ("fast", "loop", "reference"))
    return [
        BenchmarkRow(
            contest.name,
            fast,
            "ns/event",
            "hand-written loop",
            loop,
            loop / fast,
            contest.goal,
            fails_if="a filter goes through the events one by one where it could take their columns",
            less=True,
        ),
        BenchmarkRow(
            f"{contest.name} (reference)",
            reference,
            "ns/event",
            "hand-written loop",
            loop,
            loop / reference,
            less=True,
        ),
    ]


def _first_pack(contest: QueueContest, rounds: int) -> BenchmarkRow:
    """Time the first pack of a queue, which also decodes payloads and reads attributes, once per event."""
    plan = Plan(contest.policy)
    read = a_queue(EVENTS)
    decode = msgspec.json.Decoder().decode

    def fresh() -> list[Event]:
        return [Event(event.topic, event.payload, event.ts_us, event.sender, event.seq) for event in read]

    def ours() -> object:
        return plan.pack(fresh(), level=1, now_us=0)

    def loop() -> object:
        queue = fresh()
        for event in queue:
            msgspec.structs.force_setattr(event, "root", decode(event.payload))
        return contest.loop(queue)

    taken = interleaved_ns({"ours": ours, "loop": loop, "fresh": fresh}, rounds=rounds)
    own, rival = ((taken[name] - taken["fresh"]) / EVENTS for name in ("ours", "loop"))
    return BenchmarkRow(
        f"first pack: {contest.name}",
        own,
        "ns/event",
        "decode, then the loop",
        rival,
        rival / own,
        less=True,
    )


def _decoding(rounds: int) -> BenchmarkRow:
    """Time the decoding of a payload, which happens once per event."""
    import json  # noqa: PLC0415  # the rival, nothing else here uses it

    payloads = [event.payload for event in a_queue(EVENTS)]
    decode = msgspec.json.Decoder().decode
    taken = interleaved_ns(
        {"ours": lambda: list(map(decode, payloads)), "json": lambda: list(map(json.loads, payloads))},
        rounds=rounds,
    )
    ours, rival = taken["ours"] / EVENTS, taken["json"] / EVENTS
    return BenchmarkRow(
        "decode a JSON payload, once per event",
        ours,
        "ns/event",
        "json.loads",
        rival,
        rival / ours,
        less=True,
    )


def a_queue(size: int) -> list[Event]:
    """Pulse readings of 40 wards: mostly normal, with alarms in short bursts, and two slow walks."""
    dice = Random(7)  # noqa: S311  # a fixed workload
    events = []
    walk, step, alarm = 75.0, 0, 0
    for seq in range(size):
        alarm = alarm - 1 if alarm else 8 * (dice.random() < 0.02)
        walk += dice.gauss(0, 1.5)
        step += dice.random() < 0.15
        root = {
            "pulse": round(dice.gauss(130 if alarm else 75, 8), 1),
            "walk": round(walk, 2),
            "step": step,
            "ward": f"ward-{dice.randrange(40)}",
        }
        payload = msgspec.json.encode(root)
        event = Event(
            "vitals", payload, seq * 30_000, sender="monitor", seq=seq, root=msgspec.json.decode(payload)
        )
        events.append(event)
    return events


def check_same(ours: list[Item], expected: list[Item], name: str) -> None:
    """Fail unless both results are equal: timing different work would mean nothing."""
    assert len(ours) == len(expected), f"{name}: {len(ours)} items, expected {len(expected)}"
    for a, b in zip(ours, expected, strict=True):
        if isinstance(a, Digest) and isinstance(b, Digest):
            assert _same_digest(a, b), f"{name}: {a} is not {b}"
        else:
            assert a is b, name


def _same_digest(a: Digest, b: Digest) -> bool:
    def facts(digest: Digest) -> tuple[Any, ...]:
        extremes = [(name, found.n, found.least, found.most) for name, found in digest.attributes]
        return (
            digest.count,
            digest.from_us,
            digest.to_us,
            digest.seq_first,
            digest.seq_last,
            digest.causes,
            extremes,
        )

    sums = zip(a.attributes, b.attributes, strict=True)
    return facts(a) == facts(b) and all(isclose(x.total, y.total, rel_tol=1e-9) for (_, x), (_, y) in sums)
