"""Receivers that are behind cost a node time: a stalled one of ten, and fifteen whose policies are at work.

Judged is the node's own time on processors for a message: by the clock the same load against itself differs
by half where the machine has other things to do. Both sides of a comparison run in turn, each pair gives a
ratio, and the median of the ratios counts, with the interval that holds it in 95 of 100 cases. Pairs are
added until that interval is on one side of the goal, or until there are enough of them.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import ceil, sqrt
from statistics import median
from typing import TYPE_CHECKING, Final
from urllib.request import urlopen

from penstock.mqtt.codes import V5
from penstock_lab.bench.load.client import LoadShape
from penstock_lab.bench.load.generator import Load
from penstock_lab.bench.result import BenchmarkRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock_lab.rigs.brokers import Broker

STALLED: Final = 0.95
"""Goal beside a stalled receiver: it costs the others at most 5 %."""
HEALTHY: Final = LoadShape(name="QoS 0, 1 → 10", receivers=10)
BESIDE: Final = LoadShape(name="QoS 0, 1 → 9, and 1 stalled", receivers=9, stalled=1)

BEHIND: Final = 15
WORK: Final = (
    "levels: [{drop: {within: [60, 100], attribute: pulse}}, "
    "{drop: {within: [50, 120], attribute: pulse}}, {keep: {latest: 100}}]"
)
"""Pulses are 40 to 159: a third goes at level 1, 59 % at level 2, all but a hundred at level 3."""
ALONE: Final = LoadShape(name="QoS 0, 1 → 1, readings", version=V5, readings=True)
WORKING: Final = LoadShape(
    name=f"1 → 1, and {BEHIND} that pack", version=V5, readings=True, stalled=BEHIND, stalled_policy=WORK
)
DROPPING: Final = LoadShape(
    name=f"1 → 1, and {BEHIND} that drop the oldest", version=V5, readings=True, stalled=BEHIND
)
LONG: Final = 32_768
"""Fewest messages of a run of those: several times a full queue, so that each run has packs of all."""
AT_WORK: Final = 5.0
"""Goal of packing: a message for a receiver that is behind costs a fifth of what delivering one costs the
rival, or less."""


@dataclass(slots=True)
class Pairs:
    """Ratios of runs that took turns; larger is better."""

    ratios: list[float] = field(default_factory=list)

    @property
    def middle(self) -> float:
        """The median."""
        return median(self.ratios)

    @property
    def interval(self) -> tuple[float, float]:
        """Two of the ratios that have the median of all possible pairs between them in 95 of 100 cases."""
        ordered = sorted(self.ratios)
        count = len(ordered)
        off = ceil(0.98 * sqrt(count))
        return ordered[max(0, (count - 1) // 2 - off)], ordered[min(count - 1, count // 2 + off)]

    def tells(self, goal: float) -> bool:
        """Whether the goal is outside the interval, so that more pairs would not change the answer."""
        low, high = self.interval
        return not low <= goal <= high

    def __str__(self) -> str:
        low, high = self.interval
        return f"median of {len(self.ratios)} pairs, {low:.2f} to {high:.2f}"


class _Timed:
    """A load whose cost is the broker's time on processors."""

    def __init__(
        self, stack: ExitStack, broker: Broker, shape: LoadShape, run_s: float, *, least: int = 0
    ) -> None:
        self._broker = broker
        self._load = stack.enter_context(Load(shape, broker=broker.name, port=broker.port))
        self._messages = max(self._load.messages_for(run_s), least)
        self._receivers = shape.receivers
        self.costs_us: list[float] = []
        self.speeds: list[float] = []

    def run(self) -> float:
        """Run once; return the microseconds that a message took."""
        before_ns = self._broker.cpu_ns()
        self.speeds.append(self._load.run(self._messages) / self._receivers)
        self.costs_us.append((self._broker.cpu_ns() - before_ns) / self._messages / 1_000)
        return self.costs_us[-1]


def _in_turn(loads: Sequence[_Timed], number: int) -> list[float]:
    """Run each load once, every second time in the other order; return their costs."""
    order = range(len(loads)) if number % 2 == 0 else range(len(loads) - 1, -1, -1)
    costs = {who: loads[who].run() for who in order}
    return [costs[who] for who in range(len(loads))]


def stalled(
    ours: Broker, *, run_s: float, least: int, most: int, shape: LoadShape = BESIDE
) -> list[BenchmarkRow]:
    """Compare ten receivers with nine and a stalled one; the same load is compared with itself as well."""
    with ExitStack() as stack:
        beside, healthy, again = (_Timed(stack, ours, each, run_s) for each in (shape, HEALTHY, HEALTHY))
        pairs, same = Pairs(), Pairs()
        while len(pairs.ratios) < least or (not pairs.tells(STALLED) and len(pairs.ratios) < most):
            loads = (beside, healthy, again) if len(same.ratios) < least else (beside, healthy)
            cost, other, *more = _in_turn(loads, len(pairs.ratios))
            pairs.ratios.append(other / cost)
            same.ratios += [other / each for each in more]
    name = "1 of 10 stalled"
    return [
        BenchmarkRow(
            f"{name}, CPU for a message",
            median(beside.costs_us),
            "µs",
            "none stalled",
            median(healthy.costs_us),
            pairs.middle,
            STALLED,
            note=str(pairs),
            fails_if="a message for a receiver that takes none costs clearly more than one for a receiver "
            "that does",
            less=True,
        ),
        BenchmarkRow(
            "none stalled, against itself, CPU for a message",
            median(again.costs_us),
            "µs",
            "none stalled",
            median(healthy.costs_us),
            same.middle,
            note=f"{same}; what differs here is noise",
            less=True,
        ),
        BenchmarkRow(
            f"{name}, each other receiver",
            median(beside.speeds),
            "msg/s",
            "none stalled",
            median(healthy.speeds),
            median(a / b for a, b in zip(beside.speeds, healthy.speeds, strict=True)),
        ),
    ]


def at_work(
    ours: Broker, rival: Broker, *, run_s: float, pairs: int, shape: LoadShape = WORKING
) -> list[BenchmarkRow]:
    """Compare receivers that never read, their queues full, with and without policies."""
    with ExitStack() as stack:
        known = _packs(ours)
        working, dropping, alone = (
            _Timed(stack, ours, each, run_s, least=LONG) for each in (shape, DROPPING, ALONE)
        )
        delivering = _Timed(stack, rival, ALONE, run_s, least=LONG)
        loads = (working, dropping, alone, delivering)
        costs = [_in_turn(loads, number) for number in range(pairs)]
        packs = {name: count for name, count in _packs(ours).items() if name not in known}
    each_us = [max((busy - idle) / BEHIND, 1e-3) for busy, _, idle, _ in costs]
    ratios = Pairs([other / own for own, (*_, other) in zip(each_us, costs, strict=True)])
    packed = sum(count > 0 for count in packs.values())
    return [
        BenchmarkRow(
            "policies at work, CPU for a message and receiver",
            median(each_us),
            "µs",
            f"{rival.name}, delivered",
            median(delivering.costs_us),
            ratios.middle,
            AT_WORK,
            note=f"{BEHIND} receivers behind; {ratios}",
            fails_if="packing takes several times as long",
            less=True,
        ),
        BenchmarkRow(
            "policies at work, receivers that packed",
            packed,
            "receivers",
            "all",
            BEHIND,
            packed / BEHIND,
            1.0,
            note=f"{sum(packs.values())} packs",
            fails_if="a queue never was over its bound or its policy did nothing",
        ),
        BenchmarkRow(
            "policies at work, CPU for a message",
            median(working.costs_us),
            "µs",
            "drop oldest",
            median(dropping.costs_us),
            median(other / own for own, other, *_ in costs),
            note="nobody is told what was dropped, and no event is looked at, where the oldest is dropped",
            less=True,
        ),
    ]


def _packs(broker: Broker) -> dict[str, int]:
    """Return the packs of each client with a policy that a node knows."""
    with urlopen(f"{broker.http.rstrip('/')}/api/v1/clients?limit=1000", timeout=60) as answer:  # noqa: S310
        clients = json.load(answer)["clients"]
    return {
        client["client_id"]: one["packs"]
        for client in clients
        for one in client["subscriptions"]
        if one["policy"]
    }
