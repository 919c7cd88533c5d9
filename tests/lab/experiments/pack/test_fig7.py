"""Figure 7: the queues of a link inside one process, and a short run between two real nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.progress import silent

from penstock.core.cluster.private import PrivateQueues, Sent, Summed
from penstock_lab.experiments.pack import fig7, link_cost
from penstock_lab.experiments.pack.frozen_link import Frozen, frozen_rows
from penstock_lab.experiments.pack.link_cost import LinkCost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.mark.slow
def test_shared_events_cross_once_and_private_queues_keep_every_event_accounted_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_cost, "EVENTS", 12_000)
    found = {(each.of, each.receivers): each for each in link_cost.measure((1, 3), rounds=1)}
    assert len(found) == len(link_cost.KINDS) * 2
    assert all(each.balanced and each.different == each.carried == each.handed for each in found.values())
    shared = {each.bytes_per_event for each in found.values() if each.of == link_cost.SHARED}
    assert len(shared) == 1
    assert found[link_cost.SHARED, 3].handed == 12_000
    private = found[link_cost.PRIVATE, 3]
    assert 0 < private.handed < 12_000
    assert private.copies > private.handed, "an event that several classes keep crosses once"
    assert found[link_cost.SAME, 3].copies == found[link_cost.SAME, 1].copies
    assert len(link_cost.table(list(found.values())).rows) == len(found)


def cost(of: str, receivers: int, us_per_event: float = 2.0, bytes_per_event: float = 130.0) -> LinkCost:
    return LinkCost(of, receivers, us_per_event, bytes_per_event, 100, 100, 100, 400, balanced=True)


COSTS = [cost(of, receivers) for of in link_cost.KINDS for receivers in (1, 16)]
ONCE, KEPT, SAME = range(3)


@pytest.mark.parametrize(
    ("broken", "row"),
    [
        (cost(link_cost.SHARED, 16, bytes_per_event=2_000.0), ONCE),
        (cost(link_cost.PRIVATE, 16)._replace(different=90), KEPT),
        (cost(link_cost.PRIVATE, 16)._replace(carried=90, different=90), KEPT),
        (cost(link_cost.PRIVATE, 16)._replace(balanced=False), KEPT),
        (cost(link_cost.SAME, 16, us_per_event=5.0), SAME),
    ],
)
def test_rows_fail_where_events_cross_twice_or_queues_cost_more(broken: LinkCost, row: int) -> None:
    assert [each.ok for each in fig7._cost_rows(COSTS)] == [True, True, True, None]
    costs = [broken if each[:2] == broken[:2] else each for each in COSTS]
    assert [number for number, each in enumerate(fig7._cost_rows(costs)) if each.ok is False] == [row]


@pytest.mark.slow
def test_private_queues_that_do_not_meet_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each class gets a copy of its own: the row of events that cross once fails."""
    monkeypatch.setattr(link_cost, "EVENTS", 12_000)
    together = PrivateQueues.take

    def apart(queues: PrivateQueues, fits: Callable[[int], bool]) -> Iterator[Sent | Summed]:
        for item in together(queues, fits):
            if isinstance(item, Summed):
                yield item
            else:
                item.copies.flying += len(item.queues) - 1
                yield from (Sent(item.copies, (queue,)) for queue in item.queues)

    monkeypatch.setattr(PrivateQueues, "take", apart)
    rows = fig7._cost_rows(link_cost.measure((1, 3), rounds=1))
    assert rows[KEPT].ok is False


def test_latencies_that_grow_faster_than_receivers_or_with_a_policy_fail() -> None:
    def rows(many_ms: float, plain_ms: float) -> list[bool | None]:
        found = [
            fig7.Latencies(of, receivers, [1.0], middle_ms)
            for of, one_ms, sixteen_ms in (
                (fig7.MULTICAST, 1.0, 1.0),
                (fig7.PLAIN, 1.0, plain_ms),
                (fig7.PACKED, 1.0, many_ms),
            )
            for receivers, middle_ms in ((1, one_ms), (16, sixteen_ms))
        ]
        return [row.ok for row in fig7._latency_rows(found)]

    assert rows(15.0, 15.0) == [True, None, True, None]
    assert rows(17.0, 17.0) == [False, None, True, None]
    assert rows(15.0, 9.0) == [True, None, False, None]


FROZEN = Frozen(4, 2_000, 100, exact=True, ordered=True, private=4, balanced=True)


@pytest.mark.parametrize(("broken", "row"), [("private", 0), ("exact", 1), ("ordered", 1), ("balanced", 1)])
def test_a_link_that_is_not_split_or_loses_events_fails(broken: str, row: int) -> None:
    assert all(each.ok for each in frozen_rows([FROZEN]))
    found = frozen_rows([FROZEN._replace(**{broken: False}), FROZEN])
    assert [number for number, each in enumerate(found) if not each.ok] == [row]


@pytest.mark.slow
def test_a_short_run_between_two_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_cost, "EVENTS", 11_000)
    monkeypatch.setattr(fig7, "QUICK", fig7.Effort((1, 2), 5, 0.03, (2,), 700, 1))
    outcome = fig7.reproduce(seed=1, quick=True, out=None, progress=silent)
    rows = {row.what: row for row in outcome.rows}
    assert rows["a link that is behind is split into one queue for each policy"].ok
    assert rows["every receiver gets or is told every event, in order"].ok
    assert rows["a shared event crosses the link once, however many receivers are behind"].ok
    assert [row[:2] for row in outcome.tables[0].rows] == [
        (str(count), name) for count in (1, 2) for name in fig7.COLOURS
    ]
