"""Figure 8 over TCP: a short run of the rig accounts for every event; a wrong length is refused."""

from __future__ import annotations

import asyncio

import pytest
from tests.kit.progress import silent

from penstock.errors import InputError
from penstock.policy.text.forms import to_json
from penstock_lab.experiments.pack import fig8, fig8_live
from penstock_lab.rigs.brokers import our_node

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("minutes", ["0", "-1", "0.4", "1441", "nan", "ten", ""])
def test_a_length_that_is_none(minutes: str) -> None:
    with pytest.raises(InputError, match=r"--minutes .*: a number from 0.5 to 1440"):
        fig8_live.reproduce(seed=1, quick=False, out=None, progress=silent, minutes=minutes)


def test_a_short_run_fills_the_queue_and_accounts_for_every_event() -> None:
    with our_node({"queues": {"events": 10}}) as broker:
        receiver = fig8_live.LiveReceiver("pack", broker, policy=to_json(fig8.POLICY, compact=True))
        run = fig8_live._Run((receiver,), seed=3, seconds=8, progress=silent)
        asyncio.run(run.play())
    assert run.published == 267
    assert receiver.told == run.published
    assert receiver.conserved
    assert receiver.digested > 0
    found = fig8_live._figures(receiver, 8)
    assert found.packs == sum(receiver.packs_by_level.values()) > 0
    assert 0 < found.loss < 0.6
    assert 0 < found.mean_s < 8
    got = [event.seq for _, event in receiver.seen.arrivals]
    assert got == sorted(got)
