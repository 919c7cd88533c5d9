"""Deadlines of connections that may be silent and of sessions that may end, in the order of their moments."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
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


T = TypeVar("T", bound=Timed)

_NUMBER_BITS: Final = 32
"""A key in the heap is a moment, and a number that tells keys of the same moment apart."""
_VOID: Final = 1_000
"""Void keys that are left in the heap in any case: it is only rebuilt when most of it is void."""


class Deadlines(Generic[T]):
    """A heap of moments. One that has moved on since is put back when its turn comes, so moving is free.

    The heap holds numbers only: an object that is forgotten is not kept in memory by it.
    """

    def __init__(self, *, horizon_us: int) -> None:
        """`horizon_us`: every object is looked at after this time at the latest."""
        self._heap: list[int] = []
        self._numbers = count()
        self._horizon_us = horizon_us
        self._watched: dict[int, T] = {}
        """What is watched, by key; a key in the heap that is not here is void."""
        self._keys: dict[T, int] = {}

    def watch(self, one: T, *, now_us: Instant) -> None:
        """Yield an object by `due` at its deadline; call again if the deadline comes closer."""
        when_us = one.timer()
        if when_us is None:
            return
        when_us = min(when_us, now_us + self._horizon_us)
        before = self._keys.get(one)
        if before is not None:
            if when_us >= before >> _NUMBER_BITS:
                return
            del self._watched[before]
        key = when_us << _NUMBER_BITS | next(self._numbers) & (1 << _NUMBER_BITS) - 1
        self._keys[one] = key
        self._watched[key] = one
        heappush(self._heap, key)

    def forget(self, one: T) -> None:
        """Stop watching an object, if it is watched."""
        key = self._keys.pop(one, None)
        if key is None:
            return
        del self._watched[key]
        if len(self._heap) > 2 * len(self._watched) + _VOID:
            self._heap = list(self._watched)
            heapify(self._heap)

    def next_us(self) -> Instant | None:
        """When to call `due` again; None: nothing is watched."""
        return self._heap[0] >> _NUMBER_BITS if self._heap else None

    def due(self, *, now_us: Instant) -> Iterator[T]:
        """Yield the objects whose moment has come."""
        while self._heap and self._heap[0] >> _NUMBER_BITS <= now_us:
            one = self._watched.pop(heappop(self._heap), None)
            if one is None:
                continue
            del self._keys[one]
            when_us = one.timer()
            if when_us is None:
                continue
            if when_us <= now_us:
                yield one
            else:
                self.watch(one, now_us=now_us)
