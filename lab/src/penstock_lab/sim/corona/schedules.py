"""The schedules of a whole Corona simulation: which duties hold from when on, method by method.

`CoronaNodes` are all nodes of the system, each with its part of the cooperation; they exchange over prefix
tables and decide on polling levels together.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from penstock.core.channels.allocation import Factors, allocate, honeycomb, pollers_by_level
from penstock.core.channels.cooperation import Cooperation, CooperationOptions, Owned, joined
from penstock.core.cluster.wedges import deepest, prefix_table, wedges
from penstock_lab.sim.corona.estimates import Estimates
from penstock_lab.sim.corona.polls import Alone, Epoch, Intervals, Wedges

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from penstock.core.cluster.ring import Ring
    from penstock_lab.sim.corona.failures import Failure
    from penstock_lab.sim.corona.setting import Continuous, Corona, CoronaSetting
    from penstock_lab.sim.corona.workload import Floats, Ints, Workload

    Changes = tuple[Ints, Ints]
    """Channels and times of updates."""


class CoronaNodes:
    """All nodes on the ring, with the channels that each owns."""

    def __init__(
        self, ring: Ring, workload: Workload, options: CooperationOptions, *, subscribers: Ints | None = None
    ) -> None:
        self._workload = workload
        self._options = options
        self.ring = ring
        self.owner = ring.primaries(workload.ids)
        self.orphan = self._orphans()
        self.level = np.full(len(workload), options.deepest, np.int64)
        everything = Owned(
            np.arange(len(workload)), workload.factors(subscribers), self.level.copy(), self.orphan
        )
        shares = self._by_owner()
        self.nodes = {
            node: Cooperation(options, everything.take(share))
            for node, share in zip(ring.ids, shares, strict=True)
        }
        self._tables = [prefix_table(ring, place) for place in range(len(ring))]

    def _by_owner(self) -> list[NDArray[np.intp]]:
        order = np.argsort(self.owner, kind="stable")
        return np.split(order, np.searchsorted(self.owner[order], np.arange(1, len(self.ring))))

    def _orphans(self) -> NDArray[np.bool_]:
        """Return the channels whose wedge at the last level but one is empty; none if there is one level."""
        if self._options.deepest == 0:
            return np.zeros(len(self._workload), bool)
        first, behind = wedges(self.ring, self._workload.tops, self._options.deepest - 1)
        return np.equal(first, behind)

    def observe(self, subscribers: Ints, update_interval_us: Floats | None = None) -> None:
        """Set the owners' counts of subscribers, and update intervals unless they know them."""
        factors = self._workload.factors(subscribers, update_interval_us)
        everything = Owned(np.arange(len(self._workload)), factors, self.level, self.orphan)
        for node in self.nodes.values():
            rows = node.owned.channel
            node.observe(everything.take(rows).factors, self.orphan[rows])

    def maintain(self) -> int:
        """Run one maintenance phase on all nodes: decide by what contacts sent before, then exchange."""
        moved = 0
        for node in self.nodes.values():
            changed = node.maintain()
            self.level[node.owned.channel[changed]] = node.owned.level[changed]
            moved += len(changed)
        self.exchange()
        return moved

    def exchange(self) -> None:
        """Let every node receive from its contacts what they knew before this exchange."""
        members = list(self.nodes.values())
        told = [node.tell(len(table.rows)) for node, table in zip(members, self._tables, strict=True)]
        for node, table in zip(members, self._tables, strict=True):
            for row, contacts in enumerate(table.rows):
                for contact in contacts:
                    node.hear(row, self.ring.ids[contact], told[contact][row])

    def fail(self, gone: Collection[int], lost: NDArray[np.bool_]) -> None:
        """Remove failed nodes, as known to all others: the next owners take over with the copies they hold.

        Of the channels in `lost` no copy is left: their new owners poll them alone and know no subscriber.
        """
        if not gone:
            return
        owned = [self.nodes[node].owned for node in gone]
        before = self._tables_by_id()
        self.level[lost] = self._options.deepest
        self.ring = self.ring.without(gone)
        self.nodes = {node: self.nodes[node] for node in self.ring.ids}
        self.owner = self.ring.primaries(self._workload.ids)
        self.orphan = self._orphans()
        self._tables = [prefix_table(self.ring, place) for place in range(len(self.ring))]
        left = joined(owned)
        known = np.where(lost[left.channel], 0, left.factors.subscribers)
        left = Owned(
            left.channel,
            Factors(known, left.factors.cost, left.factors.update_interval_us),
            self.level[left.channel],
            left.orphan,
        )
        heirs = self.owner[left.channel]
        for place in np.unique(heirs).tolist():
            self.nodes[self.ring.ids[place]].adopt(left.take(np.flatnonzero(heirs == place)))
        now = self._tables_by_id()
        for node, cooperation in self.nodes.items():
            for row, contact in before[node] - now[node]:
                cooperation.forget(row, contact)

    def _tables_by_id(self) -> dict[int, set[tuple[int, int]]]:
        return {
            node: {(row, self.ring.ids[contact]) for row, found in enumerate(table.rows) for contact in found}
            for node, table in zip(self.nodes, self._tables, strict=True)
        }


def legacy(workload: Workload, setting: CoronaSetting) -> list[Epoch]:
    arriving = range(0, setting.arriving_us, setting.maintenance_us)
    return [
        Epoch(from_us, Alone(_there(workload, setting, from_us), workload.tops, setting.tau_us))
        for from_us in (*arriving, setting.arriving_us)
    ]


def _phases_us(setting: CoronaSetting) -> list[int]:
    return list(range(0, setting.length_us, setting.maintenance_us))


class Duty(Enum):
    """Events of a schedule: nodes fail, the others notice it, or the overlay is maintained."""

    FAIL = "fail"
    NOTICE = "notice"
    MAINTAIN = "maintain"


def _duties(setting: CoronaSetting, failure: Failure | None) -> list[tuple[int, Duty]]:
    """Return everything that changes schedules, in order."""
    found = [(at_us, Duty.MAINTAIN) for at_us in _phases_us(setting)[1:]]
    if failure is not None:
        found += [(failure.at_us, Duty.FAIL), (failure.noticed_us, Duty.NOTICE)]
    return sorted(found, key=lambda duty: duty[0])


def _known(workload: Workload, setting: CoronaSetting, failure: Failure | None, at_us: int) -> Ints:
    """Return the subscriptions that owners know of at a time."""
    there = _there(workload, setting, at_us)
    return there if failure is None else failure.known(there, np.arange(len(workload)), at_us)


def together(
    ring: Ring,
    workload: Workload,
    method: Corona,
    setting: CoronaSetting,
    *,
    failure: Failure | None,
    changes: Changes,
) -> tuple[list[Epoch], tuple[int, ...]]:
    """Return the schedules that nodes agree on, and the channels moved in each phase.

    A schedule holds from the moment at which the message about it has reached the last of its nodes.
    """
    options = CooperationOptions(
        scheme=method.scheme,
        pollers=pollers_by_level(len(ring), 1 << method.digit_bits),
        tau_us=setting.tau_us,
        target_us=method.target_us,
    )
    nodes = CoronaNodes(ring, workload, options, subscribers=_there(workload, setting, 0))
    estimates = _estimates(workload, setting, changes)
    if estimates is not None:
        nodes.observe(_there(workload, setting, 0), estimates.update_interval_us())
    nodes.exchange()
    alive = np.ones(len(ring), bool)
    epochs = [Epoch(0, _wedges(nodes.ring, nodes.level, workload, method, setting, alive))]
    moved: list[int] = []
    heard_us = options.deepest * setting.message_us
    for at_us, duty in _duties(setting, failure):
        from_us = at_us + heard_us
        if duty is Duty.MAINTAIN:
            if estimates is not None:
                estimates.watch(epochs[-1], at_us)
            nodes.observe(
                _known(workload, setting, failure, at_us),
                None if estimates is None else estimates.update_interval_us(),
            )
            moved.append(nodes.maintain())
        elif duty is Duty.FAIL:
            assert failure is not None
            alive[[ring.place(node) for node in failure.gone]] = False
            from_us = at_us
        else:
            assert failure is not None
            nodes.fail(failure.gone, failure.lost)
            alive = np.ones(len(nodes.ring), bool)
            if estimates is not None:
                estimates.forget(failure.lost)
        epochs.append(
            Epoch(from_us, _wedges(nodes.ring, nodes.level, workload, method, setting, alive.copy()))
        )
    return epochs, tuple(moved)


def _estimates(workload: Workload, setting: CoronaSetting, changes: Changes) -> Estimates | None:
    if not setting.estimated:
        return None
    return Estimates(len(workload), *changes, tau_us=setting.tau_us)


def _there(workload: Workload, setting: CoronaSetting, at_us: int) -> Ints:
    return np.round(workload.subscribers * setting.arrived(at_us)).astype(np.int64)


def central(ring: Ring, workload: Workload, method: Corona, setting: CoronaSetting) -> list[Epoch]:
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
    setting: CoronaSetting,
    alive: NDArray[np.bool_],
) -> Wedges:
    first = ring.primaries(workload.ids).astype(np.int64)
    pollers = np.ones(len(workload), np.int64)
    far = np.zeros(len(workload), np.int64)
    last = deepest(len(ring), digit_bits=method.digit_bits)
    for number in range(last):
        rows = np.flatnonzero(level == number)
        begins, behind = wedges(ring, workload.tops[rows], number, digit_bits=method.digit_bits)
        some = behind > begins
        first[rows[some]] = begins[some]
        pollers[rows[some]] = (behind - begins)[some]
        far[rows[some]] = last - number
    return Wedges(
        first=first,
        pollers=pollers,
        tops=workload.tops,
        node_keys=ring.tops,
        alive=alive,
        tau_us=setting.tau_us,
        phases=method.phases,
        far=far,
    )


def continuous(
    ring: Ring,
    workload: Workload,
    method: Continuous,
    setting: CoronaSetting,
    *,
    failure: Failure | None,
    changes: Changes,
) -> list[Epoch]:
    """Return the schedules of our intervals: one solver gives them, from all that owners know."""

    def schedule(on: Ring, interval_us: Ints, alive: NDArray[np.bool_]) -> Intervals:
        owner = on.primaries(workload.ids).astype(np.int64)
        return Intervals(interval_us, owner, workload.tops, alive, setting.tau_us)

    alive = np.ones(len(ring), bool)
    interval_us = np.full(len(workload), setting.tau_us, np.int64)
    epochs = [Epoch(0, schedule(ring, interval_us, alive))]
    estimates = _estimates(workload, setting, changes)
    steady = False
    for at_us, duty in _duties(setting, failure):
        if duty is not Duty.MAINTAIN:
            assert failure is not None
            if duty is Duty.FAIL:
                alive = alive.copy()
                alive[[ring.place(node) for node in failure.gone]] = False
                epochs.append(Epoch(at_us, schedule(ring, interval_us, alive)))
                continue
            ring = ring.without(failure.gone)
            alive = np.ones(len(ring), bool)
            interval_us = np.where(failure.lost, setting.tau_us, interval_us)
            epochs.append(Epoch(at_us + setting.message_us, schedule(ring, interval_us, alive)))
            if estimates is not None:
                estimates.forget(failure.lost)
            steady = False
            continue
        if estimates is not None:
            estimates.watch(epochs[-1], at_us)
        elif steady:
            continue
        steady = at_us >= setting.arriving_us and (
            failure is None or not failure.at_us <= at_us < failure.at_us + failure.renew_us
        )
        interval_us = allocate(
            workload.factors(
                _known(workload, setting, failure, at_us),
                None if estimates is None else estimates.update_interval_us(),
            ),
            scheme=method.scheme,
            budget=method.budget,
            target_us=method.target_us,
            tau_us=setting.tau_us,
            least_us=method.least_us or setting.tau_us // setting.nodes,
            most_us=setting.tau_us,
        ).interval_us
        epochs.append(Epoch(at_us + setting.message_us, schedule(ring, interval_us, alive)))
    return epochs
