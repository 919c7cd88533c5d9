"""What links write into the trace: flat values of numbers and names, never the messages themselves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sent:
    """A link accepted a message."""

    at_us: int
    link: str
    number: int
    """Counts the messages of this link from 0."""
    size: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message, or a copy of it, reached the other end."""

    at_us: int
    link: str
    number: int


@dataclass(frozen=True, slots=True)
class Lost:
    """A message, or a copy of it, will not arrive; known when its transmission ends."""

    at_us: int
    link: str
    number: int
    partition: bool
    """True if a partition took it, false if the dice did."""


@dataclass(frozen=True, slots=True)
class Duplicated:
    """A copy of a message is on its way, too."""

    at_us: int
    link: str
    number: int
