"""The benchmark of the poller: its figures are what they say."""

from __future__ import annotations

import pytest

from penstock.errors import InputError
from penstock_lab.bench.channels.poll_processes import BIN_S
from penstock_lab.bench.channels.poller import _count, _spread


def test_unevenness_is_one_by_chance_and_less_when_even() -> None:
    even = dict.fromkeys(range(100), 50)
    assert _spread(even, seconds=100 * BIN_S) == 0
    uneven = {number: 100 * (number % 2) for number in range(100)}
    assert _spread(uneven, seconds=100 * BIN_S) == pytest.approx(50**0.5, rel=0.05)


def test_numbers_of_channels() -> None:
    assert (_count(""), _count("1e3"), _count("2_000")) == (20_000, 1_000, 2_000)
    for bad in ("many", "7", "1e99", "nan", "inf"):
        with pytest.raises(InputError, match="--channels"):
            _count(bad)
