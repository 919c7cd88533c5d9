"""Corona, simulated: nodes agree on polling levels, poll, and see updates happen (§5).

Every subscription is there before the start, or they arrive at a steady rate; in each maintenance phase the
nodes move their channels by a level; between phases polls follow their schedules. All is measured
on polls: how many fall into each minute, and how long a change waits for the first one that sees it. Changes
are of two kinds. *Probes* happen once per τ on every channel and answer "how long does a subscription wait";
*updates* happen as often as the channel's update interval says and answer "how late is a delivered update".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from penstock.core.channels.allocation import Scheme, allocate, honeycomb, pollers_by_level
from penstock.core.channels.cooperation import CooperationOptions
from penstock.core.overlay.ids import DIGIT_BITS, node_id
from penstock.core.overlay.ring import Ring
from penstock.core.overlay.wedges import deepest, wedges
from penstock.errors import SimulationError
from penstock.model.instant import SECOND_US
from penstock.sim.corona_nodes import CoronaNodes
from penstock.sim.corona_polls import NEVER_US, Alone, Epoch, Intervals, Phases, Wedges, detected_us
from penstock.sim.corona_workload import HOUR_US, MINUTE_US, updates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from penstock.sim.corona_polls import Schedule
    from penstock.sim.corona_workload import Floats, Ints, Workload


@dataclass(frozen=True, slots=True)
class Setting:
    """The paper's evaluation, unless said otherwise."""

    nodes: int = 1_024
    tau_us: int = 30 * MINUTE_US
    maintenance_us: int = HOUR_US
    length_us: int = 6 * HOUR_US
    arriving_us: int = 0
    """Subscriptions arrive at a steady rate until then; 0: all are there at the start."""
    fail_us: int | None = None
    """When nodes fail, all at once."""
    fail_share: float = 0.0
    notice_us: int = 30 * SECOND_US
    """How long the others take to know."""

    def __post_init__(self) -> None:
        if self.tau_us % MINUTE_US or self.maintenance_us % MINUTE_US or self.length_us % self.tau_us:
            raise SimulationError("τ and maintenance are whole minutes, and the length is a multiple of τ")
        if not 0 <= self.fail_share < 1:
            raise SimulationError(f"{self.fail_share:.0%} of the nodes fail; one at least has to be left")

    @property
    def settled_us(self) -> int:
        """From here on levels have had the time to settle."""
        return self.length_us // 2

    def arrived(self, at_us: NDArray[np.int64] | int) -> NDArray[np.float64]:
        """Share of the subscriptions that are there."""
        if not self.arriving_us:
            return np.ones(np.shape(at_us))
        return np.minimum(np.asarray(at_us) / self.arriving_us, 1.0)


@dataclass(frozen=True, slots=True)
class Legacy:
    """Every subscriber polls for himself."""


@dataclass(frozen=True, slots=True)
class Corona:
    """Polling levels by Honeycomb."""

    scheme: Scheme
    phases: Phases = Phases.SPREAD
    target_us: int | None = None
    central: bool = False
    """Solved at once from all factors, in the first maintenance phase, instead of by the nodes together."""
    digit_bits: int = DIGIT_BITS
    """Base 2 to this power; nodes together work in base 16."""


@dataclass(frozen=True, slots=True)
class Continuous:
    """Intervals by the continuous solver."""

    scheme: Scheme
    budget: float | None = None
    """Polls per τ; None: what legacy clients would make."""
    target_us: int | None = None


Method: TypeAlias = Legacy | Corona | Continuous
"""How polls are shared out."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Changes, and how long each waited for a poll."""

    channel: Ints = field(repr=False)
    at_us: Ints = field(repr=False)
    wait_us: Ints = field(repr=False)
    weight: Floats = field(repr=False)
    """Subscribers at that time."""

    def mean_s(self, from_us: int, until_us: int = NEVER_US) -> float:
        """Weighed by subscribers; NaN if nobody waited."""
        here = (self.at_us >= from_us) & (self.at_us < until_us)
        total = float(self.weight[here].sum())
        return float((self.weight[here] * self.wait_us[here]).sum()) / total / SECOND_US if total else np.nan

    def by_channel_s(self, channels: int, from_us: int) -> Floats:
        """Mean of each channel, not weighed."""
        here = self.at_us >= from_us
        counts = np.bincount(self.channel[here], minlength=channels)
        sums = np.bincount(self.channel[here], self.wait_us[here], channels)
        return sums / np.maximum(counts, 1) / SECOND_US


@dataclass(frozen=True, slots=True)
class Run:
    """What one simulation saw."""

    setting: Setting
    channels: int
    per_minute: Ints = field(repr=False)
    """Polls of all channels."""
    probes: Waits
    updates: Waits
    pollers: Floats = field(repr=False)
    """Polls per τ of each channel at the end."""
    empty_cells: int
    """Wedges at the last level but one that have no node: where orphans are."""
    moved: tuple[int, ...]
    """Channels that changed their level in each maintenance phase."""
    unseen: int
    """Changes that no poll ever saw."""

    def load(self, from_us: int, until_us: int | None = None) -> float:
        """Polls per channel and τ."""
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


def a_ring(nodes: int, seed: int) -> Ring:
    """Nodes with addresses of their own."""
    return Ring(node_id(f"10.{seed}.{number >> 8}.{number & 255}:1883") for number in range(nodes))


def simulate(workload: Workload, method: Method, setting: Setting, *, seed: int) -> Run:
    """One method on one ring; the same seed gives the same run."""
    ring = a_ring(setting.nodes, seed)
    moved: tuple[int, ...] = ()
    if isinstance(method, Legacy):
        epochs = _legacy(workload, setting)
    elif isinstance(method, Continuous):
        epochs = _continuous(ring, workload, method, setting, seed)
    elif method.central:
        epochs = _central(ring, workload, method, setting)
    else:
        epochs, moved = _together(ring, workload, method, setting, seed)
    dice = np.random.default_rng((seed, 2))
    # A subscriber who polls for himself does not change his ways when others come.
    watching = [Epoch(0, epochs[-1].schedule)] if isinstance(method, Legacy) else epochs
    probes = _probe(workload, setting, watching, dice)
    happened = _update(workload, setting, watching, dice)
    return Run(
        setting=setting,
        channels=len(workload),
        per_minute=_load(epochs, setting),
        probes=probes,
        updates=happened,
        pollers=_pollers(epochs[-1].schedule),
        empty_cells=empty_cells(ring),
        moved=moved,
        unseen=sum(int((part.wait_us >= NEVER_US // 2).sum()) for part in (probes, happened)),
    )


def empty_cells(ring: Ring) -> int:
    """Of the cells at the last level but one, those without a node."""
    digits = max(deepest(len(ring)) - 1, 0)
    there = {ident >> (160 - DIGIT_BITS * digits) for ident in ring.ids}
    return (1 << (DIGIT_BITS * digits)) - len(there)


def _legacy(workload: Workload, setting: Setting) -> list[Epoch]:
    arriving = range(0, setting.arriving_us, setting.maintenance_us)
    return [
        Epoch(from_us, Alone(_there(workload, setting, from_us), workload.tops, setting.tau_us))
        for from_us in (*arriving, setting.arriving_us)
    ]


def _phases_us(setting: Setting) -> list[int]:
    return list(range(0, setting.length_us, setting.maintenance_us))


def _failing(ring: Ring, setting: Setting, seed: int) -> list[int]:
    """Ids of the nodes that fail."""
    dice = np.random.default_rng((seed, 3))
    gone = dice.choice(len(ring), round(len(ring) * setting.fail_share), replace=False)
    return [ring.ids[place] for place in sorted(gone.tolist())]


def _together(
    ring: Ring, workload: Workload, method: Corona, setting: Setting, seed: int
) -> tuple[list[Epoch], tuple[int, ...]]:
    options = CooperationOptions(
        scheme=method.scheme,
        pollers=pollers_by_level(len(ring), 1 << method.digit_bits),
        tau_us=setting.tau_us,
        target_us=method.target_us,
    )
    nodes = CoronaNodes(ring, workload, options, subscribers=_there(workload, setting, 0))
    nodes.exchange()
    alive = np.ones(len(ring), bool)
    epochs = [Epoch(0, _wedges(nodes.ring, nodes.level, workload, method, setting, alive))]
    moved: list[int] = []
    events = [(at_us, "maintain") for at_us in _phases_us(setting)[1:]]
    gone: list[int] = []
    if setting.fail_us is not None:
        gone = _failing(ring, setting, seed)
        events += [(setting.fail_us, "fail"), (setting.fail_us + setting.notice_us, "notice")]
    for at_us, what in sorted(events):
        if what == "fail":
            alive[[ring.place(node) for node in gone]] = False
        elif what == "notice":
            nodes.fail(gone)
            alive = np.ones(len(nodes.ring), bool)
        else:
            nodes.observe(_there(workload, setting, at_us))
            moved.append(nodes.maintain())
        epochs.append(Epoch(at_us, _wedges(nodes.ring, nodes.level, workload, method, setting, alive.copy())))
    return epochs, tuple(moved)


def _there(workload: Workload, setting: Setting, at_us: int) -> Ints:
    return np.round(workload.subscribers * setting.arrived(at_us)).astype(np.int64)


def _central(ring: Ring, workload: Workload, method: Corona, setting: Setting) -> list[Epoch]:
    base = 1 << method.digit_bits
    last = deepest(len(ring), digit_bits=method.digit_bits)
    first, behind = wedges(ring, workload.tops, max(last - 1, 0), digit_bits=method.digit_bits)
    alive = np.ones(len(ring), bool)
    found = honeycomb(
        workload.factors(),
        scheme=method.scheme,
        target_us=method.target_us,
        tau_us=setting.tau_us,
        nodes=len(ring),
        base=base,
        orphans=first == behind,
        ties=workload.tops,
    )
    start = np.full(len(workload), last, np.int64)
    return [
        Epoch(from_us, _wedges(ring, level, workload, method, setting, alive))
        for from_us, level in ((0, start), (setting.maintenance_us, found.level.astype(np.int64)))
    ]


def _wedges(
    ring: Ring,
    level: Ints,
    workload: Workload,
    method: Corona,
    setting: Setting,
    alive: NDArray[np.bool_],
) -> Wedges:
    first = ring.primaries(workload.ids).astype(np.int64)
    pollers = np.ones(len(workload), np.int64)
    for number in range(deepest(len(ring), digit_bits=method.digit_bits)):
        rows = np.flatnonzero(level == number)
        begins, behind = wedges(ring, workload.tops[rows], number, digit_bits=method.digit_bits)
        some = behind > begins
        first[rows[some]] = begins[some]
        pollers[rows[some]] = (behind - begins)[some]
    return Wedges(
        first=first,
        pollers=pollers,
        tops=workload.tops,
        node_keys=ring.tops,
        alive=alive,
        tau_us=setting.tau_us,
        phases=method.phases,
    )


def _continuous(
    ring: Ring, workload: Workload, method: Continuous, setting: Setting, seed: int
) -> list[Epoch]:
    def schedule(on: Ring, interval_us: Ints, alive: NDArray[np.bool_]) -> Intervals:
        owner = on.primaries(workload.ids).astype(np.int64)
        return Intervals(interval_us, owner, workload.tops, alive, setting.tau_us)

    alive = np.ones(len(ring), bool)
    interval_us = np.full(len(workload), setting.tau_us, np.int64)
    epochs = [Epoch(0, schedule(ring, interval_us, alive))]
    steady = False
    for at_us in _phases_us(setting)[1:]:
        if steady:
            break
        steady = at_us >= setting.arriving_us
        interval_us = allocate(
            workload.factors(_there(workload, setting, at_us)),
            scheme=method.scheme,
            budget=method.budget,
            target_us=method.target_us,
            tau_us=setting.tau_us,
            least_us=setting.tau_us // setting.nodes,
            most_us=setting.tau_us,
        ).interval_us
        epochs.append(Epoch(at_us, schedule(ring, interval_us, alive)))
    if setting.fail_us is not None:
        gone = _failing(ring, setting, seed)
        dead = alive.copy()
        dead[[ring.place(node) for node in gone]] = False
        left = ring.without(gone)
        epochs.append(Epoch(setting.fail_us, schedule(ring, interval_us, dead)))
        epochs.append(
            Epoch(setting.fail_us + setting.notice_us, schedule(left, interval_us, np.ones(len(left), bool)))
        )
    return sorted(epochs, key=lambda epoch: epoch.from_us)


def _pollers(schedule: Schedule) -> Floats:
    """Polls per τ of each channel."""
    if isinstance(schedule, Wedges):
        return schedule.pollers.astype(np.float64)
    if isinstance(schedule, Intervals):
        return schedule.tau_us / schedule.interval_us
    assert isinstance(schedule, Alone)
    return schedule.subscribers.astype(np.float64)


def _load(epochs: Sequence[Epoch], setting: Setting) -> Ints:
    """Polls per minute. A minute in which duties change counts under those it began with."""
    minutes = setting.length_us // MINUTE_US
    found = np.zeros(minutes, np.int64)
    starts = [-(-epoch.from_us // MINUTE_US) for epoch in epochs]
    for epoch, first, until in zip(epochs, starts, [*starts[1:], minutes], strict=True):
        if until > first:
            found[first:until] = epoch.schedule.per_minute(first, until - first)
    return found


def _probe(workload: Workload, setting: Setting, epochs: Sequence[Epoch], dice: np.random.Generator) -> Waits:
    rounds = setting.length_us // setting.tau_us
    channel = np.tile(np.arange(len(workload)), rounds)
    start = np.repeat(np.arange(rounds) * setting.tau_us, len(workload))
    return _wait(workload, setting, epochs, channel, start + dice.integers(0, setting.tau_us, len(channel)))


def _update(
    workload: Workload, setting: Setting, epochs: Sequence[Epoch], dice: np.random.Generator
) -> Waits:
    channel, at_us = updates(workload.update_interval_us, setting.length_us, dice)
    return _wait(workload, setting, epochs, channel, at_us)


def _wait(workload: Workload, setting: Setting, epochs: Sequence[Epoch], channel: Ints, at_us: Ints) -> Waits:
    wait_us = detected_us(epochs, channel, at_us) - at_us
    return Waits(channel, at_us, wait_us, workload.subscribers[channel] * setting.arrived(at_us))
