"""The paper's storage argument (§4): what a flow costs in a filter, in the exact table and as an entry.

Flows of constant rate run through two windows, slot by slot, so that arrays are wiped and used again. Then
the filter and the exact table are asked for the slots of every flow, and of flows that never came: an answer
of the filter is wrong if it has other slots than the exact table. Beside it the control that has nothing but
filters (`core.slots.unlisted`): which packets it takes for packets in their slots.
"""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.cli.html_page import Table
from penstock.core.slots import formulas
from penstock.core.slots.control import FlowControl
from penstock.core.slots.exact import ExactTable
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.lanes import Lane
from penstock.core.slots.options import ControlOptions
from penstock.core.slots.shape import Shape
from penstock_lab.experiments.result import Claim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.slots.slot_sets import Words

FLOWS: Final = (10_000, 100_000, 1_000_000)
SLOTS: Final = 64
PERIODS: Final = (8, 32)
"""Shortest and longest period of a flow, in slots: it comes in two to eight slots of a window."""
BITS_PER_PAIR: Final = 24
"""Bits of a filter for each pair of flow and slot that is live at a time."""
HASHES: Final = 8
STRANGERS: Final = 200_000
ENTRIES: Final = 2_000
"""Entries of the node's table whose memory is measured; it is the same for each."""
CACHING: Final = ("slots/filter.py", "slots/slot_sets.py")
SLOT_US: Final = 10_000
CONTROLLED: Final = 2_000
"""Flows of the control without entries."""
PER_FLOW: Final = sum(SLOTS / period for period in range(PERIODS[0], PERIODS[1] + 1)) / (
    PERIODS[1] - PERIODS[0] + 1
)
"""Live slots of a flow on average."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory that a filter and a table take for a number of flows, and how many answers are wrong."""

    flows: int
    filter_bytes: int
    table_bytes: int
    known_wrong: float
    """Share of the flows for which the filter and the exact table differ."""
    strangers_found: float
    """Share of flows that never came and are found in some slot."""
    expected: float
    """`strangers_found` by the formula, for the numbers that came in each slot."""

    @property
    def per_flow(self) -> float:
        """Bytes of the filter for each flow."""
        return self.filter_bytes / self.flows

    @property
    def table_per_flow(self) -> float:
        """Bytes of the exact table for each flow."""
        return self.table_bytes / self.flows

    @property
    def allowed(self) -> float:
        """The formula and three standard errors of the sample of unknown flows."""
        return _with_errors(self.expected, STRANGERS)

    @property
    def as_expected(self) -> bool:
        """Whether no more answers are wrong than the formula and chance explain."""
        known = _with_errors(self.expected, self.flows)
        return self.strangers_found <= self.allowed and self.known_wrong <= known


def _with_errors(share: float, sample: int) -> float:
    return share + 3 * sqrt(share / sample) + 1 / sample


@dataclass(frozen=True, slots=True)
class Control:
    """Packets that the control without entries takes for packets in their slots."""

    steady: float
    """Share of the packets of constant-rate flows, from their sixth on."""
    random: float
    """Share of packets at random times."""


def shape_for_flows(flows: int) -> Shape:
    """The default shape, 64 × 1, with enough bits for a number of flows."""
    positions = max(64, round(flows * PER_FLOW / SLOTS * BITS_PER_PAIR))
    return Shape(arrays=SLOTS, groups=1, hashes=HASHES, positions=positions)


def measure(flows: int, *, seed: int, shape: Shape | None = None) -> Storage:
    """Run a number of flows through two windows of a filter and of the exact table."""
    dice = np.random.default_rng((seed, flows))
    keys: Words = dice.integers(1, 1 << 62, size=flows, dtype=np.uint64)
    periods = dice.integers(PERIODS[0], PERIODS[1] + 1, size=flows)
    phases = dice.integers(0, periods)
    filtered, table = RefreshingFilter(shape or shape_for_flows(flows)), ExactTable(slots=SLOTS)
    per_slot = []
    for slot in range(2 * SLOTS):
        coming = keys[(slot - phases) % periods == 0]
        per_slot.append(len(coming))
        for sets in (filtered, table):
            sets.advance(slot)
            sets.insert_many(coming, slot)
    strangers: Words = dice.integers(1 << 62, 1 << 63, size=STRANGERS, dtype=np.uint64)
    wrong = filtered.query_many(keys) != table.query_many(keys)
    return Storage(
        flows=flows,
        filter_bytes=filtered.statistics().memory_bytes,
        table_bytes=table.statistics().memory_bytes,
        known_wrong=float(wrong.mean()),
        strangers_found=float(np.count_nonzero(filtered.query_many(strangers))) / STRANGERS,
        expected=formulas.expected_of_bursts(filtered.shape, per_slot[SLOTS:]),
    )


def entry_bytes() -> float:
    """Memory of one entry of the node's table, for a flow that is served."""
    control = FlowControl(ControlOptions(slot_us=SLOT_US, capacity=1 << 20, flows=ENTRIES), now_us=0)
    tracemalloc.start()
    try:
        for number in range(ENTRIES):
            control.tell(f"client-{number}", "a/topic", 10 * SLOT_US, now_us=0)
        for arrival in range(3):
            for number in range(ENTRIES):
                control.arrive(f"client-{number}", "a/topic", now_us=10 * SLOT_US * arrival)
        # Filters keep the positions of the last keys they were asked for, which is no part of an entry.
        others = [tracemalloc.Filter(inclusive=False, filename_pattern=f"*/{name}") for name in CACHING]
        taken = sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(others).traces)
    finally:
        tracemalloc.stop()
    assert control.served == ENTRIES
    return taken / ENTRIES


def control_without_entries(*, seed: int, flows: int) -> Control:
    """Send packets of constant-rate flows, and as many at random times, through filters alone."""
    dice = np.random.default_rng((seed, flows, 1))
    positions = (
        4 * shape_for_flows(flows).positions
    )  # as many flows again, and a packet is expected in 3 slots
    options = ControlOptions(slot_us=SLOT_US, capacity=1 << 20, flows=1, positions=positions, hashes=HASHES)
    control = FlowControl(options, now_us=0)
    control.tell("the only", "entry", 10 * SLOT_US, now_us=0)
    periods = dice.integers(PERIODS[0], PERIODS[1] // 2 + 1, size=flows) * SLOT_US
    steady = [
        (round(at_us), f"s{number}", arrival)
        for number, period_us in enumerate(periods)
        for arrival, at_us in enumerate(
            np.arange(dice.uniform(0, period_us), 2 * SLOTS * SLOT_US, period_us)
            + dice.normal(0, 0.1 * SLOT_US)
        )
    ]
    random = [
        (round(at_us), f"r{number}", 0)
        for number in range(flows)
        for at_us in dice.uniform(0, 2 * SLOTS * SLOT_US, size=10)
    ]
    ahead = {"s": [0, 0], "r": [0, 0]}
    for at_us, client, arrival in sorted(steady + random):
        lane = control.arrive(client, "t", now_us=max(0, at_us))
        if client[0] == "r" or arrival >= 5:
            ahead[client[0]][0] += lane is Lane.RESERVED
            ahead[client[0]][1] += 1
    (on_time, of_steady), (mistaken, of_random) = ahead["s"], ahead["r"]
    return Control(on_time / of_steady, mistaken / of_random)


@dataclass(frozen=True, slots=True)
class Argument:
    """All that the storage argument rests on."""

    found: Sequence[Storage]
    """By number of flows, each with a filter made for it."""
    crowded: Storage
    """The fewest flows in the filter made for the most."""
    entry: float
    """Bytes of an entry of the node's table."""
    control: Control

    def claims(self) -> tuple[Claim, ...]:
        """Rows of the result."""
        rows = [claim for one in self.found for claim in self._of(one)]
        return (*rows, self._fixed(), self._controlled())

    def _of(self, one: Storage) -> tuple[Claim, Claim]:
        return (
            Claim(
                f"storage: memory for each of {one.flows:,} flows",
                "storage efficient",
                f"{one.per_flow:.1f} bytes; exact table {one.table_per_flow:.1f}, entry {self.entry:,.0f}",
                ok=one.per_flow < one.table_per_flow < self.entry,
                note=f"{BITS_PER_PAIR} bits for each flow and slot; fails if the filter is not the smallest",
            ),
            Claim(
                f"… and wrong answers, at {one.flows:,} flows",
                f"≤ {one.allowed:.3%} (equation 13 and 3 σ)",
                f"{one.strangers_found:.3%} of unknown flows found, {one.known_wrong:.3%} of known wrong",
                ok=one.as_expected,
                note="fails if arrays are not wiped when slots expire, or if hashes depend on each other",
            ),
        )

    def _fixed(self) -> Claim:
        least, most = self.crowded, self.found[-1]
        return Claim(
            f"storage: one filter from {least.flows:,} to {most.flows:,} flows",
            "costs only a little more storage",
            f"{least.filter_bytes / 1e6:.1f} and {most.filter_bytes / 1e6:.1f} MB, wrong "
            f"{least.strangers_found:.3%} and {most.strangers_found:.3%}; exact table "
            f"{least.table_bytes / 1e6:.1f} and {most.table_bytes / 1e6:.1f} MB",
            ok=most.filter_bytes <= 1.1 * least.filter_bytes < most.table_bytes
            and least.as_expected
            and most.as_expected,
            note="fails if memory grows with the flows, or if more answers are wrong than the formula says",
        )

    def _controlled(self) -> Claim:
        steady, random = self.control.steady, self.control.random
        return Claim(
            "storage: packets that go ahead by the filters alone",
            "those in their slots",
            f"{steady:.1%} of constant-rate flows, {random:.2%} of random packets",
            ok=steady >= 0.95 and random <= 0.02,
            note=f"{CONTROLLED:,} flows of each kind, from the sixth packet on; fails if the history is not "
            "refreshed, or if nothing is reserved",
        )

    def table(self) -> Table:
        """Memory and wrong answers by the number of flows."""
        header = ("flows", "filter B", "exact table B", "entry B", "unknown found", "known wrong", "formula")
        rows = [
            (
                f"{one.flows:,}",
                f"{one.per_flow:.1f}",
                f"{one.table_per_flow:.1f}",
                f"{self.entry:,.0f}",
                f"{one.strangers_found:.3%}",
                f"{one.known_wrong:.3%}",
                f"{one.expected:.3%}",
            )
            for one in self.found
        ]
        return Table("Memory for each flow, and wrong answers", header, tuple(rows))


def argument(found: Sequence[Storage], *, seed: int) -> Argument:
    """Measure what the storage argument needs besides filters made for numbers of flows."""
    crowded = measure(found[0].flows, seed=seed, shape=shape_for_flows(found[-1].flows))
    return Argument(found, crowded, entry_bytes(), control_without_entries(seed=seed, flows=CONTROLLED))
