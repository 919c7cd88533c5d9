"""`StreamWriter` writes into a reliable stream: every message once and in order, across restarts.

    with StreamWriter("stream://127.0.0.1", "orders", "shop-1") as writer:
        for number, line in enumerate(lines, 1):
            writer.write("orders/new", line, number=number)

A message has a number; the node ignores numbers that it already has from this writer. A program that
numbers its messages itself (lines of a file, say) can begin again after a crash and writes nothing twice:
`last` is the number of the last message in the stream.
"""

from __future__ import annotations

import secrets
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from penstock import limits
from penstock.client.message import message
from penstock.client.streams.connection import StreamConnection
from penstock.core.streams.requests import Append, Begin, Begun, Leave, Row, size_of
from penstock.errors import InputError, StreamRefused
from penstock.mqtt.topics import matches

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from types import TracebackType

AHEAD: Final = limits.STREAM_REQUESTS // 2
"""Requests without an answer that may be on their way at once."""


class StreamWriter:
    """Writes into a reliable stream of a node in order, each message once; blocking, without an event loop.

        with StreamWriter("stream://127.0.0.1:1884", "orders", name="shop") as writer:
            writer.write("orders/1", '{"item": 7}')
            writer.flush()

    There is one writer of a name at a time: a new one takes over, and the one before gets an error.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        name: str | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        patience_s: float | None = None,
    ) -> None:
        """Connect and take over from an earlier writer of the same name.

        * `url`: the node, as `stream://host:port`. `stream`: the name of the stream.
        * `name`: the node recognises messages that a writer of this name has written before, also from an
          earlier program. Without a name it recognises only repetitions of this very writer.
        * `tls`: the certificates to trust. `patience_s`: how long to try to reconnect, or None for ever.

        Raises Unreachable if no node answers, StreamRefused if the node refuses, InputError for a wrong name.
        """
        self._passing = name is None
        name = f"writer-{secrets.token_hex(8)}" if name is None else name
        if not 0 < len(name) <= limits.STREAM_NAME_CHARS:
            raise InputError(f"a writer's name has 1 to {limits.STREAM_NAME_CHARS} characters")
        self.stream = stream
        self.name = name
        self._token = secrets.token_hex(16)
        self._connection = StreamConnection(url, name=name, tls=tls, patience_s=patience_s)
        self._rows: list[tuple[int, Row]] = []
        self._bytes = 0
        self._under_way: deque[tuple[int, list[tuple[int, Row]]]] = deque()
        self._broken = False
        try:
            self._connection.open()
            begun = self._begin(resume=False)
        except BaseException:
            self._connection.close()
            raise
        self._topics = begun.topics
        self._most_bytes = begun.most_bytes
        self._known = self._highest = begun.last
        self.last = begun.last
        """All messages up to this number are in the stream; 0: none."""
        self._connection.again = self._again

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._connection.close()

    def write(  # each is a part of the message
        self,
        topic: str,
        payload: bytes | str,
        *,
        number: int | None = None,
        ts_us: int = 0,
        content_type: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> int:
        """Hand a message over to be sent, and return its number; `flush` waits until it is stored.

        * `number`: the next one if omitted. A number that is in the stream already is not written again, so
          a program that starts again can repeat its messages.
        * `ts_us`: time of the event in microseconds; 0: when the node accepts it.
        * `content_type`, `properties`: as of an MQTT message.

        Waits while too many messages are on their way. Raises InputError for a message that does not belong
        to this stream, StreamRefused if the node refuses an earlier one.
        """
        row = self._row(topic, payload, ts_us, content_type, properties)
        if number is None:
            number = self._highest + 1
        elif not 0 < number < limits.STREAM_TICKS:
            raise InputError(f"number {number}: the numbers of a writer begin with 1")
        elif number <= self._known:
            return number
        elif number <= self._highest:
            raise InputError(f"message {number} after {self._highest}: the numbers of a writer grow")
        self._highest = number
        self._rows.append((number, row))
        self._bytes += size_of(row)
        self._collect(leave=AHEAD)
        full = len(self._rows) >= limits.STREAM_APPEND or self._bytes >= limits.STREAM_APPEND_BYTES
        if full or not self._under_way:
            self._send()
        return number

    def flush(self) -> None:
        """Wait until all messages written are in the stream, on the node's disk.

        Raises StreamRefused if the node refuses one; the call may be repeated then.
        """
        self._send()
        self._collect(leave=0)

    def abandon(self) -> list[int]:
        """Give up the messages that were refused or not confirmed; return their numbers, which stay used."""
        if self._under_way:
            self._take_back()
        numbers = [number for number, _ in self._rows]
        self._rows, self._bytes = [], 0
        return numbers

    def close(self) -> None:
        """Flush, then disconnect."""
        try:
            self.flush()
            if self._passing:
                self._connection.call(Leave(0, self.stream, self.name, self._token))
        finally:
            self._connection.close()

    def _row(
        self,
        topic: str,
        payload: bytes | str,
        ts_us: int,
        content_type: str | None,
        properties: Mapping[str, str] | None,
    ) -> Row:
        packet = message(
            topic,
            payload,
            qos=1,
            retain=False,
            properties=properties,
            content_type=content_type,
            expiry_s=None,
        )
        if not any(matches(filter_, topic) for filter_ in self._topics):
            takes = ", ".join(self._topics)
            raise InputError(
                f"topic '{topic}' does not belong to stream '{self.stream}', whose topics are {takes}"
            )
        if len(packet.payload) > self._most_bytes:
            raise InputError(
                f"a payload of {len(packet.payload):,} bytes; the node takes up to {self._most_bytes:,}"
            )
        if not 0 <= ts_us < 1 << 62:
            raise InputError(f"ts_us is {ts_us}; microseconds since 1970")
        return Row(topic, packet.payload, ts_us, content_type or "", tuple((properties or {}).items()))

    def _send(self) -> None:
        if not self._rows:
            return
        if self._broken:
            self._begin(resume=True)
            self._broken = False
        while self._rows:
            self._collect(leave=AHEAD - 1)
            part = self._part()
            request = Append(
                0, self.stream, self.name, tuple(one for one, _ in part), tuple(row for _, row in part)
            )
            self._under_way.append((self._connection.ask(request), part))
            # After `ask`: whatever it raises, each message is in one of the two lists.
            del self._rows[: len(part)]
        self._bytes = 0

    def _part(self) -> list[tuple[int, Row]]:
        """Take as many waiting messages as fit into one request."""
        size = 0
        for count, (_, row) in enumerate(self._rows[: limits.STREAM_APPEND]):
            size += size_of(row)
            if count and size > 2 * limits.STREAM_APPEND_BYTES:
                return self._rows[:count]
        return self._rows[: limits.STREAM_APPEND]

    def _collect(self, *, leave: int) -> None:
        """Take all answers that have arrived; wait for more until at most `leave` requests have none."""
        while self._under_way:
            number, part = self._under_way[0]
            if (
                len(self._under_way) <= leave
                and not self._connection.answered(number)
                and not self._refused()
            ):
                return  # after a refusal wait for the earlier answers: nothing more may be sent
            try:
                self._connection.answer(number)
            except StreamRefused:
                self._take_back()
                raise
            self._under_way.popleft()
            self.last = part[-1][0]

    def _refused(self) -> list[int]:
        """Return the requests from the first refused one on; it may be answered before others."""
        numbers = [number for number, _ in self._under_way]
        refused = (at for at, number in enumerate(numbers) if self._connection.refused(number))
        return numbers[next(refused, len(numbers)) :]

    def _take_back(self) -> None:
        """Put the messages after a refusal back: all of them wait for the next flush."""
        self._broken = True
        rows = []
        for number, part in self._under_way:
            self._connection.forget(number)
            rows += part
        self._under_way.clear()
        self._rows = rows + self._rows

    def _begin(self, *, resume: bool) -> Begun:
        found = self._connection.call(Begin(0, self.stream, self.name, self._token, resume))
        assert isinstance(found, Begun)
        return found

    def _again(self) -> None:
        for number in self._refused()[1:]:  # a new connection does not know that nothing may follow a refusal
            self._connection.forget(number)
        self._connection.at_once(Begin(0, self.stream, self.name, self._token, resume=True))
