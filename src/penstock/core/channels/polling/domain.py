"""Who is behind a host: the registrable domain, by the public suffix list.

All of `*.example.com` is one service and has one budget; `a.github.io` and `b.github.io` are two.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING

from yarl import URL

from penstock.errors import MissingTool

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


def registrable(url: str) -> str:
    """The registrable domain of an address; a host that has none stands for itself."""
    return _of_host((URL(url).raw_host or "").rstrip("."))


@lru_cache(maxsize=4_096)
def _of_host(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        return _list().privatesuffix(host) or host


@lru_cache(maxsize=1)
def _list() -> PublicSuffixList:
    try:
        from publicsuffixlist import PublicSuffixList  # noqa: PLC0415  # optional, and slow to load
    except ImportError:
        raise MissingTool("polling web pages needs more libraries: pip install 'penstock[web]'") from None
    return PublicSuffixList()
