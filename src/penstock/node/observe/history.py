"""The last minutes of each subscription (level, depth, latency, rates) in rings of fixed size."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from penstock import limits
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.node.broker.status import Account, SubscriptionStatus


class Series(msgspec.Struct, frozen=True, gc=False):
    """A subscription's past, one list per quantity; the n-th members belong together."""

    at_us: list[int]
    level: list[int]
    items: list[int]
    oldest_us: list[int]
    latency_p50_us: list[int]
    latency_p99_us: list[int]
    delivered_per_s: list[int]
    dropped_per_s: list[int]
    """Digested, or only counted."""


_Newcomer: TypeAlias = "tuple[tuple[str, str], SubscriptionStatus]"

_COLUMNS: Final = Series.__struct_fields__


class _Ring:
    """Samples of one subscription."""

    __slots__ = ("_account", "_at_us", "_columns", "_next", "_size", "behind_us", "seen_us")

    def __init__(self, size: int) -> None:
        self._columns = [array("q") for _ in _COLUMNS]
        self._size = size
        self._next = 0
        self._account: Account | None = None
        self._at_us = 0
        self.behind_us = 0
        """When something last waited in the queue."""
        self.seen_us = 0
        """When the subscription last existed."""

    def add(self, one: SubscriptionStatus, *, now_us: int) -> None:
        account, before = one.account, self._account
        delivered = dropped = 0
        if before is not None and now_us > self._at_us:
            span_us = now_us - self._at_us
            # The account begins at 0 again when a session is cleared: a difference below 0 means nothing.
            delivered = max(0, account.delivered - before.delivered) * SECOND_US // span_us
            gone = account.digested + account.counted - before.digested - before.counted
            dropped = max(0, gone) * SECOND_US // span_us
        self._account, self._at_us = account, now_us
        self.seen_us = now_us
        if one.items:
            self.behind_us = now_us
        sample = (
            now_us,
            one.level,
            one.items,
            one.oldest_us,
            one.latency_p50_us,
            one.latency_p99_us,
            delivered,
            dropped,
        )
        for column, value in zip(self._columns, sample, strict=True):
            if len(column) < self._size:
                column.append(value)
            else:
                column[self._next] = value
        self._next = (self._next + 1) % self._size

    def series(self, *, since_us: int) -> Series:
        full = len(self._columns[0]) == self._size
        begin = self._next if full else 0
        ordered = [column[begin:] + column[:begin] for column in self._columns]
        skipped = sum(at_us <= since_us for at_us in ordered[0])
        return Series(*(column[skipped:].tolist() for column in ordered))


class History:
    """Rings of a bounded number of subscriptions; one that is behind takes the ring of one that keeps up."""

    def __init__(
        self,
        *,
        samples: int = limits.HISTORY_SAMPLES,
        subscriptions: int = limits.HISTORY_SUBSCRIPTIONS,
    ) -> None:
        assert samples > 0
        assert subscriptions > 0
        self.samples = samples
        self._most = subscriptions
        self._rings: dict[tuple[str, str], _Ring] = {}

    def sample(self, subscriptions: Iterable[tuple[str, SubscriptionStatus]], *, now_us: int) -> None:
        """Add a sample of every subscription that has a ring, and give rings to new ones.

        Each of `subscriptions` comes with the identifier of its client.
        """
        behind: list[_Newcomer] = []
        idle: list[_Newcomer] = []
        for client_id, one in subscriptions:
            key = (client_id, one.filter)
            ring = self._rings.get(key)
            if ring is not None:
                ring.add(one, now_us=now_us)
            elif one.items:
                behind.append((key, one))
            elif len(idle) < self._most:
                idle.append((key, one))
        self._forget(now_us)
        if len(self._rings) + len(behind) > self._most:
            self._free(len(self._rings) + len(behind) - self._most, now_us)
            behind.sort(key=lambda pair: pair[1].items, reverse=True)
        for key, one in (behind + idle)[: self._most - len(self._rings)]:
            self._rings[key] = ring = _Ring(self.samples)
            ring.add(one, now_us=now_us)

    def _forget(self, now_us: int) -> None:
        """Free the rings of subscriptions that ended longer ago than a ring reaches back."""
        oldest_us = now_us - self.samples * SECOND_US
        for key in [key for key, ring in self._rings.items() if ring.seen_us < oldest_us]:
            del self._rings[key]

    def _free(self, places: int, now_us: int) -> None:
        """Free rings, first of the subscriptions that were behind longest ago.

        A subscription that is behind now keeps its ring: else two would take it from each other in turn.
        """
        idle = [key for key, ring in self._rings.items() if ring.behind_us < now_us]
        idle.sort(key=lambda key: (self._rings[key].behind_us, self._rings[key].seen_us))
        for key in idle[:places]:
            del self._rings[key]

    def series(self, client_id: str, filter_: str, *, since_us: int = 0) -> Series:
        """Return the samples younger than `since_us`, oldest first; none if the subscription has no ring."""
        ring = self._rings.get((client_id, filter_))
        return Series(*([] for _ in _COLUMNS)) if ring is None else ring.series(since_us=since_us)

    def remembered(self) -> list[tuple[str, str]]:
        """Return client and filter of each subscription that has a history."""
        return sorted(self._rings)
