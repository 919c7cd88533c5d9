"""Named consumers and writers of programs: their positions, their owners, and how long they are kept.

A consumer is a position in a stream that is kept under a name; the log keeps the messages from there on.
A writer is a name under which one program at a time writes into a stream: a program that begins takes the
name over, across restarts too.

A name that is unused for too long is forgotten, because the messages kept for a consumer would fill the disk.
The time is counted while the node runs, and not read from a clock, which may jump.

A name belongs to the user who made it: moving another user's consumer lets its messages go, and writing
under another user's name uses up its numbers. A name made by no user belongs to all who may read, or
write into, the stream; so does every name at a node without users.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from penstock import limits
from penstock.errors import StreamRefused, printable
from penstock.node.streams.log.dedup import WRITER
from penstock.node.streams.log.state import StateTable
from penstock.node.streams.status import ConsumerRow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.node.streams.tree.directory import StreamContext
    from penstock.node.streams.tree.hosted import HostedStream

log = logging.getLogger(__name__)

CONSUMERS: Final = "consumers"
"""Table of the state file: (stream, name) → the consumer."""
WRITERS: Final = "writers"
"""Table of the state file: (stream, name) → the writer."""

Name: TypeAlias = tuple[str, str]
"""A stream, and the name of a consumer or writer of it."""


class _Consumer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    place: int
    """Everything before this tick is processed."""
    silent_s: float = 0.0
    """How long the name has been unused."""
    user: str = ""
    """The owner; empty: everybody who may read the stream."""


class _Writer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    token: str
    """Held by the program that writes under the name; empty: only batches have been committed."""
    silent_s: float = 0.0
    """How long the name has been unused."""
    user: str = ""
    """The owner; empty: everybody who may write into the stream."""


Named = TypeVar("Named", _Consumer, _Writer)


def check_owner(owner: str, user: str, what: str, *, users: bool) -> None:
    """StreamRefused if a name belongs to another user; `users`: whether the node has users at all."""
    if users and owner not in ("", user):
        as_whom = f"user '{user}'" if user else "an anonymous user"
        raise StreamRefused(
            f"{what} belongs to another user, not to {as_whom}: use another name, or log in as its user",
            code="denied",
        )


class NameTable(Generic[Named]):
    """Names in memory and in the state file, each with the time for which it has been unused."""

    def __init__(self, table: StateTable[Named], *, keep_s: float) -> None:
        self._table: StateTable[Named] = table
        self._keep_s = keep_s
        """A name that is unused for so long is forgotten."""
        self.known: dict[Name, Named] = {}

    def start(self, streams: Collection[str] | None = None) -> None:
        """Load the names of these streams; None: of all."""
        for (stream, name), one in self._table.load().items():
            if streams is None or stream in streams:
                self.known[stream, name] = one

    def put(self, key: Name, one: Named) -> None:
        """Add or change a name."""
        self.known[key] = one
        self._table.put(key, one)

    def remove(self, key: Name) -> None:
        """Delete a name."""
        del self.known[key]
        self._table.remove(key)

    def older(self, passed_s: float, *, used: Callable[[Name], bool]) -> list[Name]:
        """Add to the silence of names that were not used in this time; returns those to be forgotten."""
        expired = []
        for key, one in list(self.known.items()):
            silent_s = 0.0 if used(key) else one.silent_s + passed_s
            if silent_s >= self._keep_s:
                expired.append(key)
            elif silent_s != one.silent_s:
                self.put(key, replace(one, silent_s=silent_s))
        return expired


class Consumers:
    """The consumers of all streams hosted here."""

    def __init__(self, context: StreamContext, *, has_users: Callable[[], bool]) -> None:
        self._hosted = context.directory.hosted
        self._core = context.driver.core
        self._state = context.state
        self._has_users = has_users
        self._names = NameTable(
            StateTable(context.state, CONSUMERS, _Consumer, width=2), keep_s=limits.STREAM_CONSUMER_S
        )
        self._known = self._names.known
        self._count: Counter[str] = Counter()
        self._connected: Counter[Name] = Counter()
        self._used: set[Name] = set()
        """Consumers that were asked about since silence was last counted."""

    def start(self) -> None:
        """Load the consumers, and hold the streams for them."""
        self._names.start(self._hosted)
        for (stream, name), one in self._known.items():
            self._count[stream] += 1
            self._hold(stream, name, one.place)

    def check(self, stream: str, name: str, user: str) -> None:
        """StreamRefused if a consumer belongs to another user."""
        found = self._known.get((stream, name))
        if found is not None:
            check_owner(found.user, user, f"consumer '{name}' of stream '{stream}'", users=self._has_users())

    def place(self, stream: str, name: str) -> int | None:
        """The position of a consumer; None if it is not known."""
        found = self._known.get((stream, name))
        if found is None:
            return None
        self._used.add((stream, name))
        return found.place

    def settle(
        self, hosted: HostedStream, name: str, until: int, done: Callable[[], None], *, user: str = ""
    ) -> None:
        """Note that a consumer needs nothing before a tick; `done` is called when that is durable.

        A consumer never goes back: an earlier tick changes nothing. A new consumer belongs to the user.
        """
        stream = hosted.name
        key = (stream, name)
        found = self._known.get(key)
        if until > hosted.end:
            raise StreamRefused(
                f"tick {until} lies behind the end of stream '{stream}' ({hosted.end})", code="refused"
            )
        if found is None:
            found = self._new(hosted, name, until, user)
        self._used.add(key)
        if until < found.place:
            self._state.when_durable(done)
            return
        self._names.put(key, _Consumer(until, user=found.user))
        # The log may be trimmed once the place is durable: after a crash the older place counts.
        self._state.when_durable(lambda: self._settled(stream, name, until, done))

    def forget(self, stream: str, name: str, done: Callable[[], None]) -> None:
        """Delete a consumer; `done` is called when that is durable."""
        if (stream, name) in self._known:
            self._names.remove((stream, name))
            self._count[stream] -= 1
            self._hold(stream, name, None)
        self._state.when_durable(done)

    def older(self, passed_s: float) -> None:
        """Count time that has passed, and forget consumers that were unused for too long."""
        used, self._used = self._used, set()
        for stream, name in self._names.older(
            passed_s, used=lambda key: key in used or key in self._connected
        ):
            days = limits.STREAM_CONSUMER_S // 86_400
            place = self._known[stream, name].place
            log.warning(
                "%s",
                printable(
                    f"consumer '{name}' of stream '{stream}' was not used for {days} days and is deleted; "
                    f"messages from tick {place} on are no longer kept for it"
                ),
            )
            self.forget(stream, name, _nothing)

    def connected(self, stream: str, name: str) -> None:
        """A connection uses a consumer; `disconnected` is called when it ends."""
        self._connected[stream, name] += 1

    def disconnected(self, stream: str, name: str) -> None:
        """A connection that used a consumer has ended."""
        self._connected[stream, name] -= 1
        if not self._connected[stream, name]:
            del self._connected[stream, name]

    def rows(self) -> tuple[ConsumerRow, ...]:
        """The status of all consumers."""
        return tuple(
            ConsumerRow(stream, name, one.place, (stream, name) in self._connected, one.user)
            for (stream, name), one in self._known.items()
        )

    def _new(self, hosted: HostedStream, name: str, until: int, user: str) -> _Consumer:
        stream = hosted.name
        if until < hosted.begin:
            raise StreamRefused(
                f"messages of stream '{stream}' before tick {hosted.begin} are no longer in the log",
                code="trimmed",
                first=hosted.begin,
            )
        if self._count[stream] >= limits.STREAM_CONSUMERS:
            raise StreamRefused(
                f"too many consumers: stream '{stream}' has {limits.STREAM_CONSUMERS:,}; delete some",
                code="full",
            )
        self._count[stream] += 1
        self._hold(stream, name, until)
        return _Consumer(until, user=user)

    def _settled(self, stream: str, name: str, until: int, done: Callable[[], None]) -> None:
        if (stream, name) in self._known:
            self._hold(stream, name, until)
        done()

    def _hold(self, stream: str, name: str, until: int | None) -> None:
        self._core.hold(stream, f"consumer:{name}", until)


def _nothing() -> None:
    """Callback for `done` if no caller waits."""


_NOBODY: Final = _Writer("")


class Writers:
    """The writers of all streams hosted here."""

    def __init__(self, context: StreamContext, *, has_users: Callable[[], bool]) -> None:
        self._hosted = context.directory.hosted
        self._state = context.state
        self._has_users = has_users
        self._names = NameTable(
            StateTable(context.state, WRITERS, _Writer, width=2), keep_s=limits.STREAM_WRITER_S
        )
        self._known = self._names.known

    def start(self) -> None:
        """Load the writers."""
        self._names.start()

    def begin(self, key: Name, token: str, *, resume: bool, done: Callable[[], None], user: str = "") -> None:
        """Give a name to the program that has this token; `done` is called when that is durable.

        `resume`: the program claims to have the name already; StreamRefused if another one has taken it.
        """
        before = self._owned(key, user)
        if resume and before.token != token:
            raise _fenced(key)
        self._names.put(key, _Writer(token, user=before.user))
        self._state.when_durable(done)

    def leave(self, key: Name, token: str, *, done: Callable[[], None]) -> None:
        """Delete a name that its program does not need again; `done` is called when that is durable."""
        if self._known.get(key, _NOBODY).token == token:
            self._forget(key)
        self._state.when_durable(done)

    def commits(self, key: Name, *, once: bool, user: str) -> None:
        """Note that a batch is committed under a name, which then belongs to the user.

        `once`: the program uses the name for this batch only, so that a new name is not kept.
        """
        if once and key not in self._known:
            return
        before = self._owned(key, user)
        self._names.put(key, _Writer(before.token, user=before.user))

    def check(self, key: Name, token: str | None) -> None:
        """StreamRefused if the program with this token does not have the name now."""
        if token is None:
            raise StreamRefused(f"writer '{key[1]}' has not begun", code="refused")
        if token != self._known.get(key, _NOBODY).token:
            raise _fenced(key)

    def older(self, passed_s: float, *, busy: Collection[Name]) -> None:
        """Count time that has passed, and forget writers that were unused for too long.

        `busy` are the writers that are connected or have a commit under way.
        """
        for key in self._names.older(passed_s, used=busy.__contains__):
            self._forget(key)

    def forget_numbers(self, stream: str, writer: str) -> None:
        """Forget which messages of a writer are logged: messages that it sends again would be new ones."""
        hosted = self._hosted.get(stream)
        if hosted is not None:
            hosted.marks.forget_all(WRITER + writer)

    def _forget(self, key: Name) -> None:
        self._names.remove(key)
        self.forget_numbers(*key)

    def _owned(self, key: Name, user: str) -> _Writer:
        """A writer that is known, or a new one of this user; StreamRefused if it belongs to another user."""
        found = self._known.get(key)
        if found is not None:
            stream, name = key
            check_owner(found.user, user, f"writer '{name}' of stream '{stream}'", users=self._has_users())
            return found
        if len(self._known) >= limits.STREAM_WRITERS:
            raise StreamRefused(
                f"too many writers: {limits.STREAM_WRITERS:,} are known here; reuse their names", code="full"
            )
        return _Writer("", user=user)


def _fenced(key: Name) -> StreamRefused:
    stream, writer = key
    return StreamRefused(
        f"another program has since begun as writer '{writer}' of stream '{stream}': this one may not write "
        "any more",
        code="fenced",
    )
