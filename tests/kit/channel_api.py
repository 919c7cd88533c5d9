"""Channels in memory, as notifications use them; the test changes their pages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.channels.address import canonical
from penstock.core.channels.delta import Change, Delta
from penstock.core.channels.subscriptions import ChannelSubscription
from penstock.errors import ChannelError, ChannelRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.channels.subscriptions import Notifier

START_US = 1_700_000_000_000_000


class MemoryChannels:
    """Implements `ChannelApi`; `change` is what a poll would find."""

    def __init__(self, *, refused: str = "refused.example") -> None:
        self.notifier: Notifier | None = None
        self._refused = refused
        self._found: dict[tuple[str, str], ChannelSubscription] = {}
        self._deltas: dict[str, list[Delta]] = {}

    async def subscribe(self, who: str, url: str, *, policy: str = "") -> str:
        url = canonical(url)
        who = self.notifier.check(who) if self.notifier is not None else who
        if f"//{self._refused}" in url:
            raise ChannelRefused(f"{self._refused} is not allowed here")
        self._found[who, url] = ChannelSubscription(who, url, policy=policy, since_us=START_US)
        self._deltas.setdefault(url, [])
        return f"You are subscribed to {url}."

    async def unsubscribe(self, who: str, url: str) -> str:
        url = canonical(url)
        if self._found.pop((who, url), None) is None:
            raise ChannelError(f"you are not subscribed to {url}")
        if self.notifier is not None:
            self.notifier.forget(who, url)
        return f"You are not subscribed to {url} any more."

    async def pause(self, who: str, url: str | None, *, paused: bool) -> str:
        wanted = None if url is None else canonical(url)
        keys = [key for key in self._found if key[0] == who and wanted in (None, key[1])]
        if not keys:
            raise ChannelError(f"you are not subscribed to {wanted or 'anything'}")
        for key in keys:
            self._found[key] = replace(self._found[key], paused=paused)
            if self.notifier is not None and not paused:
                self.notifier.resumed(*key)
        return "paused" if paused else "resumed"

    def subscriptions(self, who: str | None = None) -> Sequence[ChannelSubscription]:
        return [one for one in self._found.values() if who in (None, one.who)]

    def subscribers(self, url: str) -> Sequence[ChannelSubscription]:
        if url not in self._deltas:
            raise ChannelError(f"{url} is no channel")
        return [one for one in self._found.values() if one.url == url]

    def why(self, url: str) -> str:
        return f"{url} is polled every 15 min, because one person subscribes to it."

    def deltas(self, url: str, *, most: int = 20) -> Sequence[Delta]:
        if url not in self._deltas:
            raise ChannelError(f"{url} is no channel")
        return self._deltas[url][::-1][:most]

    def change(self, url: str, *lines: str, title: str = "A page") -> Delta:
        """A page has these lines more; everybody is told."""
        url = canonical(url)
        known = self._deltas.setdefault(url, [])
        delta = made(url, len(known) + 1, *lines, title=title)
        known.append(delta)
        for one in self.subscribers(url):
            if self.notifier is not None:
                self.notifier.notify(one, delta, now_us=delta.at_us)
        return delta


def made(url: str, version: int, *lines: str, title: str = "A page") -> Delta:
    """The delta to a version, one second after the one before."""
    return Delta(
        url=url,
        version=version,
        old_version=version - 1,
        at_us=START_US + version * 1_000_000,
        kind="text",
        title=title,
        changes=(Change(at=0, new=lines or (f"line {version}",)),),
    )
