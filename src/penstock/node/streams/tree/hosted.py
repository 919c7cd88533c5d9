"""A stream published at this node: its log, its pubend, and the publishers that wait for acknowledgements."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock import limits
from penstock.errors import StreamError
from penstock.mqtt.topics import matches
from penstock.node.streams.log.dedup import MARKS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.streams.pubend import Pubend
    from penstock.node.config.streams import Hosting
    from penstock.node.streams.log.dedup import PublisherMarks
    from penstock.node.streams.log.protocol import DurableLog
    from penstock.node.streams.tree.driver import CoreDriver


class _Waiting:
    """A publisher that waits for the acknowledgements of consecutive ticks."""

    __slots__ = ("at", "released", "until")

    def __init__(self, first: int, until: int, released: Callable[[int], None]) -> None:
        self.at = first
        """The first tick that is not acknowledged."""
        self.until = until
        self.released = released
        """Called with the number of ticks that have been acknowledged since the last call."""


class HostedStream:
    """Appends records to the log, and tells their publishers when each is durable and may be acknowledged."""

    def __init__(
        self,
        hosting: Hosting,
        log: DurableLog,
        pubend: Pubend,
        marks: PublisherMarks,
        *,
        driver: CoreDriver,
        clock: Callable[[], int],
    ) -> None:
        self.name = hosting.name
        self.hosting = hosting
        self.log = log
        self.pubend = pubend
        self.marks = marks
        """Which messages are in the log already, of publishers that may send a message again."""
        self.on_end: list[Callable[[int], None]] = []
        """Called with `end` when messages have become durable and can be read."""
        self.on_messages: list[Callable[[list[tuple[int, bytes]]], None]] = []
        """Called with the messages (tick, body) that have become durable, in order."""
        self.on_ready: list[Callable[[], None]] = []
        """Called when a `read` that returned None may be repeated."""
        self._driver = driver
        self._clock = clock
        self._waiting: deque[_Waiting] = deque()
        self.watched = False
        """Whether each message is passed to `show` once it is durable: a tap of the router has its topics."""
        self.show: Callable[[int, bytes], None] | None = None
        """Takes the messages (tick, body) that are watched or to be retained."""
        self._to_show: deque[tuple[int, bytes]] = deque()
        """Messages that wait to be durable before they are shown."""
        self.refused = 0
        """Messages refused since the start."""
        driver.acknowledged[hosting.name] = self._acknowledged

    def start(self) -> None:
        """Begin to commit, in the running loop."""
        self._hold()
        self.marks.on_checkpoint = self._hold
        self.log.start(committed=self._committed, ready=self._ready)
        self._driver.changed(self.name)

    @property
    def begin(self) -> int:
        """The first tick that is still in the log."""
        return self.log.trimmed

    @property
    def end(self) -> int:
        """The tick behind the last durable message that can be read."""
        return self.pubend.position

    @property
    def full(self) -> str:
        """Why the log has no room, as `is full (…)`; empty if it has room."""
        if self.log.bytes < self.hosting.bytes:
            return ""
        return (
            f"is full ({self.hosting.bytes:,} bytes): let its readers catch up, or make it larger "
            "(streams.host.bytes)"
        )

    def carries(self, topic: str) -> bool:
        """Whether messages published on a topic go into this stream."""
        return any(matches(filter_, topic) for filter_ in self.hosting.topics)

    def publish_many(
        self,
        bodies: Sequence[bytes],
        done: Callable[[], None] | None = None,
        *,
        released: Callable[[int], None] | None = None,
        look: bool = False,
    ) -> range:
        """Append records to the log, all or none; returns their ticks, which are consecutive.

        `done` is called when all of them may be acknowledged; `released` is called, in order, with the number
        of further records that may be. `look`: a record is to be retained, so all are passed to `show` when
        they are durable. StreamError, with what to do, if they cannot be appended.
        """
        try:
            self._check(bodies)
            first = self.pubend.publish_many(bodies, now_us=self._clock())
        except StreamError:
            self.refused += len(bodies)
            raise
        ticks = range(first, first + len(bodies))
        if look or self.watched:
            self._to_show.extend(zip(ticks, bodies, strict=True))
        if released is not None:
            self._waiting.append(_Waiting(first, ticks.stop, released))
        elif done is not None:
            self._waiting.append(_Waiting(ticks.stop - 1, ticks.stop, lambda _: done()))
        return ticks

    def read(self, since: int, until: int, most: int) -> list[tuple[int, bytes]] | None:
        """The first `most` durable messages of a span; None: repeat the call after `on_ready`."""
        return self.log.read(since, min(until, self.end), most)

    def _check(self, bodies: Sequence[bytes]) -> None:
        if self.full:
            raise StreamError(f"the log of stream {self.name!r} {self.full}")
        if self.log.fault:
            raise StreamError(f"stream {self.name!r} accepts nothing at the moment: {self.log.fault}")
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
        while self._to_show and self._to_show[0][0] < until:
            tick, body = self._to_show.popleft()
            if self.show is not None:
                self.show(tick, body)
        if messages:
            for take in self.on_messages:
                take(messages)
            for ended in self.on_end:
                ended(self.pubend.position)
        self._driver.changed(self.name)

    def _hold(self) -> None:
        """Keep in the log the messages whose marks are not in the state file yet.

        A stream that nobody reads counts as acknowledged up to this tick.
        """
        self._driver.core.hold(self.name, MARKS, self.marks.checkpoint_tick)

    def _ready(self) -> None:
        self.pubend.resume()
        for ready in self.on_ready:
            ready()
        self._driver.changed(self.name)

    def _acknowledged(self, ticks: list[int]) -> None:
        """Tell waiting publishers; a pubend acknowledges its ticks in order."""
        last = ticks[-1]
        waiting = self._waiting
        while waiting and waiting[0].at <= last:
            first = waiting[0]
            count = min(last + 1, first.until) - first.at
            first.at += count
            if first.at == first.until:
                waiting.popleft()
            first.released(count)
