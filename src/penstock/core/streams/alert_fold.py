"""Alerts of many as one (Figure 5): the first answer to a query goes up at once, others with the next."""

from __future__ import annotations

from penstock.core.streams.messages import NO_RATE, Alert


class AlertFold:
    """Keeps both minima since the last alert that went up."""

    __slots__ = ("_behind", "_keeping", "_number", "_reached", "_recovering")

    def __init__(self) -> None:
        self._number = 0
        self._keeping = self._recovering = NO_RATE
        self._behind = self._reached = 0

    def fold(self, alert: Alert) -> Alert | None:
        """Take one from below; what goes up now, if anything."""
        self._keeping = min(self._keeping, alert.keeping)
        self._recovering = min(self._recovering, alert.recovering)
        self._behind = max(self._behind, alert.behind)
        self._reached = min(self._reached or alert.reached, alert.reached or self._reached)
        if alert.number <= self._number:
            return None
        self._number = alert.number
        folded = Alert(
            alert.pubend, alert.number, self._keeping, self._recovering, self._behind, self._reached
        )
        self._keeping = self._recovering = NO_RATE
        self._behind = self._reached = 0
        return folded
