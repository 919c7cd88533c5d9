"""A ward of patients: pulse and oxygen readings that are mostly normal, with alarms in episodes.

Each patient's pulse wanders around a resting rate of its own (an autoregressive walk with a memory of about
ten seconds). About once in five minutes an episode lifts or lowers it for half a minute; readings below 50 or
above 100 are alarms. Everything follows from the dice passed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.model.event import Event
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

LOW: Final = 50
HIGH: Final = 100
"""The normal range; outside it a reading is an alarm."""

EPISODES_PER_SECOND: Final = 1 / 300
EPISODE_SECONDS: Final = 30


def is_alarm(pulse: float) -> bool:
    """Whether somebody should look."""
    return not LOW <= pulse <= HIGH


@dataclass(slots=True)
class _Patient:
    number: int
    resting: float
    wander: float = 0.0
    shift: float = 0.0
    shift_left: int = 0
    sent: int = 0

    def reading(self, dice: Random, ts_us: int) -> Event:
        """The next reading."""
        self.wander = 0.9 * self.wander + dice.gauss(0, 1.5)
        if self.shift_left:
            self.shift_left -= 1
        elif dice.random() < EPISODES_PER_SECOND:
            self.shift, self.shift_left = dice.choice((-32.0, 45.0, 60.0)), EPISODE_SECONDS
        pulse = round(self.resting + self.wander + (self.shift if self.shift_left else 0.0), 1)
        spo2 = round(min(100.0, dice.gauss(97, 1) - (4 if self.shift_left else 0)), 1)
        payload = msgspec.json.encode({"patient": self.number, "pulse": pulse, "spo2": spo2})
        event = Event(
            f"ward/{self.number}/vitals", payload, ts_us, sender=f"monitor-{self.number}", seq=self.sent
        )
        self.sent += 1
        return event


def readings(dice: Random, patients: int) -> Iterator[Event]:
    """One reading per patient and second, without end, in order of time."""
    waiting: list[tuple[int, int]] = []
    ward = [_Patient(number, resting=dice.gauss(72, 5)) for number in range(patients)]
    for patient in ward:
        heappush(waiting, (dice.randrange(SECOND_US), patient.number))
    while waiting:
        ts_us, number = heappop(waiting)
        yield ward[number].reading(dice, ts_us)
        heappush(waiting, (ts_us + SECOND_US, number))
