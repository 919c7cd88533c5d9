"""Accounts add up: histograms, errors, filters, the worst queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.backtest.account import WORST, Account, account, from_json
from penstock.core.backtest.histogram import SLICES, histogram
from penstock.core.backtest.measures import Recorded
from penstock.core.backtest.settings import Backtest, RecordedStream
from penstock.core.queues import DropNewestQueue, PackingQueue, QueueOptions, Replay, drain
from penstock.model import Event
from penstock.pipeline.jobs.backtest.plots import draw
from penstock.policy.text.python_form import drop, keep, policy

if TYPE_CHECKING:
    from pathlib import Path

TIMES = st.lists(st.integers(0, 10**12), min_size=1, max_size=200)


@given(TIMES, st.floats(0.01, 1))
def test_quantiles_are_exact_to_one_per_cent(times: list[int], rank: float) -> None:
    found = histogram(np.array(times, dtype=np.int64)).quantile(rank)
    exact = sorted(times)[max(0, int(np.ceil(rank * len(times) - 1e-9)) - 1)]
    assert found is not None
    assert found == pytest.approx(exact, rel=0.0101, abs=1)


@given(TIMES, TIMES)
def test_histograms_add_up(a: list[int], b: list[int]) -> None:
    both = histogram(np.array(a)).merge(histogram(np.array(b)))
    assert both == histogram(np.array(a + b))
    assert both.mean == pytest.approx(sum(a + b) / len(a + b))
    assert both.largest == max(a + b)
    shares = [share for _, share in both.steps()]
    assert shares == sorted(shares)
    assert shares[-1] == 1


def one(name: str, events: int, *, packs: bool) -> Account:
    options = QueueOptions(capacity_events=5)
    levels = policy(drop.delta(3), keep.latest(1), attribute="v")
    queue = PackingQueue(levels, options) if packs else DropNewestQueue(options)
    replay = Replay(queue, drain("2/s"))
    for place in range(events):
        replay.offer(Event("", msgspec.json.encode({"v": place % 7}), place * 100_000, seq=place))
    return account(
        replay.finish(),
        Recorded(
            published_us=np.arange(events) * 100_000,
            series=np.zeros(events, dtype=np.int64),
            values={"v": np.array([float(place % 7) for place in range(events)])},
        ),
        RecordedStream(events, 1, 0, 10_000_000),
        queue=name,
        window_us=1_000_000,
    )


def test_queues_add_up_and_survive_the_way_back() -> None:
    parts = [one(f"q{number}", 20 + number, packs=True) for number in range(15)]
    total = parts[0]
    for part in parts[1:]:
        total = total.merge(part)
    assert total.queues == 15
    assert total.accepted == sum(20 + number for number in range(15)) == total.delivered + total.digested
    assert total.is_conserved
    assert total.packs == sum(part.packs for part in parts) == sum(total.levels.values())
    assert sum(total.slices.events) == total.accepted
    assert sum(total.slices.delivered) == total.delivered
    assert len(total.slices.events) == SLICES
    for cause, count in total.effects():
        own = [dict(part.effects()).get(cause) for part in parts]
        assert count.dropped == sum(found.dropped for found in own if found is not None)
    assert len(total.worst) == WORST
    assert total.worst == sorted(total.worst, key=lambda found: (-found.share, found.queue))
    assert from_json(msgspec.json.encode(total)) == total


def test_what_is_unaccounted_for_shows() -> None:
    found = one("q", 30, packs=False)
    assert found.is_conserved
    lost = msgspec.structs.replace(found, delivered=found.delivered - 1)
    assert not lost.is_conserved
    assert lost.as_json()["conserved"] is False


@pytest.mark.slow  # it draws
def test_a_value_that_never_changes_has_no_picture_of_errors(tmp_path: Path) -> None:
    stream = RecordedStream(events=1, queues=1, begin_us=0, end_us=0)
    still = draw(Backtest(stream, {"mine": one("q", 1, packs=True)}), tmp_path)
    assert [path.name for path in still] == ["backtest.png"]  # and no warning of an empty legend
    moved = draw(Backtest(stream, {"mine": one("q", 30, packs=True)}), tmp_path)
    assert [path.name for path in moved] == ["backtest.png", "backtest-errors.png"]
