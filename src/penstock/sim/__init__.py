"""The simulator: a virtual clock, links with faults, seeded dice and a trace that proves a replay.

`World` owns the rest: make one from a seed, open links, run it, compare `fingerprint()`. `Clock` runs
actions in virtual time. `Link` carries opaque messages and asks its owner for the next one, so that waiting
happens in the owner's queue. `FaultOptions` is everything that may go wrong.
"""

from __future__ import annotations

from penstock.sim.clock import Clock, Timer
from penstock.sim.faults import FaultOptions
from penstock.sim.link import Link, LinkOptions, LinkStatistics
from penstock.sim.local_clock import LocalClock
from penstock.sim.world import World

__all__ = [
    "Clock",
    "FaultOptions",
    "Link",
    "LinkOptions",
    "LinkStatistics",
    "LocalClock",
    "Timer",
    "World",
]
