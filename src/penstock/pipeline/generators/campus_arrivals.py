"""When a campus speaks: messages per second through days, class changes and noise, as a table of seconds.

    hours        the share of each hour of the day is HOURLY, interpolated between the hours
    weekends     0.6 of a weekday
    classes      on weekdays, the ten minutes before each hour from 9:00 to 17:00 have 1.8 times as many
    bursts       each ten seconds are multiplied by a gamma variable of mean 1 and shape 4 (sd 0.5)
    chance       given all this, the messages fall on the seconds independently (a multinomial draw)

The table has a row per second and is drawn on the driver: a week is 600,000 rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from penstock import limits
from penstock.errors import InputError
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.pipeline.generators.recipe import Recipe

HOURLY: Final = (
    *(0.35, 0.25, 0.18, 0.12, 0.10, 0.10, 0.15, 0.30, 0.60, 0.90, 1.00, 1.05),
    *(1.00, 1.05, 1.10, 1.05, 1.00, 0.95, 0.90, 0.90, 0.95, 0.90, 0.75, 0.50),
)
"""Activity at each full hour of a weekday, relative to ten in the morning."""
WEEKEND: Final = 0.6
CLASS_CHANGE: Final = 1.8
CLASS_HOURS: Final = range(9, 18)
"""Classes change at these."""
BURST_S: Final = 10
BURST_SHAPE: Final = 4.0


def intensity(start_us: int, seconds: int) -> npt.NDArray[np.float64]:
    """Expected activity in each second, relative to a weekday's ten in the morning."""
    at_s = start_us // SECOND_US + np.arange(seconds)
    hour = at_s % 86_400 / 3600
    day = (at_s // 86_400 + 3) % 7  # 0 is Monday; 1970 began on a Thursday
    found = np.interp(hour, np.arange(25), (*HOURLY, HOURLY[0]))
    weekday = day < 5
    ending = (at_s % 3600 >= 3000) & np.isin(hour.astype(int) + 1, CLASS_HOURS) & weekday
    return np.asarray(np.where(weekday, found, WEEKEND * found) * np.where(ending, CLASS_CHANGE, 1.0))


def messages_per_second(recipe: Recipe) -> npt.NDArray[np.int64]:
    """How many messages each second of the stream has; all of them together are its events."""
    seconds = max(1, round(recipe.span_s))
    if seconds > limits.CAMPUS_SECONDS:
        raise InputError(
            f"a campus trace has at most {limits.CAMPUS_SECONDS // 3600} hours, "
            f"{recipe.events:,} events at {recipe.rate:g} a second take {seconds / 3600:,.0f}; "
            "take more events a second"
        )
    draw = np.random.default_rng((recipe.seed, 1))
    bursts = draw.gamma(BURST_SHAPE, 1 / BURST_SHAPE, -(-seconds // BURST_S))
    weight = intensity(recipe.start_us, seconds) * np.repeat(bursts, BURST_S)[:seconds]
    return draw.multinomial(recipe.events, weight / weight.sum())
