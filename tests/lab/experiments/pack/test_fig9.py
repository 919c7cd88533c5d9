"""`penstock reproduce pack-fig9` with few clients: each moves, and gets everything once and in order."""

from __future__ import annotations

import pytest
from tests.kit.progress import silent

from penstock_lab.experiments.pack import fig9
from penstock_lab.rigs.brokers import our_node
from penstock_lab.rigs.returning_clients import Attaching
from penstock_lab.rigs.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("cluster")]


def test_clients_that_move_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fig9, "QUICK", fig9.Effort(clients=6, over_s=0.5, rounds=1))
    found = fig9.reproduce(seed=1, quick=True, out=None, progress=silent)
    nothing, spread, at_once = found.rows
    assert nothing.ok, nothing
    assert nothing.ours == "none of 240"
    # How late things are is for the complete run to judge: the machine of a test may be busy.
    assert (spread.ok, at_once.ok) == (None, None)
    assert spread.ours.startswith("p50 ")


def test_a_node_that_knows_nothing_of_a_session_is_a_row_that_does_not_hold() -> None:
    """Two nodes that are no cluster: what waits at one does not come at the other."""
    with our_node() as one, our_node() as other:
        found = fig9._move((one.port, other.port), fig9.Effort(2, 0.0, 1), "apart", give_up_s=1.0)
    assert "2 clients got nothing" in found.problem
    nothing, spread, _ = fig9._rows(found, None, "Mosquitto", fig9.FULL)
    assert not nothing.ok
    assert spread.ok is False
    assert "no Mosquitto" in spread.note


def test_clients_that_attach_one_after_the_other_take_their_time() -> None:
    with our_node() as node, Worker("spread", Attaching, node.port, 5) as worker:
        worker.ask((3, 0.5))
        times = worker.answer()
    assert len(times) == 5
    assert all(0 < one.asked_ns < one.first_ns for one in times)
