"""`advise`: learns a policy for a budget on one part of a recorded stream and checks it on the rest.

split by time ─► learn: profile ─► levels ─► expected; urgent and fresh, tried in backtests
             └─► check: the compiled policy, level by level ─► measured; the backtest beside two baselines
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from penstock import limits
from penstock.core.backtest.settings import BASELINES, Candidate, RecordedStream, Settings
from penstock.core.queues import Drain
from penstock.errors import GoalMissed
from penstock.pipeline.compile.events import EVENT, as_events
from penstock.pipeline.jobs.advise import levels as choosing
from penstock.pipeline.jobs.advise.measure import kept_by_bands, kept_shares, measure, packed_by, slim
from penstock.pipeline.jobs.advise.profile import LEARN, Profile, look, numbers, split
from penstock.pipeline.jobs.advise.variants import (
    best,
    normal_ranges,
    reasons,
    times_us,
    unusual,
    variants,
)
from penstock.pipeline.jobs.advise.verdict import Figures, Verdict, verdict
from penstock.pipeline.jobs.backtest.replay import replayed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from penstock.core.backtest.account import Account
    from penstock.core.backtest.settings import Backtest
    from penstock.pipeline.jobs.advise.levels import Choice
    from penstock.pipeline.jobs.advise.measure import LevelResult
    from penstock.pipeline.jobs.advise.profile import AdviceRequest, StreamShape
    from penstock.policy.nodes import Policy
    from penstock.policy.predicates import Predicate

_MOST_ITEMS: Final = 0.9
"""Largest share of kept items: a queue that lets more through overflows too seldom to be compared."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A proposed policy, and its expected and measured results."""

    policy: Policy
    reasons: tuple[tuple[str, ...], ...]
    """By level, a sentence for each filter."""
    expected: tuple[LevelResult, ...]
    """By level, on the part learned from; of the levels alone, without what is urgent."""
    measured: tuple[LevelResult, ...]
    """By level, on the rest, likewise."""
    spreads: dict[str, float]
    """Standard deviations of numeric attributes in the rest."""
    replayed: Backtest
    """Backtest of the rest."""
    setting: str
    """Drain and capacity of the backtest."""
    budget: float
    tried: dict[str, Figures]
    """Variants of the policy on the part learned from."""
    timing: tuple[str, ...]
    """Why something is urgent, or fresh, in sentences."""
    verdict: Verdict
    """The policy against the baselines, on the rest."""
    doubts: tuple[str, ...] = ()
    """Sentences about doubtful attributes."""

    @property
    def needed(self) -> int | None:
        """Lowest level within the budget on the rest; None: there is none."""
        return _needed(self.measured, self.budget)


def _needed(reached: Sequence[LevelResult], budget: float) -> int | None:
    return next((level for level, one in enumerate(reached, start=1) if one.kept <= budget), None)


def advise(frame: DataFrame, asked: AdviceRequest, step: Callable[[int, int, str], None]) -> Advice:
    """Propose a policy for the queues of a frame."""
    parts = split(frame, asked).persist()
    try:
        return _advised(parts, asked, step)
    finally:
        parts.unpersist()


def _advised(parts: DataFrame, asked: AdviceRequest, step: Callable[[int, int, str], None]) -> Advice:
    learn, check = parts.where(sf.col(LEARN)), parts.where(~sf.col(LEARN))
    step(0, 5, "looking at the stream")
    whole, rest, found = look(parts, asked)
    step(1, 5, "choosing filters")
    levels = _levels(learn, asked, whole, found)
    numeric = [one.name for one in found if one.numeric]
    policy = choosing.policy(levels, asked, numeric)
    step(2, 5, "checking levels")
    # A digest over several sources says nothing about the value held of one.
    held = [] if choosing.is_mixed(whole) else numeric
    expected, measured = measure(parts, policy, asked, held)
    need = expected[(_needed(expected, asked.budget) or policy.highest) - 1].items
    step(3, 5, "trying what is urgent, and fresh")
    normal = normal_ranges(found)
    settings = _settings(policy, asked, rest, numeric, need, asked.matters or unusual(normal))
    policy, tried, learned = _timed(learn, policy, settings, whole, normal)
    timing = reasons(policy, learned, declared=bool(asked.matters))
    step(4, 5, "replaying what was held out")
    settings = replace(settings, candidates=(Candidate(policy.name, policy), *BASELINES), matters=())
    held_out = replayed(_bare(check), settings, _stream(rest, normal))
    ours = held_out.accounts[policy.name]
    judged = verdict(ours, {name: one for name, one in held_out.accounts.items() if name != policy.name})
    setting = f"drain {settings.drain.text}, capacity {settings.capacity:,}"
    spreads = {
        name: one.spread.stddev or 0.0 for name, one in next(iter(held_out.accounts.values())).errors.items()
    }
    doubts = tuple(f"attribute '{one.name}' is read as text: {one.doubt}" for one in found if one.doubt)
    return Advice(
        policy=policy,
        reasons=tuple(tuple(choice.reason for choice in level) for level in levels),
        expected=expected,
        measured=measured,
        spreads=spreads,
        replayed=held_out,
        setting=setting,
        budget=asked.budget,
        tried=tried,
        timing=tuple(timing),
        verdict=judged,
        doubts=doubts,
    )


# -- choosing ------------------------------------------------------------------------------------------------


def _levels(
    learn: DataFrame, asked: AdviceRequest, whole: StreamShape, found: Sequence[Profile]
) -> list[list[Choice]]:
    """Levels in order of their cost to the receiver, each of which drops something of what is left."""
    numeric = [one.name for one in found if one.numeric]
    so_far = _SoFar(learn, asked, numeric)
    mixed = choosing.is_mixed(whole)
    tried = [[] if mixed else _tried(learn, asked, one, place) for place, one in enumerate(found)]
    thoughts: list[tuple[float, list[Choice | None]]] = [
        (0.0, [choosing.unchanged(one, whole) for one in found])
    ]
    for target in (asked.budget**0.5, choosing.MARGIN * asked.budget):
        bands = [choosing.band(one, widths, target) for one, widths in zip(found, tried, strict=True)]
        thoughts.append((target, [choosing.conflation(whole, asked, target)] if mixed else bands))
    so_far.add(thoughts)
    so_far.add([(0.0, [_middle(so_far, one, place) for place, one in enumerate(found)])])
    if so_far.kept > asked.budget:
        so_far.add([(0.0, [choosing.last_resort(asked)])])
    if not so_far.levels:
        raise GoalMissed(
            f"nothing to propose: no filter drops anything, and {asked.budget:g} of "
            f"{asked.capacity:,} events is less than one; increase the budget or the capacity"
        )
    return so_far.levels


class _SoFar:
    """Levels chosen so far, and the share of events they keep."""

    def __init__(self, learn: DataFrame, asked: AdviceRequest, numeric: Sequence[str]) -> None:
        self.learn = learn
        self.asked = asked
        self.levels: list[list[Choice]] = []
        self.kept = 1.0
        self._numeric = numeric

    def add(self, thoughts: Sequence[tuple[float, Sequence[Choice | None]]]) -> None:
        """Add levels, each with the share below which it is needless; one that drops nothing is left out.

        All are tried in one pass. Results behind a level that is left out are counted again.
        """
        waiting = [(target, [one for one in level if one is not None]) for target, level in thoughts]
        waiting = [(target, level) for target, level in waiting if level]
        while waiting:
            levels = [*self.levels, *(level for _, level in waiting)]
            shares = kept_shares(self.learn, choosing.policy(levels, self.asked, self._numeric), self.asked)
            for now in shares[len(self.levels) :]:
                target, level = waiting.pop(0)
                if self.kept <= target or now > self.kept * (1 - choosing.LEAST):
                    break
                self.levels.append(level)
                self.kept = now


def _tried(learn: DataFrame, asked: AdviceRequest, one: Profile, place: int) -> list[tuple[float, float]]:
    """Dead bands and the share that each keeps by itself."""
    widths = choosing.bands(one)
    return list(zip(widths, kept_by_bands(learn, widths, asked, place), strict=True)) if widths else []


def _middle(so_far: _SoFar, one: Profile, place: int) -> Choice | None:
    """The middle range of the events left: as a reserve, or as much of it as the budget still demands."""
    asked = so_far.asked
    if not so_far.kept:
        return None
    outside = min(choosing.OUTSIDE, choosing.MARGIN * asked.budget / so_far.kept)
    if not one.numeric:
        return choosing.usual(one, outside, asked.matters)
    left = so_far.learn
    if so_far.levels:
        policy = choosing.policy(so_far.levels, asked, [one.name])
        packed = slim(left, policy, asked).transform(packed_by(policy, asked, policy.highest))
        left = packed.where(sf.col("kind") == "event")
    ranks = sf.array(sf.lit(outside / 2), sf.lit(1 - outside / 2))
    found = left.agg(sf.percentile_approx(numbers(place), ranks, 1_000)).first()
    if found is None or found[0] is None:
        return None
    low, high = found[0]
    return choosing.normal(one, low, high, 1 - outside)


# -- replaying -----------------------------------------------------------------------------------------------


def _timed(
    learn: DataFrame,
    policy: Policy,
    settings: Settings,
    whole: StreamShape,
    normal: Mapping[str, tuple[float, float]],
) -> tuple[Policy, dict[str, Figures], Account]:
    """The best variant on the part learned from, what each gave there, and its account."""
    bare = _bare(learn)
    size = _mean_size(bare, settings) if settings.drain.in_bytes else 0.0
    fresh_us = times_us(settings.drain, settings.capacity, size)
    found = replayed(
        bare,
        replace(settings, candidates=tuple(variants(policy, settings.matters, fresh_us)), matters=()),
        _stream(whole, normal),
    )
    name = best(found.accounts)
    chosen = next(one.policy for one in variants(policy, settings.matters, fresh_us) if one.name == name)
    assert chosen is not None
    # A predicate that matches nothing there is only in the way of whoever reads the policy.
    occurring = [
        step
        for step, own in zip(chosen.matters, found.accounts[name].matters.values(), strict=True)
        if own.kept.n
    ]
    chosen = replace(
        chosen,
        matters=tuple(occurring),
        urgent=tuple(step for step in chosen.urgent if step in occurring),
    )
    return chosen, {name: Figures.of(one) for name, one in found.accounts.items()}, found.accounts[name]


def _mean_size(part: DataFrame, settings: Settings) -> float:
    """Mean bytes of an event."""
    events = part.transform(as_events(settings.wanted(), attributes=settings.attributes, schema=part.schema))
    event = sf.col(EVENT)
    size = sf.octet_length(event.getField("payload")) + sf.length(event.getField("topic"))
    found = events.agg(sf.avg(size)).first()
    return float(found[0]) if found is not None and found[0] else 1.0


def _stream(shape: StreamShape, normal: Mapping[str, tuple[float, float]]) -> RecordedStream:
    return RecordedStream(shape.events, shape.queues, shape.begin_us, shape.end_us, normal)


def _bare(part: DataFrame) -> DataFrame:
    return part.drop(*(name for name in part.columns if name.startswith("penstock_")))


def _settings(
    policy: Policy,
    asked: AdviceRequest,
    rest: StreamShape,
    numeric: Sequence[str],
    items: float,
    matters: tuple[Predicate, ...],
) -> Settings:
    """Backtest settings: the drain asked for, or one for the rate that the needed level leaves, digests
    included.
    """
    if asked.drain is not None:
        return _with(policy, asked, numeric, matters, drain=asked.drain, capacity=asked.capacity)
    least = Fraction(limits.DRAIN_LEAST).limit_denominator(10**6)
    per_s = max(least, Fraction(min(items, _MOST_ITEMS) * rest.rate).limit_denominator(10**6))
    drain = Drain(per_s, in_bytes=False, text=f"{float(per_s):.4g}/s")
    overflows = int(rest.queue * (1 - min(items, _MOST_ITEMS)) / 4)
    capacity = max(limits.QUEUE_EVENTS_LEAST, min(asked.capacity, overflows))
    return _with(policy, asked, numeric, matters, drain=drain, capacity=capacity)


def _with(
    policy: Policy,
    asked: AdviceRequest,
    numeric: Sequence[str],
    matters: tuple[Predicate, ...],
    *,
    drain: Drain,
    capacity: int,
) -> Settings:
    return Settings(
        candidates=(Candidate(policy.name, policy), *BASELINES),
        capacity=capacity,
        drain=drain,
        matters=matters,
        key=asked.key,
        series=asked.series,
        measured=tuple(numeric),
        attributes=asked.columns,
    )
