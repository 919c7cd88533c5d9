"""What a campus says: visits of devices to access points as a pattern of messages that repeats.

A visit is a device that authenticates, associates, perhaps authenticates again, perhaps roams to other access
points of the building, and departs. Its messages lie minutes apart, with those of other visits in between.
The pattern has SLOTS messages in the order of their arrival; message `s` of repetition `j` belongs to the
visit `class[s]` that began `lag[s]` repetitions before `j`. So which message the trace's n-th is can be said
without the messages before it.

    authenticates again   Poisson, mean 1.0
    roams                 geometric, mean 1.0; each is Authenticated at the new access point, roamed at the
                          old one, Reassociated at the new one
    stays                 log-normal, median 5 min, sigma 1.3, at most 12 h
    departs               Disassociated (40 %), Disassociating and Deauthenticated (35 %),
                          Deauthenticating and Deauthenticated (25 %)
    besides               5 % of all messages are warnings and errors, 3 % are about access points, no device
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOTS: Final = 16_384
"""Messages of the pattern: about an hour at the default rate."""

AUTHENTICATED: Final = "Authenticated"
ROAMED: Final = "roamed"
ASSOCIATIONS: Final = ("Associated", "Reassociated")
DEPARTURES: Final = (
    (("Disassociated",), 0.40),
    (("Disassociating", "Deauthenticated"), 0.35),
    (("Deauthenticating", "Deauthenticated"), 0.25),
)
COMPLAINTS: Final = (
    ("Warning", "Max retries"),
    ("Warning", "Packet to client dropped"),
    ("Error", "Decryption failed"),
)
INFO: Final = "Info"
COMPLAINING: Final = 0.05
ABOUT_POINTS: Final = 0.03
AGAIN: Final = 1.0
ROAMS: Final = 1.0
STAY_S: Final = 300.0
STAY_SIGMA: Final = 1.3
LONGEST_STAY_S: Final = 43_200.0


@dataclass(frozen=True, slots=True)
class Slot:
    """One message of the pattern."""

    visit: int
    lag: int
    """Repetitions since the visit began."""
    message_type: str
    action: str
    hop: int
    """How many times the device has roamed; the sender of `roamed` is the access point before that."""
    about_point: bool
    """Whether the host is an access point."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The messages in order of their arrival."""

    slots: tuple[Slot, ...]
    visits: int
    """Visits that begin in each repetition."""


@dataclass(frozen=True, slots=True)
class _Message:
    after_s: float
    message_type: str
    action: str
    hop: int = 0
    about_point: bool = False


def pattern(seed: int, rate: float) -> Pattern:
    """The pattern of a seed; `rate`, in messages per second, turns times into places."""
    draw = np.random.default_rng((seed, 2))
    placed: list[tuple[float, int, _Message]] = []
    visits = 0
    while len(placed) < SLOTS:
        begins = draw.uniform(0, SLOTS)
        placed += [(begins + message.after_s * rate, visits, message) for message in _visit(draw)]
        visits += 1
    # The last visit may be one message too long; the pattern is exactly as long as it is said to be.
    del placed[SLOTS:]
    placed.sort(key=lambda one: one[0] % SLOTS)
    slots = (
        Slot(visit, int(at // SLOTS), one.message_type, one.action, one.hop, one.about_point)
        for at, visit, one in placed
    )
    return Pattern(tuple(slots), visits)


def _visit(draw: np.random.Generator) -> Iterator[_Message]:
    """One visit's messages, or a message that belongs to none."""
    lot = draw.random()
    complaining, about_points = (share * _MESSAGES_PER_VISIT for share in (COMPLAINING, ABOUT_POINTS))
    lot *= 1 + (complaining + about_points) / (1 - COMPLAINING - ABOUT_POINTS)
    if lot >= 1:
        if draw.random() < COMPLAINING / (COMPLAINING + ABOUT_POINTS):
            kind, action = COMPLAINTS[draw.integers(len(COMPLAINTS))]
            yield _Message(0.0, kind, action)
        else:
            yield _Message(0.0, INFO, ASSOCIATIONS[draw.integers(2)], about_point=True)
        return
    yield _Message(0.0, INFO, AUTHENTICATED)
    yield _Message(draw.uniform(0.02, 0.3), INFO, ASSOCIATIONS[0])
    stay_s = min(LONGEST_STAY_S, draw.lognormal(np.log(STAY_S), STAY_SIGMA))
    for _ in range(draw.poisson(AGAIN)):
        yield _Message(draw.uniform(0.3, max(0.4, stay_s)), INFO, AUTHENTICATED)
    roams = draw.geometric(1 / (1 + ROAMS)) - 1
    for hop, at_s in enumerate(sorted(draw.uniform(0.5, max(0.6, stay_s), roams)), start=1):
        yield _Message(at_s, INFO, AUTHENTICATED, hop)
        yield _Message(at_s + 0.05, INFO, ROAMED, hop - 1)
        yield _Message(at_s + 0.10, INFO, ASSOCIATIONS[1], hop)
    which = draw.choice(len(DEPARTURES), p=[share for _, share in DEPARTURES])
    for number, action in enumerate(DEPARTURES[which][0]):
        yield _Message(stay_s + 0.7 + 0.1 * number, INFO, action, roams)


_MESSAGES_PER_VISIT: Final = 2 + AGAIN + 3 * ROAMS + sum(len(said) * share for said, share in DEPARTURES)
