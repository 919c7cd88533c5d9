"""Reliable streams: every message once and in order, with publishers slowed before a queue overflows.

ticks.py        positions in a stream, and sets of them
knowledge.py    the state of each tick at a node
messages.py     messages between nodes, and events for the owner
wire.py         messages as frames, and the records in logs
handshake.py    the first frames of a connection between nodes
requests.py     requests of programs and their answers
options.py      settings, with the defaults of the paper
control.py      controllers of the publishing rate and of the NACK window
log.py          the log interface of a pubend, and one in memory
pubend.py       the root of a stream
relay.py        a stream at a node between root and subscribers
subend.py       the end of a stream at a node with subscribers
broker.py       all streams of one node
link_queue.py   the queue of a link
"""

from __future__ import annotations

from penstock.core.streams.broker import StreamBroker
from penstock.core.streams.link_queue import LinkQueue
from penstock.core.streams.log import MemoryLog
from penstock.core.streams.messages import Acknowledged, ClockBehind, Delivered, Missed, Recovering
from penstock.core.streams.options import StreamOptions

__all__ = [
    "Acknowledged",
    "ClockBehind",
    "Delivered",
    "LinkQueue",
    "MemoryLog",
    "Missed",
    "Recovering",
    "StreamBroker",
    "StreamOptions",
]
