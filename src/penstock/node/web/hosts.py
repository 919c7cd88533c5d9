"""Which hosts may be fetched, by name; addresses are looked at after names are resolved."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from penstock.errors import ChannelRefused
from penstock.node.web.guard import AddressRefused, ThreadResolver

if TYPE_CHECKING:
    from penstock.node.config import Web


class Hosts:
    """The operator's lists."""

    def __init__(self, web: Web) -> None:
        self._allow = tuple(host.lower() for host in web.allow_hosts)
        self._deny = tuple(host.lower() for host in web.deny_hosts)

    def check(self, url: str) -> None:
        """ChannelRefused if the host of a page may not be fetched."""
        self.check_host(URL(url).raw_host or "")

    def check_host(self, host: str) -> None:
        """The same, by the name."""
        host = host.lower()
        if any(_fits(host, pattern) for pattern in self._deny):
            raise ChannelRefused(f"{host} is not fetched by this node: its operator refuses the host")
        if self._allow and not any(_fits(host, pattern) for pattern in self._allow):
            raise ChannelRefused(f"{host} is not fetched by this node: its operator allows other hosts only")


class AllowedResolver(AbstractResolver):
    """Looks up only names that may be fetched: redirects lead nowhere else."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._resolver = ThreadResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Addresses of a name; AddressRefused if it is not one of those."""
        try:
            self._hosts.check_host(host)
        except ChannelRefused as error:
            raise AddressRefused(f"{error}.") from None
        return await self._resolver.resolve(host, port, family)

    async def close(self) -> None:
        """Let the other resolver go, too."""
        await self._resolver.close()


def _fits(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) or host == pattern[2:]
    return host == pattern
