"""The rivals of `bench allocate` are right: what they are slower than is the same answer."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.core.channels.allocation import allocate
from penstock_lab.bench.channels import allocation
from penstock_lab.bench.channels import allocation as bench


def test_rivals_share_polls_as_we_do() -> None:
    factors = bench.channels(400)
    budget = 50 * 400
    ours = (
        bench.TAU_US
        / allocate(factors, tau_us=bench.TAU_US, least_us=bench.LEAST_US, most_us=bench.MOST_US).interval_us
    )
    subscribers = factors.subscribers.tolist()
    low, high = bench.TAU_US / bench.MOST_US, bench.TAU_US / bench.LEAST_US
    searched = allocation.price_search(subscribers, budget=budget, low=low, high=high)
    assert searched == pytest.approx(ours, rel=1e-5)
    whole = allocation.greedy(subscribers, budget=budget)
    assert sum(whole) == budget
    assert np.abs(np.array(whole) - ours).max() <= 1, "as near as whole polls can be"


@pytest.mark.slow
def test_rows_have_a_rival_each() -> None:
    rows = bench._delays(3_000)
    assert all(row.rival and row.ratio is not None for row in rows)
    fresher = [row for row in rows if row.unit == "s" and row.goal is not None]
    assert len(fresher) == 4
    assert all(row.ok for row in fresher)
