"""The service of channels: does what subscribers and operators ask, or refuses with a sentence."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import limits
from penstock.core.channels.address import canonical
from penstock.core.channels.difference import Rules, rules_of
from penstock.core.channels.subscriptions import ChannelSubscription
from penstock.errors import ChannelError, ChannelRefused, PolicyError, counted, printable
from penstock.model.instant import duration, moment, to_us
from penstock.node.channels import store as sql
from penstock.node.channels.channel import state_of, status_of
from penstock.node.channels.engine import ChannelEngine
from penstock.node.channels.registry import MQTT_KIND
from penstock.node.channels.trials import RuleTrials

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.channels.delta import Delta
    from penstock.core.channels.difference import MutedPlace
    from penstock.core.channels.subscriptions import Notifier
    from penstock.node.broker.broker import Broker
    from penstock.node.channels.channel import Channel
    from penstock.node.channels.status import ChannelsStatus, ChannelStatus
    from penstock.node.channels.websub import WebSubSubscriber
    from penstock.node.config.schema import Config
    from penstock.node.store.control_table import TableFollower


class ChannelService:
    """The channels of a node; implements `ChannelApi`. `start` it, and `close` it before the broker."""

    def __init__(self, broker: Broker, config: Config) -> None:
        """Open the store; StoreError, MissingTool or NodeError says why channels cannot be served."""
        self._engine = ChannelEngine(broker, config)
        self._trials = RuleTrials(self._engine)

    def notify_through(self, notifier: Notifier) -> None:
        """Set who notifies subscribers other than MQTT clients; before `start`."""
        self._engine.publisher.notifier = notifier

    async def start(self) -> None:
        """Restore what was stored, and poll from now on."""
        await self._engine.start()

    async def close(self) -> None:
        """Stop polling, publish what was found, and write everything down."""
        await self._engine.close()

    def reconfigure(self, config: Config) -> None:
        """Use what of a new configuration needs no restart: `channels.polling.networks`."""
        self._engine.reconfigure(config)

    async def flush(self) -> None:
        """Wait until all changes so far are on disk, but not for a disk that is full."""
        await self._engine.flush()

    @property
    def table(self) -> TableFollower | None:
        """The control table `allocation`; None if the node follows none."""
        return self._engine.schedule.follower

    def status(self) -> ChannelsStatus:
        """Take a snapshot of all channels together."""
        return self._engine.status()

    @property
    def hub_subscriber(self) -> WebSubSubscriber | None:
        """Answers what WebSub hubs ask; None if the node asks no hub for anything."""
        return self._engine.pushes.subscriber

    # -- subscribers -----------------------------------------------------------------------------------

    async def subscribe(self, who: str, url: str, *, policy: str = "") -> str:
        """Subscribe and return a sentence that says so; the URL may be in any spelling."""
        url = canonical(url)
        kind, colon, name = who.partition(":")
        if not (kind and colon and name) or who.startswith(MQTT_KIND):
            raise ChannelError(
                f"'{who}' is no subscriber: write it as xmpp:ann@example.org or webhook:https://…"
            )
        if self._engine.publisher.notifier is None:
            raise ChannelRefused("this node notifies MQTT clients only: `notify` is not configured")
        who = self._engine.publisher.notifier.check(who)
        self._engine.registry.check_subscriber(who, url)
        if policy:
            try:
                self._engine.broker.policies.asked(policy)
            except PolicyError as error:
                raise ChannelError(f"the policy cannot be used: {error}") from None
        channel = self._engine.registry.get(url)
        before = channel.people.get(who) if channel is not None else None
        subscribed = ChannelSubscription(who, url, policy=policy, since_us=self._engine.clock())
        if before is not None:
            subscribed = replace(before, policy=policy)
        channel = self._engine.registry.subscribe(subscribed, now_us=self._engine.clock())
        self._engine.writer.put([sql.put_subscription(subscribed)])
        if before is not None:
            self._engine.changed(channel)
            await self._engine.flush()
            news = "; it has another policy now" if policy != before.policy else ""
            return f"You were subscribed to {url} already{news}."
        title = f" ({channel.known.title})" if channel.known.title else ""
        self._engine.wanted(channel, kind, +1)
        await self._engine.flush()
        return f"You are subscribed to {url}{title}."

    async def unsubscribe(self, who: str, url: str) -> str:
        """End a subscription and return a sentence."""
        url = canonical(url)
        channel = self._engine.registry.unsubscribe(who, url, now_us=self._engine.clock())
        if channel is None:
            raise ChannelError(f"you are not subscribed to {url}")
        self._engine.writer.put([sql.end_subscription(who, url)])
        if self._engine.publisher.notifier is not None:
            self._engine.publisher.notifier.forget(who, url)
        self._engine.wanted(channel, who.partition(":")[0], -1)
        await self._engine.flush()
        return f"You are not subscribed to {url} any more."

    async def pause(self, who: str, url: str | None, *, paused: bool) -> str:
        """Pause or resume one subscription, or all; changes during a pause are sent as one digest."""
        if url is None:
            channels = self._engine.registry.of(who)
            if not channels:
                raise ChannelError("you are subscribed to nothing")
        else:
            url = canonical(url)
            channel = self._engine.registry.get(url)
            if channel is None or who not in channel.people:
                raise ChannelError(f"you are not subscribed to {url}")
            channels = [channel]
        for channel in channels:
            subscribed = channel.people[who] = replace(channel.people[who], paused=paused)
            self._engine.writer.put([sql.put_subscription(subscribed)])
            self._engine.changed(channel)
            if self._engine.publisher.notifier is not None and not paused:
                self._engine.publisher.notifier.resumed(who, channel.url)
        await self._engine.flush()
        what = url or counted(len(channels), "channel")
        return f"{what}: {'paused; what changes meanwhile waits' if paused else 'you are told again'}."

    def subscriptions(self, who: str | None = None) -> Sequence[ChannelSubscription]:
        """Return the subscriptions of one subscriber, or all."""
        if who is not None:
            return [channel.people[who] for channel in self._engine.registry.of(who) if who in channel.people]
        return [each for channel in self._engine.registry for each in channel.people.values()]

    def subscribers(self, url: str) -> Sequence[ChannelSubscription]:
        """Return the subscriptions to one channel."""
        return list(self._known(url).people.values())

    def deltas(self, url: str, *, most: int = 20) -> Sequence[Delta]:
        """Return the newest deltas of a channel, newest first."""
        return self._engine.store.deltas(self._known(url).url, most=most)

    def why(self, url: str) -> str:
        """Explain in sentences why the channel is polled when it is."""
        channel = self._known(url)
        known = channel.known
        if known.paused:
            return "It is paused, and not polled until it is resumed."
        if not channel.polled:
            since = f" since {moment(known.idle_us)}" if known.idle_us else ""
            return f"Nobody waits for it{since}, so it is not polled."
        engine = self._engine
        said = (
            engine.poller.why(channel.url),
            engine.pushes.why(channel.url),
            engine.schedule.why(channel),
            self._noise(channel),
        )
        text = "\n".join(filter(None, said))
        if known.problem and known.problem not in text:  # it is being fetched again
            text += f"\nThe last look at it failed: {known.problem}"
        return text

    def _noise(self, channel: Channel) -> str:
        """Explain in sentences what is not told of a channel, and why."""
        known = channel.known
        lines = []
        if known.withheld:
            lines.append("It differs from what was told: that is told when a later look confirms it.")
        elif known.version and known.unsettled:
            lines.append("It is new: its first looks only teach what keeps changing on it.")
        if known.muted:
            parts = "A part" if known.muted == 1 else f"{known.muted} parts"
            lines.append(
                f"{parts} of it {'keeps' if known.muted == 1 else 'keep'} changing, which is not told."
            )
        return "\n".join(lines)

    async def muted(self, url: str) -> list[MutedPlace]:
        """Return what is not told of a page because it keeps changing, and on what evidence."""
        channel = self._known(url)
        if not channel.known.muted:
            return []
        now_us = self._engine.clock()
        return await self._engine.comparer.muted(channel.url, channel.known.rules, now_us=now_us)

    async def lines(self, url: str) -> list[tuple[str, str]]:
        """Return the lines of a page as it was read last, each with its place."""
        channel = self._known(url)
        return await self._engine.comparer.lines(channel.url, channel.known.rules)

    async def try_rules(self, url: str, rules: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the lines of a page that rules would select, each with its place; nothing is changed."""
        channel = self._known(url)
        if not channel.known.version and not channel.known.problem:
            raise ChannelError(f"{channel.url} has not been read yet")
        return await self._trials.lines(channel, rules)

    async def unmute(self, url: str, place: str) -> str:
        """Tell changes at a place of a page from now on, whatever it does; return a sentence."""
        channel = self._known(url)
        if not channel.known.version:
            raise ChannelError(f"{channel.url} has not been read yet, so nothing on it is muted")
        rules = channel.known.rules
        comparer = self._engine.comparer
        async with comparer.one:
            state = await comparer.unmuted(channel.url, rules, place)
            channel.known.muted = 0  # until the next look counts again
            rows = [
                sql.put_channel(channel.url, channel.known),
                sql.put_version(channel.url, rules, state),
            ]
            await self._engine.writer.commit(channel.url, lambda: rows)
        return f"Changes at {place} of {channel.url} are told from now on."

    async def restore(self, url: str, version: int) -> str:
        """Compare a page with an older version of it from now on; tell subscribers, and return a sentence.

        That version becomes the newest one, with a number of its own: whoever applies deltas stays exact.
        """
        channel = self._known(url)
        delta = await self._engine.results.finish(self._restore(channel, version))
        return (
            f"Version {version} of {channel.url} was restored as version {delta.version}: the next change is "
            "what differs from it."
        )

    async def _restore(self, channel: Channel, version: int) -> Delta:
        known, results = channel.known, self._engine.results
        comparer = self._engine.comparer
        async with comparer.one:
            rules = known.rules
            now_us = self._engine.clock()
            state, delta = await comparer.restored(channel.url, rules, version, now_us=now_us)
            if self._engine.registry.get(channel.url) is not channel:
                raise ChannelError(f"{channel.url} was removed meanwhile")
            known.version = delta.version
            known.print = b""  # the page itself is the same: it is fetched in full and compared all the same
            with suppress(ChannelRefused):  # it is not polled now
                self._engine.poller.forget_validators(channel.url)
            results.refresh(channel)
            known.poll = msgspec.structs.replace(known.poll, etag="", last_modified="")
            rows = [
                sql.put_channel(channel.url, known),
                sql.put_version(channel.url, rules, state),
                sql.put_delta(delta),
            ]
            await self._engine.writer.commit(channel.url, lambda: rows)
        await results.tell(channel, delta)
        return delta

    # -- operators -------------------------------------------------------------------------------------

    def add(
        self,
        url: str,
        *,
        rules: dict[str, Any] | None = None,
        every_s: float | None = None,
        tags: Sequence[str] | None = None,
    ) -> ChannelStatus:
        """Poll a page until it is removed, with or without subscribers; or change its settings."""
        url = canonical(url)
        self._engine.registry.check(url)
        least_s = self._engine.settings.polling.least_s
        if every_s is not None and every_s and every_s < least_s:
            raise ChannelRefused(
                f"no page is fetched more often than every {duration(to_us(least_s))} "
                "(channels.polling.least_s)"
            )
        given = None if rules is None else rules_of(rules)
        if given is not None and given.render and not self._engine.settings.browser.enabled:
            raise ChannelRefused(
                "rules.render: this node renders no pages; set channels.browser.enabled to true, which needs "
                "the extra `browser` and Chromium"
            )
        words = None if tags is None else _checked_tags(tags)
        channel = self._engine.registry.add(url, now_us=self._engine.clock())
        known = channel.known
        known.kept = True
        if every_s is not None:
            known.every_us = to_us(every_s)
        if words is not None:
            known.tags = words
        if given is not None and given != known.rules:
            known.rules = given
            self._read_anew(channel)
        self._engine.changed(channel)
        return status_of(channel)

    def _read_anew(self, channel: Channel) -> None:
        """Forget the validators of a page, so that it is fetched in full and read by its new rules."""
        known = channel.known
        self._engine.results.refresh(channel)
        self._engine.poller.remove(channel.url)
        known.print = b""
        known.poll = msgspec.structs.replace(known.poll, etag="", last_modified="", polled_us=0)

    def remove(self, url: str) -> str:
        """Remove a page with its history and its subscriptions."""
        channel = self._known(url)
        if channel.clients:
            count = len(channel.clients)
            raise ChannelRefused(
                f"{count} MQTT client{'s subscribe' if count > 1 else ' subscribes'} to {channel.url}: "
                "pause it, or let them unsubscribe first"
            )
        self._engine.remove(channel.url)
        return f"{channel.url} is removed."

    def hold(self, url: str, *, paused: bool) -> ChannelStatus:
        """Stop polling a page for everybody, or go on."""
        channel = self._known(url)
        channel.known.paused = paused
        self._engine.changed(channel)
        return status_of(channel)

    async def check_now(self, url: str) -> str:
        """Poll a page now; return a sentence that says what came of it."""
        channel = self._known(url)
        changes = channel.known.counts.changes
        fetched = await self._engine.poller.poll_now(channel.url)
        if fetched is None:
            return f"It was not fetched. {self.why(url)}"
        if channel.known.problem:
            return channel.known.problem
        if channel.known.counts.changes > changes:
            return "It has changed."
        if channel.known.withheld:
            return "It has changed, which is told when a later look confirms it."
        return "It has not changed."

    def channel(self, url: str) -> ChannelStatus:
        """Take a snapshot of one channel."""
        return self._status_of(self._known(url))

    def channels(self) -> Iterator[ChannelStatus]:
        """Take snapshots of all channels, in the order in which they were added."""
        return map(self._status_of, self._engine.registry)

    def find(
        self, *, search: str = "", state: str = "", tag: str = "", offset: int = 0, limit: int
    ) -> tuple[int, list[ChannelStatus]]:
        """Count the channels with a text in URL or title, in a state and with a tag; return the number and
        some of them: those that fail first, then those that changed last."""
        wanted = search.casefold()
        found = [
            each
            for each in self._engine.registry
            if (not state or state_of(each) == state)
            and (not tag or tag in each.known.tags)
            and (not wanted or wanted in each.url.casefold() or wanted in each.known.title.casefold())
        ]
        first = nsmallest(offset + limit, found, key=_trouble)
        return len(found), [self._status_of(each) for each in first[offset:]]

    def tags(self) -> list[str]:
        """Return all tags in use, in the order of the alphabet."""
        found = {tag for each in self._engine.registry for tag in each.known.tags}
        return sorted(found, key=lambda tag: (tag.casefold(), tag))

    def rules(self, url: str) -> dict[str, Any]:
        """Return the rules by which a page is read and compared, without those that have their default."""
        usual: dict[str, Any] = msgspec.to_builtins(Rules())
        found: dict[str, Any] = msgspec.to_builtins(self._known(url).known.rules)
        return {name: value for name, value in found.items() if value != usual[name]}

    def _status_of(self, channel: Channel) -> ChannelStatus:
        self._engine.results.refresh(channel)
        return status_of(channel)

    def _known(self, url: str) -> Channel:
        return self._engine.registry.known(canonical(url))


def _checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return tags without blanks around them, each once; ChannelError if one cannot be used."""
    found = tuple(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
    if len(found) > limits.CHANNEL_TAGS:
        raise ChannelError(f"tags: {len(found)} for one page; at most {limits.CHANNEL_TAGS}")
    for tag in found:
        if len(tag) > limits.TAG_CHARS or not tag.isprintable():
            raise ChannelError(
                f"tags: {printable(tag)!r} is no tag: up to {limits.TAG_CHARS} printable characters"
            )
    return found


def _trouble(channel: Channel) -> tuple[bool, int, str]:
    return (state_of(channel) != "failing", -channel.known.changed_us, channel.url)
