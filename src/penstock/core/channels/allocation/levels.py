"""Polling levels as in Corona (section 3.2): integer levels, Lagrange breakpoints, sort, bracket.

A channel at level l is polled by the nodes that share l digits with it: N/b^l of them on average, at least
its owner. One level down costs g more polls and saves f of weighted delay. Both are convex, so each step of
each channel has one multiplier λ = f/g from which on it pays. Sorted by λ, the steps that fit are L*_d, the
optimum for its own load; with the next step it is L*_u, the optimum for a load above the bound. The two
differ in one channel. For a delay target the roles are exchanged: steps save polls and cost delay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.core.channels.allocation.factors import Scheme
from penstock.core.channels.allocation.intervals import allowance, alone, mean_delay_us
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.core.channels.allocation.factors import Factors
    from penstock.model.arrays import Floats


@dataclass(frozen=True, slots=True)
class Levels:
    """A polling level for each channel, with the resulting load and delay."""

    level: NDArray[np.int8]
    """L*_d: the levels that fit the bound."""
    pollers: Floats
    """Nodes that poll each channel at its level."""
    price: float
    """λ of the first step not taken; 0: all were taken."""
    load: float
    """Cost per τ, orphans included."""
    mean_delay_us: float
    """Per subscription, orphans included: τ/2n."""
    next_step: tuple[int, int] | None
    """Channel and level of the step that would give L*_u; None if no step is left."""
    met: bool
    """Whether the budget or target is met."""


def honeycomb(  # noqa: PLR0913  # five describe the ring, four of them have defaults
    factors: Factors,
    *,
    scheme: Scheme = Scheme.LITE,
    budget: float | None = None,
    target_us: int | None = None,
    tau_us: int,
    nodes: int,
    base: int = 16,
    pollers: Floats | None = None,
    orphans: NDArray[np.bool_] | None = None,
    ties: NDArray[np.uint64] | None = None,
) -> Levels:
    """The levels for a budget or, with the scheme `fast`, for a mean delay.

    `pollers` are the numbers of nodes at levels 0, 1, …, for all channels or a row for each; the default is
    N/b^l. `orphans` are polled by their owner only: they stay at the last level, and the bound is lowered by
    their load (the slack cluster of section 4). `ties` orders equal steps, for instance by channel id; the
    default is a hash of the row.
    """
    bound = allowance(alone(factors), scheme=scheme, budget=budget, target_us=target_us)
    table = _table(len(factors), pollers_by_level(nodes, base) if pollers is None else pollers)
    weight = scheme.weights(factors, tau_us=tau_us) * factors.count * (tau_us / 2)
    cost = factors.cost * factors.count
    if scheme.has_target:
        bound *= float((factors.subscribers * factors.count).sum())
    lone = np.zeros(len(factors), bool) if orphans is None else np.asarray(orphans, bool)
    part = np.flatnonzero(~lone)
    delays, costs = weight[:, None] / table, cost[:, None] * table
    slack = float((delays if scheme.has_target else costs)[lone, -1].sum())
    key = mixed(np.arange(len(factors), dtype=np.uint64)) if ties is None else np.asarray(ties, np.uint64)
    found, price, after, met = _bracket(
        *((costs[part], delays[part]) if scheme.has_target else (delays[part], costs[part])),
        bound - slack,
        key[part],
        down=not scheme.has_target,
    )
    level = np.full(len(factors), table.shape[1] - 1, np.int8)
    level[part] = found
    chosen = np.take_along_axis(table, level[:, None].astype(np.intp), 1)[:, 0]
    return Levels(
        level=level,
        pollers=chosen,
        price=price,
        load=float((cost * chosen).sum()),
        mean_delay_us=mean_delay_us(tau_us / chosen, factors.subscribers * factors.count),
        next_step=None if after is None else (int(part[after[0]]), after[1]),
        met=met,
    )


def pollers_by_level(nodes: int, base: int) -> Floats:
    """Average number of nodes that poll a channel at levels 0 … K; at K = ⌈log_b N⌉ its owner alone."""
    if nodes < 1 or base < 2:
        raise ChannelError(f"{nodes} nodes in base {base}: at least 1 node and base 2")
    found = [float(nodes)]
    while found[-1] > 1:
        found.append(max(1.0, found[-1] / base))
    return np.array(found)


def mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash of integers (the finaliser of splitmix64), to order equal steps without channel ids."""
    with np.errstate(over="ignore"):
        keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


def _table(rows: int, pollers: Floats) -> Floats:
    found = np.broadcast_to(np.asarray(pollers, np.float64), (rows, np.shape(pollers)[-1]))
    if not (found > 0).all() or (np.diff(found, axis=1) > 0).any():
        raise ChannelError("pollers must be above 0 and must not increase with the level")
    return found


def _bracket(
    worth: Floats, spent: Floats, bound: float, key: NDArray[np.uint64], *, down: bool
) -> tuple[NDArray[np.int8], float, tuple[int, int] | None, bool]:
    """Minimise Σ worth subject to Σ spent ≤ bound: the levels, λ and index of the next step, whether it is
    met.

    Both are given for each channel and level; `down` says that `spent` grows towards level 0.
    """
    channels, last = worth.shape[0], worth.shape[1] - 1
    start, sign, walk = (last, -1, slice(None, None, -1)) if down else (0, 1, slice(None))
    order = np.argsort(key, kind="stable")
    gain = -np.diff(worth[order][:, walk], axis=1).ravel()
    price = np.diff(spent[order][:, walk], axis=1).ravel()
    real = np.flatnonzero(gain > 0)
    with np.errstate(divide="ignore"):
        multiplier = gain[real] / price[real]
    ranked = np.argsort(-multiplier, kind="stable")
    steps = real[ranked]
    room = bound - float(spent[:, start].sum())
    taken = int(np.searchsorted(np.cumsum(price[steps]), max(room, 0.0), side="right"))
    walked = np.zeros(channels, np.int64)
    np.maximum.at(walked, order[steps[:taken] // max(last, 1)], steps[:taken] % max(last, 1) + 1)
    found = (start + sign * walked).astype(np.int8)
    if taken == len(steps):
        return found, 0.0, None, room >= 0
    after = int(steps[taken])
    beyond = int(order[after // last]), start + sign * (after % last + 1)
    return found, float(multiplier[ranked[taken]]), beyond, room >= 0
