"""Real filters of every u under bursts: words that a query loads, bytes held, false positives.

Figure 7, one point at a time: a point is one stdc and one repeat. Its traffic goes into all filters slot by
slot for two windows, so that arrays are wiped and used again; unknown keys are asked for at four moments of
the second window. Points are Spark tasks, or a loop where there is no Spark.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.core.slots import batch
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape, Variant, shape_for
from penstock_lab.sim.traffic import BurstyTraffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from penstock.core.slots.slot_sets import Words

SLOTS: Final = 64
HASHES: Final = 4
BITS: Final = 1024 * 48 * 256
"""12 Mbit, as the paper writes them."""
ARRIVALS: Final = 1 << 17
ARRAYS: Final = (1, 2, 4, 8, 16, 32, 64)
MOMENTS: Final = (79, 95, 111, 127)
"""Slots of the second window after which filters are asked; the last one ends a block, whatever u."""
COSTED: Final = 500
"""Keys whose queries are counted."""


@dataclass(frozen=True, slots=True)
class BurstPoint:
    """One point of Figure 7: the parameters of one run."""

    stdc: float
    seed: int
    asked: int
    """Unknown keys that are looked for."""
    coarse: int = SLOTS
    """Coarse coefficients of the traffic."""


@dataclass(frozen=True, slots=True)
class FalsePositives:
    """Result of one filter at one point."""

    stdc: float
    coarse: int
    arrays: int
    paid: bool
    joint: float
    """Probability that an unknown key is found in some slot, from the bits set; mean of the moments."""
    last: float
    """The probability at the last moment, when no array holds an expired slot."""
    asked: int
    hits: int
    """Unknown keys that were found."""


def shape(arrays: int, *, paid: bool) -> Shape:
    """Return the shape of the paper's filter with u arrays."""
    return shape_for(Variant.RBF, slots=SLOTS, bits=BITS, arrays=arrays, hashes=HASHES, spare_paid=paid)


def measured(point: BurstPoint) -> Iterator[FalsePositives]:
    """Move every filter through two windows of this point's traffic, and ask it in the second one."""
    dice = np.random.default_rng((point.seed, round(1_000 * point.stdc), point.coarse))
    levels = (ARRIVALS // point.coarse).bit_length() - 1
    traffic = BurstyTraffic(stdc=point.stdc, coarse=point.coarse, levels=levels)
    loads = [load for _ in range(2) for load in traffic.arrivals(dice, count=ARRIVALS, slots=SLOTS)]
    keys = np.split(dice.integers(0, 1 << 64, size=2 * ARRIVALS, dtype=np.uint64), np.cumsum(loads)[:-1])
    strangers = dice.integers(0, 1 << 64, size=point.asked, dtype=np.uint64)
    for paid in (False, True):
        for arrays in ARRAYS:
            # With one group there is no spare to pay for: it is the same filter, which is not queried twice.
            asked = strangers[:0] if paid and arrays == SLOTS else strangers
            filtered = RefreshingFilter(shape(arrays, paid=paid))
            joints, hits = [], 0
            for slot, arriving in enumerate(keys):
                filtered.advance(slot)
                filtered.insert_many(arriving, slot)
                if slot in MOMENTS:
                    joints.append(joint_of(filtered))
                    part = asked[MOMENTS.index(slot) :: len(MOMENTS)]
                    hits += int(np.count_nonzero(filtered.query_many(part)))
            yield FalsePositives(
                point.stdc, point.coarse, arrays, paid, fmean(joints), joints[-1], len(asked), hits
            )


def joint_of(filtered: RefreshingFilter) -> float:
    """Return the joint false positive rate from the bits set: the limit of asking for many unknown keys."""
    fills = filtered.fills()
    groups, held = filtered.shape.groups, filtered.shape.held
    live = range(filtered.oldest, filtered.newest + 1)
    each = np.array([fills[slot // groups % held] for slot in live]) ** filtered.shape.hashes
    return float(-np.expm1(np.log1p(-each).sum()))


class _CountedWords(np.ndarray[Any, np.dtype[np.uint64]]):
    """The words of a filter, which count how many of them queries load."""

    loaded = 0

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.take:
            self.loaded += len(args[1])
        return func(*(one.view(np.ndarray) if one is self else one for one in args), **kwargs)


@dataclass(slots=True)
class _Counted:
    """A filter as queries of many keys see it (`batch.FilterBits`), its words counted."""

    shape: Shape
    words: Words
    oldest: int
    newest: int


def words_loaded(arrays: int) -> tuple[float, float]:
    """Return the words that a query loads for a key that is in every slot, and for one that is in none."""
    filtered = RefreshingFilter(shape(arrays, paid=False), start=SLOTS - 1)
    dice = np.random.default_rng(1)
    known, unknown = (dice.integers(0, 1 << 64, size=COSTED, dtype=np.uint64) for _ in range(2))
    for slot in range(SLOTS):
        filtered.insert_many(known, slot)
    found = []
    for keys in (known, unknown):
        words = filtered.words.view(_CountedWords)
        batch.query(_Counted(filtered.shape, words, filtered.oldest, filtered.newest), keys)
        found.append(words.loaded / COSTED)
    return found[0], found[1]


def spare_share(arrays: int) -> tuple[float, float]:
    """Return what part of a filter does not hold the u arrays: of its bits in use, and of its memory."""
    filtered = RefreshingFilter(shape(arrays, paid=False))
    wanted = filtered.shape.positions * arrays
    return 1 - wanted / filtered.shape.bits, 1 - wanted / (8 * filtered.words.nbytes)


def here(points: list[BurstPoint], told: Callable[[int], None]) -> list[FalsePositives]:
    """Measure one point after the other in this process."""
    found: list[FalsePositives] = []
    for number, point in enumerate(points):
        told(number)
        found += measured(point)
    return found


def on_spark(spark: SparkSession, points: list[BurstPoint]) -> list[FalsePositives]:
    """Measure each point as a Spark task."""
    import pyarrow as pa  # noqa: PLC0415  # comes with Spark

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for some in batches:
            for row in some.to_pylist():
                found: list[dict[str, Any]] = [asdict(one) for one in measured(BurstPoint(**row))]
                yield pa.RecordBatch.from_pylist(found)

    rows = [tuple(asdict(point).values()) for point in points]
    frame = spark.createDataFrame(rows, "stdc double, seed bigint, asked bigint, coarse bigint")
    done = frame.repartition(len(points)).mapInArrow(
        work,
        "stdc double, coarse bigint, arrays bigint, paid boolean, joint double, last double, asked bigint, "
        "hits bigint",
    )
    return [FalsePositives(**row.asDict()) for row in done.collect()]
