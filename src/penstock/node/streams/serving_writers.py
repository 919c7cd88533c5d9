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
from penstock.node.streams.serving_owners import check_owner

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.node.streams.service import StreamService

TABLE: Final = "writers"
"""In the state file: (stream, writer) → what is kept of it."""


class _Writer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    token: str
    """Of who writes under the name; empty: batches alone were committed."""
    silent_s: float
    user: str = ""
    """Whose it is; empty: anybody's who may write into the stream."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Writer).decode
_NOBODY: Final = _Writer("", 0.0)


class Writers:
    """Of all streams hosted here, by stream and name."""

    def __init__(self, service: StreamService) -> None:
        self._service = service
        self._known: dict[tuple[str, str], _Writer] = {}

    def start(self) -> None:
        """Take up who wrote before."""
        for (stream, name), value in self._service.state.load(TABLE):
            self._known[stream, name] = _decode(value)

    def begin(
        self, key: tuple[str, str], token: str, *, resume: bool, done: Callable[[], None], user: str = ""
    ) -> None:
        """Who has the token writes from now on; `done` follows when that is durable."""
        before = self._of(key, user)
        if resume and before.token != token:
            raise _fenced(key)
        self._put(key, _Writer(token, 0.0, before.user))
        self._service.state.when_durable(done)

    def leave(self, key: tuple[str, str], token: str, *, done: Callable[[], None]) -> None:
        """Who has the token is done for good; `done` follows when that is durable."""
        if self._known.get(key, _NOBODY).token == token:
            self._forget(key)
        self._service.state.when_durable(done)

    def commits(self, key: tuple[str, str], *, once: bool, user: str) -> None:
        """A batch is committed under a name, which is the user's from now on, unless it has but `once`."""
        if once and key not in self._known:
            return
        before = self._of(key, user)
        self._put(key, _Writer(before.token, 0.0, before.user))

    def check(self, key: tuple[str, str], token: str | None) -> None:
        """StreamRefused if this is not who writes now."""
        if token is None:
            raise StreamRefused(f"writer '{key[1]}' has not begun", code="refused")
        if token != self._known.get(key, _NOBODY).token:
            raise _fenced(key)

    def older(self, idle_s: float, *, busy: Collection[tuple[str, str]]) -> None:
        """So much time has passed, in which those who are busy were connected."""
        for key, one in list(self._known.items()):
            silent_s = 0.0 if key in busy else one.silent_s + idle_s
            if silent_s >= limits.STREAM_WRITER_S:
                self._forget(key)
            elif silent_s != one.silent_s:
                self._put(key, _Writer(one.token, silent_s, one.user))

    def forget_numbers(self, stream: str, writer: str) -> None:
        """What this writer sends again would be new."""
        hosted = self._service.hosted.get(stream)
        if hosted is not None:
            hosted.marks.forget_all(WRITER + writer)

    def _forget(self, key: tuple[str, str]) -> None:
        del self._known[key]
        self._service.state.remove(TABLE, key)
        self.forget_numbers(*key)

    def _of(self, key: tuple[str, str], user: str) -> _Writer:
        """A writer that is known, or a new one of this user's; StreamRefused if it is another's."""
        found = self._known.get(key)
        if found is not None:
            check_owner(self._service.config, found.user, user, f"writer '{key[1]}' of stream '{key[0]}'")
            return found
        if len(self._known) >= limits.STREAM_WRITERS:
            raise StreamRefused(
                f"{limits.STREAM_WRITERS:,} writers are known here already; use names again", code="full"
            )
        return _Writer("", 0.0, user)

    def _put(self, key: tuple[str, str], one: _Writer) -> None:
        self._known[key] = one
        self._service.state.put(TABLE, key, _encode(one))


def _fenced(key: tuple[str, str]) -> StreamRefused:
    stream, writer = key
    return StreamRefused(
        f"another writer '{writer}' of stream '{stream}' has started since: this one may write no more",
        code="fenced",
    )
