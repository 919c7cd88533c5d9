"""Writes down where sessions are in streams.

Places move lazily: that a client has a QoS 1 message is written down about every second, and it is sent
again after a crash, with the same tick. What must be on disk before a packet goes out (QoS 2, a new
subscription) is written in the same turn of the loop, all sessions together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from penstock.node.session import Session
    from penstock.node.streams.cursors import Cursors
    from penstock.node.streams.reader import Reader


class Saving:
    """Of all sessions and streams."""

    def __init__(self, cursors: Cursors, drop: Callable[[Reader], None]) -> None:
        self._cursors = cursors
        self._drop = drop
        """What becomes of readers that nobody needs."""
        self._moved: dict[Reader, None] = {}
        """Whose place on disk is behind."""
        self._urgent: dict[Reader, None] = {}
        self._safe: list[Callable[[], None]] = []
        """To be called when the rows of these are on disk."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flushing = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write from now on."""
        self._loop = loop

    def close(self) -> None:
        """Write what is left."""
        self._loop = None
        self._flush()
        self.save()

    def save_soon(self, reader: Reader) -> None:
        """A place has moved."""
        if reader.durable:
            self._moved[reader] = None

    def save_now(self, reader: Reader | None, safe: Callable[[], None] | None = None) -> None:
        """Write a place down, with all that wait, in this turn of the loop; then call back."""
        if reader is not None:
            self._urgent[reader] = None
        if safe is not None:
            self._safe.append(safe)
        if not self._flushing and self._loop is not None:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def behind(self, session: Session, then: Callable[[], None]) -> Callable[[], None]:
        """What does something when it was called and a session's places, as they are now, are on disk."""
        if session.streams is None or not session.expiry_s:
            return then
        if not any(reader in self._urgent for reader in session.streams.readers.values()):
            return then
        both = _Both(then)
        self._safe.append(both)
        return both

    def forget(self, reader: Reader) -> None:
        """Nobody needs its place any more."""
        self._moved.pop(reader, None)
        self._urgent.pop(reader, None)

    def save(self) -> None:
        """Write places that have moved."""
        moved, self._moved = self._moved, {}
        self._write(moved, [])

    def _flush(self) -> None:
        self._flushing = False
        urgent, self._urgent = self._urgent, {}
        callbacks, self._safe = self._safe, []
        self._write(urgent, callbacks)

    def _write(self, readers: dict[Reader, None], callbacks: list[Callable[[], None]]) -> None:
        written: list[tuple[Reader, int]] = []
        for reader in readers:
            if reader.idle:
                self._drop(reader)
                continue
            cursor = reader.write_down()
            if reader.durable and reader.current:
                self._moved.pop(reader, None)
                written.append((reader, cursor.acked))
                self._cursors.put(reader.session.client_id, reader.stream.name, cursor)
        if written or callbacks:
            self._cursors.when_durable(lambda: _durable(written, callbacks))


class _Both:
    """Does something when it was called twice."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._calls = 0

    def __call__(self) -> None:
        self._calls += 1
        if self._calls == 2:
            self._then()


def _durable(written: list[tuple[Reader, int]], callbacks: list[Callable[[], None]]) -> None:
    for reader, acked in written:
        reader.saved = acked
    for callback in callbacks:
        callback()
