"""The setting of a Corona simulation: size of the system, failures, and the method of sharing polls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from penstock.core.cluster.ring import DIGIT_BITS, FURTHER_OWNERS, ID_BITS, Ring, node_id
from penstock.core.cluster.wedges import deepest
from penstock.errors import SimulationError
from penstock.model.instant import SECOND_US
from penstock_lab.sim.corona.polls import Phases
from penstock_lab.sim.corona.workload import HOUR_US, MINUTE_US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.core.channels.allocation import Scheme


@dataclass(frozen=True, slots=True)
class CoronaSetting:
    """Size, length and failures of a run; the defaults are the paper's evaluation."""

    nodes: int = 1_024
    tau_us: int = 30 * MINUTE_US
    maintenance_us: int = HOUR_US
    length_us: int = 6 * HOUR_US
    arriving_us: int = 0
    """Subscriptions arrive at a steady rate until then; 0: all exist at the start."""
    fail_us: int | None = None
    """Time at which nodes fail, all at once."""
    fail_share: float = 0.0
    notice_us: int = 30 * SECOND_US
    """Time until the other nodes notice a failure."""
    further: int = FURTHER_OWNERS
    """Owners of a channel besides the primary one, with copies of what it knows."""
    renew_us: int = HOUR_US
    """Each client renews its subscriptions once in this time."""
    message_us: int = 0
    """Time of a message between two nodes; the paper's evaluation leaves it out."""
    estimated: bool = False
    """Whether owners estimate update intervals from polls; else they know them, as in the paper's
    evaluation."""

    def __post_init__(self) -> None:
        if self.tau_us % MINUTE_US or self.maintenance_us % MINUTE_US or self.length_us % self.tau_us:
            raise SimulationError("τ and maintenance are whole minutes, and the length is a multiple of τ")
        if not 0 <= self.fail_share < 1:
            raise SimulationError(f"{self.fail_share:.0%} of the nodes fail; one at least has to be left")
        if min(self.notice_us, self.further, self.message_us) < 0 or self.renew_us < 1:
            raise SimulationError(
                "times and numbers of copies are not negative, and clients renew at some time"
            )

    @property
    def settled_us(self) -> int:
        """Time from which on levels have settled."""
        return self.length_us // 2

    def arrived(self, at_us: NDArray[np.int64] | int) -> NDArray[np.float64]:
        """Return the share of the subscriptions that exist at a time."""
        if not self.arriving_us:
            return np.ones(np.shape(at_us))
        return np.minimum(np.asarray(at_us) / self.arriving_us, 1.0)


@dataclass(frozen=True, slots=True)
class Legacy:
    """Every subscriber polls alone."""


@dataclass(frozen=True, slots=True)
class Corona:
    """Polling levels by Honeycomb."""

    scheme: Scheme
    phases: Phases = Phases.SPREAD
    target_us: int | None = None
    central: bool = False
    """Whether levels are solved centrally in the first maintenance phase, not by the nodes together."""
    digit_bits: int = DIGIT_BITS
    """Digits of the ring have base 2 to this power; the nodes' own protocol works in base 16."""


@dataclass(frozen=True, slots=True)
class Continuous:
    """Intervals by the continuous solver."""

    scheme: Scheme
    budget: float | None = None
    """Polls per τ to share; None for as many as legacy clients would make."""
    target_us: int | None = None
    least_us: int | None = None
    """Shortest interval; None for that at which all nodes poll a channel once per τ."""


Method: TypeAlias = Legacy | Corona | Continuous
"""A method of sharing polls."""


def a_ring(nodes: int, seed: int) -> Ring:
    """Return a ring of nodes with distinct addresses."""
    return Ring(node_id(f"10.{seed}.{number >> 8}.{number & 255}:1883") for number in range(nodes))


def empty_cells(ring: Ring) -> int:
    """Return the number of cells at the last level but one that hold no node."""
    digits = max(deepest(len(ring)) - 1, 0)
    there = {ident >> (ID_BITS - DIGIT_BITS * digits) for ident in ring.ids}
    return (1 << (DIGIT_BITS * digits)) - len(there)
