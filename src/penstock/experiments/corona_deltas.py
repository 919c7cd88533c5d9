"""Corona §3.4: how what one poller sees reaches the others, counted message by message on the ring."""

from __future__ import annotations

from math import log
from statistics import fmean
from typing import TYPE_CHECKING, Final

from penstock.core.overlay.dissemination import disseminate
from penstock.core.overlay.ids import BASE
from penstock.core.overlay.wedges import wedge
from penstock.experiments.outcome import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.overlay.ring import Ring

SAMPLE: Final = 64
"""Channels looked at, evenly from the most popular to the least."""
LEVEL: Final = 1
"""Where most channels of Lite are."""


def delta_row(ring: Ring, ids: Sequence[int]) -> Row:
    """Pass a delta of some channels on, each time from another of their pollers."""
    depths: list[int] = []
    once = True
    pollers = 0
    for number in range(SAMPLE):
        ident = ids[number * len(ids) // SAMPLE]
        members = wedge(ring, ident, LEVEL)
        if not members:
            continue
        root = members[number % len(members)]
        hops = list(disseminate(ring, ident, LEVEL, root=root))
        once &= sorted(hop.receiver for hop in hops) == [place for place in members if place != root]
        pollers += len(members)
        depths += [hop.depth for hop in hops]
    usual = log(len(ring), BASE)
    found = f"{len(depths) / SAMPLE:.1f} messages for {pollers / SAMPLE:.1f} pollers"
    return Row(
        "§3.4: a delta reaches all pollers of a channel along prefix tables",
        f"log_b N = {usual:.1f} hops",
        f"{found}, {fmean(depths):.1f} hops on average, {max(depths)} at most",
        ok=once and fmean(depths) <= usual,
        note=f"each once; {SAMPLE} channels at level {LEVEL}; detection times are without these hops",
    )
