"""Which hosts may be fetched, by name; addresses are looked at after names are resolved."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from yarl import URL

from penstock.errors import ChannelRefused

if TYPE_CHECKING:
    from penstock.node.config import Web


class Hosts:
    """The operator's lists."""

    def __init__(self, web: Web) -> None:
        self._allow = tuple(map(_spelled, web.allow_hosts))
        self._deny = tuple(map(_spelled, web.deny_hosts))

    def check(self, url: str) -> None:
        """ChannelRefused if the host of a canonical address may not be asked for anything."""
        host = URL(url, encoded=True).raw_host or ""
        if any(_fits(host, pattern) for pattern in self._deny):
            raise ChannelRefused(f"{host} is not fetched by this node: its operator refuses the host")
        if self._allow and not any(_fits(host, pattern) for pattern in self._allow):
            raise ChannelRefused(f"{host} is not fetched by this node: its operator allows other hosts only")


def _spelled(pattern: str) -> str:
    """A pattern as canonical addresses spell its host: lower case, in ASCII, IPv6 addresses short."""
    star, host = ("*.", pattern[2:]) if pattern.startswith("*.") else ("", pattern)
    with suppress(ValueError):
        host = URL.build(scheme="http", host=host.rstrip(".")).raw_host or host
    return star + host.lower()


def _fits(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) or host == pattern[2:]
    return host == pattern
