"""Bursty traffic keeps the moments and sums its equations promise."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import SimulationError
from penstock_lab.sim.traffic import BurstyTraffic


def test_the_recursion_of_the_multipliers() -> None:
    model = BurstyTraffic(mean=0.7, stdc=0.35, hurst=0.75, levels=3)
    energy = 0.35**2 * (2**0.5 - 1) / (0.7**2 + 0.35**2)
    first, second, third = model.shapes()
    assert 1 / (2 * first + 1) == pytest.approx(energy)
    assert second == pytest.approx((2**0.5 * (first + 1) - 1) / 2)
    assert third == pytest.approx((2**0.5 * (second + 1) - 1) / 2)


def test_multipliers_settle_where_the_spectrum_is_a_power_law() -> None:
    rise = 2**0.6
    settled = (rise - 1) / (2 - rise)  # p' = p
    for stdc in (0.1, 0.65):
        shapes = BurstyTraffic(stdc=stdc, hurst=0.8, coarse=1, levels=24).shapes()
        assert shapes[-1] == pytest.approx(settled, rel=0.2)
        assert shapes == sorted(shapes, reverse=True)


def test_halving_keeps_sums_and_signs() -> None:
    model = BurstyTraffic(coarse=16, levels=6)
    fine = model.signal(np.random.default_rng(5))
    coarse = BurstyTraffic(coarse=16, levels=0).signal(np.random.default_rng(5))
    assert len(fine) == 16 << 6
    assert (fine >= 0).all()
    assert fine.reshape(16, -1).sum(axis=1) == pytest.approx(coarse)


def test_coarse_coefficients_have_their_mean_and_deviation() -> None:
    for stdc in (0.1, 0.65):
        found = BurstyTraffic(stdc=stdc, coarse=1 << 16, levels=0).signal(np.random.default_rng(1))
        assert found.mean() == pytest.approx(0.7, rel=0.02)
        assert found.std() == pytest.approx(stdc, rel=0.02)


def test_all_arrive_and_a_seed_repeats() -> None:
    model = BurstyTraffic(stdc=0.5)
    one, again, other = (
        model.arrivals(np.random.default_rng(seed), count=10_000, slots=64) for seed in (3, 3, 4)
    )
    assert one.sum() == 10_000
    assert one.tolist() == again.tolist() != other.tolist()


def test_larger_stdc_means_larger_bursts() -> None:
    spread = [
        BurstyTraffic(stdc=stdc).arrivals(np.random.default_rng(2), count=1 << 17, slots=64).std()
        for stdc in (0.1, 0.3, 0.65)
    ]
    assert spread == sorted(spread)
    assert spread[0] / 2048 == pytest.approx(0.1 / 0.7, rel=0.3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"stdc": 0.0}, "stdc 0.0 must be above 0"),
        ({"mean": -1.0}, "mean -1.0"),
        ({"hurst": 0.5}, "hurst is 0.5; allowed is between 0.5 and 1"),
        ({"hurst": 1.0}, "hurst is 1.0"),
        ({"coarse": 0}, "0 coefficients"),
        ({"levels": 40}, "halved 40 times"),
    ],
)
def test_parameters_that_cannot_be(given: dict[str, float], said: str) -> None:
    with pytest.raises(SimulationError, match=said):
        BurstyTraffic(**given)  # type: ignore[arg-type]


def test_slots_must_divide_the_signal() -> None:
    with pytest.raises(SimulationError, match="do not divide into 63 slots"):
        BurstyTraffic().arrivals(np.random.default_rng(1), count=10, slots=63)
