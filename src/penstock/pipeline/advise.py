"""`advise`: a policy for a reduction budget, learned on one part of a recorded stream, checked on the rest.

split by time ─► learn: profile ─► levels ─► expected
             └─► check: the compiled policy, level by level ─► measured; and the backtest
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as sf

from penstock import limits
from penstock.core.queues import Drain
from penstock.core.queues.holding import Error
from penstock.errors import GoalMissed
from penstock.pipeline import advise_levels as choosing
from penstock.pipeline.advise_profile import LEARN, Profile, numbers, profile, shape, split
from penstock.pipeline.backtest import BASELINES, Candidate, Settings, backtest
from penstock.pipeline.effects import effect
from penstock.pipeline.packing import pack
from penstock.pipeline.verdicts import column
from penstock.policy.builder import drop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, Row, WindowSpec

    from penstock.pipeline.advise_levels import Choice
    from penstock.pipeline.advise_profile import Asked, Shape
    from penstock.pipeline.backtest import Backtest
    from penstock.policy.nodes import Policy

LEVEL: Final = "penstock_level"
_MOST_ITEMS: Final = 0.9
"""Of the events that come in: a queue that lets more through overflows too seldom to be compared."""
_SUMS: Final = ("n", "squares", "largest", "unheld")


@dataclass(frozen=True, slots=True)
class Reached:
    """What a level comes to."""

    kept: float
    """Share of the events it keeps."""
    items: float
    """Events kept and digests, per event: what a link has to carry."""
    errors: dict[str, Error]
    """Of the value held, by numeric attribute, delay aside; none where queues hold several sources."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A policy, and what to expect of it."""

    policy: Policy
    reasons: tuple[tuple[str, ...], ...]
    """By level, a sentence for each filter."""
    expected: tuple[Reached, ...]
    """By level, on what was learned from."""
    measured: tuple[Reached, ...]
    """By level, on the rest."""
    spreads: dict[str, float]
    """Standard deviations of numeric attributes, of the rest."""
    replayed: Backtest
    """The rest, replayed."""
    setting: str
    """How."""
    budget: float

    @property
    def needed(self) -> int | None:
        """The lowest level that is within the budget on the rest; None: there is none."""
        return _needed(self.measured, self.budget)


def _needed(reached: Sequence[Reached], budget: float) -> int | None:
    return next((level for level, one in enumerate(reached, start=1) if one.kept <= budget), None)


def advise(frame: DataFrame, asked: Asked, step: Callable[[int, int, str], None]) -> Advice:
    """Propose a policy for the queues of a frame."""
    parts = split(frame, asked).persist()
    try:
        return _advised(parts, asked, step)
    finally:
        parts.unpersist()


def _advised(parts: DataFrame, asked: Asked, step: Callable[[int, int, str], None]) -> Advice:
    learn, check = parts.where(sf.col(LEARN)), parts.where(~sf.col(LEARN))
    step(0, 4, "looking at the stream")
    whole = shape(learn, asked)
    profiles = [profile(learn, asked, place) for place in range(len(asked.attributes))]
    step(1, 4, "choosing filters")
    levels = _levels(learn, asked, whole, profiles)
    numeric = [one.name for one in profiles if one.numeric]
    policy = choosing.policy(levels, asked, numeric)
    step(2, 4, "checking levels")
    held = [] if choosing.is_mixed(whole) else numeric  # digests of several sources tell nothing about one
    expected = measure(learn, policy, asked, held)
    rest = shape(check, asked)
    measured = measure(check, policy, asked, held)
    step(3, 4, "replaying queues")
    need = expected[(_needed(expected, asked.budget) or policy.highest) - 1].items
    settings = _settings(policy, asked, rest, numeric, need)
    replayed = backtest(_bare(check), settings)
    setting = f"drain {settings.drain.text}, capacity {settings.capacity:,}"
    spreads = {
        name: found.spread.stddev or 0.0
        for name, found in next(iter(replayed.accounts.values())).errors.items()
    }
    reasons = tuple(tuple(choice.reason for choice in level) for level in levels)
    return Advice(policy, reasons, expected, measured, spreads, replayed, setting, asked.budget)


# -- choosing ------------------------------------------------------------------------------------------------


def _levels(learn: DataFrame, asked: Asked, whole: Shape, profiles: Sequence[Profile]) -> list[list[Choice]]:
    """Levels in order of what they cost the receiver; each is tried before the next is thought of."""
    numeric = [one.name for one in profiles if one.numeric]
    levels: list[list[Choice]] = []
    kept = 1.0

    def add(choices: Sequence[Choice | None]) -> None:
        """A level of these, unless it does nothing."""
        nonlocal kept
        level = [choice for choice in choices if choice is not None]
        if not level:
            return
        now = kept_shares(learn, choosing.policy([*levels, level], asked, numeric), asked)[-1]
        if now <= kept * (1 - choosing.LEAST):
            levels.append(level)
            kept = now

    add([choosing.unchanged(one, whole) for one in profiles])
    tried = [[] if choosing.is_mixed(whole) else _tried(learn, asked, one) for one in profiles]
    for target in (asked.budget**0.5, choosing.MARGIN * asked.budget):
        if kept > target:
            add([choosing.conflation(whole, asked, target)])
            add([choosing.band(one, found, target) for one, found in zip(profiles, tried, strict=True)])
    add([_middle(learn, levels, asked, one, place, kept) for place, one in enumerate(profiles)])
    if kept > asked.budget:
        add([choosing.last_resort(asked)])
    if not levels:
        raise GoalMissed(
            f"there is nothing to propose: no filter takes anything, and {asked.budget:g} of "
            f"{asked.capacity:,} events is less than one; give a larger budget or capacity"
        )
    return levels


def _tried(learn: DataFrame, asked: Asked, one: Profile) -> list[tuple[float, float]]:
    """Dead bands and what they keep: a policy with a level for each, in one pass."""
    widths = choosing.bands(one)
    if not widths:
        return []
    levels = [[choosing.Choice(drop(attribute=one.name).delta(width), "")] for width in widths]
    kept = kept_shares(learn, choosing.policy(levels, asked, [one.name]), asked)
    return list(zip(widths, kept, strict=True))


def _middle(
    learn: DataFrame, levels: list[list[Choice]], asked: Asked, one: Profile, place: int, kept: float
) -> Choice | None:
    """The middle of what the levels so far leave: a reserve, or as much of it as the budget still demands."""
    if not kept:
        return None
    outside = min(choosing.OUTSIDE, choosing.MARGIN * asked.budget / kept)
    if not one.numeric:
        return choosing.usual(one, outside)
    left = learn
    if levels:
        policy = choosing.policy(levels, asked, [one.name])
        left = learn.transform(_packed(policy, asked, policy.highest)).where(sf.col("kind") == "event")
    ranks = sf.array(sf.lit(outside / 2), sf.lit(1 - outside / 2))
    found = left.agg(sf.percentile_approx(numbers(place), ranks, 1_000)).first()
    if found is None or found[0] is None:
        return None
    low, high = found[0]
    return choosing.normal(one, low, high, 1 - outside)


# -- measuring -----------------------------------------------------------------------------------------------


def _order(asked: Asked, frame: DataFrame) -> list[str]:
    seq = asked.columns.get("$seq", "seq")
    return ["ts", seq] if seq in frame.columns else ["ts"]


def _packed(policy: Policy, asked: Asked, level: int | str) -> Callable[[DataFrame], DataFrame]:
    def packed(frame: DataFrame) -> DataFrame:
        key = [*asked.queue, *([level] if isinstance(level, str) else [])]
        order = _order(asked, frame)
        return frame.transform(
            pack(policy, key=key, order=order, level=level, now=0, attributes=asked.columns)
        )

    return packed


def kept_shares(part: DataFrame, policy: Policy, asked: Asked) -> list[float]:
    """The share of events that each level keeps, by the compiled policy."""
    counted = part.transform(
        effect(policy, key=asked.queue, order=_order(asked, part), now=0, attributes=asked.columns)
    ).collect()
    rows = sorted(counted, key=lambda row: (row["level"], row["position"]))
    events = left = rows[0]["seen"]
    found: list[float] = []
    for level in range(1, policy.highest + 1):
        left -= sum(row["dropped"] for row in rows if row["level"] == level)
        found.append(left / events if events else 1.0)
    return found


def measure(part: DataFrame, policy: Policy, asked: Asked, numeric: Sequence[str]) -> tuple[Reached, ...]:
    """What each level keeps, and how far the value held is from those in the digests.

    A digest tells exactly how far its values are from any other: their squared distance from v is
    M2 + n·(mean − v)², the largest one is at their minimum or maximum.
    """
    levels = sf.explode(sf.sequence(sf.lit(1), sf.lit(policy.highest))).alias(LEVEL)
    packed = part.select("*", levels).transform(_packed(policy, asked, LEVEL))
    queue = Window.partitionBy(*map(column, [*asked.queue, LEVEL])).orderBy("place")
    so_far = queue.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    places = [asked.attributes.index(name) for name in numeric]
    sums = [one for place in places for one in _error_sums(place, asked.attributes[place], so_far)]
    kept = (sf.col("kind") == "event").cast("int")
    staged = packed.select(
        LEVEL, kept.alias("kept"), sf.coalesce("digest.count", kept).alias("events"), *sums
    )
    totals = staged.groupBy(LEVEL).agg(
        sf.count(sf.lit(1)).alias("items"),
        *(
            (sf.max if name.startswith("largest") else sf.sum)(name).alias(name)
            for name in ("kept", "events", *(f"{kind}{place}" for place in places for kind in _SUMS))
        ),
    )
    rows = sorted(totals.collect(), key=lambda row: int(row[LEVEL]))
    return tuple(
        Reached(
            row["kept"] / row["events"],
            row["items"] / row["events"],
            {asked.attributes[place]: _error(row, place) for place in places},
        )
        for row in rows
    )


def _error(row: Row, place: int) -> Error:
    n, squares, largest, unheld = (row[f"{kind}{place}"] or 0 for kind in _SUMS)
    return Error(n, max(0.0, squares), float(largest), unheld)


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


def _bare(part: DataFrame) -> DataFrame:
    return part.drop(*(name for name in part.columns if name.startswith("penstock_")))


def _settings(policy: Policy, asked: Asked, rest: Shape, numeric: Sequence[str], items: float) -> Settings:
    """The backtest: a drain for what the level needed leaves of the rate, digests included."""
    least = Fraction(limits.DRAIN_LEAST).limit_denominator(10**6)
    per_s = max(least, Fraction(min(items, _MOST_ITEMS) * rest.rate).limit_denominator(10**6))
    drain = Drain(per_s, in_bytes=False, text=f"{float(per_s):.4g}/s")
    overflows = int(rest.queue * (1 - min(items, _MOST_ITEMS)) / 4)
    return Settings(
        candidates=(Candidate(policy.name, policy), *BASELINES),
        capacity=max(limits.QUEUE_EVENTS_LEAST, min(asked.capacity, overflows)),
        drain=drain,
        key=asked.key,
        series=asked.series,
        measured=tuple(numeric),
        attributes=asked.columns,
    )
