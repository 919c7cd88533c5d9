"""What a connection has published into streams and is not acknowledged: if too much, it is not read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits

if TYPE_CHECKING:
    from penstock.node.connection import Connection


class Owed:
    """Slows whoever publishes without waiting for answers, by QoS 0 above all, to the pace of the stream."""

    __slots__ = ("_bytes", "_messages", "_slowed")

    def __init__(self) -> None:
        self._messages = 0
        self._bytes = 0
        self._slowed = False

    def add(self, connection: Connection, messages: int, size: int) -> None:
        """So much more."""
        self._messages += messages
        self._bytes += size
        if not self._slowed and (
            self._messages > limits.STREAM_UNLOGGED or self._bytes > limits.STREAM_UNLOGGED_BYTES
        ):
            self._slowed = True
            connection.hold_reading()

    def settle(self, connection: Connection, messages: int, size: int) -> None:
        """So much less."""
        self._messages -= messages
        self._bytes -= size
        if (
            self._slowed
            and self._messages <= limits.STREAM_UNLOGGED // 2
            and self._bytes <= limits.STREAM_UNLOGGED_BYTES // 2
        ):
            self._slowed = False
            connection.release_reading()


class Batch:
    """Messages of one connection that are logged together, each taken for as large as the average."""

    __slots__ = ("_connection", "_each", "_messages")

    def __init__(self, connection: Connection, messages: int, size: int) -> None:
        self._connection = connection
        self._messages = messages
        self._each = -(-size // messages)

    def begin(self) -> None:
        """They are taken."""
        self._connection.owed.add(self._connection, self._messages, self._messages * self._each)

    def released(self, count: int) -> None:
        """So many may be acknowledged."""
        self._connection.owed.settle(self._connection, count, count * self._each)
