"""The poll interval of each channel, allocated over all channels of the node or read from a control table.

An interval that a user asked for counts most, then the control table `allocation`, then the node's own
allocation from subscribers, cost in bytes and estimated update intervals, by the continuous solver.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.core.channels.allocation import Factors, Scheme, allocate
from penstock.errors import InputError, counted
from penstock.model.instant import SECOND_US, duration, to_us
from penstock.node.store.control_table import TableFollower, TableVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.node.channels.channel import Channel
    from penstock.node.channels.registry import ChannelRegistry
    from penstock.node.config.channels import ChannelSettings

log = logging.getLogger(__name__)

TABLE: Final = "allocation"
COLUMNS: Final = {"url": "string", "interval_us": "int64"}

USUAL_BYTES: Final = 20_000.0
"""Assumed size of a page before its first fetch: about the median of feeds."""

AT_ONCE: Final = 500
"""Intervals set before other tasks may run: a few milliseconds of work."""

SAME: Final = 0.02
"""Relative difference up to which an interval is not changed."""

LEAST_BYTES: Final = 500.0
"""Least cost of a poll: headers of request and answer."""


class PollSchedule:
    """Sets the intervals of polled channels."""

    def __init__(
        self,
        settings: ChannelSettings,
        registry: ChannelRegistry,
        *,
        given: Callable[[Channel], None],
        pushed: Callable[[str], bool],
        changed: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._given = given
        """Called with each channel whose interval changed."""
        self._pushed = pushed
        """Whether a hub pushes changes of a URL, so that polls are only a back-up."""
        self._changed = changed
        """Called when intervals should be allocated again."""
        self._table: dict[str, int] = {}
        self._tight: dict[str, float] = {}
        """Hosts whose limits determine the intervals of their pages."""
        self.follower = (
            TableFollower(Path(settings.table), TABLE, COLUMNS, keys=1, taken=self._take)
            if settings.table
            else None
        )

    def allocate(self) -> Iterator[None]:
        """Set the interval of every channel; a generator, so that other tasks run between its steps."""
        own: list[Channel] = []
        for channel in self._registry:
            if not channel.polled:
                continue
            told = channel.known.every_us or self._table.get(channel.url, 0)
            if self._pushed(channel.url):
                told = to_us(self._settings.polling.most_s)
            if told:
                self._give(channel, told)
            elif channel.problem:
                # Its bytes would be spent on the others: four pages beyond 8 MB doubled their polls.
                self._give(channel, max(channel.known.interval_us, self._usual_us()))
            else:
                own.append(channel)
        yield
        if not own:
            return
        found = allocate(_factors(own), **self._terms(own))
        self._tight = found.host_prices
        for place, (channel, interval_us) in enumerate(zip(own, found.interval_us.tolist(), strict=True)):
            if not place % AT_ONCE:
                yield
            self._give(channel, interval_us)

    def first(self, channel: Channel) -> None:
        """Set the interval of a new channel, until the next allocation."""
        known = channel.known
        told = known.every_us or self._table.get(channel.url, 0) or known.interval_us
        self._give(channel, told or self._usual_us())

    def _usual_us(self) -> int:
        polling = self._settings.polling
        return min(max(to_us(self._settings.interval_s), to_us(polling.least_s)), to_us(polling.most_s))

    def _give(self, channel: Channel, interval_us: int) -> None:
        bounded_us = max(interval_us, to_us(self._settings.polling.least_s))
        before_us = channel.known.interval_us
        if abs(bounded_us - before_us) > before_us * SAME:
            channel.known.interval_us = bounded_us
            self._given(channel)

    def _terms(self, own: list[Channel]) -> dict[str, Any]:
        settings = self._settings
        scheme = Scheme(settings.scheme)
        tau_us = to_us(settings.interval_s)
        terms: dict[str, Any] = {
            "scheme": scheme,
            "tau_us": tau_us,
            "least_us": to_us(settings.polling.least_s),
            "most_us": to_us(settings.polling.most_s),
        }
        cost = float(np.mean([_cost(each) for each in own]))
        terms["host_limits"] = (
            min(settings.polling.host_bytes, settings.polling.host_polls * cost) * settings.interval_s / 3_600
        )
        if scheme.has_target:
            terms["target_us"] = to_us(settings.target_s)
        elif settings.polls_per_s:
            alone = sum(max(1, each.subscribers) * _cost(each) for each in own)
            terms["budget"] = min(alone, settings.polls_per_s * settings.interval_s * cost)
        return terms

    # -- control table ---------------------------------------------------------------------------------

    def _take(self, loaded: TableVersion) -> None:
        """Use a newer version of the control table; InputError refuses it."""
        table = loaded.table
        urls, intervals = table["url"].to_pylist(), table["interval_us"].to_pylist()
        found: dict[str, int] = {}
        for row, (url, interval_us) in enumerate(zip(urls, intervals, strict=True)):
            if not url or interval_us is None or not 0 < interval_us <= 366 * 86_400 * SECOND_US:
                raise InputError(
                    f"row {row}: no interval of a channel: {url!r}, {interval_us!r}", path=loaded.folder
                )
            if url in found:
                raise InputError(f"row {row}: duplicate URL {url}", path=loaded.folder)
            found[url] = interval_us
        self._table = found
        self._changed()

    # -- explanation -----------------------------------------------------------------------------------

    def why(self, channel: Channel) -> str:
        """Explain in sentences why a channel has its interval."""
        known = channel.known
        if known.every_us:
            return f"Somebody asked for an interval of {duration(known.every_us)}."
        if channel.url in self._table:
            version = self.follower.version if self.follower is not None else None
            number = f", version {version.version}" if version is not None else ""
            return f"The control table gives it {duration(self._table[channel.url])} (allocation{number})."
        if channel.problem:
            return "It fails at present, so it has no share of the load until it can be read again."
        count = max(1, channel.subscribers)
        changes = "how often it changes is not known yet"
        if channel.update_us and (known.dated_us or known.counts.changes):
            changes = f"changes every {duration(channel.update_us)} or so"
        said = (
            f"Allocated by the scheme {self._settings.scheme}: {counted(count, 'subscriber')}, "
            f"{_cost(channel):,.0f} bytes a poll, {changes}."
        )
        if channel.host in self._tight:
            said += (
                f"\n{channel.host} is at its limit (channels.polling.host_polls and host_bytes), "
                "so its pages are polled less often."
            )
        return said


def _factors(own: list[Channel]) -> Factors:
    usual_us = 86_400 * SECOND_US
    return Factors(
        subscribers=[max(1, each.subscribers) for each in own],
        cost=[_cost(each) for each in own],
        update_interval_us=[each.update_us or usual_us for each in own],
        host=[each.host for each in own],
    )


def _cost(channel: Channel) -> float:
    """Return the expected bytes of a poll."""
    return max(LEAST_BYTES, channel.known.mean_bytes or USUAL_BYTES)
