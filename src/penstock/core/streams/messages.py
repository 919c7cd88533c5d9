"""What nodes tell each other about streams.

Downstream: `Data` and `Silence` in the order of their sending, `Final` for what the log has let go, `Query`
(the paper's DCQ). Upstream: `Nack`, `Ack`, `Alert` (the paper's UCA). `is_urgent` says which go by the lane
that overtakes.
"""

from __future__ import annotations

from typing import Final as Constant
from typing import TypeAlias

import msgspec

from penstock.core.streams.spans import Span  # noqa: TC001  # msgspec reads annotations at run time

NO_RATE: Constant = float("inf")
"""The smallest rate of nobody."""


class Data(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A message, and silence from `since` up to it."""

    pubend: str
    since: int
    tick: int
    body: bytes
    interest: str = ""
    """Whose filter made the silence; empty: that of the link."""


class Silence(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """No message from `since` up to `until`."""

    pubend: str
    since: int
    until: int
    interest: str = ""


class Final(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """What lies before `until` can be had no more."""

    pubend: str
    until: int


class Query(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """Who falls behind? (Downstream Congestion Query.)"""

    pubend: str
    number: int
    position: int
    """m_pubend: the stream has been told up to this tick."""


class Nack(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """Tell me again."""

    pubend: str
    spans: tuple[Span, ...]
    interest: str = ""
    """Only what passes this node's filter is needed; empty: all that passes the link's."""


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """Everything before `until` has been processed by all who are below."""

    pubend: str
    until: int


class Alert(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """Somebody falls behind. (Upstream Congestion Alert.)"""

    pubend: str
    number: int
    """Of the query that is answered."""
    keeping: float
    """Smallest rate of those that do not recover, in tick-seconds per second."""
    recovering: float
    """Smallest rate of those that recover."""
    behind: int = 0
    """Not in the paper: ticks by which the last of those that do not recover is behind the query."""
    reached: int = 0
    """Not in the paper: the tick that the last of those has reached; 0 if there is none."""


Message: TypeAlias = Data | Silence | Final | Query | Nack | Ack | Alert


def is_urgent(message: Message) -> bool:
    """Whether it overtakes data: whatever is small and steers."""
    return not isinstance(message, Data | Silence | Final)
