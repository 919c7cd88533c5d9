"""Bounded queues that drop by policy and account for every event.

statistics.py    snapshots of a queue and records of its packs; its state, to continue elsewhere
bounded.py       order, bounds and counts that all queues share
dropping.py      queues without a policy: drop the oldest or the newest
gathering.py     when digests leave a queue
pace.py          how fast a receiver takes what is sent, and so how long an event waits
controllers.py   at which level a queue packs: ladder and predictive
sparing.py       which events a late queue spares
climbing.py      one pack: from a level on until enough is gone
packing.py       the queue that drops by its receiver's policy, when full or late
replay.py        a recorded stream run through one queue
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.lazy_names import lazy_names

if TYPE_CHECKING:
    from penstock.core.queues.bounded import BoundedQueue, QueueOptions
    from penstock.core.queues.controllers import Controller, Ladder, LadderState, Predictive, Smoothing
    from penstock.core.queues.dropping import DropNewestQueue, DropOldestQueue
    from penstock.core.queues.pace import Pace
    from penstock.core.queues.packing import PackingQueue
    from penstock.core.queues.replay import Drain, Replay, Replayed, ReplayReader, drain
    from penstock.core.queues.statistics import PackRecord, QueueStatistics

__all__ = [
    "BoundedQueue",
    "Controller",
    "Drain",
    "DropNewestQueue",
    "DropOldestQueue",
    "Ladder",
    "LadderState",
    "Pace",
    "PackRecord",
    "PackingQueue",
    "Predictive",
    "QueueOptions",
    "QueueStatistics",
    "Replay",
    "ReplayReader",
    "Replayed",
    "Smoothing",
    "drain",
]

_MODULES: Final = {
    "BoundedQueue": "penstock.core.queues.bounded",
    "Controller": "penstock.core.queues.controllers",
    "Drain": "penstock.core.queues.replay",
    "DropNewestQueue": "penstock.core.queues.dropping",
    "DropOldestQueue": "penstock.core.queues.dropping",
    "Ladder": "penstock.core.queues.controllers",
    "LadderState": "penstock.core.queues.controllers",
    "Pace": "penstock.core.queues.pace",
    "PackRecord": "penstock.core.queues.statistics",
    "PackingQueue": "penstock.core.queues.packing",
    "Predictive": "penstock.core.queues.controllers",
    "QueueOptions": "penstock.core.queues.bounded",
    "QueueStatistics": "penstock.core.queues.statistics",
    "Replay": "penstock.core.queues.replay",
    "ReplayReader": "penstock.core.queues.replay",
    "Replayed": "penstock.core.queues.replay",
    "Smoothing": "penstock.core.queues.controllers",
    "drain": "penstock.core.queues.replay",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
