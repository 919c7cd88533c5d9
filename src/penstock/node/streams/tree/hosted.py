"""A stream published at this node: its log, its pubend, and the publishers that wait for acknowledgements."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.errors import StreamError
from penstock.mqtt.topics import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.streams.pubend import Pubend
    from penstock.node.config.streams import Hosting
    from penstock.node.streams.log.dedup import PublisherMarks
    from penstock.node.streams.log.protocol import DurableLog
    from penstock.node.streams.tree.driver import CoreDriver


MARKS: Final = "marks"
"""Who holds the log for them; no neighbour and no session is called so."""


class _Waiting:
    """Somebody waits for the acknowledgements of ticks that follow one another."""

    __slots__ = ("at", "released", "until")

    def __init__(self, first: int, until: int, released: Callable[[int], None]) -> None:
        self.at = first
        """The first tick that is not acknowledged."""
        self.until = until
        self.released = released
        """Told how many more are."""


class HostedStream:
    """Takes records and says when each is durable and in its turn."""

    def __init__(
        self,
        hosting: Hosting,
        log: DurableLog,
        pubend: Pubend,
        marks: PublisherMarks,
        *,
        hub: CoreDriver,
        clock: Callable[[], int],
    ) -> None:
        self.name = hosting.name
        self.hosting = hosting
        self.log = log
        self.pubend = pubend
        self.marks = marks
        """Which messages of publishers that may send again are in the log already."""
        self.on_told: list[Callable[[int], None]] = []
        """Called with `end` when messages have become durable and can be read."""
        self.on_messages: list[Callable[[list[tuple[int, bytes]]], None]] = []
        """Called with messages that have become durable, by tick and in order."""
        self.on_ready: list[Callable[[], None]] = []
        """Called when a `read` that answered None may be asked again."""
        self._hub = hub
        self._clock = clock
        self._waiting: deque[_Waiting] = deque()
        self.watched = False
        """Whether each message is to be shown once it is durable."""
        self.show: Callable[[int, bytes], None] | None = None
        """To whom."""
        self._shown: deque[tuple[int, bytes]] = deque()
        self.refused = 0
        """Messages since the start that were not taken."""
        hub.acknowledged[hosting.name] = self._acknowledged

    def start(self) -> None:
        """Begin to commit, in the running loop."""
        self._hold()
        self.marks.on_checkpoint = self._hold
        self.log.start(committed=self._committed, ready=self._ready)
        self._hub.changed(self.name)

    @property
    def begin(self) -> int:
        """Messages before this tick are gone."""
        return self.log.trimmed

    @property
    def end(self) -> int:
        """Behind the last tick that is durable and told."""
        return self.pubend.position

    @property
    def full(self) -> str:
        """Why the log has no room, as `is full (…)`; empty: it has."""
        if self.log.bytes < self.hosting.bytes:
            return ""
        return (
            f"is full ({self.hosting.bytes:,} bytes): let its readers catch up, or give it more "
            "(streams.host.bytes)"
        )

    def carries(self, topic: str) -> bool:
        """Whether what is published on a topic goes into this stream."""
        return any(matches(filter_, topic) for filter_ in self.hosting.topics)

    def publish_many(
        self,
        bodies: Sequence[bytes],
        done: Callable[[], None] | None = None,
        *,
        released: Callable[[int], None] | None = None,
        look: bool = False,
    ) -> range:
        """Log records, all or none; their ticks, which follow one another.

        `done` follows when all may be acknowledged; `released` is told, in order, how many more may be.
        `look`: one of them is to be retained, so each is looked at when it is durable.
        StreamError, with what to do, if they cannot be taken.
        """
        try:
            self._check(bodies)
            first = self.pubend.publish_many(bodies, now_us=self._clock())
        except StreamError:
            self.refused += len(bodies)
            raise
        ticks = range(first, first + len(bodies))
        if look or self.watched:
            self._shown.extend(zip(ticks, bodies, strict=True))
        if released is not None:
            self._waiting.append(_Waiting(first, ticks.stop, released))
        elif done is not None:
            self._waiting.append(_Waiting(ticks.stop - 1, ticks.stop, lambda _: done()))
        return ticks

    def read(self, since: int, until: int, most: int) -> list[tuple[int, bytes]] | None:
        """The first `most` durable messages of a span, by tick; None: ask again when `on_ready` is called."""
        return self.log.read(since, min(until, self.end), most)

    def _check(self, bodies: Sequence[bytes]) -> None:
        if self.full:
            raise StreamError(f"the log of stream {self.name!r} {self.full}")
        if self.log.fault:
            raise StreamError(f"stream {self.name!r} takes nothing at the moment: {self.log.fault}")
        largest = max(map(len, bodies))
        most = min(limits.STREAM_BODY_BYTES, self.log.largest)
        if largest > most:
            raise StreamError(
                f"a message of {largest:,} bytes is too large for stream {self.name!r}: "
                f"at most {most:,}, its topic and properties included"
            )

    def _committed(self, until: int, claimed: int) -> None:
        messages = self.pubend.committed(until, claimed=claimed, now_us=self._clock())
        self.marks.committed(until)
        while self._shown and self._shown[0][0] < until:
            tick, body = self._shown.popleft()
            if self.show is not None:
                self.show(tick, body)
        if messages:
            for take in self.on_messages:
                take(messages)
            for told in self.on_told:
                told(self.pubend.position)
        self._hub.changed(self.name)

    def _hold(self) -> None:
        """The log keeps what marks have to be read from; whom nobody reads is acknowledged up to there."""
        self._hub.core.hold(self.name, MARKS, self.marks.checkpoint_tick)

    def _ready(self) -> None:
        self.pubend.resume()
        for ready in self.on_ready:
            ready()
        self._hub.changed(self.name)

    def _acknowledged(self, ticks: list[int]) -> None:
        """In order, as all acknowledgements of a pubend are."""
        last = ticks[-1]
        waiting = self._waiting
        while waiting and waiting[0].at <= last:
            first = waiting[0]
            count = min(last + 1, first.until) - first.at
            first.at += count
            if first.at == first.until:
                waiting.popleft()
            first.released(count)
