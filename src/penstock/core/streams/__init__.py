"""Reliable streams: every message once and in order, and publishers slowed before anything breaks.

`Broker` puts the parts of one node together: `pubend` the root, `relay` on the way, `subend` at the end.
`knowledge` is what each of them knows about ticks, `messages` what they say to each other, `wire` its bytes,
`log` what a pubend needs of its disk. `pdcc`, `steady` and `sdcc` are the controllers, behind `control`;
`link_queue` is what waits before a link.
"""

from __future__ import annotations

from penstock.core.streams.broker import Broker
from penstock.core.streams.events import Acknowledged, ClockBehind, Delivered, Missed, Recovering
from penstock.core.streams.link_queue import LinkQueue
from penstock.core.streams.log import Log, MemoryLog
from penstock.core.streams.options import StreamOptions

__all__ = [
    "Acknowledged",
    "Broker",
    "ClockBehind",
    "Delivered",
    "LinkQueue",
    "Log",
    "MemoryLog",
    "Missed",
    "Recovering",
    "StreamOptions",
]
