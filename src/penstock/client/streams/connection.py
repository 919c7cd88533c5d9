"""A blocking connection to a node's stream listener (stream://, streams://) that reconnects.

There is no event loop: readers and writers run in programs of any kind, Spark's workers among them. All
requests can be repeated, so requests without an answer are sent again over the next connection, in the
same order. One thread at a time may use a connection.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, Self
from urllib.parse import unquote, urlsplit

import msgspec

from penstock import limits
from penstock.core.backoff import pauses_s
from penstock.core.streams import handshake
from penstock.core.streams.requests import Failed, decode_answer, encode
from penstock.core.streams.wire import HEAD_BYTES, FrameReader, frame_size
from penstock.errors import ConnectionLost, InputError, StreamError, StreamRefused, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from penstock.core.streams.requests import Answer, Request

PORT: Final = 1884
"""Default port."""


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """The parts of an address; its text holds no password."""

    host: str
    port: int
    secure: bool = False
    user: str = ""
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'streams' if self.secure else 'stream'}://{host}:{self.port}"


def read_stream_address(url: str) -> StreamAddress:
    """Read an address; raises InputError, which never shows a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text may hold a password
        raise InputError(
            "this is no address of a node's streams: its host or port cannot be read; in a user name or "
            "password write / as %2F, # as %23, ? as %3F, @ as %40"
        ) from None
    if parts.scheme not in ("stream", "streams") or not parts.hostname:
        shown = f"{parts.scheme}://{parts.hostname or ''}" if parts.scheme else repr(url.rpartition("@")[2])
        raise InputError(f"{shown} should be like stream://127.0.0.1:{PORT}, or streams://… for TLS")
    if parts.query or parts.fragment or parts.path.strip("/"):
        raise InputError(f"stream://{parts.hostname}: an address ends with the port, without the stream")
    return StreamAddress(
        parts.hostname,
        PORT if port is None else port,
        parts.scheme == "streams",
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )


log = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 1 << 18


class StreamLink:
    """One connection, from greeting to end; raises ConnectionLost when it breaks."""

    def __init__(self, address: StreamAddress, *, name: str, tls: ssl.SSLContext | None) -> None:
        self._address = address
        self._frames = FrameReader(decode_answer)
        self._socket = _dialled(address, tls)
        try:
            self._greet(name)
        except BaseException:
            self.close()
            raise

    def send(self, data: bytes) -> None:
        """Send a request, encoded."""
        self._socket.settimeout(None)
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise self._lost(error) from None

    def receive(self, *, timeout_s: float | None = None) -> list[Answer]:
        """Return the next answers, at least one; raises TimeoutError if none arrives in time."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            try:
                found = self._frames.feed(self._read(left_s))
            except StreamError as error:
                raise ConnectionLost(f"{self._address}: {error}") from None
            if found:
                return found

    def close(self) -> None:
        """Close the socket."""
        with suppress(OSError):
            self._socket.close()

    def _read(self, timeout_s: float | None) -> bytes:
        try:
            self._socket.settimeout(timeout_s)
            data = self._socket.recv(_CHUNK_BYTES)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            raise TimeoutError from None
        except OSError as error:
            raise self._lost(error) from None
        if not data:
            raise self._lost(None)
        return data

    def _greet(self, name: str) -> None:
        user, password = self._address.user, self._address.password
        hello = handshake.Hello(handshake.VERSION, "program", name, user, password)
        try:
            self._socket.settimeout(limits.MQTT_CONNECT_S)
            self._socket.sendall(handshake.encode(hello))
            answer = handshake.decode_answer(self._exactly(frame_size(self._exactly(HEAD_BYTES))))
        except TimeoutError:
            raise Unreachable(
                f"{self._address}: no greeting within {limits.MQTT_CONNECT_S} s; is this a port for streams?"
            ) from None
        except (OSError, ConnectionLost) as error:
            why = str(error).removeprefix(f"{self._address}: ")
            raise Unreachable(
                f"{self._address}: closed while greeting: {why}; is this a port for streams (streams.listen)?"
            ) from None
        except StreamError as error:
            raise Unreachable(f"{self._address}: {error}; is this a port for streams?") from None
        if isinstance(answer, handshake.Sorry):
            raise StreamRefused(f"{self._address}: {answer.reason}", code="denied")

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise self._lost(None)
            data += more
        return data

    def _lost(self, error: OSError | None) -> ConnectionLost:
        why = "the node closed the connection" if error is None else error.strerror or str(error)
        return ConnectionLost(f"{self._address}: {why}")


@dataclass(slots=True)
class _Attempts:
    """Attempts to connect again after a loss."""

    began_s: float
    next_s: float
    """Time of the next attempt."""
    pauses: Iterator[float]


class StreamConnection:
    """Sends requests and returns answers; reconnects as often as needed."""

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        tls: ssl.SSLContext | None = None,
        patience_s: float | None = None,
    ) -> None:
        """`patience_s`: how long to try to connect before Unreachable is raised, or None for ever."""
        self.address = read_stream_address(url)
        self._name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._tls = tls
        self._patience_s = patience_s
        self._link: StreamLink | None = None
        self._trying: _Attempts | None = None
        self._process = os.getpid()
        self._number = 0
        self._asked: dict[int, bytes] = {}
        self._answers: dict[int, Answer] = {}
        self.again: Callable[[], None] = _nothing
        """Called on each new connection before requests are sent again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect; raises Unreachable at once if that fails."""
        self._drop()
        self._link = StreamLink(self.address, name=self._name, tls=self._tls)

    def close(self) -> None:
        """Close the connection; requests without an answer may have been carried out."""
        self._drop()
        self._asked.clear()
        self._answers.clear()

    def call(self, request: Request) -> Answer:
        """Send a request and wait for the answer; raises StreamRefused if the node refuses."""
        return self.answer(self.ask(request))

    def ask(self, request: Request) -> int:
        """Send a request; return its number, for `answer`."""
        self._check_process()
        number, data = self._numbered(request)
        self._asked[number] = data
        try:
            if self._link is None:
                self._connect()
            else:
                self._send(data)
        except BaseException:
            self._asked.pop(number, None)  # the caller got no number, so no call waits for the answer
            raise
        return number

    def answer(self, number: int, *, timeout_s: float | None = None) -> Answer:
        """Wait for an answer; raises StreamRefused for a refusal, TimeoutError if none arrives in time."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while number not in self._answers:
            self._receive(deadline_s)
        found = self._answers.pop(number)
        if isinstance(found, Failed):
            raise StreamRefused(found.reason, code=found.code, first=found.first)
        return found

    def answered(self, number: int) -> bool:
        """Whether the answer has arrived."""
        if number not in self._answers:
            with suppress(TimeoutError):
                self._receive(time.monotonic())
        return number in self._answers

    def refused(self, number: int) -> bool:
        """Whether the answer has arrived and is a refusal."""
        return isinstance(self._answers.get(number), Failed)

    def forget(self, number: int) -> None:
        """Forget a request; its answer will be ignored."""
        self._asked.pop(number, None)
        self._answers.pop(number, None)

    def at_once(self, request: Request) -> Answer:
        """For `again`: send a request over the new connection, before all earlier ones are sent again."""
        assert self._link is not None
        number, data = self._numbered(request)
        self._link.send(data)
        while True:
            for found in self._link.receive():
                if found.id == number:
                    if isinstance(found, Failed):
                        raise StreamRefused(found.reason, code=found.code, first=found.first)
                    return found

    def _numbered(self, request: Request) -> tuple[int, bytes]:
        self._number += 1
        return self._number, encode(msgspec.structs.replace(request, id=self._number))

    def _check_process(self) -> None:
        # After a fork, parent and child would take each other's answers, and write the same numbers.
        if os.getpid() != self._process:
            raise InputError(
                f"this connection belongs to process {self._process}: "
                "after a fork make a reader or writer anew"
            )

    def _receive(self, deadline_s: float | None) -> None:
        self._check_process()
        if self._link is None:
            self._connect(deadline_s)
        assert self._link is not None
        try:
            left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            answers = self._link.receive(timeout_s=left_s)
        except ConnectionLost as error:
            log.info("%s; connecting again", error)
            self._drop()
            self._connect(deadline_s)
            return
        for found in answers:
            if isinstance(found, Failed) and not found.id:  # a refusal is final: the node would refuse again
                self._drop()
                raise StreamRefused(found.reason, code=found.code)
            if self._asked.pop(found.id, None) is not None:
                self._answers[found.id] = found

    def _send(self, data: bytes) -> None:
        assert self._link is not None
        try:
            self._link.send(data)
        except ConnectionLost as error:
            log.info("%s; connecting again", error)
            self._connect()

    def _connect(self, deadline_s: float | None = None) -> None:
        """Connect, trying until `patience_s` is over, and send requests without an answer again.

        Raises TimeoutError once the deadline has passed; the next call continues with the attempts.
        """
        if self._trying is None:
            now_s = time.monotonic()
            self._trying = _Attempts(now_s, now_s, _pauses())
        while True:
            _sleep_until(self._trying.next_s, deadline_s)
            try:
                self.open()
                self.again()
                for data in self._asked.values():
                    assert self._link is not None
                    self._link.send(data)
            except (Unreachable, ConnectionLost) as error:
                self._failed(self._trying, error)
            except StreamRefused as error:
                if error.code != "denied":
                    self._drop()
                    self._trying = None
                    raise
                self._failed(self._trying, error)
            else:
                self._trying = None
                return

    def _failed(self, trying: _Attempts, error: Exception) -> None:
        self._drop()
        pause_s = next(trying.pauses)
        trying.next_s = time.monotonic() + pause_s
        if self._patience_s is not None and trying.next_s > trying.began_s + self._patience_s:
            self._trying = None
            raise error
        log.debug("%s; again in %.1f s", error, pause_s)

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None


def _sleep_until(then_s: float, deadline_s: float | None) -> None:
    """Sleep; raises TimeoutError if the deadline comes first."""
    late = deadline_s is not None and then_s > deadline_s
    time.sleep(max(0.0, (deadline_s if late and deadline_s is not None else then_s) - time.monotonic()))
    if late:
        raise TimeoutError


def _nothing() -> None:
    """Send nothing on a new connection."""


def _pauses() -> Iterator[float]:
    return pauses_s(
        random.Random(),  # noqa: S311
        least_s=limits.STREAM_RECONNECT_LEAST_S,
        most_s=limits.STREAM_RECONNECT_MOST_S,
    )


def _dialled(address: StreamAddress, tls: ssl.SSLContext | None) -> socket.socket:
    """Connect a socket; raises Unreachable that says why that fails."""
    plain: socket.socket | None = None
    try:
        plain = socket.create_connection((address.host, address.port), timeout=limits.CONNECT_S)
        # Small requests wait for answers: Nagle's algorithm would delay them.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(plain)
        if not address.secure:
            return plain
        context = tls or ssl.create_default_context()
        return context.wrap_socket(plain, server_hostname=address.host)
    except (OSError, OverflowError) as error:
        if plain is not None:
            plain.close()
        raise Unreachable(f"{address}: {_reason(error)}") from None


class KeptAlive(Protocol):
    """A socket, or the socket of an asyncio transport."""

    def setsockopt(self, level: int, option: int, value: int, /) -> None:
        """Set an option, as `socket.setsockopt`."""
        ...


def keep_alive(connected: KeptAlive) -> None:
    """Turn on TCP keepalive: a machine that is gone is noticed within a minute."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", limits.STREAM_KEEP_ALIVE_S),
        ("TCP_KEEPINTVL", limits.STREAM_KEEP_ALIVE_S),
        ("TCP_KEEPCNT", 3),
    ):
        if hasattr(socket, option):  # missing on some platforms
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _reason(error: OSError | OverflowError) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {limits.CONNECT_S} s; is the node up?"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}; is it a TLS port?"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; is the node up, and is streams.listen enabled?"
    return getattr(error, "strerror", None) or str(error)
