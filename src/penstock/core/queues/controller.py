"""The question a full queue asks: at which level should I pack?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.policy.evaluate import FilterEffect


@dataclass(frozen=True, slots=True)
class Request:
    """A queue is full."""

    now_us: Instant
    highest: int
    """The policy's highest level."""
    arrived: int
    """Events that came in since the last pack."""
    departed: int
    """Events that went out since the last pack."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    now_us: Instant
    level: int
    """The level that made room, which may be higher than the one chosen; 0: the worst case."""
    events: int
    """Events in the queue before the pack."""
    effects: tuple[FilterEffect, ...]


class Controller(Protocol):
    """Chooses levels; one per queue."""

    @property
    def level(self) -> int:
        """The level it would use now."""
        ...

    def choose(self, request: Request) -> int:
        """The level to begin with, between 1 and `request.highest`."""
        ...

    def packed(self, outcome: Outcome) -> None:
        """Called after each pack."""
        ...
