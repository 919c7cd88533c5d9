"""Refuses addresses of this machine and of private networks, after DNS and on every redirect.

The connector gets only addresses that were checked, so a name that resolves to another address the second
time (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final

from aiohttp.abc import AbstractResolver, ResolveResult

from penstock import limits
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Iterable

_EMBEDDED: Final = (
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64, RFC 6052
    (IPv6Network("::/96"), 0),  # IPv4-compatible, RFC 4291, 2.5.5.1
    (IPv6Network("2002::/16"), 80),  # 6to4, RFC 3056
)
"""IPv6 networks whose addresses contain an IPv4 address, and its distance from the right end in bits."""

_LOCAL: Final = (
    IPv6Network("64:ff9b:1::/48"),  # NAT64 of one's own, RFC 8215
    IPv6Network("2001::/32"),  # Teredo, RFC 4380: contains two addresses
    IPv6Network("fec0::/10"),  # site-local, RFC 3879
)


UNLESS: Final = (
    "which is not fetched from unless the operator allows its network (`networks` in the configuration)."
)
"""How the refusal of an address ends."""


class AddressRefused(OSError):
    """A host name resolves to forbidden addresses only; the text is a sentence."""


class AddressGuard:
    """Allows requests to public addresses, and to networks that the operator names."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self.allow(networks)

    def allow(self, networks: Iterable[str]) -> None:
        """Allow these networks from now on, and no others; ChannelError if one is no network."""
        try:
            self._allowed = tuple(ip_network(network) for network in networks)
        except ValueError as error:
            raise ChannelError(f"networks: {error}; write it as 192.168.0.0/16") from None

    def allows(self, address: str) -> bool:
        """Whether requests to an address are allowed; False for a text that is no address."""
        try:
            parsed = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        meant = _meant(parsed)
        if any(one in network for network in self._allowed for one in (parsed, meant)):
            return True
        if isinstance(meant, IPv6Address) and any(meant in network for network in _LOCAL):
            return False
        return meant.is_global and not meant.is_multicast and not meant.is_reserved

    def refusal(self, host: str) -> str:
        """Say why a host is refused; empty: it is a name, or an allowed address."""
        if not host[-1:].isdigit() and ":" not in host:
            return ""
        try:
            ip_address(host.partition("%")[0])
        except ValueError:
            return ""
        return "" if self.allows(host) else _sentence(host, [host])


def _meant(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address contains, or None."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    for network, shift in _EMBEDDED:
        if address in network and int(address) > 1:  # :: and ::1 contain no IPv4 address
            return IPv4Address(int(address) >> shift & 0xFFFF_FFFF)
    return address


class GuardedResolver(AbstractResolver):
    """Resolves names with another resolver, and returns only addresses that the guard allows."""

    def __init__(self, guard: AddressGuard, resolver: AbstractResolver | None = None) -> None:
        self._guard = guard
        self._resolver = resolver or ThreadResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolve a name; AddressRefused if all its addresses are forbidden."""
        found = await self._resolver.resolve(host, port, family)
        allowed = [one for one in found if self._guard.allows(one["host"])]
        if found and not allowed:
            raise AddressRefused(_sentence(host, [one["host"] for one in found]))
        return allowed

    async def close(self) -> None:
        """Close the other resolver."""
        await self._resolver.close()


class ThreadResolver(AbstractResolver):
    """The system's resolver in threads of its own, so that slow names delay only other names."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(limits.RESOLVER_THREADS, thread_name_prefix="penstock-names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolve a name to all its addresses, in the order the system prefers."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        )
        return [
            ResolveResult(
                hostname=host,
                host=str(place[0]),
                port=int(place[1]),
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, place in found
        ]

    async def close(self) -> None:
        """Close without waiting for lookups under way."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _sentence(host: str, addresses: list[str]) -> str:
    where = f"{host} is" if addresses == [host] else f"{host} leads to {', '.join(addresses[:3])},"
    return f"{where} an address of this machine, a private network or none at all, {UNLESS}"


def was_refused(problem: str) -> bool:
    """Whether a problem is that of an address which is not allowed, so that other `networks` may help."""
    return UNLESS in problem
