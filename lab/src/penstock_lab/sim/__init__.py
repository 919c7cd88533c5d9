"""The simulator: a virtual clock, links with faults, seeded random numbers, a trace that proves a replay.

Make a `World` from a seed, open links, run it, compare `fingerprint()`.

clock.py          virtual time, and the wrong clock of a node
faults.py         what may go wrong on a link, and what becomes of each message
link.py           a link with a rate, a delay and faults; it calls its owner for the next message
world.py          seed, clock, random streams, links and the trace of one run
traffic.py        generated load: readings of a hospital ward, bursty arrivals
pack_queue.py     one full queue before one slow link
constant_rate.py  constant-rate flows and bursts on one link, with and without reserved slots
corona/           nodes that share the polling of web channels
streams/          reliable streams on a tree of nodes
"""

from __future__ import annotations

from penstock_lab.sim.faults import FaultOptions
from penstock_lab.sim.link import LinkOptions
from penstock_lab.sim.world import World

__all__ = [
    "FaultOptions",
    "LinkOptions",
    "World",
]
