"""Honeycomb without a centre: how one node chooses the polling levels of its channels (Corona §3.2, §3.3).

Each node knows the channels it owns one by one, and all others as tradeoff clusters sent by its contacts in
the prefix table. A contact in row r reports about the nodes that share r + 1 digits with it, so the rows
together cover every node once. In a maintenance phase the node solves the whole problem from these data and
moves each of its channels at most one level towards the solution.

In the paper every polling node decides about its own children in the wedge. Here the primary owner decides
for the channel, so that the nodes of a wedge cannot disagree, and hands its channels over when it is no
longer the closest.

A tradeoff cluster adds up channels of one polling level with a similar ratio of performance to cost, at most
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

from penstock.core.channels.allocation import Factors, Scheme, honeycomb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from penstock.model.arrays import Floats, Ints

TRADEOFF_BINS: Final = 16
"""Clusters per level, as in the paper's implementation (§4)."""

SLACK: Final = -1
"""Level under which orphans are reported: they have none to choose."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Report of a node to a contact: one row per cluster, arrays of equal length."""

    level: Ints
    sums: Floats
    """Four columns: channels, their weight, their cost, and the load their subscribers allow."""
    low: Floats
    """Smallest ratio of weight to cost among the cluster's channels."""
    high: Floats
    """Largest ratio of weight to cost among the cluster's channels."""

    def __len__(self) -> int:
        return len(self.level)

    @property
    def count(self) -> Floats:
        """Number of channels."""
        return self.sums[:, 0]

    @property
    def weight(self) -> Floats:
        """Weight of a microsecond of delay of all of them."""
        return self.sums[:, 1]

    @property
    def cost(self) -> Floats:
        """Cost of polling each of them once."""
        return self.sums[:, 2]

    @property
    def allowance(self) -> Floats:
        """Cost if each of their subscribers polled once per τ by itself."""
        return self.sums[:, 3]

    def spread(self, parts: int) -> Clusters:
        """Each cluster as `parts` of equal size, at ratios from its smallest to its largest.

        `parts` is a power of two, so that the ratios come from square roots: these are the same on every
        processor, logarithms are not, and nodes that round differently would disagree about levels.
        """
        low = np.maximum(self.low, _LEAST)
        step = np.maximum(self.high, _LEAST) / low
        for _ in range(parts.bit_length()):
            step = np.sqrt(step)
        ratio = np.empty((len(self), parts))
        ratio[:, 0] = low * step
        for part in range(1, parts):
            ratio[:, part] = ratio[:, part - 1] * step * step
        sums = np.repeat(self.sums / parts, parts, axis=0)
        sums[:, 1] *= (ratio / ratio.mean(axis=1, keepdims=True)).ravel()
        ratios = sums[:, 1] / sums[:, 2]
        return Clusters(np.repeat(self.level, parts), sums, ratios, ratios)


def single(level: Ints, *, weight: Floats, cost: Floats, allowance: Floats) -> Clusters:
    """Each channel as a cluster of one."""
    ratio = weight / cost
    return Clusters(level, np.stack((np.ones(len(level)), weight, cost, allowance), axis=1), ratio, ratio)


NOTHING: Final = Clusters(np.empty(0, np.int64), np.empty((0, 4)), np.empty(0), np.empty(0))


def cluster(parts: Iterable[Clusters], *, bins: int = TRADEOFF_BINS) -> Clusters:
    """Merge all parts into at most `bins` clusters per level."""
    kept = [part for part in parts if len(part)]
    if not kept:
        return NOTHING
    level = np.concatenate([part.level for part in kept])
    sums = np.concatenate([part.sums for part in kept])
    weight = np.maximum(sums[:, 1], _LEAST)
    order = np.lexsort((weight / sums[:, 2], level))  # keeps the order of equal ones, on every processor
    sums, group = sums[order], level[order] - SLACK
    groups = int(group[-1]) + 1
    share = np.sqrt(weight[order] * sums[:, 2])
    total = np.bincount(group, share, groups)
    before = np.cumsum(share) - share / 2 - (np.cumsum(total) - total)[group]
    place = np.clip((bins * before / total[group]).astype(np.int64), 0, bins - 1)
    place[: np.searchsorted(group, 1)] = 0
    cell = group * bins + place
    # This order puts the rows of a cell side by side: levels ascend, and ratios ascend within a level.
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    return Clusters(
        group[first] + SLACK,
        np.add.reduceat(sums, first),
        np.minimum.reduceat(np.concatenate([part.low for part in kept])[order], first),
        np.maximum.reduceat(np.concatenate([part.high for part in kept])[order], first),
    )


_LEAST: Final = 1e-300
"""Weight used for channels without subscribers, so that they sort too."""


SPREAD: Final = 4
"""Parts of a cluster in the solution. A cluster that fits as a whole or not at all would leave up to a
sixteenth of a level's load unused.
"""


@dataclass(frozen=True, slots=True)
class CooperationOptions:
    """Parameters all nodes have agreed on."""

    scheme: Scheme
    pollers: Floats
    """Nodes that poll a channel at level 0, 1, …: N/bˡ, its owner alone at the last."""
    tau_us: int
    """A node polls each channel assigned to it once in this time."""
    target_us: int | None = None
    """Mean delay to reach, for the scheme `fast`."""

    @property
    def deepest(self) -> int:
        """Level at which the owner polls alone."""
        return len(self.pollers) - 1


@dataclass(frozen=True, slots=True)
class Owned:
    """Channels and their factors, arrays of equal length; owners replicate this."""

    channel: Ints
    """The driver's numbers of the channels."""
    factors: Factors
    level: Ints
    orphan: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.channel)

    def take(self, rows: NDArray[np.intp]) -> Owned:
        """Some of the channels."""
        factors = self.factors
        return Owned(
            self.channel[rows],
            Factors(
                factors.subscribers[rows],
                factors.cost[rows],
                factors.update_interval_us[rows],
                factors.host[rows],
            ),
            self.level[rows],
            self.orphan[rows],
        )


def joined(parts: Iterable[Owned]) -> Owned:
    """All parts as one; at least one part."""
    all_of = list(parts)
    factors = [part.factors for part in all_of]
    return Owned(
        np.concatenate([part.channel for part in all_of]),
        Factors(
            np.concatenate([part.subscribers for part in factors]),
            np.concatenate([part.cost for part in factors]),
            np.concatenate([part.update_interval_us for part in factors]),
            np.concatenate([part.host for part in factors]),
        ),
        np.concatenate([part.level for part in all_of]),
        np.concatenate([part.orphan for part in all_of]),
    )


@dataclass(frozen=True, slots=True)
class CooperationStatistics:
    """Figures of one node at one moment."""

    owned: int
    clusters: int
    """Clusters received from contacts: all the node keeps about other channels."""
    channels_known: float
    """Own channels and those in the clusters."""


class Cooperation:
    """One node's part. The driver carries the result of `tell` to the contacts' `hear`."""

    __slots__ = ("_heard", "_options", "_owned")

    def __init__(self, options: CooperationOptions, owned: Owned) -> None:
        self._options = options
        self._owned = owned
        self._heard: dict[int, dict[int, Clusters]] = {}

    @property
    def owned(self) -> Owned:
        """Channels of this node."""
        return self._owned

    def adopt(self, channels: Owned) -> None:
        """Take over channels whose owner failed or handed them over."""
        self._owned = joined((self._owned, channels))

    def release(self, channels: Ints) -> Owned:
        """Give up channels to a node that is closer to them now."""
        goes = np.isin(self._owned.channel, channels)
        leaving = self._owned.take(np.flatnonzero(goes))
        self._owned = self._owned.take(np.flatnonzero(~goes))
        return leaving

    def observe(self, factors: Factors, orphan: NDArray[np.bool_]) -> None:
        """Set the factors of all own channels, in their order, and whether their wedges are empty now."""
        assert len(factors) == len(self._owned)
        self._owned = Owned(self._owned.channel, factors, self._owned.level, orphan)

    def hear(self, row: int, contact: int, clusters: Clusters) -> None:
        """Store the report of a contact in this row of the prefix table, in place of its last one."""
        self._heard.setdefault(row, {})[contact] = clusters

    def forget(self, row: int, contact: int) -> None:
        """Drop the report of a contact that left the prefix table."""
        self._heard.get(row, {}).pop(contact, None)

    def tell(self, rows: int) -> list[Clusters]:
        """Reports for the contacts in row 0, 1, …: this node and those that share one digit more with it.

        `rows` is the number of rows of the prefix table; there is at least one report.
        """
        told = [cluster((self._as_clusters(),))]
        for row in reversed(range(1, rows)):
            told.append(cluster((told[-1], *self._heard.get(row, {}).values())))
        told.reverse()
        return told

    def maintain(self) -> NDArray[np.intp]:
        """Move own channels one level towards the solution; returns the rows of `owned` that moved."""
        own = self._owned
        if not len(own):
            return np.empty(0, np.intp)
        step = np.sign(self._solution() - own.level)
        step[own.orphan] = self._options.deepest - own.level[own.orphan]
        self._owned = Owned(own.channel, own.factors, own.level + step, own.orphan)
        return np.flatnonzero(step)

    def statistics(self) -> CooperationStatistics:
        """Figures of the node now."""
        heard = [part for row in self._heard.values() for part in row.values()]
        known = sum(float(part.count.sum()) for part in heard)
        return CooperationStatistics(
            owned=len(self._owned),
            clusters=sum(map(len, heard)),
            channels_known=len(self._owned) + known,
        )

    def _weights(self) -> Floats:
        return self._options.scheme.weights(self._owned.factors, tau_us=self._options.tau_us)

    def _as_clusters(self) -> Clusters:
        """Own channels, each as a cluster of one."""
        own = self._owned
        if not len(own):
            return NOTHING
        cost = own.factors.cost
        return single(
            np.where(own.orphan, SLACK, own.level),
            weight=self._weights(),
            cost=cost,
            allowance=own.factors.subscribers * cost,
        )

    def _solution(self) -> Ints:
        """Level of each own channel in the solution over all known channels."""
        own = self._owned
        others = cluster(part for row in self._heard.values() for part in row.values()).spread(SPREAD)
        cost = own.factors.cost
        scheme = self._options.scheme
        # A cluster counts as equal channels with its mean factors: delay and cost are linear in the factors.
        found = honeycomb(
            Factors(
                np.concatenate((self._weights(), others.weight / others.count)),
                np.concatenate((cost, others.cost / others.count)),
                count=np.concatenate((np.ones(len(own)), others.count)),
            ),
            scheme=Scheme.FAST if scheme.has_target else Scheme.LITE,
            budget=None
            if scheme.has_target
            else float((own.factors.subscribers * cost).sum() + others.allowance.sum()),
            target_us=self._options.target_us,
            tau_us=self._options.tau_us,
            nodes=round(self._options.pollers[0]),
            pollers=self._options.pollers,
            orphans=np.concatenate((own.orphan, others.level == SLACK)),
        )
        return found.level[: len(own)].astype(np.int64)
