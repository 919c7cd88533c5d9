"""How many connections an address, and all together, may have open, and how fast an address may open them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits
from penstock.model.host import network_of
from penstock.model.instant import SECOND_US
from penstock.node.access.rate import RateLimits

if TYPE_CHECKING:
    from penstock.model.instant import Instant


class Connections:
    """Counts open connections, by address and in total."""

    __slots__ = ("_by_network", "_opened", "_per_address", "_total", "open")

    def __init__(self) -> None:
        self.open = 0
        self._by_network: dict[str, int] = {}
        self._opened: RateLimits | None = None
        self.bound(total=0, per_address=0, rate_s=0.0)

    def bound(self, *, total: int, per_address: int, rate_s: float) -> None:
        """Set the bounds; connections that are open already stay open."""
        self._total = total
        self._per_address = per_address
        self._opened = None
        if rate_s:
            self._opened = RateLimits(
                interval_us=SECOND_US / rate_s, burst=max(1.0, rate_s), keys=limits.GATE_ADDRESSES
            )

    def admit(self, address: str, *, now_us: Instant) -> bool:
        """Count a new connection and return True, or return False if a bound is reached."""
        network = network_of(address)
        count = self._by_network.get(network, 0)
        if self.open >= self._total or count >= self._per_address:
            return False
        if self._opened is not None and not self._opened.take(network, now_us=now_us):
            return False
        self._by_network[network] = count + 1
        self.open += 1
        return True

    def released(self, address: str) -> None:
        """Count the end of a connection that was admitted."""
        network = network_of(address)
        left = self._by_network[network] - 1
        if left:
            self._by_network[network] = left
        else:
            del self._by_network[network]
        self.open -= 1
