"""Intervals that make the most of a load: one price for all, one more for each host at its limit.

    minimise Σ wᵢ·τ/(2xᵢ)   subject to   Σ sᵢ·xᵢ ≤ budget,   Σ_host sᵢ·xᵢ ≤ its limit,   loᵢ ≤ xᵢ ≤ hiᵢ

with xᵢ polls per τ, evenly spread. Lagrange's condition gives xᵢ = √(wᵢ·τ/2 / (sᵢ·(μ + ν_h))) between its
bounds, so the interval is √(2τ·sᵢ·(μ + ν_h) / wᵢ). In the level t = 1/√price every xᵢ rises linearly: where
the level of a host meets its limit does not depend on the others, and becomes an upper bound of its channels;
then one level for all meets the budget. A target for the mean delay is met in the same way by the
intervals, which rise linearly with 1/t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.core.channels.allocation.filling import fill, fill_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is to be solved; arrays of one length, but for `limits`, which has one value per host."""

    weight: Floats
    cost: Floats
    low: Floats
    """Fewest polls per τ."""
    high: Floats
    """Most polls per τ."""
    count: Floats
    """Channels that a row stands for."""
    group: NDArray[np.intp] | None
    """Number of the channel's host; None: hosts have no limits."""
    limits: Floats
    """Cost per τ that each host takes; infinity: any."""
    tau_us: int


@dataclass(frozen=True, slots=True)
class Solution:
    """Polls and their prices."""

    polls: Floats
    """Per τ and channel."""
    price: float
    """μ: weighted microseconds of delay that one more unit of load would save; 0: there is load to spare."""
    host_prices: Floats
    """ν: the same for a host's limit, beyond μ; infinity: it is beyond its limit with the fewest polls."""


def within_budget(problem: Problem, budget: float) -> Solution:
    """The least weighted delay for a load."""
    pace = _pace(problem)
    ceiling, high = _host_ceilings(problem, pace)
    spend = problem.cost * problem.count
    level = fill(spend * pace, spend * problem.low, spend * high, budget)
    return _solution(problem, pace, ceiling, high, level)


def within_target(problem: Problem, target_us: float) -> Solution:
    """The least load for a weighted mean delay."""
    pace = _pace(problem)
    ceiling, high = _host_ceilings(problem, pace)
    weight = problem.weight * problem.count
    half = weight * problem.tau_us / 2
    rise = pace * problem.cost * problem.count  # half/pace, also where nobody waits
    stretch = fill(rise, half / high, half / problem.low, target_us * float(weight.sum()))
    level = np.inf if stretch == 0 else 1 / stretch
    return _solution(problem, pace, ceiling, high, level)


def _pace(problem: Problem) -> Floats:
    """Polls per τ and unit of level."""
    found: Floats = np.sqrt(problem.weight * (problem.tau_us / 2) / problem.cost)
    return found


def _host_ceilings(problem: Problem, pace: Floats) -> tuple[Floats, Floats]:
    """The level at which each host is at its limit, and the upper bounds of the channels that follow."""
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
