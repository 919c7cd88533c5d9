"""A Corona simulation: nodes agree on polling levels, poll, and detect updates (§5).

Every subscription exists before the start, or subscriptions arrive at a steady rate; in each maintenance
phase the nodes move their channels by a level; between phases polls follow their schedules. All figures come
from polls: how many fall into each minute, and how long a change waits for the first poll that sees it.
Changes are of two kinds. *Probes* happen once per τ on every channel and measure how long a subscription
waits; *updates* happen as often as the channel's update interval says and measure how late a delivered update
is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock.model.instant import SECOND_US
from penstock_lab.sim.corona.failures import fail, told_us
from penstock_lab.sim.corona.polls import NEVER_US, Epoch
from penstock_lab.sim.corona.schedules import central, continuous, legacy, together
from penstock_lab.sim.corona.setting import (
    Continuous,
    Corona,
    CoronaSetting,
    Legacy,
    Method,
    a_ring,
    empty_cells,
)
from penstock_lab.sim.corona.workload import MINUTE_US, updates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock_lab.sim.corona.failures import Failure
    from penstock_lab.sim.corona.workload import Floats, Ints, Workload

__all__ = [
    "Continuous",
    "Corona",
    "CoronaRuns",
    "CoronaSetting",
    "Legacy",
    "Method",
    "Run",
    "Waits",
    "a_ring",
    "delays_s",
    "simulate",
]


@dataclass(frozen=True, slots=True)
class Waits:
    """Changes, and how long each waited for a poll."""

    channel: Ints = field(repr=False)
    at_us: Ints = field(repr=False)
    wait_us: Ints = field(repr=False)
    weight: Floats = field(repr=False)
    """Subscribers that were told."""
    missed: Floats = field(repr=False)
    """Subscribers that were never told: nobody saw the change, or their subscription was lost."""

    def mean_s(self, from_us: int, until_us: int = NEVER_US) -> float:
        """Return the mean wait, weighted by subscribers; NaN if nobody waited."""
        here = (self.at_us >= from_us) & (self.at_us < until_us) & (self.weight > 0)
        total = float(self.weight[here].sum())
        return float((self.weight[here] * self.wait_us[here]).sum()) / total / SECOND_US if total else np.nan

    def by_channel_s(self, channels: int, from_us: int) -> Floats:
        """Return the mean wait of each channel, not weighted."""
        here = (self.at_us >= from_us) & (self.wait_us < NEVER_US // 2)
        counts = np.bincount(self.channel[here], minlength=channels)
        sums = np.bincount(self.channel[here], self.wait_us[here], channels)
        return sums / np.maximum(counts, 1) / SECOND_US


@dataclass(frozen=True, slots=True)
class Run:
    """Load and detection times of one simulation."""

    setting: CoronaSetting
    channels: int
    per_minute: Ints = field(repr=False)
    """Polls of all channels in each minute."""
    probes: Waits
    updates: Waits
    pollers: Floats = field(repr=False)
    """Polls per τ of each channel at the end."""
    empty_cells: int
    """Wedges at the last level but one without a node; their channels are orphans."""
    moved: tuple[int, ...]
    """Channels that changed their level in each maintenance phase."""
    failure: Failure | None

    @property
    def missed(self) -> float:
        """Share of the updates since the failure, or in the whole run, that subscribers were never told."""
        here = self.updates.at_us >= (0 if self.failure is None else self.failure.at_us)
        missed = float(self.updates.missed[here].sum())
        return missed / max(missed + float(self.updates.weight[here].sum()), 1.0)

    def load(self, from_us: int, until_us: int | None = None) -> float:
        """Return the polls per channel and τ in a span of time."""
        until = self.setting.length_us if until_us is None else until_us
        part = self.per_minute[from_us // MINUTE_US : until // MINUTE_US]
        return float(part.mean()) * (self.setting.tau_us / MINUTE_US) / self.channels

    @property
    def settled_load(self) -> float:
        """Polls per channel and τ once levels have settled."""
        return self.load(self.setting.settled_us)

    @property
    def per_subscription_s(self) -> float:
        """Mean detection time, each subscription counted alike."""
        return self.probes.mean_s(self.setting.settled_us)

    @property
    def per_update_s(self) -> float:
        """Mean detection time, each delivered update counted alike."""
        return self.updates.mean_s(self.setting.settled_us)


def simulate(workload: Workload, method: Method, setting: CoronaSetting, *, seed: int) -> Run:
    """Simulate one method on one ring; the same seed gives the same run."""
    ring = a_ring(setting.nodes, seed)
    moved: tuple[int, ...] = ()
    dice = np.random.default_rng((seed, 2))
    probes = _probe(workload, setting, dice)
    happened = updates(workload.update_interval_us, setting.length_us, dice)
    failure = None
    if isinstance(method, Legacy):
        epochs = legacy(workload, setting)
    elif isinstance(method, Corona) and method.central:
        epochs = central(ring, workload, method, setting)
    else:
        failure = fail(ring, workload, setting, seed)
        if isinstance(method, Continuous):
            epochs = continuous(ring, workload, method, setting, failure=failure, changes=happened)
        else:
            epochs, moved = together(ring, workload, method, setting, failure=failure, changes=happened)
    # A subscriber that polls alone keeps its phase when others arrive: one schedule serves the whole run.
    watching = [Epoch(0, epochs[-1].schedule)] if isinstance(method, Legacy) else epochs
    return Run(
        setting=setting,
        channels=len(workload),
        per_minute=_load(epochs, setting),
        probes=_wait(workload, setting, watching, failure, *probes),
        updates=_wait(workload, setting, watching, failure, *happened),
        pollers=epochs[-1].schedule.per_tau(),
        empty_cells=empty_cells(ring),
        moved=moved,
        failure=failure,
    )


def _load(epochs: Sequence[Epoch], setting: CoronaSetting) -> Ints:
    """Return the polls per minute; a minute in which duties change counts by those it began with."""
    minutes = setting.length_us // MINUTE_US
    found = np.zeros(minutes, np.int64)
    starts = [min(-(-epoch.from_us // MINUTE_US), minutes) for epoch in epochs]
    for epoch, first, until in zip(epochs, starts, [*starts[1:], minutes], strict=True):
        if until > first:
            found[first:until] = epoch.schedule.per_minute(first, until - first)
    return found


def _probe(workload: Workload, setting: CoronaSetting, dice: np.random.Generator) -> tuple[Ints, Ints]:
    """Return channel and time of one change per τ of every channel."""
    rounds = setting.length_us // setting.tau_us
    channel = np.tile(np.arange(len(workload)), rounds)
    start = np.repeat(np.arange(rounds) * setting.tau_us, len(workload))
    return channel, start + dice.integers(0, setting.tau_us, len(channel))


def _wait(
    workload: Workload,
    setting: CoronaSetting,
    epochs: Sequence[Epoch],
    failure: Failure | None,
    channel: Ints,
    at_us: Ints,
) -> Waits:
    asked = workload.subscribers[channel]
    told = told_us(epochs, channel, at_us, message_us=setting.message_us, failure=failure, asked=asked)
    there = asked * setting.arrived(at_us)
    known = there if failure is None else np.minimum(there, failure.known(asked, channel, told))
    heard = np.where(told < NEVER_US, known, 0.0)
    return Waits(channel, at_us, told - at_us, heard, there - heard)


@dataclass(frozen=True, slots=True)
class CoronaRuns:
    """Runs of the large system, by method."""

    workload: Workload
    runs: dict[str, Run]
    failing: dict[str, Run]

    def delays_s(self, name: str) -> Floats:
        """Return the mean detection time of each channel, in order of popularity."""
        return delays_s(self.runs[name])


def delays_s(run: Run) -> Floats:
    """Return the mean detection time of each channel in the second half of a run."""
    return run.probes.by_channel_s(run.channels, run.setting.settled_us)
