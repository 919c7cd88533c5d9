"""The paper's locator (§7): it follows the syslog stream and asks access points for devices' addresses.

It is one thread. An association without an address makes it ask the access point, which takes from hundreds
of milliseconds to dozens of seconds; one answer names all devices of the access point and serves for 30 s, in
which the access point is not asked again. Whatever else it takes from its queue it is done with at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.model.event import Event
from penstock.model.instant import SECOND_US
from penstock.policy.nodes import PayloadFormat
from penstock.policy.payload import decoded

if TYPE_CHECKING:
    from penstock.model.digest import Digest
    from penstock.model.instant import Instant

ASSOCIATIONS: Final = ("Associated", "Reassociated")
CACHED_US: Final = 30 * SECOND_US
"""The paper: not more than one query in 30 s to the same access point."""
READ_US: Final = 5_000
"""Parsing a message, looking up a table; not in the paper."""
MEDIAN_S: Final = 1.5
SIGMA: Final = 1.0
LEAST_S: Final = 0.2
MOST_S: Final = 60.0
"""A query takes a log-normal time within these: hundreds of milliseconds to dozens of seconds. Its median and
sigma are fitted to the paper's longest delay (decision 0013)."""


@dataclass(slots=True)
class Locator:
    """A reader of the queue; its dice are for the times that queries take."""

    dice: np.random.Generator
    asked_us: dict[str, int] = field(default_factory=dict)
    """When each access point answered last."""
    resolved: list[int] = field(default_factory=list)
    """Latency in microseconds of each association whose device it located."""
    queries: int = 0

    def takes_us(self, item: Event | Digest, *, now_us: Instant) -> int:
        """A `Reader` of `penstock.core.queues.replay`."""
        if not isinstance(item, Event):
            return 0
        message = decoded(item, PayloadFormat.AUTO)
        if message["action"] not in ASSOCIATIONS or message["message_type"] != "Info":
            return READ_US
        took_us = READ_US
        ap = message["ap"]
        if message.get("ip") is None and now_us - self.asked_us.get(ap, -CACHED_US) >= CACHED_US:
            query_s = float(np.clip(self.dice.lognormal(np.log(MEDIAN_S), SIGMA), LEAST_S, MOST_S))
            took_us += round(query_s * SECOND_US)
            self.asked_us[ap] = now_us + took_us
            self.queries += 1
        self.resolved.append(now_us + took_us - item.ts_us)
        return took_us
