"""Runs: neighbouring messages that go to the same receivers as the bytes they came in; their queue.

Most messages have no properties, and what one `recv` brings goes mostly to the same receivers. Such
messages are forwarded as one slice of the received bytes, with QoS 1 as slices between other packet
identifiers: no object is made for any of them, unless a receiver is behind and its queue must hold them
one by one.

`RunQueue` is the queue of a subscription without a policy. A client that reads nothing must cost the
others nothing, though its queue overflows with every message they get. So runs wait as they came; the
oldest of their events are counted out by sequence number, without a look at them, and what is still there
when the client reads again goes out as it came. Events are made only for whoever wants to see them one by
one.
"""

from __future__ import annotations

from collections import deque
from struct import iter_unpack
from typing import TYPE_CHECKING, Final, TypeVar

from penstock import limits
from penstock.core.queues import DropOldestQueue
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.mqtt.codes import V4, V5
from penstock.mqtt.fields import decode_varint
from penstock.mqtt.packets.fanout import frame_qos0
from penstock.mqtt.packets.framing import Framer
from penstock.node.broker.message import message_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.queues import QueueOptions
    from penstock.model.event import Item
    from penstock.model.instant import Instant

F = TypeVar("F")
"""Type of what `routes` holds for a topic: a fan."""

QOS0: Final = 0x30
QOS1: Final = 0x32
"""First bytes of the messages that make runs: not retained, not sent again."""


class Run:
    """Plain messages of one publisher and one QoS, in order."""

    __slots__ = (
        "_by_version",
        "_events",
        "_parts",
        "count",
        "each_bytes",
        "now_us",
        "sender",
        "seq",
        "version",
    )

    def __init__(
        self, data: bytes, count: int, *, version: int, sender: str, seq: int, now_us: Instant
    ) -> None:
        self.count = count
        self.each_bytes = -(-len(data) // count)
        """Bytes of one message on average, headers included."""
        self.version = version
        self.sender = sender
        self.seq = seq
        """Sequence number of the first message."""
        self.now_us = now_us
        self._by_version: dict[int, bytes] = {version: data}
        self._parts: list[tuple[bytes, bytes]] | None = None
        self._events: list[Event] | None = None

    @property
    def data(self) -> bytes:
        """The frames as they came."""
        return self._by_version[self.version]

    def without(self, count: int) -> Run:
        """The run without so many of its first messages."""
        return self._part(self._end_of(count), None, count, self.count - count)

    def cut(self, count: int) -> tuple[Run, Run]:
        """Split the run behind so many of its messages."""
        at = self._end_of(count)
        return self._part(0, at, 0, count), self._part(at, None, count, self.count - count)

    def _end_of(self, count: int) -> int:
        """Where so many of the first messages end."""
        data, at = self._by_version[self.version], 0
        for _ in range(count):
            length, begin = decode_varint(data, at + 1, where="PUBLISH remaining length")
            at = begin + length
        return at

    def _part(self, start: int, stop: int | None, before: int, count: int) -> Run:
        """Some of the messages; a message's size stays what it was taken for."""
        part = Run(
            self._by_version[self.version][start:stop],
            count,
            version=self.version,
            sender=self.sender,
            seq=self.seq + before,
            now_us=self.now_us,
        )
        part.each_bytes = self.each_bytes
        return part

    def bytes_for(self, version: int) -> bytes:
        """The frames, as receivers of a version take them."""
        found = self._by_version.get(version)
        if found is None:
            start = b"\0" if version == V5 else b""
            frames = [frame_qos0(topic, start + payload) for topic, payload in self.parts()]
            found = self._by_version[version] = b"".join(frames)
        return found

    def parts(self) -> list[tuple[bytes, bytes]]:
        """Topic and payload of each message."""
        if self._parts is None:
            self._parts = _parts(self._by_version[self.version], self.version)
        return self._parts

    def events(self) -> list[Event]:
        """The messages one by one, for queues; made once for all of them."""
        if self._events is None:
            now_us, sender, first = self.now_us, self.sender, self.seq
            self._events = [
                Event(topic.decode(), payload, now_us, sender, seq)
                for seq, (topic, payload) in enumerate(self.parts(), start=first)
            ]
        return self._events


class AcknowledgedRun(Run):
    """Plain messages of one publisher with QoS 1, in order, for receivers that want to see each of them."""

    __slots__ = ()

    def events(self) -> list[Event]:
        """The messages one by one; made once for all receivers."""
        if self._events is None:
            self._events = [
                message_of(
                    topic.decode(),
                    payload,
                    topic_bytes=topic,
                    now_us=self.now_us,
                    sender=self.sender,
                    seq=seq,
                    qos=1,
                )
                for seq, (topic, _, payload) in enumerate(parts_qos1(self.data, self.version), start=self.seq)
            ]
        return self._events


def _parts(data: bytes, version: int) -> list[tuple[bytes, bytes]]:
    """`scan` has looked at every frame: lengths of one or two bytes, no properties."""
    found = []
    at, end, skip = 0, len(data), version == V5
    while at < end:
        length = data[at + 1]
        if length < 128:
            at += 2
        else:
            length = length & 127 | data[at + 2] << 7
            at += 3
        stop = at + length
        start = at + 2 + (data[at] << 8 | data[at + 1])
        found.append((data[at + 2 : start], data[start + skip : stop]))
        at = stop
    return found


def split_qos1(data: bytes) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Cut a run with QoS 1 into bytes before each packet identifier, the identifiers, and bytes behind."""
    heads, packet_ids, tails = [], [], []
    at, end = 0, len(data)
    while at < end:
        length = data[at + 1]
        if length < 128:
            body = at + 2
        else:
            length = length & 127 | data[at + 2] << 7
            body = at + 3
        middle = body + 2 + (data[body] << 8 | data[body + 1])
        stop = body + length
        heads.append(data[at:middle])
        packet_ids.append(data[middle : middle + 2])
        tails.append(data[middle + 2 : stop])
        at = stop
    return heads, packet_ids, tails


def topics_of(data: bytes) -> dict[bytes, int]:
    """The topics of a run of either QoS, and how many messages each has."""
    found: dict[bytes, int] = {}
    at, end = 0, len(data)
    while at < end:
        length = data[at + 1]
        if length < 128:
            at += 2
        else:
            length = length & 127 | data[at + 2] << 7
            at += 3
        topic = data[at + 2 : at + 2 + (data[at] << 8 | data[at + 1])]
        found[topic] = found.get(topic, 0) + 1
        at += length
    return found


def parts_qos1(data: bytes, version: int) -> list[tuple[bytes, int, bytes]]:
    """Topic, packet identifier and payload of each message of a run with QoS 1."""
    found = []
    at, end, skip = 0, len(data), 3 if version == V5 else 2
    while at < end:
        length = data[at + 1]
        if length < 128:
            at += 2
        else:
            length = length & 127 | data[at + 2] << 7
            at += 3
        stop = at + length
        middle = at + 2 + (data[at] << 8 | data[at + 1])
        found.append(
            (data[at + 2 : middle], data[middle] << 8 | data[middle + 1], data[middle + skip : stop])
        )
        at = stop
    return found


class Inbox(Framer):
    """Cuts received bytes into runs as far as it can, and into frames from there on."""

    __slots__ = ()

    def joined(self, chunk: bytes) -> bytes | None:
        """The chunk behind what is kept of an incomplete packet; None: a large one, leave it to `feed`."""
        kept = self._kept
        if not kept:
            return chunk
        if len(kept) > limits.RUN_BYTES or self.fault is not None:
            return None
        chunk = bytes(kept) + chunk
        self.clear()
        return chunk


def acknowledged(chunk: bytes) -> list[int]:
    """Packet identifiers of the PUBACKs without a reason code that a chunk begins with, four bytes each."""
    found = []
    for start, packet_id in iter_unpack(">HH", memoryview(chunk)[: len(chunk) & ~3]):
        if start != 0x4002 or not packet_id:
            break
        found.append(packet_id)
    return found


def scan(  # noqa: C901, PLR0912 (written out: a call for each message would take twice the time)
    chunk: bytes,
    *,
    version: int,
    most: int,
    routes: dict[bytes, F],
    miss: Callable[[bytes], F | None],
    handed: Callable[[F, bytes, int, int], None],
) -> int:
    """Hand over the runs at the beginning of a chunk; where the first other packet begins.

    `most` is the largest packet accepted. A topic that `routes` does not know is looked up by `miss`; `None`
    means that it cannot be part of a run. `handed` gets a run's fan, bytes, number of messages and first
    byte. A complaint about bytes is left to whoever reads them as a frame.
    """
    at = start = count = first = 0
    end = len(chunk)
    v4 = version == V4
    fan: F | None = None
    try:
        while at < end:
            kind = chunk[at]
            if kind not in (QOS0, QOS1):
                break
            body = at + 2
            length = chunk[at + 1]
            if length > 127:
                second = chunk[body]
                if not 0 < second < 128:
                    break
                length = length & 127 | second << 7
                body += 1
            stop = body + length
            if stop > end or stop - at > most:
                break
            topic_at = body + 2
            payload_at = topic_end = topic_at + (chunk[body] << 8 | chunk[body + 1])
            if kind == QOS1:
                payload_at += 2
                if payload_at > stop or not (chunk[topic_end] or chunk[topic_end + 1]):
                    break
            if payload_at > stop if v4 else payload_at >= stop or chunk[payload_at]:
                break
            topic = chunk[topic_at:topic_end]
            found = routes.get(topic)
            if found is None and (found := miss(topic)) is None:
                break
            if found is not fan or kind != first or stop - start > limits.RUN_BYTES:
                if fan is not None and count:
                    handed(fan, chunk[start:at], count, first)
                fan, start, count, first = found, at, 0, kind
            count += 1
            at = stop
    except IndexError:  # the length is not complete
        pass
    if fan is not None and count:
        handed(fan, chunk[start:at], count, first)
    return at


class RunQueue(DropOldestQueue):
    """Drops the oldest, whether it came alone or in a run."""

    def __init__(self, options: QueueOptions | None = None) -> None:
        super().__init__(options)
        self._runs: deque[Run] = deque()
        """Newer than all other items."""
        self._gone = 0
        """Events of the oldest run that were dropped already."""

    def offer_run(self, run: Run) -> None:
        """Accept a run; the oldest events go if it does not fit."""
        self._accepted += run.count
        self._runs.append(run)
        self._held += run.count
        self._queued += run.count
        self._bytes += run.count * run.each_bytes
        while self._held > self._most_items or self._bytes > self._most_bytes:
            if self._items:
                self._drop_oldest()
            elif self._queued > 1:
                self._drop_of_run(self._runs[0])
            else:
                break  # a single event larger than the whole queue

    def _drop_of_run(self, run: Run) -> None:
        """Take the events that are too many from the oldest run."""
        place = not self._tally.waiting  # the digest takes one
        over_bytes = self._bytes - self._most_bytes
        over = max(self._held + place - self._most_items, -(-over_bytes // run.each_bytes), 1)
        count = min(over, run.count - self._gone, self._queued - 1)
        first = run.seq + self._gone
        self._held -= count
        self._queued -= count
        self._bytes -= count * run.each_bytes
        self._add_many(count, ts_us=run.now_us, seq_first=first, seq_last=first + count - 1)
        self._gone += count
        if self._gone == run.count:
            self._runs.popleft()
            self._gone = 0

    def take_run(self, *, most_bytes: int | None = None) -> Run | None:
        """Take the run that goes out next, or as much of it as wanted; None if something else goes out."""
        if self.suspended or self._items or self._tally.waiting or not self._runs:
            return None
        run = self._runs.popleft()
        if self._gone:
            run = run.without(self._gone)
            self._gone = 0
        if most_bytes is not None and (wanted := max(1, most_bytes // run.each_bytes)) < run.count:
            run, rest = run.cut(wanted)
            self._runs.appendleft(rest)
        self._held -= run.count
        self._queued -= run.count
        self._bytes -= run.count * run.each_bytes
        self._delivered += run.count
        return run

    @property
    def oldest_us(self) -> Instant | None:
        """Since when the next item waits; a run is not opened for it."""
        if self._runs and not self.ahead:
            return self._runs[0].now_us
        item = self.head()
        return item.ts_us if isinstance(item, Event) else item.from_us if isinstance(item, Digest) else None

    @property
    def ahead(self) -> int:
        """Items that go out before the first run."""
        return len(self._items) + self._tally.waiting

    # -- one by one ------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Make events of the runs that wait."""
        while self._runs:
            run = self._runs.popleft()
            left = run.events()[self._gone :]
            self._gone = 0
            self._held -= len(left)
            self._queued -= len(left)
            self._bytes -= len(left) * run.each_bytes
            for event in left:
                self._append(event, len(event.payload) + len(event.topic))

    def offer(self, item: Item, *, now_us: Instant) -> None:
        """Accept an item behind all runs."""
        if self._runs:
            self._open()
        super().offer(item, now_us=now_us)

    def take(
        self, most: int | None = None, *, most_bytes: int | None = None, now_us: Instant | None = None
    ) -> list[Item]:
        """Take the items that go out next, the events of runs among them."""
        if self._runs and not self.suspended and (most is None or most > self.ahead):
            self._open()
        return super().take(most, most_bytes=most_bytes, now_us=now_us)

    def head(self) -> Item | None:
        """The next item to go out, or None."""
        if self._runs and not self.ahead:
            self._open()
        return super().head()

    def items(self) -> tuple[Item, ...]:
        """All waiting items, in order."""
        self._open()
        return super().items()
