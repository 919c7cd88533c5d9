"""How many connections an address may have and open, and how often its passwords may be wrong."""

from __future__ import annotations

from collections import OrderedDict

from penstock import limits
from penstock.model.host import network_of


class Buckets:
    """Tokens by key: `burst` at first, then `rate_s` more a second; keys long not seen are forgotten."""

    __slots__ = ("_burst", "_left", "_rate_s")

    def __init__(self, *, rate_s: float, burst: float) -> None:
        self._rate_s = rate_s
        self._burst = burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def left(self, key: str, *, now_s: float) -> float:
        """Tokens a key has."""
        found = self._left.get(key)
        if found is None:
            return self._burst
        tokens, at_s = found
        return min(self._burst, tokens + (now_s - at_s) * self._rate_s)

    def spend(self, key: str, *, now_s: float) -> None:
        """Take a token; there may be none, but never less."""
        self._left[key] = (max(0.0, self.left(key, now_s=now_s) - 1), now_s)
        self._left.move_to_end(key)
        if len(self._left) > limits.GATE_ADDRESSES:
            self._left.popitem(last=False)


class Connections:
    """Open connections, by address and altogether."""

    __slots__ = ("_by_network", "_opened", "_per_address", "_rate_s", "_total", "open")

    def __init__(self) -> None:
        self.open = 0
        self._by_network: dict[str, int] = {}
        self.bound(total=0, per_address=0, rate_s=0.0)

    def bound(self, *, total: int, per_address: int, rate_s: float) -> None:
        """Other bounds from now on; what is open stays open."""
        self._total = total
        self._per_address = per_address
        self._rate_s = rate_s
        self._opened = Buckets(rate_s=rate_s, burst=max(1.0, rate_s))

    def admit(self, address: str, *, now_s: float) -> bool:
        """Count one more connection, unless it would be too many."""
        network = network_of(address)
        count = self._by_network.get(network, 0)
        if self.open >= self._total or count >= self._per_address:
            return False
        if self._rate_s:
            if self._opened.left(network, now_s=now_s) < 1:
                return False
            self._opened.spend(network, now_s=now_s)
        self._by_network[network] = count + 1
        self.open += 1
        return True

    def released(self, address: str) -> None:
        """A connection that was admitted is closed."""
        network = network_of(address)
        left = self._by_network[network] - 1
        if left:
            self._by_network[network] = left
        else:
            del self._by_network[network]
        self.open -= 1
