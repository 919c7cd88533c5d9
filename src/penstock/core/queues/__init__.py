"""Bounded queues that drop by policy and account for every event.

`bounded` is the account all queues keep, `packing` the queue that asks a policy, `dropping` the two that do
not; `controller` is the question at which level to pack, `ladder` and `predictive` two answers; `buffers`
puts shared and private queues behind one link. `replay` runs one queue of a recorded stream, `holding` says
what its receiver does not know.
"""

from penstock.core.queues.bounded import BoundedQueue, QueueOptions
from penstock.core.queues.controller import Controller
from penstock.core.queues.dropping import DropNewestQueue, DropOldestQueue
from penstock.core.queues.ladder import Ladder, LadderState, Smoothing
from penstock.core.queues.packing import PackingQueue
from penstock.core.queues.predictive import Predictive
from penstock.core.queues.replay import Drain, Reader, Replay, Replayed, drain
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
    "Reader",
    "Replay",
    "Replayed",
    "Smoothing",
    "drain",
]
