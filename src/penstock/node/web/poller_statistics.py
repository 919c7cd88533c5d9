"""How polling is going, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.node.web.fetched import Fetched


@dataclass(frozen=True, slots=True)
class PollerStatistics:
    """A snapshot."""

    channels: int
    hosts: int
    """Registrable domains that are known."""
    active: int
    """Fetches under way."""
    ready: int
    """Channels that wait for a free fetch."""
    parked: int
    """Channels that wait for the budget of their host."""
    polls: int
    """Fetches of channels so far."""
    unchanged: int
    """Those answered with 304."""
    errors: int
    """Those that went wrong."""
    unused: int
    """Answers that could not be handed over."""
    bytes_wire: int
    """Bytes of bodies so far."""
    robots: int
    """Fetches of robots.txt so far."""
    late_mean_us: int
    """How long after its turn a poll begins, on average."""
    late_most_us: int


class Counts:
    """What has been counted so far."""

    __slots__ = (
        "_bytes_wire",
        "_errors",
        "_late_most_us",
        "_late_us",
        "_planned",
        "_polls",
        "_unchanged",
        "_unused",
    )

    def __init__(self) -> None:
        self._polls = self._unchanged = self._errors = self._unused = self._bytes_wire = 0
        self._planned = self._late_us = self._late_most_us = 0

    def fetched(self, fetched: Fetched, *, problem: bool) -> None:
        """A fetch of a channel is over."""
        self._polls += 1
        self._unchanged += fetched.status == 304
        self._errors += problem
        self._bytes_wire += fetched.bytes_wire

    def late(self, late_us: int) -> None:
        """A poll begins so long after its turn."""
        self._planned += 1
        self._late_us += late_us
        self._late_most_us = max(self._late_most_us, late_us)

    def failed(self) -> None:
        """What was fetched could not be handed over."""
        self._unused += 1

    def snapshot(
        self, *, channels: int, hosts: int, active: int, ready: int, parked: int, robots: int
    ) -> PollerStatistics:
        """The counts, with what is held now."""
        return PollerStatistics(
            channels=channels,
            hosts=hosts,
            active=active,
            ready=ready,
            parked=parked,
            polls=self._polls,
            unchanged=self._unchanged,
            errors=self._errors,
            unused=self._unused,
            bytes_wire=self._bytes_wire,
            robots=robots,
            late_mean_us=self._late_us // max(1, self._planned),
            late_most_us=self._late_most_us,
        )
