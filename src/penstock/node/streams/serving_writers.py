"""Writers: who writes into a stream under a name. One at a time: whoever begins takes over, across restarts.

Silence is counted while the node runs, as that of consumers; a writer that is silent for too long is
forgotten with its numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.errors import StreamRefused
from penstock.node.streams.marks import WRITER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.node.streams.service import StreamService

TABLE: Final = "writers"
"""In the state file: (stream, writer) → the token of who writes under the name, and seconds of silence."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[str, float]).decode


class Writers:
    """Of all streams hosted here, by stream and name."""

    def __init__(self, service: StreamService) -> None:
        self._service = service
        self._known: dict[tuple[str, str], tuple[str, float]] = {}

    def start(self) -> None:
        """Take up who wrote before."""
        for (stream, name), value in self._service.state.load(TABLE):
            self._known[stream, name] = _decode(value)

    def begin(self, key: tuple[str, str], token: str, *, resume: bool, done: Callable[[], None]) -> None:
        """Who has the token writes from now on; `done` follows when that is durable."""
        before, _ = self._known.get(key, ("", 0.0))
        if resume and before != token:
            raise _fenced(key)
        if not before and len(self._known) >= limits.STREAM_WRITERS:
            raise StreamRefused(
                f"{limits.STREAM_WRITERS:,} writers are known here already; use names again", code="full"
            )
        self._put(key, token, 0.0)
        self._service.state.when_durable(done)

    def leave(self, key: tuple[str, str], token: str, *, done: Callable[[], None]) -> None:
        """Who has the token is done for good; `done` follows when that is durable."""
        if self._known.get(key, ("", 0.0))[0] == token:
            self._forget(key)
        self._service.state.when_durable(done)

    def check(self, key: tuple[str, str], token: str | None) -> None:
        """StreamRefused if this is not who writes now."""
        if token is None:
            raise StreamRefused(f"writer '{key[1]}' has not begun", code="refused")
        if token != self._known.get(key, ("", 0.0))[0]:
            raise _fenced(key)

    def older(self, idle_s: float, *, busy: Collection[tuple[str, str]]) -> None:
        """So much time has passed, in which those who are busy were connected."""
        for key, (token, before_s) in list(self._known.items()):
            silent_s = 0.0 if key in busy else before_s + idle_s
            if silent_s >= limits.STREAM_WRITER_S:
                self._forget(key)
            elif silent_s != before_s:
                self._put(key, token, silent_s)

    def forget_numbers(self, stream: str, writer: str) -> None:
        """What this writer sends again would be new."""
        hosted = self._service.hosted.get(stream)
        if hosted is not None:
            hosted.marks.forget_all(WRITER + writer)

    def _forget(self, key: tuple[str, str]) -> None:
        del self._known[key]
        self._service.state.remove(TABLE, key)
        self.forget_numbers(*key)

    def _put(self, key: tuple[str, str], token: str, silent_s: float) -> None:
        self._known[key] = (token, silent_s)
        self._service.state.put(TABLE, key, _encode((token, silent_s)))


def _fenced(key: tuple[str, str]) -> StreamRefused:
    stream, writer = key
    return StreamRefused(
        f"another writer '{writer}' of stream '{stream}' has started since: this one may write no more",
        code="fenced",
    )
