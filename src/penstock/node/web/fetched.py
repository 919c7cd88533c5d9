"""What came of a fetch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.channels.polling import Hop, Outcome
from penstock.core.channels.polling.conditional import DELTA_STATUS

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer with its body, or a sentence why there is none."""

    status: int = 0
    """0: no answer."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By name in lower case; those that were repeated are joined by commas."""
    body: bytes = b""
    """Decompressed, otherwise as it came."""
    url: str = ""
    """Where the answer came from, after redirects."""
    bytes_wire: int = 0
    """Bytes of bodies that came over the network."""
    duration_us: int = 0
    error: str = ""
    """What went wrong on the way, as a sentence; then there is no body."""
    hops: tuple[Hop, ...] = ()
    """Redirects that were followed."""
    conditional: bool = False
    """Whether validators were sent."""

    @property
    def content_type(self) -> str:
        """As the server says, with its charset."""
        return self.headers.get("content-type", "")

    @property
    def partial(self) -> bool:
        """Whether the body holds only the new items of a feed: the others are not gone."""
        return self.status == DELTA_STATUS

    @property
    def outcome(self) -> Outcome:
        """The part that deciders learn from."""
        return Outcome(
            status=self.status,
            headers=self.headers,
            url=self.url,
            hops=self.hops,
            error=self.error,
            conditional=self.conditional,
        )
