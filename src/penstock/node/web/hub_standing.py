"""How it stands with the hub of one page, now and over a restart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.node.web.hubs import Hub

MOST_S: Final = 366 * 86_400
"""Longest lease that is believed."""


class Lease(msgspec.Struct, frozen=True):
    """What is kept: after a restart a hub is not asked again for what still holds, or was refused."""

    base: str
    """Where the hub was told to find this node."""
    until_us: int
    """End of the lease; 0: there is none."""
    due_us: int
    """When the hub is asked next."""
    failures: int = 0
    """In a row."""


@dataclass(slots=True)
class Standing:
    """How it stands with one channel."""

    hub: Hub
    state: Literal["asking", "active", "denied", "failed"] = "asking"
    until_us: Instant = 0
    """End of the lease."""
    due_us: Instant = 0
    """When the hub is asked next."""
    reason: str = ""
    """Why it is denied or failed."""
    failures: int = 0
    doubt: str = ""
    """Why it is not relied on although it agreed, until it pushes something that is genuine; empty: it is."""

    def lease(self, base: str) -> Lease:
        """What to keep of it."""
        return Lease(base, self.until_us, self.due_us, self.failures)


def taken_up(hub: Hub, lease: Lease | None, *, base: str, now_us: Instant) -> Standing:
    """As it was kept, if that is about the address this node has now."""
    if lease is None or lease.base != base:
        return Standing(hub)
    if max(lease.until_us, lease.due_us) > now_us + MOST_S * SECOND_US:
        return Standing(hub)  # nobody agrees to that: the clock was wrong
    state: Literal["asking", "active"] = "active" if lease.until_us > now_us else "asking"
    return Standing(hub, state, lease.until_us, lease.due_us, failures=lease.failures)
