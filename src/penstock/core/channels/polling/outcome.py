"""What came of a fetch, as far as the next one depends on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Hop:
    """One redirect that was followed."""

    status: int
    url: str
    """Where it led."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer, or a sentence why there is none."""

    status: int = 0
    """0: no answer."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By name in lower case."""
    url: str = ""
    """Where the answer came from, after redirects."""
    hops: tuple[Hop, ...] = ()
    error: str = ""
    """What went wrong on the way, as a sentence; an answer that was broken off has a status as well."""
    conditional: bool = False
    """Whether validators were sent."""
