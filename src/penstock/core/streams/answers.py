"""Known ticks as messages: data with the silence before it, and silence at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from penstock.core.streams.messages import Data, Silence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Matches: TypeAlias = Callable[[bytes], bool]
"""A filter of messages by their bodies."""


def told(
    pubend: str,
    span: tuple[int, int],
    messages: Iterable[tuple[int, bytes]],
    *,
    matches: Matches | None = None,
    interest: str = "",
) -> Iterator[Data | Silence]:
    """A span whose messages these are, told to somebody with a filter; what does not match is silence."""
    at, until = span
    for tick, body in messages:
        if matches is None or matches(body):
            yield Data(pubend, at, tick, body, interest)
            at = tick + 1
    if at < until:
        yield Silence(pubend, at, until, interest)
