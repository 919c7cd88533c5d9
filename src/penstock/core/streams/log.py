"""The log of a pubend: its name, the interface a stream needs, and an implementation in memory."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, Protocol

from penstock import limits
from penstock.errors import NodeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NAME_BYTES: Final = 200
"""Longest safe name: file systems and NATS take 255 bytes, prefix and suffix included."""


def safe_name(name: str) -> str:
    """A stream's name as a name of a file or NATS stream; different names stay different."""
    text = "".join(
        sign if sign.isascii() and (sign.islower() or sign.isdigit() or sign == "-") else _escaped(sign)
        for sign in name
    )
    if not 0 < len(text) <= NAME_BYTES:
        raise NodeError(
            f"stream {name!r}: a log cannot have this name; use one that is shorter "
            "(small letters, digits and - count once, others three times or more)"
        )
    return text


def _escaped(sign: str) -> str:
    return "".join(f"_{byte:02x}" for byte in sign.encode("utf-8", "surrogatepass"))


class Log(Protocol):
    """Durable storage of messages. The owner of log and pubend calls `Pubend.committed` after each commit."""

    @property
    def end(self) -> int:
        """First tick a restart assigns: behind the last durable message and behind the claim."""
        ...

    @property
    def trimmed(self) -> int:
        """Messages before this tick have been deleted."""
        ...

    def append(self, tick: int, body: bytes) -> None:
        """Write a message; ticks ascend. It is durable with the next commit."""
        ...

    def claim(self, tick: int) -> None:
        """Write that a restart assigns no tick before this one; durable with the next commit."""
        ...

    def read(self, since: int, until: int, most: int) -> list[tuple[int, bytes]] | None:
        """The first `most` durable messages of a span, as many as are `bounded`.

        None if it is not available now; the owner calls `Pubend.resume` later.
        """
        ...

    def trim(self, until: int) -> None:
        """Messages before a tick may be deleted."""
        ...


def bounded(messages: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """The messages of one read, bounded in bytes: one may have a few bytes or some megabytes."""
    found = []
    size = 0
    for tick, body in messages:
        found.append((tick, body))
        size += len(body)
        if size >= limits.STREAM_FETCH_BYTES:
            break
    return found


def cut_short(found: Sequence[tuple[int, bytes]], most: int) -> bool:
    """Whether a read of `most` messages ended at its bounds, so that more may follow."""
    return len(found) >= most or sum(len(body) for _, body in found) >= limits.STREAM_FETCH_BYTES


class MemoryLog:
    """A log in lists, for tests and the simulator; `crash` drops what was not committed."""

    def __init__(self) -> None:
        self._ticks: list[int] = []
        self._bodies: list[bytes] = []
        self._durable = 0
        self._claimed = 0
        self._claiming = 0
        self._trimmed = 0

    @property
    def end(self) -> int:
        """First tick a restart assigns."""
        last = self._ticks[self._durable - 1] + 1 if self._durable else 0
        return max(last, self._claimed, self._trimmed)

    @property
    def trimmed(self) -> int:
        """Messages before this tick have been deleted."""
        return self._trimmed

    @property
    def claiming(self) -> bool:
        """Whether a claim waits to become durable."""
        return self._claiming > self._claimed

    def __len__(self) -> int:
        return len(self._ticks)

    def append(self, tick: int, body: bytes) -> None:
        """Write a message; durable with the next `commit`."""
        self._ticks.append(tick)
        self._bodies.append(body)

    def claim(self, tick: int) -> None:
        """Write a claim; durable with the next `commit`."""
        self._claiming = max(self._claiming, tick)

    def commit(self) -> tuple[int, int]:
        """Make everything written durable; returns the tick behind the last message, and the claim."""
        self._durable = len(self._ticks)
        self._claimed = self._claiming
        return (self._ticks[-1] + 1 if self._ticks else 0), self._claimed

    def crash(self) -> None:
        """Drop what is not durable."""
        del self._ticks[self._durable :], self._bodies[self._durable :]
        self._claiming = self._claimed

    def read(self, since: int, until: int, most: int) -> list[tuple[int, bytes]] | None:
        """The first `most` durable messages of a span, `bounded`."""
        first = bisect_left(self._ticks, since)
        behind = min(bisect_left(self._ticks, until), self._durable, first + most)
        return bounded(zip(self._ticks[first:behind], self._bodies[first:behind], strict=True))

    def trim(self, until: int) -> None:
        """Delete messages before a tick."""
        gone = min(bisect_left(self._ticks, until), self._durable)
        del self._ticks[:gone], self._bodies[:gone]
        self._durable -= gone
        self._trimmed = max(self._trimmed, until)
