"""Which connection may be silent, and which session may end, and when to look at it next."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.model.instant import Instant


class Timed(Protocol):
    """Something with a moment of its own, which moves."""

    def timer(self) -> Instant | None:
        """When to look; None: never."""
        ...


FAR_US: Final = 2**63
"""Later than any moment."""

T = TypeVar("T", bound=Timed)


class Deadlines(Generic[T]):
    """A heap of moments. One that has moved on since is put back when its turn comes, so moving is free.

    Nobody is left alone for longer than `horizon_us`: what has ended is not held in memory beyond that.
    """

    def __init__(self, *, horizon_us: int) -> None:
        self._heap: list[tuple[Instant, int, T]] = []
        self._numbers = count()
        self._horizon_us = horizon_us
        self._next: dict[T, Instant] = {}
        """The moment each one waits for; others in the heap are void."""

    def watch(self, one: T, *, now_us: Instant) -> None:
        """Yield an object by `due` at its deadline; call again if the deadline comes closer."""
        when_us = one.timer()
        if when_us is None:
            return
        when_us = min(when_us, now_us + self._horizon_us)
        if when_us < self._next.get(one, FAR_US):
            self._next[one] = when_us
            heappush(self._heap, (when_us, next(self._numbers), one))

    def next_us(self) -> Instant | None:
        """When to call `due` again; None: nothing is watched."""
        return self._heap[0][0] if self._heap else None

    def due(self, *, now_us: Instant) -> Iterator[T]:
        """Yield the objects whose moment has come."""
        heap = self._heap
        while heap and heap[0][0] <= now_us:
            waited_us, _, one = heappop(heap)
            if self._next.get(one) != waited_us:
                continue
            del self._next[one]
            when_us = one.timer()
            if when_us is None:
                continue
            if when_us <= now_us:
                yield one
            else:
                self.watch(one, now_us=now_us)
