"""Valid factors of channels, and how the schemes use them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.core.channels.allocation import Factors, Scheme
from penstock.errors import ChannelError
from penstock.model.instant import SECOND_US


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"subscribers": [1, -1]}, "subscribers of channel 2 is -1"),
        ({"subscribers": [1, float("nan")]}, "subscribers of channel 2 is nan"),
        ({"subscribers": [1, None]}, "subscribers"),
        ({"subscribers": ["many"]}, "not numbers"),
        ({"subscribers": [[1]]}, "one column"),
        ({"subscribers": [1], "cost": [0]}, "cost of channel 1 is 0; it should be above 0"),
        ({"subscribers": [1], "update_interval_us": [0]}, "update_interval_us of channel 1 is 0"),
        ({"subscribers": [1], "cost": [float("inf")]}, "cost of channel 1 is inf"),
        ({"subscribers": [1], "cost": [1, 2]}, "cost has 2 values, subscribers has 1"),
        ({"subscribers": [1], "host": ["a", "b"]}, "host has 2 values"),
    ],
)
def test_columns_that_cannot_be_are_refused(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ChannelError, match=said):
        Factors(**columns)


def test_schemes_weigh_as_in_table_1() -> None:
    factors = Factors([2, 2], update_interval_us=np.array([900, 7_200]) * SECOND_US)
    tau_us = 1_800 * SECOND_US
    expected = {
        Scheme.LITE: [2, 2],
        Scheme.FAST: [2, 2],
        Scheme.FAIR: [4, 0.5],
        Scheme.FAIR_SQRT: [2 * 2**0.5, 1],
        Scheme.FAIR_LOG: [2 * np.log(1_800) / np.log(900), 2 * np.log(1_800) / np.log(7_200)],
    }
    for scheme, weights in expected.items():
        assert scheme.weights(factors, tau_us=tau_us) == pytest.approx(weights), scheme


def test_fair_log_takes_channels_that_change_every_second() -> None:
    weights = Scheme.FAIR_LOG.weights(Factors([1, 1], update_interval_us=[1, SECOND_US]), tau_us=SECOND_US)
    assert (np.isfinite(weights) & (weights > 0)).all()
