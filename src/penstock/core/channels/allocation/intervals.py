"""`allocate` computes the polling interval of each channel, in whole microseconds, from their factors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.core.channels.allocation.factors import Scheme
from penstock.core.channels.allocation.solver import Problem, within_budget, within_target
from penstock.errors import ChannelError
from penstock.model.instant import LONGEST_US, SECOND_US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.core.channels.allocation.factors import Factors

    Bound = int | NDArray[np.int64]
    HostLimits = float | Mapping[Any, float]

SLACK = 1e-9
"""Relative tolerance of a bound, for rounding."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """An interval for each channel, with the resulting load and delay."""

    interval_us: NDArray[np.int64]
    price: float
    """μ: weighted microseconds of delay that one more unit of load would save; 0: the budget is not used
    up."""
    host_prices: dict[Any, float] = field(repr=False)
    """ν of each host at its limit; infinity: above the limit even with the longest intervals."""
    load: float
    """Cost per τ."""
    polls: float
    """Polls per τ."""
    mean_delay_us: float
    """Mean over subscriptions."""
    mean_delay_per_update_us: float
    """Mean over delivered updates: weighted by subscribers and update rate."""
    budget: float | None
    """Load allowed."""
    target_us: int | None
    """Mean delay requested."""
    met: bool
    """Whether the budget or target, and every host's limit, are met."""

    @property
    def hosts_over(self) -> list[Any]:
        """Hosts above their limit even with the longest intervals."""
        return [host for host, price in self.host_prices.items() if np.isinf(price)]


def allocate(
    factors: Factors,
    *,
    scheme: Scheme = Scheme.LITE,
    budget: float | None = None,
    target_us: int | None = None,
    tau_us: int,
    least_us: Bound,
    most_us: Bound,
    host_limits: HostLimits | None = None,
) -> Allocation:
    """The best intervals between `least_us` and `most_us`, which hold for all channels or one for each.

    `budget` is a cost per `tau_us`; the default is what the subscribers would cost if each polled once in
    that time. `target_us` is the mean delay per subscription for the scheme `fast`. `host_limits` are costs
    per `tau_us`, one for every host or by host. Bounds that cannot be met are approached as far as possible,
    and `met` is False.
    """
    least, most = bounds(len(factors), tau_us, least_us, most_us)
    names, group, limits = _hosts(factors, host_limits)
    problem = Problem(
        weight=scheme.weights(factors, tau_us=tau_us),
        cost=factors.cost,
        low=tau_us / most,
        high=tau_us / least,
        count=factors.count,
        group=group,
        limits=limits,
        tau_us=tau_us,
    )
    allowed = allowance(alone(factors), scheme=scheme, budget=budget, target_us=target_us)
    found = within_target(problem, allowed) if scheme.has_target else within_budget(problem, allowed)
    interval_us = np.clip(np.ceil(tau_us / found.polls), least, most).astype(np.int64)
    held = {names[place]: float(found.host_prices[place]) for place in np.flatnonzero(found.host_prices)}
    return _account(
        factors, interval_us, found.price, held, tau_us, None if scheme.has_target else allowed, target_us
    )


def alone(factors: Factors) -> float:
    """Cost if each subscriber polled once per τ by itself."""
    return float((factors.subscribers * factors.cost * factors.count).sum())


def allowance(alone: float, *, scheme: Scheme, budget: float | None, target_us: float | None) -> float:
    """Bound of a scheme: its target for the mean delay, its budget, or `alone`."""
    if scheme.has_target:
        if budget is not None or target_us is None or not 0 < target_us <= LONGEST_US:
            raise ChannelError(
                f"the scheme '{scheme.value}' needs a delay target above 0 and takes no budget"
            )
        return float(target_us)
    if target_us is not None:
        raise ChannelError(f"the scheme '{scheme.value}' takes a budget; a delay target is for 'fast'")
    if budget is None:
        return alone
    if not 0 < budget < np.inf:
        raise ChannelError(f"budget {budget:g}; must be above 0")
    return float(budget)


def bounds(
    rows: int, tau_us: int, least_us: Bound, most_us: Bound
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shortest and longest interval of each channel, checked."""
    if not 0 < tau_us <= LONGEST_US:
        raise ChannelError(f"tau {tau_us} µs; must be above 0")
    least = np.broadcast_to(np.asarray(least_us, np.float64), rows)
    most = np.broadcast_to(np.asarray(most_us, np.float64), rows)
    bad = ~((least > 0) & (least <= most) & (most <= LONGEST_US))
    if bad.any():
        row = int(bad.argmax())
        raise ChannelError(
            f"the shortest interval is {least[row] / SECOND_US:g} s and the longest "
            f"{most[row] / SECOND_US:g} s; they should be above 0 and in this order"
        )
    return least, most


def _hosts(
    factors: Factors, host_limits: HostLimits | None
) -> tuple[list[Any], NDArray[np.intp] | None, NDArray[np.float64]]:
    """Host names by index, the index of each channel's host, and the limits by index."""
    if host_limits is None:
        return [], None, np.empty(0)
    numbers: dict[Any, int] = {}
    group = np.fromiter(
        (numbers.setdefault(host, len(numbers)) for host in factors.host.tolist()), np.intp, len(factors)
    )
    names = list(numbers)
    if isinstance(host_limits, Mapping):
        limits = np.array([host_limits.get(name, np.inf) for name in names], np.float64)
    else:
        limits = np.full(len(names), float(host_limits))
    bad = ~(limits > 0)
    if bad.any():
        place = int(bad.argmax())
        raise ChannelError(f"the limit of host '{names[place]}' is {limits[place]:g}; it should be above 0")
    return names, group, limits


def _account(
    factors: Factors,
    interval_us: NDArray[np.int64],
    price: float,
    host_prices: dict[Any, float],
    tau_us: int,
    budget: float | None,
    target_us: int | None,
) -> Allocation:
    polls = tau_us / interval_us * factors.count
    load = float((polls * factors.cost).sum())
    waiting = factors.subscribers * factors.count
    delay_us = mean_delay_us(interval_us, waiting)
    kept = delay_us <= _over(target_us) + 1 if target_us is not None else load <= _over(budget)
    return Allocation(
        interval_us=interval_us,
        price=price,
        host_prices=host_prices,
        load=load,
        polls=float(polls.sum()),
        mean_delay_us=delay_us,
        mean_delay_per_update_us=mean_delay_us(interval_us, waiting / factors.update_interval_us),
        budget=budget,
        target_us=target_us,
        met=kept and np.inf not in host_prices.values(),
    )


def _over(bound: float | None) -> float:
    return np.inf if bound is None else bound * (1 + SLACK)


def mean_delay_us(interval_us: NDArray[Any], weight: NDArray[np.float64]) -> float:
    """Mean delay, weighted: on average a change waits half an interval for its poll.

    NaN without subscribers.
    """
    total = float(weight.sum())
    return float((interval_us * weight).sum()) / 2 / total if total > 0 else np.nan
