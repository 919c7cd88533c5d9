"""The channels of Corona's simulations (section 5.1): 100,000 of them, 5 million subscriptions, Zipf 0.5."""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.core.channels.allocation import Factors
from penstock.model.instant import SECOND_US

TAU_US: Final = 1_800 * SECOND_US
DAY_US: Final = 86_400 * SECOND_US


def papers_channels(count: int = 100_000) -> Factors:
    """Fifty subscriptions per channel on average."""
    shares = np.arange(1, count + 1) ** -0.5
    return Factors(shares * (50 * count / shares.sum()))
