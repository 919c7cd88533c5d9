"""Tradeoff clusters: many channels told in a few numbers (Corona §3.2).

Channels at the same polling level with a similar ratio of performance to cost are added up, at most
TRADEOFF_BINS clusters per level. The paper does not say where one cluster ends and the next begins. Here,
sorted by the ratio, each gets an equal share of Σ√(weight·cost): the load that the best allocation without
levels would give its channels, so that no cluster that is taken or left as a whole moves much load. Adding up
forgets which channel is which but no sum, so clusters of clusters are as exact in total as those of channels.
Orphans are one cluster of their own, the slack (§4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

TRADEOFF_BINS: Final = 16
"""Clusters per level, as in the paper's implementation (§4)."""

SLACK: Final = -1
"""The level under which orphans are told: they have none to choose."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """What a node tells a contact: one row per cluster, arrays of one length."""

    level: Ints
    sums: Floats
    """Four columns: channels, their weight, their cost, and the load their subscribers allow."""
    low: Floats
    """The smallest ratio of weight to cost among its channels."""
    high: Floats
    """The largest."""

    def __len__(self) -> int:
        return len(self.level)

    @property
    def count(self) -> Floats:
        """Channels."""
        return self.sums[:, 0]

    @property
    def weight(self) -> Floats:
        """How much a microsecond of delay of all of them counts."""
        return self.sums[:, 1]

    @property
    def cost(self) -> Floats:
        """What one poll of each of them costs."""
        return self.sums[:, 2]

    @property
    def allowance(self) -> Floats:
        """What their subscribers would cost if each polled for himself, once per τ."""
        return self.sums[:, 3]

    def spread(self, parts: int) -> Clusters:
        """Each cluster as `parts` of equal size, at ratios from its smallest to its largest."""
        place = (np.arange(parts) + 0.5) / parts
        low, high = np.log(np.maximum(self.low, _LEAST)), np.log(np.maximum(self.high, _LEAST))
        ratio = np.exp(low[:, None] + (high - low)[:, None] * place)
        sums = np.repeat(self.sums / parts, parts, axis=0)
        sums[:, 1] *= (ratio / ratio.mean(axis=1, keepdims=True)).ravel()
        ratios = sums[:, 1] / sums[:, 2]
        return Clusters(np.repeat(self.level, parts), sums, ratios, ratios)


def single(level: Ints, *, weight: Floats, cost: Floats, allowance: Floats) -> Clusters:
    """Channels, each a cluster of one."""
    ratio = weight / cost
    return Clusters(level, np.stack((np.ones(len(level)), weight, cost, allowance), axis=1), ratio, ratio)


NOTHING: Final = Clusters(np.empty(0, np.int64), np.empty((0, 4)), np.empty(0), np.empty(0))


def cluster(parts: Iterable[Clusters], *, bins: int = TRADEOFF_BINS) -> Clusters:
    """All parts together, in at most `bins` clusters per level."""
    kept = [part for part in parts if len(part)]
    if not kept:
        return NOTHING
    level = np.concatenate([part.level for part in kept])
    sums = np.concatenate([part.sums for part in kept])
    weight = np.maximum(sums[:, 1], _LEAST)
    order = np.argsort(_APART * level + np.log(weight / sums[:, 2]))
    sums, group = sums[order], level[order] - SLACK
    groups = int(group[-1]) + 1
    share = np.sqrt(weight[order] * sums[:, 2])
    total = np.bincount(group, share, groups)
    before = np.cumsum(share) - share / 2 - (np.cumsum(total) - total)[group]
    place = np.clip((bins * before / total[group]).astype(np.int64), 0, bins - 1)
    place[: np.searchsorted(group, 1)] = 0
    cell = group * bins + place
    # In this order the rows of a cell stand side by side: its level never falls, its ratio never within one.
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    return Clusters(
        group[first] + SLACK,
        np.add.reduceat(sums, first),
        np.minimum.reduceat(np.concatenate([part.low for part in kept])[order], first),
        np.maximum.reduceat(np.concatenate([part.high for part in kept])[order], first),
    )


_LEAST: Final = 1e-300
"""Stands for the weight of channels nobody waits for: they need a place, too."""

_APART: Final = 10_000.0
"""Between levels in the order of clusters: logarithms of floats are within ± 1,500 of one another."""
