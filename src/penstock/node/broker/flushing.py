"""One write for each connection and turn of the event loop: what it has collected goes out at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class Written(Protocol):
    """A connection that collects what it writes."""

    def unmark(self) -> None:
        """Write the collected bytes; the flusher has forgotten the connection."""
        ...


class Flusher:
    """Connections with something to write."""

    __slots__ = ("_dirty", "_loop", "_scheduled", "reading")

    def __init__(self) -> None:
        self._dirty: list[Written] = []
        self._loop: AbstractEventLoop | None = None
        self._scheduled = False
        self.reading = False
        """Whether a chunk is being dealt with: then `done` follows."""

    def start(self, loop: AbstractEventLoop) -> None:
        """Write in this loop."""
        self._loop = loop

    def soon(self, connection: Written) -> None:
        """Have a connection write its collected bytes at the end of this turn."""
        self._dirty.append(connection)
        if not self.reading and not self._scheduled:
            self._schedule()

    def done(self) -> None:
        """A chunk was dealt with."""
        self.reading = False
        if self._dirty and not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        assert self._loop is not None
        self._scheduled = True
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.unmark()
