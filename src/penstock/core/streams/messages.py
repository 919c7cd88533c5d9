"""Messages that nodes send each other about streams, and events that a stream reports to its owner.

Downstream: `Data` and `Silence` in the order of their sending, `FinalTicks` for what the log has let go,
`Query` (the paper's DCQ). Upstream: `Nack`, `Ack`, `Alert` (the paper's UCA). `is_urgent` says which
messages overtake. `told` makes messages of known ticks: data with the silence before it, and silence at the
end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from typing import Final as Constant

import msgspec

from penstock.core.streams.ticks import Span  # noqa: TC001  # msgspec reads the annotations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


class FinalTicks(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
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


Message: TypeAlias = Data | Silence | FinalTicks | Query | Nack | Ack | Alert


def is_urgent(message: Message) -> bool:
    """Whether it overtakes data: whatever is small and steers."""
    return not isinstance(message, Data | Silence | FinalTicks)


Matches: TypeAlias = Callable[[bytes], bool]
"""A filter of messages by their bodies."""


def told(
    pubend: str,
    span: tuple[int, int],
    messages: Iterable[tuple[int, bytes]],
    *,
    matches: Matches | None = None,
    interest: str = "",
) -> Iterator[Data | Silence]:
    """A span whose messages these are, told to somebody with a filter; what does not match is silence."""
    at, until = span
    for tick, body in messages:
        if matches is None or matches(body):
            yield Data(pubend, at, tick, body, interest)
            at = tick + 1
    if at < until:
        yield Silence(pubend, at, until, interest)


@dataclass(frozen=True, slots=True)
class Delivered:
    """The next message in order, once; the owner hands it to the subscribers it matches."""

    pubend: str
    stream: str
    """The subscriber-hosting stream it comes from."""
    tick: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The publisher of this message may be told that it is durable."""

    pubend: str
    tick: int


@dataclass(frozen=True, slots=True)
class Missed:
    """A stream goes on at `until`: the log has let go what lies before."""

    pubend: str
    stream: str
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Recovering:
    """A stream has begun, or ended, to recover what it missed."""

    pubend: str
    stream: str
    on: bool


@dataclass(frozen=True, slots=True)
class ClockBehind:
    """The clock of the publisher-hosting node is behind the stream: ticks go on without it."""

    pubend: str
    behind_us: int


StreamEvent: TypeAlias = Delivered | Acknowledged | Missed | Recovering | ClockBehind
