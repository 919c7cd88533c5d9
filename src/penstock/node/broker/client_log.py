"""Log lines about clients: who came, who left and why, and what the access list refused.

A fleet that connects at once must not fill the disk with lines: they have a bound, and how many were left out
is a line as well. Nothing here is asked about messages that are accepted.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock import limits
from penstock.errors import counted, printable
from penstock.node.access.rate import RateLimit, RateLimits

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.instant import Instant

log = logging.getLogger(__name__)


class ClientLog:
    """Writes lines about clients at the level `info`."""

    __slots__ = ("_clock", "_left_out", "_limit", "_told")

    def __init__(self, clock: Callable[[], Instant]) -> None:
        self._clock = clock
        burst_s = limits.CLIENT_LOG_BURST / limits.CLIENT_LOG_PER_S
        self._limit = RateLimit.of(limits.CLIENT_LOG_PER_S, ahead_s=burst_s)
        self._left_out = 0
        self._told = RateLimits(
            interval_us=limits.CLIENT_LOG_REPEAT_S * 1_000_000, burst=1, keys=limits.CLIENT_LOG_REMEMBERED
        )

    def connected(self, client_id: str, *, address: str, version: int, user: str, present: bool) -> None:
        """A client was let in; `present`: it continues a session."""
        if log.isEnabledFor(logging.INFO):
            who = f", user '{user}'" if user else ""
            again = ", session resumed" if present else ""
            self._say(f"client '{client_id}' connected from {address}: {_mqtt(version)}{who}{again}")

    def disconnected(self, client_id: str, *, address: str, why: str) -> None:
        """A client's connection is gone."""
        if log.isEnabledFor(logging.INFO):
            self._say(f"client '{client_id}' disconnected from {address}: {why}")

    def turned_away(self, *, address: str, why: str) -> None:
        """A connection ended before its client was let in."""
        if log.isEnabledFor(logging.INFO):
            self._say(f"connection from {address} refused: {why}")

    def denied(self, client_id: str, *, user: str, may_not: str, topic: str) -> None:
        """The access list refused a client something; told once in a while for each client and topic."""
        if not log.isEnabledFor(logging.INFO):
            return
        if self._told.take(f"{may_not}\0{client_id}\0{topic}", now_us=self._clock()):
            who = f"user '{user}'" if user else "no user"
            self._say(
                f"client '{client_id}' ({who}) may not {may_not} '{topic}'; see `acl` in the configuration"
            )

    def catch_up(self) -> None:
        """Say how many lines were left out, if so and if there is room for a line again."""
        if self._left_out and self._limit.take(now_us=self._clock()):
            left_out, self._left_out = self._left_out, 0
            log.info(
                "%s about clients left out: more than %s a second",
                counted(left_out, "line"),
                limits.CLIENT_LOG_PER_S,
            )

    def _say(self, line: str) -> None:
        if self._left_out or not self._limit.take(now_us=self._clock()):
            self._left_out += 1
        else:
            log.info("%s", printable(line))


def _mqtt(version: int) -> str:
    return "MQTT 5" if version == 5 else "MQTT 3.1.1"
