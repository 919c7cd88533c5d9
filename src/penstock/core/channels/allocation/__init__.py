"""How often each channel is polled, so that a load buys the least delay.

`allocate` is the continuous solver, used by default; `honeycomb` the paper's, in integer levels of nodes.
`Factors` are the columns both start from, `Scheme` what they strive for.
"""

from penstock.core.channels.allocation.allocate import Allocation, allocate, mean_delay_us
from penstock.core.channels.allocation.factors import Factors
from penstock.core.channels.allocation.honeycomb import Levels, honeycomb, pollers_by_level
from penstock.core.channels.allocation.schemes import Scheme

__all__ = [
    "Allocation",
    "Factors",
    "Levels",
    "Scheme",
    "allocate",
    "honeycomb",
    "mean_delay_us",
    "pollers_by_level",
]
