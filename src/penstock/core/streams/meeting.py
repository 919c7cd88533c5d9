"""How two ends of a connection meet: who they are, and which streams each can give to the other."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

VERSION: Final = 1
"""Of what is said after the meeting; another one is refused."""


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=32):
    """The first frame of whoever calls."""

    version: int
    kind: Literal["node", "program"]
    name: str
    """Of the node, or of the program for the log."""
    user: str = ""
    password: str = ""
    only: tuple[str, ...] = ()
    """Topic filters: a node wants nothing else over this link; none: everything."""
    where: str = ""
    """Content filter: nor what does not pass it."""


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=33):
    """The answer, if the caller may stay; `only` and `where` as in Hello, for the other direction."""

    version: int
    name: str
    only: tuple[str, ...] = ()
    where: str = ""


class Sorry(msgspec.Struct, frozen=True, array_like=True, tag=34):
    """The answer if not, and the last frame."""

    reason: str


class Offered(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stream that can be had from whoever says so."""

    name: str
    topics: tuple[str, ...]
    host: str
    """The node that it is published at."""


class Offer(msgspec.Struct, frozen=True, array_like=True, tag=35):
    """All streams a node can give over a link; told after the meeting and whenever they change."""

    streams: tuple[Offered, ...]
