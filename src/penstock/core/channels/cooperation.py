"""Honeycomb without a centre: what one node knows and decides about polling levels (Corona §3.2, §3.3).

Each node knows the channels it owns one by one, and all others as tradeoff clusters that its contacts in the
prefix table send it. A contact in row r reports what it knows about the nodes that share r + 1 digits with
it, so the rows together cover every node once. In a maintenance phase the node solves the whole problem from
this and moves each of its channels at most one level towards the solution.

The paper lets every polling node decide about its own children in the wedge; here the primary owner decides
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

if TYPE_CHECKING:
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


SPREAD: Final = 4
"""Parts of a cluster in the solution. A cluster that fits as a whole or not at all leaves up to a sixteenth
of a level's load unused."""


@dataclass(frozen=True, slots=True)
class CooperationOptions:
    """What all nodes have agreed on."""

    scheme: Scheme
    pollers: Floats
    """Nodes that poll a channel at level 0, 1, …: N/bˡ, the owner at the last."""
    tau_us: int
    """Each node polls a channel that is its to poll once in this time."""
    target_us: int | None = None
    """Mean delay to be reached, for the scheme `fast`."""

    @property
    def deepest(self) -> int:
        """The level at which the owner polls alone."""
        return len(self.pollers) - 1


@dataclass(frozen=True, slots=True)
class Owned:
    """Channels and what is known about each; arrays of one length. This is what owners replicate."""

    channel: Ints
    """Numbers by which the driver knows its channels."""
    factors: Factors
    level: Ints
    orphan: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.channel)

    def take(self, rows: NDArray[np.intp]) -> Owned:
        """Some of them."""
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
    """All parts as one; there is at least one part."""
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
    """A snapshot."""

    owned: int
    clusters: int
    """That were heard from contacts: what the node keeps about all other channels."""
    channels_known: float
    """Own channels and those the clusters stand for."""


class Cooperation:
    """One node's part. The driver carries what `tell` returns to the contacts' `hear`."""

    __slots__ = ("_heard", "_options", "_owned")

    def __init__(self, options: CooperationOptions, owned: Owned) -> None:
        self._options = options
        self._owned = owned
        self._heard: dict[int, dict[int, Clusters]] = {}

    @property
    def owned(self) -> Owned:
        """The channels of this node."""
        return self._owned

    def adopt(self, channels: Owned) -> None:
        """Own these, too: their owner has failed or has handed them over."""
        self._owned = joined((self._owned, channels))

    def release(self, channels: Ints) -> Owned:
        """Hand these over to a node that is closer to them now."""
        goes = np.isin(self._owned.channel, channels)
        leaving = self._owned.take(np.flatnonzero(goes))
        self._owned = self._owned.take(np.flatnonzero(~goes))
        return leaving

    def observe(self, factors: Factors, orphan: NDArray[np.bool_]) -> None:
        """Fresh factors of all own channels, in their order, and whether their wedges are empty now."""
        assert len(factors) == len(self._owned)
        self._owned = Owned(self._owned.channel, factors, self._owned.level, orphan)

    def hear(self, row: int, contact: int, clusters: Clusters) -> None:
        """A contact of this row of the prefix table has told what it knows; the newest counts."""
        self._heard.setdefault(row, {})[contact] = clusters

    def forget(self, row: int, contact: int) -> None:
        """A contact is no longer one."""
        self._heard.get(row, {}).pop(contact, None)

    def tell(self, rows: int) -> list[Clusters]:
        """What contacts in row 0, 1, … hear: of this node and those that share a digit more with it.

        `rows` is the number of rows of the prefix table; there is one answer at least.
        """
        told = [cluster((self._as_clusters(),))]
        for row in reversed(range(1, rows)):
            told.append(cluster((told[-1], *self._heard.get(row, {}).values())))
        told.reverse()
        return told

    def maintain(self) -> NDArray[np.intp]:
        """Move own channels one level towards the solution; the rows of `owned` that moved."""
        own = self._owned
        if not len(own):
            return np.empty(0, np.intp)
        step = np.sign(self._solution() - own.level)
        step[own.orphan] = self._options.deepest - own.level[own.orphan]
        self._owned = Owned(own.channel, own.factors, own.level + step, own.orphan)
        return np.flatnonzero(step)

    def statistics(self) -> CooperationStatistics:
        """What the node has and knows."""
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
        """Own channels, each a cluster of one."""
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
        """The level of each own channel if all channels were as they are known here."""
        own = self._owned
        others = cluster(part for row in self._heard.values() for part in row.values()).spread(SPREAD)
        cost = own.factors.cost
        scheme = self._options.scheme
        # A cluster is so many channels of its mean: both sides of the tradeoff are linear in their factors.
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
