"""Learns the noise of pages that change at every poll, by fetching such a page twice at once.

What differs between two fetches of one moment was not written by the author of the page. One page is
examined at a time, and each one seldom, because the second fetch costs the site.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.errors import ChannelRefused
from penstock.model.instant import SECOND_US
from penstock.node.channels.compare import PageBody

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.model.instant import Instant
    from penstock.node.channels.channel import Channel
    from penstock.node.channels.poller import Poller
    from penstock.node.channels.results import PollResults

SUSPECT: Final = 3
"""Consecutive changes after which a page is suspected of noise."""


class NoiseLearner:
    """Fetches suspected pages twice, one page at a time."""

    def __init__(
        self,
        channels: Iterable[Channel],
        poller: Poller,
        polls: PollResults,
        *,
        clock: Callable[[], Instant],
    ) -> None:
        self._channels = channels
        self._poller = poller
        self._polls = polls
        self._clock = clock
        self.done = 0
        """Pages fetched twice so far."""

    async def run(self) -> None:
        """Examine one suspected page after the other, until cancelled."""
        while True:
            await asyncio.sleep(limits.CONTRAST_PAUSE_S)
            channel = self._suspected()
            if channel is not None:
                await self.contrast(channel)

    def _suspected(self) -> Channel | None:
        before_us = self._clock() - limits.CONTRAST_AGAIN_S * SECOND_US
        found = (
            each
            for each in self._channels
            if each.known.streak >= SUSPECT
            and each.known.kind != "feed"  # items of feeds have ids, so noise does not matter
            and each.known.contrasted_us <= before_us
            and each.polled
        )
        return max(found, key=lambda each: each.known.streak, default=None)

    async def contrast(self, channel: Channel) -> bool:
        """Fetch a page twice and learn its noise; return whether both fetches succeeded."""
        try:
            pair = await self._poller.twice(channel.url)
        except ChannelRefused:  # too soon after the last poll, or the budget of the host is used up
            return False
        known = channel.known
        known.contrasted_us = self._clock()
        known.streak = 0
        if pair is None or any(each.status != 200 or each.error for each in pair):
            return False
        self.done += 1
        one, other = (PageBody(each.body, each.content_type) for each in pair)
        await self._polls.pair(
            channel,
            one,
            other,
            size=sum(each.bytes_wire for each in pair),
            duration_us=max(each.duration_us for each in pair),
        )
        return True
