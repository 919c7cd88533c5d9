"""Consumers: programs whose place in a stream is kept under a name, and whom its log waits for.

Time without a word of a consumer is counted while the node runs, and not read off a clock that may jump. A
consumer that is silent for too long is forgotten: its messages would fill the disk.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.errors import StreamRefused, printable
from penstock.node.streams.serving_owners import check_owner
from penstock.node.streams.status import ConsumerRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.streams.hosted import Hosted
    from penstock.node.streams.service import StreamService

log = logging.getLogger(__name__)

TABLE: Final = "consumers"
"""In the state file: (stream, consumer) → what is kept of it."""


class _Kept(msgspec.Struct, frozen=True, array_like=True, gc=False):
    place: int
    idle_s: float
    """For how long it was silent."""
    user: str = ""
    """Whose it is; empty: anybody's who may read the stream."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Kept).decode


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
        for (stream, name), value in self._service.state.load(TABLE):
            kept = _decode(value)
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
        self, hosted: Hosted, name: str, until: int, done: Callable[[], None], *, user: str = ""
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
            self._service.state.remove(TABLE, (stream, name))
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

    def _new(self, hosted: Hosted, name: str, until: int, user: str) -> _Consumer:
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
        self._service.state.put(TABLE, (stream, name), _encode(kept))

    def _settled(self, stream: str, name: str, until: int, done: Callable[[], None]) -> None:
        if (stream, name) in self._known:
            self._hold(stream, name, until)
        done()

    def _hold(self, stream: str, name: str, until: int | None) -> None:
        self._service.hub.core.hold(stream, f"consumer:{name}", until)


def _nothing() -> None:
    """Nobody waits."""
