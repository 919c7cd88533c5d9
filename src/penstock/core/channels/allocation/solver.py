"""The continuous optimum: one price for all channels, and an additional one for each host at its limit.

    minimise Σ wᵢ·τ/(2xᵢ)   subject to   Σ sᵢ·xᵢ ≤ budget,   Σ_host sᵢ·xᵢ ≤ its limit,   loᵢ ≤ xᵢ ≤ hiᵢ

with xᵢ polls per τ, evenly spread. Lagrange's condition gives xᵢ = √(wᵢ·τ/2 / (sᵢ·(μ + ν_h))) between its
bounds, so the interval is √(2τ·sᵢ·(μ + ν_h) / wᵢ). In terms of the level t = 1/√price every xᵢ rises
linearly. The level at which a host meets its limit does not depend on other hosts, and becomes an upper bound
of its channels; then one level for all channels meets the budget. A target for the mean delay is met in the
same way by the intervals, which rise linearly with 1/t.

Both are found by `fill`: the level at which Σ clip(pace · level, low, high) = total. The sum is linear
between the levels at which some member leaves its lower bound or reaches its upper one. For one group
Newton's method therefore ends at the exact answer within a few steps; for many groups at once those levels
are sorted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.model.arrays import Floats

STEPS: Final = 200
"""Steps of Newton's method, or of bisection where it leaves the bracket: enough for every digit of a
float."""


def fill(pace: Floats, low: Floats, high: Floats, total: float) -> float:
    """Highest level at which the sum is within the total; 0 if no level is, infinity if all are."""
    high = np.where(pace > 0, high, low)
    if low.sum() > total:
        return 0.0
    if high.sum() <= total:
        return np.inf
    below, above = 0.0, np.inf
    level = total / float(pace.sum())
    for _ in range(STEPS):
        wanted = pace * level
        value = float(np.clip(wanted, low, high).sum())
        slope = float(pace[(wanted > low) & (wanted < high)].sum())
        if value <= total:
            below = level
        else:
            above = level
        step = level + (total - value) / slope if slope > 0 else np.inf
        if abs(step - level) <= 1e-15 * level:
            break
        level = step if below < step < above else (below + above) / 2 if np.isfinite(above) else 2 * level
    return level


def fill_groups(pace: Floats, low: Floats, high: Floats, group: NDArray[np.intp], totals: Floats) -> Floats:
    """`fill` for many groups at once; groups are numbered from 0."""
    levels: Floats = np.full(len(totals), np.inf)
    high = np.where(pace > 0, high, low)
    base: Floats = np.bincount(group, low, len(totals)).astype(np.float64, copy=False)
    levels[base > totals] = 0.0
    open_ = (base <= totals) & (np.bincount(group, high, len(totals)) > totals)
    moving = open_[group] & (high > low)
    if not moving.any():
        return levels
    pace, low, high, group = pace[moving], low[moving], high[moving], group[moving]
    at = np.concatenate((low / pace, high / pace))
    slope = np.concatenate((pace, -pace))
    owner = np.concatenate((group, group))
    order = np.lexsort((at, owner))
    at, slope, owner = at[order], slope[order], owner[order]
    levels[open_] = _crossings(at, slope, owner, base, totals)[open_]
    return levels


def _crossings(at: Floats, slope: Floats, owner: NDArray[np.intp], base: Floats, totals: Floats) -> Floats:
    """Level at which each group's sum meets its total; bends are sorted by (owner, at)."""
    first = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    running = np.cumsum(slope)
    before = np.repeat(running[first] - slope[first], np.diff(np.r_[first, len(owner)]))
    running = np.maximum(running - before, 0.0)  # slope to the right of each bend
    step = np.diff(at, prepend=at[0])
    step[first] = 0.0
    gained = np.cumsum(np.r_[0.0, running[:-1]] * step)
    value = base[owner] + gained - np.repeat(gained[first], np.diff(np.r_[first, len(owner)]))
    within = value <= totals[owner]
    within[first] = True  # rounding may put the start of a group above its total
    last = first + np.add.reduceat(within.astype(np.intp), first) - 1
    left = totals[owner[last]] - value[last]
    rise = np.where(running[last] > 0, running[last], np.inf)
    reached = at[last] + np.maximum(left, 0.0) / rise
    ends = np.r_[first[1:], len(owner)] - 1
    found = np.full(len(totals), np.inf)
    found[owner[first]] = np.minimum(reached, at[np.minimum(last + 1, ends)])
    return found


@dataclass(frozen=True, slots=True)
class Problem:
    """The optimisation problem: arrays of equal length, except `limits`, which has one value per host."""

    weight: Floats
    cost: Floats
    low: Floats
    """Fewest polls per τ."""
    high: Floats
    """Most polls per τ."""
    count: Floats
    """Channels the row represents."""
    group: NDArray[np.intp] | None
    """Index of the channel's host; None if hosts have no limits."""
    limits: Floats
    """Cost per τ allowed at each host; infinity: no limit."""
    tau_us: int


@dataclass(frozen=True, slots=True)
class Solution:
    """Polls, and the prices of the bounds."""

    polls: Floats
    """Per τ and channel."""
    price: float
    """μ: weighted microseconds of delay that one more unit of load would save; 0: the budget is not used
    up."""
    host_prices: Floats
    """ν: price of a host's limit, in addition to μ; infinity: above the limit even with the fewest polls."""


def within_budget(problem: Problem, budget: float) -> Solution:
    """Least weighted delay within a load."""
    pace = _pace(problem)
    ceiling, high = _host_ceilings(problem, pace)
    spend = problem.cost * problem.count
    level = fill(spend * pace, spend * problem.low, spend * high, budget)
    return _solution(problem, pace, ceiling, high, level)


def within_target(problem: Problem, target_us: float) -> Solution:
    """Least load within a weighted mean delay."""
    pace = _pace(problem)
    ceiling, high = _host_ceilings(problem, pace)
    weight = problem.weight * problem.count
    half = weight * problem.tau_us / 2
    rise = pace * problem.cost * problem.count  # half/pace, but defined without subscribers too
    stretch = fill(rise, half / high, half / problem.low, target_us * float(weight.sum()))
    level = np.inf if stretch == 0 else 1 / stretch
    return _solution(problem, pace, ceiling, high, level)


def _pace(problem: Problem) -> Floats:
    """Polls per τ for one unit of level."""
    found: Floats = np.sqrt(problem.weight * (problem.tau_us / 2) / problem.cost)
    return found


def _host_ceilings(problem: Problem, pace: Floats) -> tuple[Floats, Floats]:
    """Level at which each host meets its limit, and the resulting upper bounds of its channels."""
    if problem.group is None:
        return np.full(len(problem.limits), np.inf), problem.high
    spend = problem.cost * problem.count
    ceiling = fill_groups(
        spend * pace, spend * problem.low, spend * problem.high, problem.group, problem.limits
    )
    own = ceiling[problem.group]
    high = problem.high.copy()
    held = np.isfinite(own)
    high[held] = np.clip(pace[held] * own[held], problem.low[held], high[held])
    return ceiling, high


def _solution(problem: Problem, pace: Floats, ceiling: Floats, high: Floats, level: float) -> Solution:
    if np.isinf(level):
        polls = np.where(pace > 0, high, problem.low)
    else:
        polls = np.clip(pace * level, problem.low, high)
    price = float(_prices(level))
    beyond = np.zeros(len(ceiling))
    held = ceiling < level
    beyond[held] = _prices(ceiling[held]) - price
    return Solution(polls, price, beyond)


def _prices(level: Floats | float) -> Floats:
    with np.errstate(divide="ignore"):
        found: Floats = 1 / np.square(np.asarray(level, np.float64))
    return found
