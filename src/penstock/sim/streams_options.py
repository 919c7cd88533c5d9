"""What simulated nodes of reliable streams and the links between them are like."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.core.streams.options import StreamOptions
from penstock.sim.link import LinkOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.sim.faults import FaultOptions

LAN: Final = LinkOptions(bytes_per_s=12_500_000, delay_us=2_000)
"""100 Mbit/s within a building."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """What nodes and links are like."""

    streams: StreamOptions = field(default_factory=StreamOptions)
    link: LinkOptions = LAN
    faults: Mapping[str, FaultOptions] = field(default_factory=dict)
    """Of links by the name of the node below, both directions; "" for all others."""
    down_only: bool = False
    """Bandwidth schedules bind the way down only: what goes up is small, and has its own way."""
    queue_bytes: int = 5 << 20
    """Before each link; 5 MB in the paper."""
    header_bytes: int = 0
    """Sent with each message of data or silence beside our own frame."""
    fair: bool = True
    """Whether links serve pubends in turn."""
    commit_us: int = 3_000
    """A group commit takes so long; what comes meanwhile waits for the next."""
    before_us: int = 0
    """Subscribers begin so long before the epoch: at least as much as a clock may be behind."""
    record: bool = True
    """Whether links write into the trace; long experiments do without."""
