"""In which of 64 slots was a flow: our filters against one filter or set for each slot.

Every contestant holds the same pairs of key and slot and answers for the same keys, half of them known; the
benchmark checks that known keys are found before it takes time. A filter of ours has 16 bits for each pair;
rivals are made for the false positives per slot which that gives, and choose their size themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock import limits
from penstock.core.slots import formulas
from penstock.core.slots.exact import ExactTable
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape, Variant, shape_for
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow, interleaved_ns
from penstock_lab.bench.slots import rivals
from penstock_lab.bench.slots.rivals import ArrayMajor
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.slots.slot_sets import Words
    from penstock_lab.bench.result import Progress

NAME: Final = "slots"
SHOWS: Final = Shows(live=True)
SLOTS: Final = 64
PER_SLOT: Final = 2_048
QUICK_PER_SLOT: Final = 512
BITS_PER_PAIR: Final = 16
HASHES: Final = 8
BATCH: Final = 100_000
"""Keys of one call of ours."""
SINGLE: Final = 500
"""Keys of one call of contestants that take one key at a time."""
STRANGERS: Final = 200_000
GOAL: Final = 15.0
"""Goal for a batch of complete answers, against the fastest filters, one for each slot."""

VARIANTS: Final = (
    ("RBF 64 × 1 (MSBF)", Variant.RBF, 64),
    ("RBF 8 × 8", Variant.RBF, 8),
    ("MMBF 8 × 8", Variant.MMBF, 8),
    ("MHBF 1 × 64", Variant.MHBF, 1),
)


class SlotPairs:
    """The pairs of key and slot that every contestant holds, and the keys that it is asked for."""

    def __init__(self, per_slot: int) -> None:
        dice = np.random.default_rng(11)
        self.per_slot = per_slot
        self.keys: Words = dice.integers(1, 1 << 62, size=SLOTS * per_slot, dtype=np.uint64)
        self.slots = np.repeat(np.arange(SLOTS), per_slot)
        self.strangers: Words = dice.integers(1 << 62, 1 << 63, size=STRANGERS, dtype=np.uint64)
        self.asked = np.concatenate([dice.choice(self.keys, BATCH // 2), self.strangers[: BATCH // 2]])
        dice.shuffle(self.asked)
        self.few: list[int] = self.asked[:SINGLE].tolist()
        self.lists: list[list[int]] = self.keys.reshape(SLOTS, per_slot).tolist()

    def shape(self, variant: Variant, arrays: int) -> Shape:
        return shape_for(
            variant, slots=SLOTS, bits=len(self.keys) * BITS_PER_PAIR, arrays=arrays, hashes=HASHES
        )


@dataclass(frozen=True, slots=True)
class FilterContestant:
    """A filter or set filled with the pairs, and how to fill and query it."""

    name: str
    ask: Callable[[], object]
    asks: int
    """Keys of one call of `ask`."""
    put: Callable[[], object]
    puts: int
    memory_bytes: int = 0
    falsely: float = 0.0
    """Share of unknown keys that are found in some slot."""
    is_filter: bool = True


def measure(*, quick: bool, progress: Progress) -> BenchmarkResult:
    """Time all contestants in one run."""
    start = perf_counter()
    rounds = 5 if quick else 15
    load = SlotPairs(QUICK_PER_SLOT if quick else PER_SLOT)
    progress(0, 3, "filling")
    ours = [*(_filter(name, load, load.shape(variant, u)) for name, variant, u in VARIANTS), _exact(load)]
    theirs = [_rival(rival, load) for rival in rivals.rivals()]
    singles, compiled = _singles(load), _compiled(load)
    everyone = [*ours, *singles, *compiled, *theirs]
    progress(1, 3, "complete answers")
    asked = interleaved_ns({one.name: one.ask for one in everyone}, rounds=rounds)
    progress(2, 3, "inserts")
    put = interleaved_ns({one.name: one.put for one in everyone}, rounds=rounds)
    progress(3, 3, "done")
    answers = {one.name: 1e3 * one.asks / asked[one.name] for one in everyone}
    inserts = {one.name: 1e3 * one.puts / put[one.name] for one in everyone}
    best = max((one for one in theirs if one.is_filter), key=lambda one: answers[one.name]).name
    rows = [
        *_rates("complete answers", answers, best, goals={ours[0].name: GOAL}),
        *(_against(one, answers, one.name.removeprefix("numba: ")) for one in compiled),
        *_rates("inserts", inserts, best, goals={}),
        *_sizes([*ours, *theirs], best),
        *_falsehoods([*ours, *theirs], load),
        *_one_slot(load, rounds),
        _layout(load, rounds),
        _advance(load, rounds),
    ]
    return BenchmarkResult(
        NAME,
        tuple(rows),
        perf_counter() - start,
        note=f"{SLOTS} slots of {load.per_slot} keys, {BITS_PER_PAIR} bits a pair, k = {HASHES}, half of the "
        f"keys asked for are known; CPU time, median of {rounds} interleaved rounds"
        + ("" if compiled else "; numba is not installed: pip install 'penstock[fast]'"),
    )


# -- contestants ---------------------------------------------------------------------------------------------


def _filter(name: str, load: SlotPairs, shape: Shape) -> FilterContestant:
    filtered = RefreshingFilter(shape, start=SLOTS - 1)
    filtered.insert_many(load.keys, load.slots)
    _check(filtered.query_many(load.keys), load)
    falsely = np.count_nonzero(filtered.query_many(load.strangers)) / STRANGERS
    scratch = RefreshingFilter(shape, start=SLOTS - 1)
    return FilterContestant(
        name,
        partial(filtered.query_many, load.asked),
        BATCH,
        partial(scratch.insert_many, load.keys, load.slots),
        len(load.keys),
        filtered.words.nbytes,
        float(falsely),
    )


def _exact(load: SlotPairs) -> FilterContestant:
    table = ExactTable(slots=SLOTS, start=SLOTS - 1)
    table.insert_many(load.keys, load.slots)
    _check(table.query_many(load.keys), load)
    scratch = ExactTable(slots=SLOTS, start=SLOTS - 1)
    return FilterContestant(
        "exact table",
        partial(table.query_many, load.asked),
        BATCH,
        partial(scratch.insert_many, load.keys, load.slots),
        len(load.keys),
        table.statistics().memory_bytes,
        float(np.count_nonzero(table.query_many(load.strangers)) / STRANGERS),
    )


def _singles(load: SlotPairs) -> list[FilterContestant]:
    """Return contestants queried one key at a time, as a node does."""
    filtered = RefreshingFilter(load.shape(Variant.RBF, SLOTS), start=SLOTS - 1)
    table = ExactTable(slots=SLOTS, start=SLOTS - 1)
    found = []
    many: list[int] = load.asked[: 2 * limits.SLOT_REMEMBERED].tolist()
    for name, sets, keys in (
        ("RBF 64 × 1, one by one, new flows", filtered, many),
        ("RBF 64 × 1, one by one, the same flows again", filtered, load.few),
        ("exact table, one by one", table, load.few),
    ):
        sets.insert_many(load.keys, load.slots)
        ask, put = partial(_each, sets.query, keys), partial(_each, partial(sets.insert, slot=5), keys)
        found.append(FilterContestant(name, ask, len(keys), put, len(keys)))
    return found


def _each(call: Callable[[int], object], keys: list[int]) -> list[object]:
    return [call(key) for key in keys]


def _compiled(load: SlotPairs) -> list[FilterContestant]:
    """Return contestants whose batches run as machine code, where numba is installed."""
    if find_spec("numba") is None:
        return []
    found = []
    for name, variant, arrays in VARIANTS[:2]:
        filtered = RefreshingFilter(load.shape(variant, arrays), start=SLOTS - 1)
        filtered.insert_many(load.keys, load.slots, compiled=True)
        assert np.array_equal(filtered.query_many(load.asked, compiled=True), filtered.query_many(load.asked))
        ask = partial(filtered.query_many, load.asked, compiled=True)
        put = partial(filtered.insert_many, load.keys, load.slots, compiled=True)
        found.append(FilterContestant(f"numba: {name}", ask, BATCH, put, len(load.keys)))
    return found


def _rival(rival: rivals.Rival, load: SlotPairs) -> FilterContestant:
    wanted = formulas.per_set(
        positions=load.per_slot * BITS_PER_PAIR, groups=1, hashes=HASHES, per_slot=load.per_slot
    )
    slots = rival.filled(load.lists, wanted)
    for slot in (0, SLOTS - 1):
        found = rivals.answers(slots, load.lists[slot][:50])
        assert all(mask >> slot & 1 for mask in found), rival.name
    asked = load.strangers[: STRANGERS // 50].tolist()
    falsely = sum(map(bool, rivals.answers(slots, asked))) / len(asked)
    scratch: list[Any] = [rival.make(load.per_slot, wanted)]

    def put() -> None:
        scratch[0] = rival.make(load.per_slot, wanted)
        rivals.fill(scratch[0], load.lists[0])

    return FilterContestant(
        rival.name,
        lambda: rivals.answers(slots, load.few),
        SINGLE,
        put,
        load.per_slot,
        sum(rival.bytes_of(one) for one in slots),
        falsely,
        rival.is_filter,
    )


def _check(masks: Words, load: SlotPairs) -> None:
    """Fail unless known keys are found: timing wrong answers would mean nothing."""
    assert (masks >> load.slots.astype(np.uint64) & np.uint64(1)).all()


# -- rows ----------------------------------------------------------------------------------------------------


def _rates(what: str, rates: dict[str, float], rival: str, *, goals: dict[str, float]) -> list[BenchmarkRow]:
    return [
        BenchmarkRow(
            f"{what}: {name}",
            rate,
            "M/s",
            rival,
            rates[rival],
            rate / rates[rival],
            goals.get(name),
            fails_if="a query looks into the slots one after the other, as one filter for each slot must",
        )
        for name, rate in rates.items()
        if name != rival
    ]


def _against(one: FilterContestant, rates: dict[str, float], other: str) -> BenchmarkRow:
    """Rows of machine code against numpy."""
    ratio = rates[one.name] / rates[other]
    return BenchmarkRow(f"against numpy: {one.name}", rates[one.name], "M/s", other, rates[other], ratio)


def _sizes(everyone: list[FilterContestant], rival: str) -> list[BenchmarkRow]:
    theirs = next(one.memory_bytes for one in everyone if one.name == rival)
    return [
        BenchmarkRow(
            f"memory: {one.name}",
            one.memory_bytes / 1e3,
            "KB",
            rival,
            theirs / 1e3,
            theirs / one.memory_bytes,
            less=True,
        )
        for one in everyone
        if one.name != rival
    ]


def _falsehoods(everyone: list[FilterContestant], load: SlotPairs) -> list[BenchmarkRow]:
    """Rows of joint false positives: measured against the formula; a larger ratio means fewer."""
    said = {
        name: formulas.expected(load.shape(variant, arrays), per_slot=load.per_slot)
        for name, variant, arrays in VARIANTS
    }
    return [
        BenchmarkRow(
            f"joint false positives: {one.name}",
            100 * one.falsely,
            "%",
            "formula" if one.name in said else "",
            100 * said[one.name] if one.name in said else None,
            said[one.name] / one.falsely if one.name in said and one.falsely else None,
            less=True,
        )
        for one in everyone
    ]


def _one_slot(load: SlotPairs, rounds: int) -> list[BenchmarkRow]:
    """Rows of a plain Bloom filter: one slot, against one rbloom filter."""
    shape = shape_for(Variant.SBF, slots=1, bits=load.per_slot * BITS_PER_PAIR, hashes=HASHES)
    filtered = RefreshingFilter(shape)
    filtered.insert_many(load.keys[: load.per_slot], 0)
    said = formulas.expected(shape, per_slot=load.per_slot)
    rival = rivals.rivals()[0]
    one = rival.filled(load.lists[:1], said)
    taken = interleaved_ns(
        {
            "ours": partial(filtered.query_many, load.asked),
            "rival": lambda: rivals.answers(one, load.few),
        },
        rounds=rounds,
    )
    ours, theirs = 1e3 * BATCH / taken["ours"], 1e3 * SINGLE / taken["rival"]
    found = int(np.count_nonzero(filtered.query_many(load.strangers))) / STRANGERS
    return [
        BenchmarkRow("one slot: SBF", ours, "M/s", "1 rbloom", theirs, ours / theirs),
        BenchmarkRow(
            "false positives: SBF",
            100 * found,
            "%",
            "formula",
            100 * said,
            said / found if found else None,
            less=True,
        ),
    ]


def _layout(load: SlotPairs, rounds: int) -> BenchmarkRow:
    """Row of our layout against the same bits stored array by array."""
    filtered = RefreshingFilter(load.shape(Variant.RBF, SLOTS), start=SLOTS - 1)
    filtered.insert_many(load.keys, load.slots)
    other = ArrayMajor(filtered)
    few = load.asked[: BATCH // 10]
    assert np.array_equal(other.query_many(few), filtered.query_many(few))
    calls = {"ours": partial(filtered.query_many, few), "other": partial(other.query_many, few)}
    taken = interleaved_ns(calls, rounds=rounds)
    ours, theirs = (1e3 * len(few) / taken[name] for name in calls)
    return BenchmarkRow(
        "position-major layout, numpy", ours, "M/s", "array-major, numpy", theirs, ours / theirs
    )


def _advance(load: SlotPairs, rounds: int) -> BenchmarkRow:
    """Row of the cost of a new slot: one array is wiped, which is one bit in every word."""
    filtered = RefreshingFilter(load.shape(Variant.RBF, SLOTS))

    def step() -> None:
        filtered.advance(filtered.newest + 1)

    taken = interleaved_ns({"advance": step}, rounds=rounds)["advance"]
    return BenchmarkRow("a new slot: RBF 64 × 1", taken / 1e3, "µs")
