"""Writes the cursors of all sessions to disk.

That a client has a message of QoS 1 is written about every second; after a crash the message is sent again
with the same tick. What must be on disk before a packet goes out (QoS 2, a new subscription) is written in
the same turn of the event loop, for all sessions together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from penstock.node.streams.sessions.place import CursorTable
    from penstock.node.streams.sessions.reader import SessionReader


class CursorSaver:
    """Collects the readers whose place has to be written, of all sessions and streams."""

    def __init__(self, cursors: CursorTable, drop: Callable[[SessionReader], None]) -> None:
        self._cursors = cursors
        self._drop = drop
        """Called with a reader that has no subscription left."""
        self._moved: dict[SessionReader, None] = {}
        """Readers whose place on disk is out of date."""
        self._urgent: dict[SessionReader, None] = {}
        """Readers whose place is written at the end of this turn of the event loop."""
        self._callbacks: list[Callable[[], None]] = []
        """Called when the places of the urgent readers are on disk."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flushing = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to write."""
        self._loop = loop

    def close(self) -> None:
        """Write what is left."""
        self._loop = None
        self._flush()
        self.save()

    def save_soon(self, reader: SessionReader) -> None:
        """Have a place written with the next `save`."""
        if reader.place.durable:
            self._moved[reader] = None

    def save_now(self, reader: SessionReader | None, safe: Callable[[], None] | None = None) -> None:
        """Have a place written in this turn of the event loop; `safe` is called when it is on disk.

        None in place of a reader: nothing is to be written, but `safe` keeps its order among the others.
        """
        if reader is not None:
            self._urgent[reader] = None
        if safe is not None:
            self._callbacks.append(safe)
        if not self._flushing and self._loop is not None:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def after_save(self, readers: Iterable[SessionReader], then: Callable[[], None]) -> Callable[[], None]:
        """A callback that calls `then` once it is called and the places of these readers are on disk."""
        if not any(reader in self._urgent for reader in readers):
            return then
        both = _SecondCall(then)
        self._callbacks.append(both)
        return both

    def forget(self, reader: SessionReader) -> None:
        """Write the place of a reader no more."""
        self._moved.pop(reader, None)
        self._urgent.pop(reader, None)

    def save(self) -> None:
        """Write the places that have moved."""
        moved, self._moved = self._moved, {}
        self._write(moved, [])

    def _flush(self) -> None:
        self._flushing = False
        urgent, self._urgent = self._urgent, {}
        callbacks, self._callbacks = self._callbacks, []
        self._write(urgent, callbacks)

    def _write(self, readers: dict[SessionReader, None], callbacks: list[Callable[[], None]]) -> None:
        written: list[tuple[SessionReader, int]] = []
        for reader in readers:
            if reader.place.idle:
                self._drop(reader)
                continue
            cursor = reader.cursor()
            if reader.place.durable and reader.current:
                self._moved.pop(reader, None)
                written.append((reader, cursor.acked))
                self._cursors.put((reader.session.client_id, reader.stream.name), cursor)
        if written or callbacks:
            self._cursors.state.when_durable(lambda: _durable(written, callbacks))


class _SecondCall:
    """Calls a function when it is called for the second time."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._calls = 0

    def __call__(self) -> None:
        self._calls += 1
        if self._calls == 2:
            self._then()


def _durable(written: list[tuple[SessionReader, int]], callbacks: list[Callable[[], None]]) -> None:
    for reader, acked in written:
        reader.place.saved = acked
    for callback in callbacks:
        callback()
