"""Tries rules on a page: what would be read by them, without changing how the page is watched.

The page is fetched as politely as by a poll, and kept for some minutes, so that several selectors can be
tried on it with one request. It is read in the same process and by the same code as a poll.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.channels.difference import rules_of
from penstock.errors import ChannelError
from penstock.model.instant import to_us
from penstock.node.channels.compare import PageBody

if TYPE_CHECKING:
    from typing import Any

    from penstock.node.channels.channel import Channel
    from penstock.node.channels.engine import ChannelEngine


class RuleTrials:
    """Reads pages by rules that are not in force."""

    def __init__(self, engine: ChannelEngine) -> None:
        self._engine = engine
        self._sample: tuple[Channel, PageBody, int] | None = None
        """The page fetched last for a trial, and until when it is used."""

    async def lines(self, channel: Channel, rules: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the lines that rules select, each with its place; ChannelError says why there are none."""
        given = rules_of(rules)
        if channel.known.barred:
            raise ChannelError(channel.known.barred)
        body = await self._body(channel)
        comparer = self._engine.comparer
        async with comparer.one:
            return await comparer.tried(channel.url, given, body, now_us=self._engine.clock())

    async def _body(self, channel: Channel) -> PageBody:
        now_us = self._engine.clock()
        if self._sample is not None:
            sampled, body, until_us = self._sample
            if sampled is channel and now_us < until_us:
                return body
            self._sample = None
        fetched = await self._engine.poller.sample(channel.url)
        if fetched.error or not fetched.body:
            raise ChannelError(fetched.error or f"the server answered {fetched.status} without a page")
        body = PageBody(fetched.body, fetched.content_type, link="")
        self._sample = channel, body, now_us + to_us(limits.TRIAL_SAMPLE_S)
        return body
