"""Random faults break no rule of reliable streams; a rule that is broken on purpose is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.effort import seeds

from penstock.core.streams.knowledge import Knowledge
from penstock.core.streams.messages import Acknowledged, Silence
from penstock.core.streams.pubend import Pubend
from penstock.core.streams.relay import Relay
from penstock.core.streams.subend import Subend
from penstock.core.streams.ticks import tick_at
from penstock.errors import SimulationError
from penstock_lab.sim.streams import random_faults
from penstock_lab.sim.streams.checks import ExactlyOnce, InOrder, NothingLost, SilenceHidesNothing
from penstock_lab.sim.streams.network import StreamNetwork, Tree
from penstock_lab.sim.streams.node import History, NetworkOptions, StreamPublisher, Subscriber
from penstock_lab.sim.streams.random_faults import fault_run, random_tree
from penstock_lab.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND_US = 1_000_000
TREE = Tree(root="r", parents={"i": "r", "a": "i", "b": "i"}, filters={"b": lambda body: body[0] % 2 == 0})


def test_random_faults_break_no_rule() -> None:
    found = [fault_run(seed) for seed in range(5)]
    assert [run.problems for run in found] == [()] * len(found)
    assert sum(run.delivered for run in found) > 300
    assert sum(run.crashes for run in found) > 0
    assert sum(run.lost for run in found) > 0
    assert sum(run.trimmed for run in found) > 0


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 150, 10))
def test_many_more_runs_break_no_rule(first: int) -> None:
    broken = {seed: run.problems for seed in seeds(first, 10) if (run := fault_run(seed)).problems}
    assert broken == {}


def test_a_run_is_its_seed_under_any_hash_seed() -> None:
    program = "from penstock_lab.sim.streams.random_faults import fault_run; print(fault_run(3).fingerprint)"
    other = "0" if os.environ.get("PYTHONHASHSEED") == "4242" else "4242"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONHASHSEED": other},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.strip() == fault_run(3).fingerprint != fault_run(4).fingerprint


def deliver_beyond_the_horizon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Knowledge, "horizon", property(lambda self: self.top))


def acknowledge_before_it_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    publish = Pubend.publish

    def hasty(self: Pubend, body: bytes, *, now_us: int) -> int:
        tick = publish(self, body, now_us=now_us)
        self._events.append(Acknowledged(self.name, tick))
        return tick

    monkeypatch.setattr(Pubend, "publish", hasty)


def believe_an_answer_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Relay, "_own", lambda *_: "")


def trim_what_one_has_processed(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(self: Relay) -> int | None:
        return max((child.acked or 0 for child in self._children.values()), default=None)

    monkeypatch.setattr(Relay, "acked", hasty)


def tell_silence_without_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(self: Pubend, now_us: int) -> None:
        self._silence_us = now_us + 100_000
        until = tick_at(now_us)
        if not self._unsent and until > self._told:
            self._outgoing.append(Silence(self.name, self._told, until))
            self._told = self._next = until

    monkeypatch.setattr(Pubend, "_tell_silence", hasty)


def forget_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subend, "_ask", lambda *_: None)


@pytest.mark.parametrize(
    ("mutation", "noticed"),
    [
        (deliver_beyond_the_horizon, "never got"),
        (acknowledge_before_it_is_durable, "not durable"),
        (believe_an_answer_to_another, "silence"),
        (trim_what_one_has_processed, "are gone"),
        (tell_silence_without_a_claim, "silence"),
        (forget_what_was_asked_for, "never got"),
    ],
)
def test_a_rule_that_is_broken_on_purpose_is_noticed(
    mutation: Callable[[pytest.MonkeyPatch], None], noticed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random_faults, "MOST_US", 8 * SECOND_US)
    mutation(monkeypatch)
    for seed in range(40):
        if any(noticed in problem for problem in fault_run(seed).problems):
            return
    raise AssertionError("40 runs noticed nothing")


def published(count: int = 6) -> History:
    history = History()
    history.durable["p"] = {10 * number: bytes([number]) for number in range(count)}
    history.acknowledged["p"] = dict.fromkeys(history.durable["p"])
    return history


def received(history: History, *ticks: int, node: str = "a") -> Subscriber:
    subscriber = Subscriber("s", node, TREE.filters.get(node))
    subscriber.received["p"] = [(tick, history.durable["p"].get(tick, b"?")) for tick in ticks]
    history.subscribers.append(subscriber)
    return subscriber


def test_each_rule_finds_what_breaks_it() -> None:
    def found(check: Any, *ticks: int, node: str = "a") -> int:
        history = published()
        received(history, *ticks, node=node)
        return len(list(check.problems(history, TREE)))

    assert found(ExactlyOnce(), 0, 10, 20, 30, 40, 50) == 0
    assert found(ExactlyOnce(), 0, 10, 10) == 1
    assert found(ExactlyOnce(), 0, 5) == 1
    assert found(InOrder(), 0, 20, 10, 30) == 1
    assert found(NothingLost(), 0, 10, 20, 30, 40, 50) == 0
    assert found(NothingLost(), 0, 10, 30, 40, 50) == 1
    assert found(NothingLost(), 0, 20, 40, node="b") == 0
    assert found(NothingLost(), 0, 40, node="b") == 1


def test_silence_is_judged_by_the_filter_it_was_told_for() -> None:
    history = published()
    for node, since, until, interest in (("a", 1, 9, ""), ("b", 8, 12, ""), ("i", 8, 12, "b")):
        history.watch(node, Silence("p", since, until, interest))
    assert list(SilenceHidesNothing().problems(history, TREE)) == []
    history.watch("b", Silence("p", 15, 25))
    history.watch("i", Silence("p", 8, 12))
    assert len(list(SilenceHidesNothing().problems(history, TREE))) == 2


def test_a_tree_knows_who_is_below_and_what_they_want() -> None:
    assert TREE.nodes == ("r", "i", "a", "b")
    assert TREE.leaves == TREE.below("r") == ("a", "b")
    assert TREE.link_filter("i") is None
    assert TREE.link_filter("b") is TREE.filters["b"]
    assert [TREE.interest(node) for node in TREE.nodes] == ["", "", "", "b"]
    with pytest.raises(SimulationError, match="parents before"):
        Tree(root="r", parents={"a": "i", "i": "r"})
    for seed in range(30):
        tree = random_tree(World(seed).dice("tree"))
        assert set(tree.below(tree.root)) == set(tree.leaves)
        assert len(tree.leaves) >= 1


def test_a_subscriber_goes_on_where_it_was_after_its_node_crashed() -> None:
    world = World(5, keep_trace=False)
    network = StreamNetwork(world, TREE, ("p",), NetworkOptions())
    network.start()
    root = network.nodes["r"]
    StreamPublisher(
        world,
        root,
        "p",
        every_us=20_000,
        window=5,
        body=lambda number: bytes([number % 256]),
        until_us=2_000_000,
    )
    network.plan_crash("a", at_us=700_000, down_us=500_000)
    network.plan_crash("r", at_us=1_500_000, down_us=100_000)
    world.run(8 * SECOND_US)
    history = network.history
    assert [list(check.problems(history, TREE)) for check in (ExactlyOnce(), InOrder(), NothingLost())] == [
        []
    ] * 3
    everything, half = history.subscribers
    assert len(everything.received["p"]) == len(history.durable["p"]) > 80
    assert 0 < len(half.received["p"]) < len(everything.received["p"])
    assert len(network.logs["p"]) < len(history.durable["p"])
