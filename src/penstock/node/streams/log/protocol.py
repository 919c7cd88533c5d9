"""The log protocol of a node: the core's `Log` plus commits of its own, figures, faults and `close`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from penstock.core.streams.log import Log

if TYPE_CHECKING:
    from collections.abc import Callable


LoggedMessages: TypeAlias = list[tuple[int, bytes]]
"""Messages of a log: tick and body of each, in order."""


@dataclass(frozen=True, slots=True)
class LogFigures:
    """Figures of a log for the status."""

    messages: int
    """Messages in the log."""
    bytes: int
    """Bytes of these messages."""
    commits: int
    """Commits since the start."""
    committed: int
    """Messages written by these commits."""
    commit_us: int
    """Time spent in these commits."""


class DurableLog(Log, Protocol):
    """A log that commits by itself what is appended in one turn of the event loop, much of it in parts.

    All methods are called in the thread of the event loop and never block it.
    """

    @property
    def fault(self) -> str:
        """Why messages cannot be written or read at the moment; empty if there is no fault."""
        ...

    @property
    def largest(self) -> int:
        """Bytes of the largest message that `append` may be given."""
        ...

    @property
    def bytes(self) -> int:
        """Bytes of all messages, those not durable yet included."""
        ...

    def start(self, *, committed: Callable[[int, int], None], ready: Callable[[], None]) -> None:
        """Begin to commit, in the running loop.

        `committed(until, claimed)` is called after each commit (see `Pubend.committed`); `ready` is called
        when a `read` that returned None may be repeated.
        """
        ...

    async def fetch(self, since: int, until: int, most: int) -> LoggedMessages:
        """Return the messages that `read` would, waiting for those not in memory; StoreError if that fails.

        Works before `start`, too.
        """
        ...

    def figures(self) -> LogFigures:
        """The figures at this moment."""
        ...

    async def close(self) -> None:
        """Make everything durable and close the log; StoreError if that is not possible."""
        ...
