"""The log of a pubend: its name, the interface that a stream needs, and an implementation in memory."""

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
    """A stream's name as a file or a NATS stream can have it; two names never get the same."""
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
    """Where messages are durable. Whoever owns log and pubend calls `Pubend.committed` after each commit."""

    @property
    def end(self) -> int:
        """Behind the last durable message and what was claimed: the first tick a restart gives out."""
        ...

    @property
    def trimmed(self) -> int:
        """Messages before this tick are gone."""
        ...

    def append(self, tick: int, body: bytes) -> None:
        """Write a message; ticks grow. It is durable with the next commit."""
        ...

    def claim(self, tick: int) -> None:
        """Write that a restart gives out no tick before this one; durable with the next commit."""
        ...

    def read(self, since: int, until: int, most: int) -> list[tuple[int, bytes]] | None:
        """The first `most` durable messages of a span, as many as are `bounded`.

        None: not at hand, the owner calls `Pubend.resume`.
        """
        ...

    def trim(self, until: int) -> None:
        """Messages before a tick may go."""
        ...


def bounded(messages: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """As many as one reading has: a message may have a few bytes or some megabytes, so bytes count, too."""
    found = []
    size = 0
    for tick, body in messages:
        found.append((tick, body))
        size += len(body)
        if size >= limits.STREAM_FETCH_BYTES:
            break
    return found


def cut_short(found: Sequence[tuple[int, bytes]], most: int) -> bool:
    """Whether a reading of `most` messages ended at its bounds, so that more may follow."""
    return len(found) >= most or sum(len(body) for _, body in found) >= limits.STREAM_FETCH_BYTES


class MemoryLog:
    """Keeps everything in lists; `commit` is what a disk would do, `crash` what it would not."""

    def __init__(self) -> None:
        self._ticks: list[int] = []
        self._bodies: list[bytes] = []
        self._durable = 0
        self._claimed = 0
        self._claiming = 0
        self._trimmed = 0

    @property
    def end(self) -> int:
        """See Log."""
        last = self._ticks[self._durable - 1] + 1 if self._durable else 0
        return max(last, self._claimed, self._trimmed)

    @property
    def trimmed(self) -> int:
        """See Log."""
        return self._trimmed

    @property
    def claiming(self) -> bool:
        """Whether a claim waits to become durable."""
        return self._claiming > self._claimed

    def __len__(self) -> int:
        return len(self._ticks)

    def append(self, tick: int, body: bytes) -> None:
        """See Log."""
        self._ticks.append(tick)
        self._bodies.append(body)

    def claim(self, tick: int) -> None:
        """See Log."""
        self._claiming = max(self._claiming, tick)

    def commit(self) -> tuple[int, int]:
        """Everything written is durable; behind the last message, and what is claimed."""
        self._durable = len(self._ticks)
        self._claimed = self._claiming
        return (self._ticks[-1] + 1 if self._ticks else 0), self._claimed

    def crash(self) -> None:
        """What is not durable is gone."""
        del self._ticks[self._durable :], self._bodies[self._durable :]
        self._claiming = self._claimed

    def read(self, since: int, until: int, most: int) -> list[tuple[int, bytes]] | None:
        """See Log."""
        first = bisect_left(self._ticks, since)
        behind = min(bisect_left(self._ticks, until), self._durable, first + most)
        return bounded(zip(self._ticks[first:behind], self._bodies[first:behind], strict=True))

    def trim(self, until: int) -> None:
        """See Log."""
        gone = min(bisect_left(self._ticks, until), self._durable)
        del self._ticks[:gone], self._bodies[:gone]
        self._durable -= gone
        self._trimmed = max(self._trimmed, until)
