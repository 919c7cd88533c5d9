"""Reads the user properties of CONNECT and PUBLISH by which clients declare their flows.

CONNECT   penstock-period: 100ms                 every topic this client publishes on
CONNECT   penstock-period: 1s ward/7/#           topics that match the filter; may be repeated
PUBLISH   penstock-period: 100ms                 this message's topic, from now on
PUBLISH   penstock-period: none                  this topic no longer has a period
both      penstock-jitter: 5ms                   how far messages are from their times (one σ)
PUBLISH   penstock-retry: 100ms                  needs a place; else it comes again after 100, 200, 400 … ms
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.errors import MqttError, SlotError
from penstock.model.instant import to_us
from penstock.mqtt.topics import check_filter, matches
from penstock.node.config.amounts import SECONDS, quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

PERIOD: Final = "penstock-period"
JITTER: Final = "penstock-jitter"
RETRY: Final = "penstock-retry"
NO_PERIOD: Final = "none"


@dataclass(frozen=True, slots=True)
class Declared:
    """A period that a client declared."""

    period_us: int
    """0: the topic no longer has a period."""
    jitter_us: int = 0
    filter: str = "#"

    def covers(self, topic: str) -> bool:
        """Whether the declaration is about a topic."""
        return matches(self.filter, topic)


def of_publish(user: Iterable[tuple[str, str]]) -> Declared | None:
    """The declaration in a PUBLISH; None if there is none, SlotError if it cannot be read."""
    period, jitter = "", ""
    for name, value in user:
        if name == PERIOD:
            period = value
        elif name == JITTER:
            jitter = value
    if not period:
        return None
    if period == NO_PERIOD:
        return Declared(0)
    return Declared(_above_0(PERIOD, period, NO_PERIOD), _amount(JITTER, jitter) if jitter else 0)


def retry_of(user: Iterable[tuple[str, str]]) -> int:
    """Return the pause before the first retry of a PUBLISH, or 0 if it is no request; raises SlotError."""
    for name, value in user:
        if name == RETRY:
            return _above_0(RETRY, value)
    return 0


def of_connect(user: Iterable[tuple[str, str]]) -> tuple[list[Declared], list[str]]:
    """Declarations in a CONNECT, and problems of those that cannot be read."""
    jitter_us = 0
    found: list[Declared] = []
    problems: list[str] = []
    for name, value in user:
        try:
            if name == JITTER:
                jitter_us = _amount(JITTER, value)
            elif name == PERIOD and len(found) >= limits.FLOWS_DECLARED:
                problems.append(f"{PERIOD}: more than {limits.FLOWS_DECLARED} of them")
                break
            elif name == PERIOD:
                period, _, filter_ = value.partition(" ")
                if filter_:
                    check_filter(filter_, where=PERIOD)
                found.append(Declared(_above_0(PERIOD, period, NO_PERIOD), filter=filter_ or "#"))
        except (SlotError, MqttError) as error:
            problems.append(str(error))
    return [Declared(one.period_us, jitter_us, one.filter) for one in found], problems


def _amount(name: str, text: str) -> int:
    seconds = quantity(text, SECONDS)
    if seconds is None:
        raise SlotError(f"{name}: '{text[:40]}' is no duration; say it like 100ms, 1.5s or 2min")
    return to_us(seconds)


def _above_0(name: str, text: str, *others: str) -> int:
    amount_us = _amount(name, text)
    if not amount_us:
        allowed = ", or ".join(("above 0", *(f"'{other}'" for other in others)))
        raise SlotError(f"{name}: '{text[:40]}' is no period; it must be {allowed}")
    return amount_us
