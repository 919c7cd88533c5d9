"""Named consumers and writers of programs: their positions, their owners, and how long they are kept.

A consumer is a position in a stream that is kept under a name; the log keeps the messages from there on.
A writer is a name under which one program at a time writes into a stream: a program that begins takes the
name over, across restarts too.

Silence is counted while the node runs, and not read from a clock that may jump. A consumer or writer that
is silent for too long is forgotten, because the messages of a consumer would fill the disk.

A name belongs to the user who made it: moving another user's consumer lets its messages go, and writing
under another user's name uses up its numbers. A name made by no user belongs to all who may read, or
write into, the stream; so does every name at a node without users.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.errors import StreamRefused, printable
from penstock.node.config.stream_checks import has_users
from penstock.node.streams.log.dedup import WRITER
from penstock.node.streams.status import ConsumerRow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.node.config.schema import Config
    from penstock.node.streams.service import StreamService
    from penstock.node.streams.tree.hosted import HostedStream


def check_owner(config: Config, owner: str, user: str, what: str) -> None:
    """StreamRefused if it belongs to another user; an empty owner is nobody in particular."""
    if owner not in ("", user) and has_users(config):
        as_whom = f"user '{user}'" if user else "somebody without a name"
        raise StreamRefused(
            f"{what} belongs to another user than {as_whom}: use another name for it, or come as its user",
            code="denied",
        )


log = logging.getLogger(__name__)

CONSUMERS_TABLE: Final = "consumers"
"""In the state file: (stream, consumer) → what is kept of it."""


class _Kept(msgspec.Struct, frozen=True, array_like=True, gc=False):
    place: int
    idle_s: float
    """For how long it was silent."""
    user: str = ""
    """Whose it is; empty: anybody's who may read the stream."""


_encode_consumer: Final = msgspec.msgpack.Encoder().encode
_decode_consumer: Final = msgspec.msgpack.Decoder(_Kept).decode


@dataclass(slots=True)
class _Consumer:
    place: int
    idle_s: float = 0.0
    user: str = ""
    spoken: bool = True
    """Since idle time was last counted."""


class Consumers:
    """Of all streams hosted here."""

    def __init__(self, service: StreamService) -> None:
        self._service = service
        self._known: dict[tuple[str, str], _Consumer] = {}
        self._count: Counter[str] = Counter()
        self._connected: Counter[tuple[str, str]] = Counter()

    def start(self) -> None:
        """Take up the places that were kept."""
        for (stream, name), value in self._service.state.load(CONSUMERS_TABLE):
            kept = _decode_consumer(value)
            if stream in self._service.hosted:
                self._known[stream, name] = _Consumer(kept.place, kept.idle_s, kept.user, spoken=False)
                self._count[stream] += 1
                self._hold(stream, name, kept.place)

    def check(self, stream: str, name: str, user: str) -> None:
        """StreamRefused if it belongs to somebody else."""
        found = self._known.get((stream, name))
        if found is not None:
            check_owner(self._service.config, found.user, user, f"consumer '{name}' of stream '{stream}'")

    def place(self, stream: str, name: str) -> int | None:
        """How far it has come; None: it is not known."""
        found = self._known.get((stream, name))
        if found is None:
            return None
        found.spoken = True
        return found.place

    def settle(
        self, hosted: HostedStream, name: str, until: int, done: Callable[[], None], *, user: str = ""
    ) -> None:
        """It needs nothing before a tick; `done` follows when that is durable. It never goes back.

        One that is new belongs to the user.
        """
        stream = hosted.name
        found = self._known.get((stream, name))
        if until > hosted.end:
            raise StreamRefused(
                f"stream '{stream}' ends at tick {hosted.end}; {until} lies behind it", code="refused"
            )
        if found is None:
            found = self._new(hosted, name, until, user)
        elif until < found.place:
            found.spoken = True
            self._service.state.when_durable(done)
            return
        found.place, found.spoken, found.idle_s = until, True, 0.0
        self._put(stream, name, found)
        # The log may go on once the place is durable: after a crash the older one counts.
        self._service.state.when_durable(lambda: self._settled(stream, name, until, done))

    def forget(self, stream: str, name: str, done: Callable[[], None]) -> None:
        """It is no more."""
        if self._known.pop((stream, name), None) is not None:
            self._count[stream] -= 1
            self._hold(stream, name, None)
            self._service.state.remove(CONSUMERS_TABLE, (stream, name))
        self._service.state.when_durable(done)

    def older(self, idle_s: float) -> None:
        """So much time has passed: count it, and forget who is silent for too long."""
        for (stream, name), one in list(self._known.items()):
            if one.spoken or self._connected[stream, name]:
                one.spoken = False
                if one.idle_s:
                    one.idle_s = 0.0
                    self._put(stream, name, one)
                continue
            one.idle_s += idle_s
            if one.idle_s < limits.STREAM_CONSUMER_S:
                self._put(stream, name, one)
                continue
            days = limits.STREAM_CONSUMER_S // 86_400
            log.warning(
                "%s",
                printable(
                    f"consumer '{name}' of stream '{stream}' asked for nothing for {days} days: it is "
                    f"forgotten, and nothing after tick {one.place} is kept for it any more"
                ),
            )
            self.forget(stream, name, _nothing)

    def came(self, stream: str, name: str) -> None:
        """A connection speaks for a consumer; `went` follows."""
        self._connected[stream, name] += 1

    def went(self, stream: str, name: str) -> None:
        """It ended."""
        self._connected[stream, name] -= 1
        if not self._connected[stream, name]:
            del self._connected[stream, name]

    def rows(self) -> tuple[ConsumerRow, ...]:
        """All of them."""
        return tuple(
            ConsumerRow(stream, name, one.place, (stream, name) in self._connected, one.user)
            for (stream, name), one in self._known.items()
        )

    def _new(self, hosted: HostedStream, name: str, until: int, user: str) -> _Consumer:
        stream = hosted.name
        if until < hosted.begin:
            raise StreamRefused(
                f"messages of stream '{stream}' before tick {hosted.begin} are gone",
                code="trimmed",
                first=hosted.begin,
            )
        if self._count[stream] >= limits.STREAM_CONSUMERS:
            raise StreamRefused(
                f"stream '{stream}' has {limits.STREAM_CONSUMERS:,} consumers already: forget some",
                code="full",
            )
        self._count[stream] += 1
        self._known[stream, name] = found = _Consumer(until, user=user)
        self._hold(stream, name, until)
        return found

    def _put(self, stream: str, name: str, one: _Consumer) -> None:
        kept = _Kept(one.place, one.idle_s, one.user)
        self._service.state.put(CONSUMERS_TABLE, (stream, name), _encode_consumer(kept))

    def _settled(self, stream: str, name: str, until: int, done: Callable[[], None]) -> None:
        if (stream, name) in self._known:
            self._hold(stream, name, until)
        done()

    def _hold(self, stream: str, name: str, until: int | None) -> None:
        self._service.hub.core.hold(stream, f"consumer:{name}", until)


def _nothing() -> None:
    """Nobody waits."""


WRITERS_TABLE: Final = "writers"
"""In the state file: (stream, writer) → what is kept of it."""


class _Writer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    token: str
    """Of who writes under the name; empty: batches alone were committed."""
    silent_s: float
    user: str = ""
    """Whose it is; empty: anybody's who may write into the stream."""


_encode_writer: Final = msgspec.msgpack.Encoder().encode
_decode_writer: Final = msgspec.msgpack.Decoder(_Writer).decode
_NOBODY: Final = _Writer("", 0.0)


class Writers:
    """Of all streams hosted here, by stream and name."""

    def __init__(self, service: StreamService) -> None:
        self._service = service
        self._known: dict[tuple[str, str], _Writer] = {}

    def start(self) -> None:
        """Take up who wrote before."""
        for (stream, name), value in self._service.state.load(WRITERS_TABLE):
            self._known[stream, name] = _decode_writer(value)

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
        self._service.state.remove(WRITERS_TABLE, key)
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
        self._service.state.put(WRITERS_TABLE, key, _encode_writer(one))


def _fenced(key: tuple[str, str]) -> StreamRefused:
    stream, writer = key
    return StreamRefused(
        f"another writer '{writer}' of stream '{stream}' has started since: this one may write no more",
        code="fenced",
    )
