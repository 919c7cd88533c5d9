"""Messages that nodes send each other about streams, and events that a stream reports to its owner.

Downstream: `Data` and `Silence` in the order of sending, `FinalTicks` for what the log has deleted, `Query`
(the paper's DCQ). Upstream: `Nack`, `Ack`, `Alert` (the paper's UCA). `is_urgent` marks messages that
overtake data. `told` makes messages from known ticks: data with the silence before it, and silence at the
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
"""Minimum of no rates."""


class Data(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A message, and silence from `since` up to it."""

    pubend: str
    since: int
    tick: int
    body: bytes
    interest: str = ""
    """Node whose filter made the silence; empty: the link's filter."""


class Silence(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """No message from `since` up to `until`."""

    pubend: str
    since: int
    until: int
    interest: str = ""


class FinalTicks(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """Everything before `until` has been deleted."""

    pubend: str
    until: int


class Query(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """Asks which streams fall behind (Downstream Congestion Query)."""

    pubend: str
    number: int
    position: int
    """m_pubend: the stream has been sent up to this tick."""


class Nack(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """Asks for spans to be sent again."""

    pubend: str
    spans: tuple[Span, ...]
    interest: str = ""
    """Node whose filter is enough for the answer; empty: everything that passes the link's filter."""


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """Everything before `until` has been processed by all nodes below."""

    pubend: str
    until: int


class Alert(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """A stream falls behind (Upstream Congestion Alert)."""

    pubend: str
    number: int
    """Number of the query answered."""
    keeping: float
    """Lowest rate of streams that do not recover, in tick-seconds per second."""
    recovering: float
    """Lowest rate of streams that recover."""
    behind: int = 0
    """Not in the paper: ticks by which the slowest non-recovering stream is behind the query."""
    reached: int = 0
    """Not in the paper: the tick that this stream has reached; 0 if there is none."""


Message: TypeAlias = Data | Silence | FinalTicks | Query | Nack | Ack | Alert


def is_urgent(message: Message) -> bool:
    """Whether it overtakes data: small control messages do."""
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
    """Messages for a span, filtered; messages that do not match become silence."""
    at, until = span
    for tick, body in messages:
        if matches is None or matches(body):
            yield Data(pubend, at, tick, body, interest)
            at = tick + 1
    if at < until:
        yield Silence(pubend, at, until, interest)


@dataclass(frozen=True, slots=True)
class Delivered:
    """The next message in order, exactly once; the owner hands it to matching subscribers."""

    pubend: str
    stream: str
    """The subscriber-hosting end it comes from."""
    tick: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The publisher of this message may be told that it is durable."""

    pubend: str
    tick: int


@dataclass(frozen=True, slots=True)
class Missed:
    """A stream continues at `until`: the log has deleted what lies before."""

    pubend: str
    stream: str
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Recovering:
    """A stream has begun, or finished, to recover missed messages."""

    pubend: str
    stream: str
    on: bool


@dataclass(frozen=True, slots=True)
class ClockBehind:
    """The clock of the publisher-hosting node is behind the stream: ticks advance without it."""

    pubend: str
    behind_us: int


StreamEvent: TypeAlias = Delivered | Acknowledged | Missed | Recovering | ClockBehind
