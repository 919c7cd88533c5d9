"""Bounded queues that drop by policy and account for every event.

statistics.py    snapshots of a queue and records of its packs
bounded.py       order, bounds and counts that all queues share
dropping.py      queues without a policy: drop the oldest or the newest
controllers.py   at which level a full queue packs: ladder and predictive
packing.py       the queue that drops by its receiver's policy
buffers.py       shared and private queues behind one link
replay.py        a recorded stream run through one queue
holding.py       the error of a receiver that holds the last value it got
"""

from penstock.core.queues.bounded import BoundedQueue, QueueOptions
from penstock.core.queues.controllers import Controller, Ladder, LadderState, Predictive, Smoothing
from penstock.core.queues.dropping import DropNewestQueue, DropOldestQueue
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
