"""Where a rising level meets a total, when each member rises at its own pace between its own bounds.

    Σ clip(pace · level, low, high) = total

The sum is linear between the levels at which some member leaves its lower bound or reaches its upper one. For
one group Newton's method therefore ends at the exact answer within a few steps; for many groups at once those
levels are sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


STEPS: Final = 200
"""Of Newton's method, or of halving where it leaves the bracket: enough for all the digits of a number."""


def fill(pace: Floats, low: Floats, high: Floats, total: float) -> float:
    """The highest level at which the sum is within the total: 0 if none is, infinity if all are."""
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
    """The same for groups of members, whose numbers count up from 0."""
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
    """Where each group's sum is its total; given are the bends in order of (owner, at), and their slopes."""
    first = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    running = np.cumsum(slope)
    before = np.repeat(running[first] - slope[first], np.diff(np.r_[first, len(owner)]))
    running = np.maximum(running - before, 0.0)  # the slope right of each level
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
