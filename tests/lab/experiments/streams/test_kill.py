"""Reliable streams under `kill -9`, in few rounds; `penstock reproduce streams-kill` has many."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from penstock_lab.experiments.streams.kill import judge, reproduce
from penstock_lab.experiments.streams.processes import KillTree
from penstock_lab.experiments.streams.programs import Book, last_tick

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

ROUNDS = 6
"""Each victim once."""


@pytest.mark.parametrize("log", ["file", "nats"])
def test_nothing_acknowledged_is_lost_nothing_comes_twice_and_order_is_kept(log: str) -> None:
    outcome = reproduce(seed=5, quick=True, out=None, progress=lambda *_: None, rounds=str(ROUNDS), log=log)
    assert outcome.ok, outcome.as_json()["rows"]
    assert [row["times"] for row in outcome.as_json()["tables"][0]["rows"]] == ["1"] * ROUNDS


def test_what_is_judged_is_found(tmp_path: Path) -> None:
    world = KillTree(tmp_path)
    world.file("publisher mqtt").write_text("1\n2\n3\n")
    world.file("publisher writer").write_text("1\n2")  # the second line is not whole yet
    path = world.file("QoS 1")
    with closing(Book(path)) as book:
        book.write([(10, "kill/mqtt", b"1"), (20, "kill/mqtt", b"2")])
    found = judge("QoS 1", world)
    assert (found.seen, found.acknowledged) == (2, 4)
    assert found.lost == ["mqtt 3", "writer 1"]
    with path.open("a") as file:
        file.write("+ 30 mqt")  # killed while it wrote
    with closing(Book(path)) as book:  # the next life
        assert last_tick(path) == 20
        book.write([(20, "kill/mqtt", b"2"), (30, "kill/mqtt", b"3"), (40, "kill/writer", b"1")])
        found = judge("QoS 1", world)
        assert (found.again, found.lost, found.twice, found.order) == (1, [], [], [])
        book.write([(40, "kill/writer", b"1")])
        assert judge("QoS 1", world).twice == ["writer 1 (tick 40)"]
        book.write([(60, "kill/writer", b"3"), (61, "kill/writer", b"2")])
        assert judge("QoS 1", world).order == ["writer 2 (tick 61) after writer 3 (tick 60)"]
