"""Schedules of polls: which node polls a channel when, and the first poll that sees a change.

A schedule holds for a stretch of time in which no node's duties change. `Wedges` are nodes that poll every τ
at phases of their own, random as in the paper or evenly spread; `Intervals` are channels polled at intervals
of their own, by several nodes in turn; `Alone` are subscribers who each poll for themselves. Schedules follow
each other, and a change that one schedule has not seen is left to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from penstock.core.channels.allocation.levels import mixed
from penstock_lab.sim.corona.workload import MINUTE_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from penstock.core.cluster.ring import Tops
    from penstock_lab.sim.corona.workload import Floats, Ints

NEVER_US: Final = 1 << 60
"""Marks a change that no poll sees."""

PAIRS: Final = 1 << 21
"""Pairs of channel and poller computed at once: some 100 MB of arrays."""


class Phases(Enum):
    """Ways to choose the phases of a channel's pollers."""

    RANDOM = "random"
    """Each poller waits for a random part of τ before its first poll (§3.3)."""
    SPREAD = "spread"
    """Pollers are τ/n apart by their rank in the wedge, from an offset of the channel."""


class Schedule(Protocol):
    """The polls of all channels in a time in which no node's duties change."""

    def next_poll_us(self, channel: Ints, at_us: Ints) -> Ints:
        """Return the first poll of each channel at or after a time; NEVER_US if there is none."""
        ...

    def per_minute(self, first: int, count: int) -> Ints:
        """Return the polls in each of `count` minutes from minute `first` on."""
        ...

    def per_tau(self) -> Floats:
        """Return the polls per τ of each channel."""
        ...

    def hops(self, channel: Ints) -> Ints:
        """Return how many messages lie between a poller of each channel and its owner."""
        ...


def unit(keys: Tops) -> NDArray[np.float64]:
    """Hash keys to numbers between 0 and 1."""
    return (mixed(keys) >> np.uint64(11)).astype(np.float64) / (1 << 53)


@dataclass(frozen=True, slots=True)
class Wedges:
    """Nodes side by side on the ring poll a channel every τ."""

    first: Ints
    """Position on the ring of the first poller of each channel."""
    pollers: Ints
    tops: Tops
    """Identifiers of the channels, from which the phases are derived."""
    node_keys: Tops
    """Identifiers of the nodes, by position on the ring."""
    alive: NDArray[np.bool_]
    """Whether each node is alive, by position: a failed node polls nothing before the others notice."""
    tau_us: int
    phases: Phases
    far: Ints
    """Hops from the pollers of each channel to its owner."""

    def per_tau(self) -> Floats:
        return self.pollers.astype(np.float64)

    def hops(self, channel: Ints) -> Ints:
        return self.far[channel]

    def next_poll_us(self, channel: Ints, at_us: Ints) -> Ints:
        found = np.full(len(channel), NEVER_US, np.int64)
        for part in blocks(self.pollers[channel]):
            rows = channel[part]
            phase, start, alive = self._pairs(rows)
            wait = (phase - np.repeat(at_us[part], self.pollers[rows])) % self.tau_us
            wait[~alive] = NEVER_US
            least = np.minimum.reduceat(wait, start)
            found[part] = np.where(least < NEVER_US, at_us[part] + least, NEVER_US)
        return found

    def per_minute(self, first: int, count: int) -> Ints:
        minutes = self.tau_us // MINUTE_US
        totals = np.zeros(minutes, np.int64)
        for part in blocks(self.pollers):
            phase, _, alive = self._pairs(part)
            totals += np.bincount(phase[alive] // MINUTE_US, minlength=minutes)
        return totals[(first + np.arange(count)) % minutes]

    def _pairs(self, rows: NDArray[np.intp]) -> tuple[Ints, NDArray[np.intp], NDArray[np.bool_]]:
        """Return the phases of all pollers of some channels, where each channel starts, and who is alive."""
        pollers = self.pollers[rows]
        start = np.cumsum(pollers) - pollers
        rank = np.arange(int(pollers.sum())) - np.repeat(start, pollers)
        place = np.repeat(self.first[rows], pollers) + rank
        tops = np.repeat(self.tops[rows], pollers)
        if self.phases is Phases.RANDOM:
            share = unit(tops ^ self.node_keys[place])
        else:
            share = (unit(tops) + rank / np.repeat(pollers, pollers)) % 1.0
        return (share * self.tau_us).astype(np.int64), start, self.alive[place]


@dataclass(frozen=True, slots=True)
class Intervals:
    """Each channel has its own interval; the nodes next to it on the ring take turns."""

    interval_us: Ints
    owner: Ints
    """Position on the ring of the primary owner, which polls first."""
    tops: Tops
    alive: NDArray[np.bool_]
    tau_us: int
    """Nodes take turns so that none polls a channel more often than this."""

    def per_tau(self) -> Floats:
        return self.tau_us / self.interval_us

    def hops(self, channel: Ints) -> Ints:
        """Return one: each node knows all others; none if the owner polls alone."""
        return (self.interval_us[channel] < self.tau_us).astype(np.int64)

    def next_poll_us(self, channel: Ints, at_us: Ints) -> Ints:
        interval = self.interval_us[channel]
        offset = self._offset_us(channel)
        turn = -(-(at_us - offset) // interval)
        found = offset + turn * interval
        nodes = -(-self.tau_us // interval)
        missed = np.zeros(len(channel), bool)
        for _ in range(int(nodes.max(initial=0))):
            place = (self.owner[channel] + turn % nodes) % len(self.alive)
            missed = ~self.alive[place]
            if not missed.any():
                return found
            turn[missed] += 1
            found = offset + turn * interval
        return np.where(missed, NEVER_US, found)

    def per_minute(self, first: int, count: int) -> Ints:
        """Return the polls per minute; those of failed nodes count, since other nodes soon make them."""
        offset = self._offset_us(np.arange(len(self.tops)))
        ends = (first + np.arange(count + 1)) * MINUTE_US
        done = np.fromiter(((-(-(end - offset) // self.interval_us)).sum() for end in ends), np.int64)
        return np.diff(done)

    def _offset_us(self, channel: Ints) -> Ints:
        return (unit(self.tops[channel]) * self.interval_us[channel]).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Alone:
    """Every subscriber polls alone every τ, at a phase of its own, as feed readers do."""

    subscribers: Ints
    tops: Tops
    tau_us: int

    def per_tau(self) -> Floats:
        return self.subscribers.astype(np.float64)

    def hops(self, channel: Ints) -> Ints:
        return np.zeros(len(channel), np.int64)

    def next_poll_us(self, channel: Ints, at_us: Ints) -> Ints:
        """Return the next poll of one subscriber, drawn at random for each change."""
        lot = unit(self.tops[channel] ^ mixed(at_us.astype(np.uint64)))
        which = (lot * self.subscribers[channel]).astype(np.uint64)
        phase = (unit(self.tops[channel] ^ mixed(which + np.uint64(1))) * self.tau_us).astype(np.int64)
        return at_us + (phase - at_us) % self.tau_us

    def per_minute(self, first: int, count: int) -> Ints:
        minutes = self.tau_us // MINUTE_US
        totals = np.zeros(minutes, np.int64)
        for part in blocks(self.subscribers):
            asked = self.subscribers[part]
            start = np.cumsum(asked) - asked
            which = np.arange(int(asked.sum())) - np.repeat(start, asked)
            phase = unit(np.repeat(self.tops[part], asked) ^ mixed(which.astype(np.uint64) + np.uint64(1)))
            totals += np.bincount((phase * minutes).astype(np.int64), minlength=minutes)
        return totals[(first + np.arange(count)) % minutes]


def blocks(sizes: Ints) -> Iterator[NDArray[np.intp]]:
    """Yield slices of consecutive rows with at most PAIRS pairs together, or a single larger row."""
    ends = np.cumsum(sizes)
    done = 0
    while done < len(sizes):
        before = int(ends[done - 1]) if done else 0
        stop = max(int(np.searchsorted(ends, before + PAIRS, side="right")), done + 1)
        yield np.arange(done, stop)
        done = stop


@dataclass(frozen=True, slots=True)
class Epoch:
    """A schedule, and the time from which it holds."""

    from_us: int
    schedule: Schedule


def detected_us(epochs: Sequence[Epoch], channel: Ints, at_us: Ints) -> Ints:
    """Return when each change is first seen, or NEVER_US; the last schedule has no end."""
    found = np.full(len(at_us), NEVER_US, np.int64)
    since = at_us.copy()
    for epoch, until_us in zip(epochs, [*(epoch.from_us for epoch in epochs[1:]), NEVER_US], strict=True):
        here = np.flatnonzero((found == NEVER_US) & (at_us < until_us))
        np.maximum(since, epoch.from_us, out=since)
        polled = epoch.schedule.next_poll_us(channel[here], since[here])
        seen = polled < until_us
        found[here[seen]] = polled[seen]
    return found
