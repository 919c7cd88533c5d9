"""What a decider wants done, and what keeps it from being done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.instant import Instant


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch this address now."""

    url: str
    """The channel's, or the one it has moved to, or that of a robots.txt."""
    headers: Mapping[str, str]
    """Conditions of the request."""
    reason: str
    robots: bool = False
    """It is the robots.txt that has to be read before the channel may be fetched; then decide again."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Do not fetch before a moment; then decide again."""

    until_us: Instant
    reason: str
    host: bool = False
    """It is the budget of the host that is used up: all its channels wait."""


Intent: TypeAlias = Fetch | Wait


@dataclass(frozen=True, slots=True)
class Hold:
    """One reason not to fetch yet."""

    until_us: Instant
    reason: str
    hard: bool = False
    """Not even when a person asks for it now."""
    host: bool = False
    """Of the host, not of the channel."""
