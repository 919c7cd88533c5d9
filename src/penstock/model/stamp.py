"""How a message of a stream says where it is from: the user properties `stream` and `tick` behind all others.

Only a node sets them. Whatever a publisher sends that looks like them is taken away, so a receiver may
believe them.
"""

from __future__ import annotations

from typing import Final, TypeAlias

User: TypeAlias = tuple[tuple[str, str], ...]
"""MQTT user properties in order."""

STREAM: Final = "stream"
TICK: Final = "tick"

_DIGITS: Final = 19
"""Of the largest tick."""


def stamped(user: User, stream: str, tick: int) -> User:
    """User properties with the stamp behind them."""
    return (*unstamped(user), (STREAM, stream), (TICK, str(tick)))


def unstamped(user: User) -> User:
    """User properties without a stamp."""
    while stamp_of(user) is not None:
        user = user[:-2]
    return user


def stamp_of(user: User) -> tuple[str, int] | None:
    """Stream and tick, if these are the properties of a message of a stream."""
    if len(user) < 2:
        return None
    (first, stream), (second, tick) = user[-2:]
    if first != STREAM or second != TICK or not stream or len(tick) > _DIGITS:
        return None
    return (stream, int(tick)) if tick.isascii() and tick.isdigit() else None
