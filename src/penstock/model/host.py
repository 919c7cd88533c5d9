"""Addresses of hosts: which are this machine's own, and which are counted as one."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

_REMEMBERED = 1_024
"""Addresses whose answers are kept: clients come again and again from the same ones, and parsing is slow."""


@lru_cache(maxsize=_REMEMBERED)
def is_loopback(address: str) -> bool:
    """Whether an address, or the name of a host, is this machine's own."""
    parsed = _parsed(address)
    return address == "localhost" if parsed is None else parsed.is_loopback


def is_wildcard(address: str) -> bool:
    """Whether an address means all addresses of a machine, such as 0.0.0.0: nobody can connect to it."""
    parsed = _parsed(address)
    return parsed is not None and parsed.is_unspecified


@lru_cache(maxsize=_REMEMBERED)
def network_of(address: str) -> str:
    """Key to count hosts by: an IPv4 address, or the IPv6 network of 64 bits that one host is given."""
    parsed = _parsed(address)
    if isinstance(parsed, IPv6Address):
        return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"
    return address if parsed is None else str(parsed)


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    try:
        parsed = ip_address(address.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return (parsed.ipv4_mapped or parsed) if isinstance(parsed, IPv6Address) else parsed
