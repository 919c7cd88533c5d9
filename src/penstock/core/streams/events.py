"""What streams tell their owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


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


Event: TypeAlias = Delivered | Acknowledged | Missed | Recovering | ClockBehind
