"""The log protocol of a node: the core's `Log` plus commits of its own, figures, faults and `close`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from penstock.core.streams.log import Log

if TYPE_CHECKING:
    from collections.abc import Callable


LoggedMessages: TypeAlias = list[tuple[int, bytes]]
"""Ticks and messages."""


@dataclass(frozen=True, slots=True)
class LogFigures:
    """A snapshot."""

    messages: int
    """In the log."""
    bytes: int
    commits: int
    """Since the start."""
    committed: int
    """Messages of those commits."""
    commit_us: int
    """Time spent in them."""


class DurableLog(Log, Protocol):
    """A log that commits by itself: what is appended in one turn of the loop together, much of it in parts.

    Everything is called in the thread of the event loop and never waits there.
    """

    @property
    def fault(self) -> str:
        """Why nothing can be made durable, or not all be read, fit to be shown; empty: it can."""
        ...

    @property
    def largest(self) -> int:
        """Bytes of a message that it takes: `append` is not to be given more."""
        ...

    @property
    def bytes(self) -> int:
        """That the messages take, those not durable yet included."""
        ...

    def start(self, *, committed: Callable[[int, int], None], ready: Callable[[], None]) -> None:
        """Begin, in the running loop.

        `committed(until, claimed)` follows each commit (see `Pubend.committed`); `ready` when a `read` that
        answered None may be asked again.
        """
        ...

    async def fetch(self, since: int, until: int, most: int) -> LoggedMessages:
        """As `read`, but waits for what is not at hand, before `start`, too; StoreError if it cannot."""
        ...

    def figures(self) -> LogFigures:
        """A snapshot."""
        ...

    async def close(self) -> None:
        """Make durable what waits, and let go; StoreError if that cannot be done."""
        ...
