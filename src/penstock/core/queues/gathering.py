"""Holds digests back in a queue: for a time (`every`), or until the link has carried enough (`share`).

A digest at the head that may not leave yet stays there. Events behind it pass it, and a digest that comes to
stand behind it is merged into it; a control item it never lets pass. A pack merges digests inside the queue,
so that those left are about as many as may leave with the events around them. Every event stays counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits
from penstock.model.digest import Digest, merge_all
from penstock.model.event import Control, Event

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterator, Sequence

    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.policy.nodes import Policy


class Gathering:
    """Decides when the digest at a queue's head may leave; one per queue."""

    __slots__ = ("_credit", "_since_us", "every_us", "share")

    def __init__(self, *, every_us: int = 0, share: float = 1.0) -> None:
        self.every_us = every_us
        self.share = share
        self._credit = float(limits.DIGEST_BURST)
        """Bytes of digests that may leave: the share of all that left, less the digests among it."""
        self._since_us: Instant | None = None
        """When the digest at the head began to be gathered; None: none is, or time plays no role."""

    def passes(
        self, items: deque[Item], merge: Callable[[Digest, Digest], None], *, now_us: Instant | None
    ) -> bool | None:
        """Whether the next item of a queue passes a digest that waits at the head; None: none can.

        `merge` puts the merged digest in the place of the two at the head.
        """
        while isinstance(head := items[0], Digest):
            behind = items[1] if len(items) > 1 else None
            if isinstance(behind, Digest):
                merge(head, behind)
            elif isinstance(behind, Control) or self.may_leave(
                head.size, alone=behind is None, now_us=now_us
            ):
                return False
            else:
                return None if behind is None else True
        return False

    def take(  # the queue's own parts
        self,
        items: deque[Item],
        taken: list[Item],
        most: int | None,
        most_bytes: int | None,
        *,
        move: Callable[[deque[Item], list[Item], int | None, int | None], int],
        merge: Callable[[Digest, Digest], None],
        now_us: Instant | None,
    ) -> None:
        """Move items that may leave to those taken, up to `most` of them and so many bytes.

        `move` is the queue's own, which counts; it returns bytes. `merge` is as in `passes`.
        """
        size = 0
        while items and (most is None or len(taken) < most):
            passes = self.passes(items, merge, now_us=now_us)
            if passes is None:
                return
            waits = items.popleft() if passes else None
            before = len(taken)
            size += move(items, taken, before + 1, None if most_bytes is None else most_bytes - size)
            if waits is not None:
                items.appendleft(waits)
            if len(taken) == before:
                return
            self.left(taken[-1])

    def may_leave(self, size: int, *, alone: bool, now_us: Instant | None) -> bool:
        """Whether a digest of `size` bytes at the head may leave; `alone`: nothing waits behind it."""
        if self.every_us and now_us is not None:
            if self._since_us is None or now_us < self._since_us:  # the clock may have been set back
                self._since_us = now_us
            if now_us < self._since_us + self.every_us:
                return False
        # A digest larger than the burst waits for as much credit as there can be, and leaves a debt.
        return alone or self.share >= 1 or self._credit >= min(size, limits.DIGEST_BURST)

    @property
    def due_us(self) -> Instant | None:
        """When the time of the digest that is gathered is over; None: none is gathered."""
        return None if self._since_us is None else self._since_us + self.every_us

    def until(self, due_us: Instant) -> None:
        """Go on with a digest that another queue gathered, whose time is over then."""
        if self.every_us:
            self._since_us = due_us - self.every_us

    def state(self) -> tuple[float, Instant | None]:
        """Bytes of digests that may leave, and since when the digest at the head is gathered."""
        return self._credit, self._since_us

    def restore(self, state: tuple[float, Instant | None]) -> None:
        """Continue from the state of another gathering."""
        self._credit, self._since_us = state

    def left(self, item: Item) -> None:
        """Count an item that left the queue."""
        size = item.size
        self._credit = min(self._credit + self.share * size, limits.DIGEST_BURST)
        if isinstance(item, Digest):
            self._credit -= size
            self._since_us = None

    def merged(self, items: Sequence[Item]) -> list[Item]:
        """A packed queue with digests merged that would not leave one by one: the first takes in the others.

        They stay between the same control items.
        """
        out = list(items)
        gone: set[int] = set()
        for first, *others in self._groups(items):
            if others:
                out[first] = merge_all([items[place] for place in (first, *others)])  # type: ignore[misc]
                gone.update(others)
        return [item for place, item in enumerate(out) if place not in gone] if gone else out

    def _groups(self, items: Sequence[Item]) -> Iterator[list[int]]:
        """Places of the digests that become one."""
        stretches: list[list[int]] = [[]]
        size = carried = 0
        for place, item in enumerate(items):
            if isinstance(item, Event):
                carried += len(item.payload) + len(item.topic) + item.beside
            elif isinstance(item, Digest):
                stretches[-1].append(place)
                size += item.size
            else:
                stretches.append([])
                carried += item.size
        allowed = size if self.share >= 1 else self._credit + carried * self.share / (1 - self.share)
        for places in stretches:
            most = len(places) if size <= allowed else max(1, int(len(places) * allowed / size))
            yield from self._in_time(items, places) if most == len(places) else _evenly(places, most)

    def _in_time(self, items: Sequence[Item], places: list[int]) -> Iterator[list[int]]:
        """Digests whose events lie within `every` become one."""
        group: list[int] = []
        from_us = 0
        for place in places:
            digest = items[place]
            assert isinstance(digest, Digest)
            if group and digest.to_us - from_us > self.every_us:
                yield group
                group = []
            from_us = from_us if group else digest.from_us
            group.append(place)
        if group:
            yield group


def gathering_of(policy: Policy) -> Gathering | None:
    """Make the gathering that a policy asks for; None: digests leave at once, each in its place."""
    share = limits.DIGEST_SHARE if policy.digest_share is None else policy.digest_share
    every_us = policy.digest_every_us or 0
    return None if share >= 1 and not every_us else Gathering(every_us=every_us, share=share)


def _evenly(places: list[int], most: int) -> Iterator[list[int]]:
    """Neighbouring places in `most` groups of about the same size."""
    count = len(places)
    for number in range(min(most, count)):
        yield places[number * count // most : (number + 1) * count // most]
