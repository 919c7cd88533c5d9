"""`StreamReader` reads a reliable stream: every message once and in order, across restarts.

    with StreamReader("stream://127.0.0.1", "orders", consumer="billing", start="earliest") as reader:
        for message in reader:
            book(message.payload)
            reader.commit()

Without a consumer the node keeps no position, and the reader begins where `start` says. The node keeps the
position of a consumer and deletes nothing after it; messages read and not committed are read again.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from penstock import limits
from penstock.client.streams.connection import StreamConnection
from penstock.core.streams import wire
from penstock.core.streams.requests import Describe, Described, Fetch, Fetched, Forget, Place, Placed, Settle
from penstock.errors import InputError, StreamRefused
from penstock.mqtt.codes import Kind
from penstock.mqtt.fields import FieldReader
from penstock.mqtt.packets.properties import NONE, decode_properties

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

    from penstock.core.streams.requests import Figures
    from penstock.mqtt.packets.properties import Properties


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """One message of a reliable stream; stream and tick identify it for ever."""

    stream: str
    tick: int
    topic: str
    payload: bytes
    ts_us: int
    """When the node accepted it, or the time its writer gave; microseconds since 1970."""
    sender: str = ""
    """Client id of its publisher, or name of its writer."""
    seq: int = 0
    """Sequence number of the publisher."""
    qos: int = 1
    content_type: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    """User properties, in order."""


def message_of(stream: str, tick: int, body: bytes) -> StreamMessage:
    """Decode a record; raises StreamError if it is damaged."""
    found = wire.decode_record(body)
    more = properties_of(found.properties)
    return StreamMessage(
        stream,
        tick,
        found.topic,
        found.payload,
        found.ts_us,
        found.sender,
        found.seq,
        found.qos,
        more.content_type or "",
        more.user,
    )


def properties_of(data: bytes) -> Properties:
    """Decode the MQTT 5 properties of a record."""
    return decode_properties(FieldReader(data, packet="record"), Kind.PUBLISH) if data else NONE


class StreamReader:
    """Reads a reliable stream of a node in order, each message once; blocking, without an event loop.

        with StreamReader("stream://127.0.0.1:1884", "orders", consumer="billing") as reader:
            for message in reader:
                print(message.tick, message.payload)
                reader.commit()

    The iteration does not end, unless `until` is given.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        *,
        consumer: str | None = None,
        start: Literal["new", "earliest"] | int = "new",
        until: Literal["end"] | int | None = None,
        tls: ssl.SSLContext | None = None,
        patience_s: float | None = None,
    ) -> None:
        """Connect and find the first message.

        * `url`: the node, as `stream://host:port`. `stream`: the name of the stream.
        * `consumer`: name under which `commit` stores the position. A consumer that the node knows continues
          at its position, whatever `start` says.
        * `start`: "new", "earliest" or a tick. `until`: a tick, or "end" for what is there now.
        * `tls`: the certificates to trust. `patience_s`: how long to try to reconnect, or None for ever.

        Raises Unreachable if no node answers, StreamRefused if the node refuses, InputError for a wrong
        argument.
        """
        if not isinstance(start, int) and start not in ("new", "earliest"):
            raise InputError(f"start is {start!r}: new, earliest or a tick")
        if until is not None and not isinstance(until, int) and until != "end":
            raise InputError(f"until is {until!r}: a tick, or end")
        for what, tick in (("start", start), ("until", until)):
            if isinstance(tick, int) and not 0 <= tick < limits.STREAM_TICKS:
                raise InputError(f"{what} is {tick}: ticks are from 0 to {limits.STREAM_TICKS - 1}")
        self.stream = stream
        self._consumer = consumer or ""
        self._connection = StreamConnection(url, name=self._consumer, tls=tls, patience_s=patience_s)
        self._waiting: deque[StreamMessage] = deque()
        self._asked: int | None = None
        self._last = -1
        try:
            self._connection.open()
            figures = described(self._connection, stream)
            self._next = self._begin(start, figures)
        except BaseException:
            self._connection.close()
            raise
        self._until = figures.end if until == "end" else until

    @property
    def place(self) -> int:
        """Tick of the next message; all messages before it have been returned."""
        return self._waiting[0].tick if self._waiting else self._next

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StreamMessage:
        found = self.read()
        if found is None:
            raise StopIteration
        return found

    def read(self, *, timeout_s: float | None = None) -> StreamMessage | None:
        """Wait for the next message; return None after the last one before `until`.

        Raises TimeoutError if none arrives within `timeout_s`.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._waiting:
            if self._until is not None and self._next >= self._until:
                return None
            self._fetch(None if deadline_s is None else max(0.0, deadline_s - time.monotonic()))
        found = self._waiting.popleft()
        self._last = found.tick
        return found

    def commit(self, tick: int | None = None) -> None:
        """Store the position of the consumer behind a message, the last one returned if `tick` is omitted.

        The position is on the node's disk when the call returns. Raises InputError without a consumer.
        """
        if not self._consumer:
            raise InputError("a reader without a consumer stores no position; give a name as `consumer`")
        done = self._last if tick is None else tick
        if done >= 0:
            self._connection.call(Settle(0, self.stream, self._consumer, done + 1))

    def close(self) -> None:
        """Disconnect; the next reader of this consumer begins behind the last commit."""
        self._connection.close()

    def _begin(self, start: str | int, figures: Figures) -> int:
        connection, consumer = self._connection, self._consumer
        if consumer:
            found = connection.call(Place(0, self.stream, consumer))
            assert isinstance(found, Placed)
            if found.place is not None:
                return found.place
        first = start if isinstance(start, int) else figures.end if start == "new" else figures.begin
        while consumer:
            try:
                connection.call(Settle(0, self.stream, consumer, first))
            except StreamRefused as error:
                if error.code != "trimmed" or isinstance(start, int):
                    raise
                first = error.first  # the log was trimmed since the figures were read
            else:
                break
        return first

    def _fetch(self, timeout_s: float | None) -> None:
        """Take an answer, and request the next one before the messages of this one are returned."""
        if self._asked is None:
            self._ask()
        assert self._asked is not None
        try:
            found = self._connection.answer(self._asked, timeout_s=timeout_s)
        except StreamRefused:
            self._connection.forget(self._asked)
            self._asked = None  # the next read asks again
            raise
        self._asked = None
        assert isinstance(found, Fetched)
        messages = zip(found.ticks, found.bodies, strict=True)
        self._waiting.extend([message_of(self.stream, tick, body) for tick, body in messages])
        self._next = found.behind
        if self._until is None or self._next < self._until:
            self._ask()

    def _ask(self) -> None:
        until = limits.STREAM_TICKS if self._until is None else self._until
        request = Fetch(
            0, self.stream, self._next, until, wait_ms=limits.STREAM_WAIT_MS, consumer=self._consumer
        )
        self._asked = self._connection.ask(request)


def list_streams(url: str, *, tls: ssl.SSLContext | None = None) -> tuple[Figures, ...]:
    """List all streams that a node knows."""
    with StreamConnection(url, tls=tls) as connection:
        connection.open()
        found = connection.call(Describe(0))
    assert isinstance(found, Described)
    return found.streams


def forget_consumer(url: str, stream: str, consumer: str, *, tls: ssl.SSLContext | None = None) -> bool:
    """Delete the position of a consumer; return whether there was one."""
    with StreamConnection(url, tls=tls) as connection:
        connection.open()
        found = connection.call(Place(0, stream, consumer))
        assert isinstance(found, Placed)
        connection.call(Forget(0, stream, consumer))
        return found.place is not None


def described(connection: StreamConnection, stream: str) -> Figures:
    """Return the figures of a stream; raises StreamRefused if the node does not host it."""
    found = connection.call(Describe(0))
    assert isinstance(found, Described)
    figures = next((one for one in found.streams if one.name == stream), None)
    if figures is None:
        known = ", ".join(sorted(one.name for one in found.streams)) or "none"
        raise StreamRefused(
            f"{connection.address}: node '{found.node}' has no stream '{stream}'; there are: {known}",
            code="unknown",
        )
    if not figures.here:
        raise StreamRefused(
            f"{connection.address}: stream '{stream}' is hosted by {figures.whereabouts}; connect there",
            code="elsewhere",
        )
    return figures
