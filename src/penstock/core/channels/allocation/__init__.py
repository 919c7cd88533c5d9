"""Polling intervals for all channels: the smallest delay for a given load, or the load for a given delay.

`allocate` is the continuous solver and the default; `honeycomb` is the paper's, with integer levels.

    factors.py     the columns both solvers start from, and the goals (schemes)
    solver.py      continuous optimum under a budget and limits per host
    intervals.py   `allocate`: from factors to whole intervals
    levels.py      `honeycomb`: polling levels as in Corona
"""

from penstock.core.channels.allocation.factors import Factors, Scheme
from penstock.core.channels.allocation.intervals import Allocation, allocate, mean_delay_us
from penstock.core.channels.allocation.levels import honeycomb, pollers_by_level

__all__ = [
    "Allocation",
    "Factors",
    "Scheme",
    "allocate",
    "honeycomb",
    "mean_delay_us",
    "pollers_by_level",
]
