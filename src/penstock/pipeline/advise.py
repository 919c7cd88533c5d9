"""`advise`: a policy for a reduction budget, learned on one part of a recorded stream, checked on the rest.

split by time ─► learn: profile ─► levels ─► expected
             └─► check: the compiled policy, level by level ─► measured; and the backtest
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

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

    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.advise_levels import Choice
    from penstock.pipeline.advise_profile import Asked, Shape
    from penstock.pipeline.backtest import Backtest
    from penstock.policy.nodes import Policy

LEVEL = "penstock_level"


@dataclass(frozen=True, slots=True)
class Reached:
    """What a level comes to."""

    kept: float
    """Share of the events it keeps."""
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
        within = (level for level, one in enumerate(self.measured, start=1) if one.kept <= self.budget)
        return next(within, None)


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
    settings = _settings(policy, asked, rest, numeric)
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
    kept = kept_shares(part, policy, asked)
    levels = sf.explode(sf.sequence(sf.lit(1), sf.lit(policy.highest))).alias(LEVEL)
    packed = part.select("*", levels).transform(_packed(policy, asked, LEVEL))
    queue = Window.partitionBy(*map(column, [*asked.queue, LEVEL])).orderBy("place")
    so_far = queue.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    sums: list[Column] = []
    for name in numeric:
        place = asked.attributes.index(name)
        sums += _error_sums(place, name, so_far)
    if not sums:
        return tuple(Reached(share, {}) for share in kept)
    staged = packed.select(LEVEL, *sums)
    totals = staged.groupBy(LEVEL).agg(
        *(
            (sf.max if one.startswith("largest") else sf.sum)(one).alias(one)
            for one in staged.columns
            if one != LEVEL
        )
    )
    rows = {row[LEVEL]: row for row in totals.collect()}
    found: list[Reached] = []
    for level, share in enumerate(kept, start=1):
        row = rows[level]
        errors = {}
        for name in numeric:
            place = asked.attributes.index(name)
            errors[name] = Error(
                row[f"n{place}"] or 0,
                max(0.0, row[f"squares{place}"] or 0.0),
                row[f"largest{place}"] or 0.0,
                row[f"unheld{place}"] or 0,
            )
        found.append(Reached(share, errors))
    return tuple(found)


def _error_sums(place: int, name: str, so_far: object) -> list[Column]:
    own = sf.col(numbers(place))
    held = sf.last(own, ignorenulls=True).over(so_far)  # type: ignore[arg-type]
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


def _settings(policy: Policy, asked: Asked, rest: Shape, numeric: Sequence[str]) -> Settings:
    """The backtest: queues that are drained at the budget's share of what comes in, and so overflow."""
    per_s = Fraction(asked.budget * rest.rate).limit_denominator(10**6)
    least = Fraction(limits.DRAIN_LEAST).limit_denominator(10**6)
    drain = Drain(max(per_s, least), in_bytes=False, text=f"{float(per_s):.4g}/s")
    return Settings(
        candidates=(Candidate(policy.name, policy), *BASELINES),
        capacity=max(
            limits.QUEUE_EVENTS_LEAST, min(asked.capacity, int(rest.queue * (1 - asked.budget) / 4))
        ),
        drain=drain,
        key=asked.key,
        series=asked.series,
        measured=tuple(numeric),
        attributes=asked.columns,
    )
