"""Connections that have not said enough yet to be served: bounded in number and in time.

Whoever opens connections and says nothing on them would take files and memory from all others. The HTTP
server waits for the head of a request, TLS and WebSocket listeners for the end of a handshake.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Connection = TypeVar("_Connection")


class UnfinishedConnections(Generic[_Connection]):
    """A bounded number of connections, each for a bounded time; one too many closes the oldest."""

    def __init__(self, *, most: int, wait_s: float, close: Callable[[_Connection], None]) -> None:
        self._most = most
        self._wait_s = wait_s
        self._close = close
        self._timers: dict[_Connection, asyncio.TimerHandle] = {}
        """The oldest first."""

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, connection: object) -> bool:
        return connection in self._timers

    def add(self, connection: _Connection) -> None:
        """Let a connection begin."""
        if len(self._timers) >= self._most:
            self.close(next(iter(self._timers)))
        timer = asyncio.get_running_loop().call_later(self._wait_s, self.close, connection)
        self._timers[connection] = timer

    def remove(self, connection: _Connection) -> None:
        """Leave a connection alone: it is finished, or gone."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def close(self, connection: _Connection) -> None:
        """Close a connection that is not finished."""
        self.remove(connection)
        self._close(connection)

    def close_all(self) -> None:
        """Close all connections that are not finished."""
        for connection in list(self._timers):
            self.close(connection)
