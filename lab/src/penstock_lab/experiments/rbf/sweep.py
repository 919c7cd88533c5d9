"""Figure 7, one point at a time: bursty arrivals into real filters of every u, queried for unknown keys.

A point is one stdc and one repeat. Its traffic goes into all filters; points are Spark tasks, or a loop where
there is no Spark.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape, Variant, shape_for
from penstock_lab.sim.traffic import BurstyTraffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

SLOTS: Final = 64
HASHES: Final = 4
BITS: Final = 1024 * 48 * 256
"""12 Mbit, as the paper writes them."""
ARRIVALS: Final = 1 << 17
ARRAYS: Final = (1, 2, 4, 8, 16, 32, 64)


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
    """Probability that an unknown key is found in some slot, from the bits that are set."""
    asked: int
    hits: int
    """Unknown keys that were found."""


def shape(arrays: int, *, paid: bool) -> Shape:
    """Return the shape of the paper's filter with u arrays."""
    return shape_for(Variant.RBF, slots=SLOTS, bits=BITS, arrays=arrays, hashes=HASHES, spare_paid=paid)


def measured(point: BurstPoint) -> Iterator[FalsePositives]:
    """Fill every filter with this point's traffic up to the moment when its spare is empty, and query it."""
    dice = np.random.default_rng((point.seed, round(1_000 * point.stdc), point.coarse))
    levels = (ARRIVALS // point.coarse).bit_length() - 1
    traffic = BurstyTraffic(stdc=point.stdc, coarse=point.coarse, levels=levels)
    loads = traffic.arrivals(dice, count=ARRIVALS, slots=SLOTS)
    slots = np.repeat(np.arange(SLOTS), loads)
    keys = dice.integers(0, 1 << 64, size=ARRIVALS, dtype=np.uint64)
    strangers = dice.integers(0, 1 << 64, size=point.asked, dtype=np.uint64)
    for paid in (False, True):
        for arrays in ARRAYS:
            # With one group there is no spare to pay for: it is the same filter, which is not queried twice.
            asked = strangers[:0] if paid and arrays == SLOTS else strangers
            filtered = RefreshingFilter(shape(arrays, paid=paid), start=SLOTS - 1)
            filtered.insert_many(keys, slots)
            hits = int(np.count_nonzero(filtered.query_many(asked)))
            yield FalsePositives(point.stdc, point.coarse, arrays, paid, joint_of(filtered), len(asked), hits)


def joint_of(filtered: RefreshingFilter) -> float:
    """Return the joint false positive rate from the bits set: the limit of asking for many unknown keys."""
    fills = filtered.fills()
    groups, held = filtered.shape.groups, filtered.shape.held
    live = range(filtered.oldest, filtered.newest + 1)
    each = np.array([fills[slot // groups % held] for slot in live]) ** filtered.shape.hashes
    return float(-np.expm1(np.log1p(-each).sum()))


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
        for batch in batches:
            for row in batch.to_pylist():
                found: list[dict[str, Any]] = [asdict(one) for one in measured(BurstPoint(**row))]
                yield pa.RecordBatch.from_pylist(found)

    rows = [tuple(asdict(point).values()) for point in points]
    frame = spark.createDataFrame(rows, "stdc double, seed bigint, asked bigint, coarse bigint")
    done = frame.repartition(len(points)).mapInArrow(
        work,
        "stdc double, coarse bigint, arrays bigint, paid boolean, joint double, asked bigint, hits bigint",
    )
    return [FalsePositives(**row.asDict()) for row in done.collect()]
