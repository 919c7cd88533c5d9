"""Measures what each level of a policy keeps on parts of a recorded stream, with the compiled policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as sf

from penstock.core.backtest.holding import HoldingError
from penstock.pipeline.compile.sequential import VALUE, dead_band
from penstock.pipeline.compile.transforms import effect, pack
from penstock.pipeline.compile.verdicts import PLACE, column
from penstock.pipeline.jobs.advise.profile import LEARN, numbers
from penstock.policy import paths
from penstock.policy.filters import Delta
from penstock.policy.nodes import read_by
from penstock.policy.paths import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, Row, WindowSpec

    from penstock.pipeline.jobs.advise.profile import AdviceRequest
    from penstock.policy.nodes import Policy

LEVEL: Final = "penstock_level"
_SUMS: Final = ("n", "squares", "largest", "unheld")


@dataclass(frozen=True, slots=True)
class LevelResult:
    """Result of a level."""

    kept: float
    """Share of events it keeps."""
    items: float
    """Events kept and digests, per event: the load of a link."""
    errors: dict[str, HoldingError]
    """Error of the held value, by numeric attribute, delay aside; none if queues hold several sources."""


def _order(asked: AdviceRequest, frame: DataFrame) -> list[str]:
    seq = asked.columns.get("$seq", "seq")
    return ["ts", seq] if seq in frame.columns else ["ts"]


def slim(part: DataFrame, policy: Policy, asked: AdviceRequest) -> DataFrame:
    """Only the columns a policy needs, and the numbers: filters that gather queues gather whole rows."""
    sources = asked.sources(part)
    read: list[str] = []
    for text in read_by(policy):
        path = paths.parse(text)
        found = sources.typed(path) if path.source is Source.PAYLOAD else sources.envelope(text)
        whole = [] if found is None else _around(found.name, part)
        if not whole:
            return part  # inside a parsed payload, or made of several columns
        read += whole
    numeric = [numbers(place) for place in range(len(asked.attributes))]
    kept = {*asked.queue, LEARN, *_order(asked, part), *asked.columns.values(), "sender", *read, *numeric}
    return part.select(*(column(name) for name in part.columns if name in kept))


def _around(name: str, part: DataFrame) -> list[str]:
    """Columns that may be, or contain, something of this name."""
    return [one for one in part.columns if name == one or name.startswith(f"{one}.")]


def packed_by(policy: Policy, asked: AdviceRequest, level: int | str) -> Callable[[DataFrame], DataFrame]:
    """Transform that packs blocks at a level, or at the levels of a column.

    With a column the frame has its rows once for each level, side by side: blocks are parted already.
    """

    def packed(frame: DataFrame) -> DataFrame:
        key = [*asked.queue, LEARN, *([level] if isinstance(level, str) else [])]
        order = _order(asked, frame)
        return frame.transform(
            pack(
                policy,
                key=key,
                order=order,
                level=level,
                schema=frame.schema,
                now=0,
                attributes=asked.columns,
                parted=isinstance(level, str),
            )
        )

    return packed


def kept_shares(part: DataFrame, policy: Policy, asked: AdviceRequest) -> list[float]:
    """Share of events that each level keeps."""
    needed = slim(part, policy, asked).drop(*(numbers(place) for place in range(len(asked.attributes))))
    counted = needed.transform(
        effect(
            policy,
            key=asked.queue,
            order=_order(asked, part),
            schema=needed.schema,
            now=0,
            attributes=asked.columns,
        )
    ).collect()
    rows = sorted(counted, key=lambda row: (row["level"], row["position"]))
    events = left = rows[0]["seen"]
    found: list[float] = []
    for level in range(1, policy.highest + 1):
        left -= sum(row["dropped"] for row in rows if row["level"] == level)
        found.append(left / events if events else 1.0)
    return found


def kept_by_bands(part: DataFrame, widths: Sequence[float], asked: AdviceRequest, place: int) -> list[float]:
    """Share of events that each dead band keeps by itself; queues are gathered once for all bands."""
    sources = asked.sources(part)
    row = sf.struct(
        sources.ts().alias("ts"),
        sources.seq().alias("seq"),
        sf.lit(0).alias(PLACE),
        sf.col(numbers(place)).alias(VALUE),
    )
    queues = part.groupBy(*map(column, asked.queue)).agg(sf.sort_array(sf.collect_list(row)).alias("rows"))
    unread = sf.size(sf.filter(sf.col("rows"), lambda one: one.getField(VALUE).isNull()))
    kept = [sf.size(dead_band(sf.col("rows"), Delta(change=width))) + unread for width in widths]
    sums = queues.select(sf.size("rows").alias("events"), sf.array(*kept).alias("kept")).agg(
        sf.sum("events"), *(sf.sum(sf.get("kept", number)) for number in range(len(widths)))
    )
    found = sums.first()
    assert found is not None
    return [one / found[0] for one in found[1:]]


def measure(
    parts: DataFrame, policy: Policy, asked: AdviceRequest, numeric: Sequence[str]
) -> tuple[tuple[LevelResult, ...], tuple[LevelResult, ...]]:
    """Share kept and error of the held value by level, for the part learned from and for the rest.

    A digest gives the exact distance of its values from any other: the sum of squared distances from v is
    M2 + n·(mean − v)², and the largest distance is at the minimum or maximum. Rows are shuffled once, and
    repeated for each level behind the shuffle.
    """
    blocks = slim(parts, policy, asked).repartition(*map(column, [*asked.queue, LEARN]))
    levels = sf.explode(sf.sequence(sf.lit(1), sf.lit(policy.highest))).alias(LEVEL)
    packed = blocks.select("*", levels).transform(packed_by(policy, asked, LEVEL))
    queue = Window.partitionBy(*map(column, [*asked.queue, LEARN, LEVEL])).orderBy("place")
    so_far = queue.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    places = [asked.attributes.index(name) for name in numeric]
    sums = [one for place in places for one in _error_sums(place, asked.attributes[place], so_far)]
    kept = (sf.col("kind") == "event").cast("int")
    staged = packed.select(
        LEARN, LEVEL, kept.alias("kept"), sf.coalesce("digest.count", kept).alias("events"), *sums
    )
    totals = staged.groupBy(LEARN, LEVEL).agg(
        sf.count(sf.lit(1)).alias("items"),
        *(
            (sf.max if name.startswith("largest") else sf.sum)(name).alias(name)
            for name in ("kept", "events", *(f"{kind}{place}" for place in places for kind in _SUMS))
        ),
    )
    found: dict[bool, list[LevelResult]] = {True: [], False: []}
    for row in sorted(totals.collect(), key=lambda row: int(row[LEVEL])):
        errors = {asked.attributes[place]: _error(row, place) for place in places}
        found[row[LEARN]].append(
            LevelResult(row["kept"] / row["events"], row["items"] / row["events"], errors)
        )
    return tuple(found[True]), tuple(found[False])


def _error(row: Row, place: int) -> HoldingError:
    n, squares, largest, unheld = (row[f"{kind}{place}"] or 0 for kind in _SUMS)
    return HoldingError(n, max(0.0, squares), float(largest), unheld)


def _error_sums(place: int, name: str, so_far: WindowSpec) -> list[Column]:
    own = sf.col(numbers(place))
    held = sf.last(own, ignorenulls=True).over(so_far)
    told = sf.get(sf.filter(sf.col("digest.attributes"), lambda one: one.getField("name") == name), 0)
    n = sf.coalesce(told.getField("n"), sf.lit(0))
    off = told.getField("total") / n - held
    squares = sf.when(n > 0, told.getField("squares") + n * off * off)
    largest = sf.when(
        n > 0,
        sf.greatest(sf.abs(told.getField("least") - held), sf.abs(told.getField("most") - held)),
    )
    known = held.isNotNull()
    return [
        (sf.when(own.isNotNull(), 1).otherwise(0) + sf.when(known, n).otherwise(0)).alias(f"n{place}"),
        squares.alias(f"squares{place}"),
        largest.alias(f"largest{place}"),
        sf.when(known, 0).otherwise(n).alias(f"unheld{place}"),
    ]
