"""Handles the result of a poll: count it, compare the body, store the change, publish it.

`ChangePublisher` publishes one message on the topic of the channel and calls the notifier once for each
other subscriber, after the change is on disk.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing, suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar

from xxhash import xxh3_128_digest

from penstock import limits
from penstock.core.channels.address import topic_of
from penstock.core.channels.change_rate import complete
from penstock.core.channels.difference import to_json
from penstock.errors import ChannelError, ChannelRefused
from penstock.model.instant import SECOND_US
from penstock.mqtt.packets.properties import Properties
from penstock.node.channels import store as sql
from penstock.node.channels.compare import PageBody
from penstock.node.channels.poll_log import PollRecord
from penstock.node.channels.status import PollCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from penstock.core.channels.delta import Delta
    from penstock.core.channels.polling import PollState
    from penstock.core.channels.subscriptions import Notifier
    from penstock.model.instant import Instant
    from penstock.node.broker.broker import Broker
    from penstock.node.channels.channel import Channel
    from penstock.node.channels.compare import Comparison
    from penstock.node.channels.poll_log import PollLog
    from penstock.node.channels.poller import Poller
    from penstock.node.channels.reader import Comparer
    from penstock.node.channels.websub import WebSubPushes
    from penstock.node.channels.writer import ChannelWriter
    from penstock.node.outbound.fetch import FetchResult
    from penstock.node.store.database import Row

QOS: Final = 1
"""QoS of changes: a QoS 1 subscriber with a persistent session gets those it missed while away."""

Answer = TypeVar("Answer")

_JSON: Final = Properties(content_type="application/json", payload_format_indicator=1)


class ChangePublisher:
    """Publishes a change and calls the notifier, once for each subscriber."""

    def __init__(self, broker: Broker, *, retain: bool) -> None:
        self._broker = broker
        self._retain = retain
        self.notifier: Notifier | None = None
        """Notifies subscribers other than MQTT clients; None if notifications are off."""
        self.published = 0
        """Changes published."""
        self.handed = 0
        """Changes passed to the notifier, counted once per subscriber."""

    def publish(self, channel: Channel, delta: Delta, *, now_us: Instant, again: bool = False) -> None:
        """Publish a change; call `flush` next. `again`: it may have been published before a restart."""
        if self._broker.journal is not None:
            self._broker.journal.begin()
        topic, payload = topic_of(channel.url), to_json(delta)
        if not (again and self._published(topic, payload, now_us)):
            self._broker.publish(topic, payload, qos=QOS, retain=self._retain, properties=_JSON)
            self.published += 1
        if self.notifier is not None:
            for subscribed in list(channel.people.values()):
                self.notifier.notify(subscribed, delta, now_us=now_us, again=again)
                self.handed += 1

    def _published(self, topic: str, payload: bytes, now_us: Instant) -> bool:
        """Whether it is retained: the retained message was stored together with clients' queues."""
        retained = self._broker.retained.get(topic, now_us=now_us)
        return retained is not None and retained.payload == payload

    async def flush(self, channel: Channel) -> None:
        """Wait until the last change is on disk: in queues of absent clients and in the outbox."""
        stored = asyncio.Event()
        if self._broker.journal is not None and self._broker.journal.hold(stored.set):
            await stored.wait()
        if self.notifier is not None and channel.people:
            await self.notifier.flush()

    def forget(self, channel: Channel) -> None:
        """Delete the retained message of a removed channel, and what waits for its subscribers."""
        if self._retain:
            self._broker.publish(topic_of(channel.url), b"", retain=True)
        if self.notifier is not None:
            for who in channel.people:
                self.notifier.forget(who, channel.url)


log = logging.getLogger(__name__)

LARGE_BYTES = 1 << 20
"""A new page of this size is read before it is fetched a second time."""

RECENT = 0.25
"""Weight of the last poll in the mean size of polls."""


class PollResults:
    """Handles what the poller fetched."""

    def __init__(
        self,
        comparer: Comparer,
        publisher: ChangePublisher,
        writer: ChannelWriter,
        pushes: WebSubPushes,
        *,
        channel: Callable[[str], Channel | None],
        clock: Callable[[], Instant],
        log_to: PollLog | None,
    ) -> None:
        self._comparer = comparer
        self._publisher = publisher
        self._writer = writer
        self._pushes = pushes
        self._channel = channel
        self._clock = clock
        self._log = log_to
        self.counts = PollCounts()
        """Polls of all channels since the node started."""
        self.untold = 0
        """Changes that are being written to disk, and are published after that."""
        self.told = 0
        """Changes published, of those found since the node started."""
        self.confirming = 0
        """Second fetches of new pages and of candidate changes."""
        self._working: set[asyncio.Task[Any]] = set()

    def attach(self, poller: Poller) -> None:
        """Set the poller, which gets the schedule hints of feeds and the errors in reading pages."""
        self._poller = poller

    async def fetched(self, url: str, fetched: FetchResult, state: PollState) -> None:
        """Handle the result of a poll: count it, and compare the body if it is new."""
        channel = self._channel(url)
        if channel is None:
            return
        counts = channel.known.counts
        self._count(counts, polls=1, bytes=fetched.bytes_wire)
        known = channel.known
        known.barred = ""
        if state.problem:
            self._failed(channel, state.problem)
            self._note(
                channel, status=fetched.status, size=fetched.bytes_wire, duration_us=fetched.duration_us
            )
            return
        known.mean_bytes += (fetched.bytes_wire - known.mean_bytes) * (RECENT if known.mean_bytes else 1.0)
        if fetched.status == 304 or (_print(fetched.body) == known.print and not known.unsettled):
            self._count(counts, same=1)
            self._checked(channel, changed=False)
        else:
            link = fetched.headers.get("link", "")
            body = PageBody(fetched.body, fetched.content_type, partial=fetched.partial, link=link)
            await self._whole(channel, body)
        self._note(channel, status=fetched.status, size=fetched.bytes_wire, duration_us=fetched.duration_us)

    def barred(self, url: str, reason: str) -> None:
        """Note what robots.txt says about a channel; with a reason, it is not fetched."""
        channel = self._channel(url)
        if channel is not None and channel.known.barred != reason:
            channel.known.barred = reason
            self._writer.changed(url)

    async def _whole(self, channel: Channel, body: PageBody) -> None:
        """Compare a body in a task of its own, which finishes even if the poll is cancelled."""
        self._count(channel.known.counts, looking=1)
        await self.finish(self._compare(channel, body))

    async def finish(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run something to its end even if who asked for it is cancelled; `close` waits for it."""
        task = asyncio.create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Wait until changes found are stored and published, but not for a disk that is full."""
        if not self._working:
            return
        _, late = await asyncio.wait(self._working, timeout=limits.CHANNEL_CLOSE_S)
        for task in late:  # the next start finds or publishes these changes
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _count(self, counts: PollCounts, **more: int) -> None:
        for name, number in more.items():
            for each in (counts, self.counts):
                setattr(each, name, getattr(each, name) + number)

    def _failed(self, channel: Channel, problem: str) -> None:
        self._count(channel.known.counts, errors=1)
        channel.known.problem = problem
        self._writer.changed(channel.url)

    def _checked(self, channel: Channel, *, changed: bool) -> None:
        """Note that a poll showed whether the page changed since the last successful poll."""
        known, now_us = channel.known, self._clock()
        if known.checked_us:
            known.rate.observe(now_us - known.checked_us, changed=changed)
            known.found_us = known.rate.update_interval_us or 0
        known.checked_us = now_us
        if known.version:  # else the unmodified page could not be read before
            known.problem = ""
        self._writer.changed(channel.url)

    def _note(self, channel: Channel, *, status: int, size: int, duration_us: int) -> None:
        if self._log is not None:
            known, now_us = channel.known, self._clock()
            self._log.poll(
                PollRecord(
                    url=channel.url,
                    ts=now_us,
                    status=status,
                    changed=known.changed_us == known.checked_us != 0 and not known.problem,
                    bytes=size,
                    duration_us=duration_us,
                    error=known.problem,
                )
            )

    async def pushed(self, channel: Channel, body: PageBody) -> None:
        """Handle content that a hub pushed; it counts as a poll."""
        size = len(body.data)
        self._count(channel.known.counts, polls=1, bytes=size)
        await self._whole(channel, body)
        self._note(channel, status=HTTPStatus.OK, size=size, duration_us=0)

    # -- comparing -------------------------------------------------------------------------------------

    async def _compare(self, channel: Channel, body: PageBody) -> None:
        """Find the change, fetch a candidate again, store and publish it; note a problem with the content."""
        known = channel.known
        looking = _Looking(partial(self._count, known.counts, looking=-1))
        with closing(looking):
            try:
                # A new page is always fetched twice, and at once: an edit in between would look like noise.
                # A large one is read first, because it may be one that cannot be read.
                is_new = not known.version and body.link is not None and "html" in body.content_type
                is_new = is_new and not known.problem and len(body.data) < LARGE_BYTES
                beside = await self._fetch_again(channel) if is_new else None
                looked = await self._look(
                    channel, body, looking, beside=beside, alone=is_new and beside is None
                )
                if looked is not None and looked.again:
                    beside = await self._fetch_again(channel)
                    # Without it a new page is taken as it is, and a candidate waits for the next poll.
                    alone = looked.first or known.doubts + 1 >= limits.CONFIRM_DOUBTS
                    if beside is not None or alone:
                        looked = await self._look(channel, body, looking, beside=beside, alone=alone)
            except ChannelError as error:
                looking.close()
                self._unreadable(channel, str(error).removeprefix(f"{channel.url}: "))
                return
            looking.close()
            if looked is None:  # removed meanwhile
                self._count(known.counts, errors=1)
            elif looked.again:
                self._postpone(channel)
            elif looked.delta is not None:
                await self.tell(channel, looked.delta)

    async def _look(
        self,
        channel: Channel,
        body: PageBody,
        looking: _Looking,
        *,
        beside: PageBody | None = None,
        alone: bool = False,
    ) -> Comparison | None:
        """Compare once, and store what came of it unless it needs a second fetch; None: it was removed."""
        async with self._comparer.one:
            looked = await self._comparer.look(
                channel.url,
                channel.known.rules,
                body,
                beside=beside,
                alone=alone,
                now_us=self._clock(),
            )
            if self._channel(channel.url) is not channel:
                return None
            if looked.again:
                return looked
            looking.close()
            self._take(channel, body, looked)
            found = looked.delta is not None
            self.untold += found
            try:
                await self._writer.commit(channel.url, lambda: self._rows(channel, looked))
            finally:
                self.untold -= found
            return looked

    async def _fetch_again(self, channel: Channel) -> PageBody | None:
        """Fetch a page a second time, when its host allows it; None: not now."""
        try:
            fetched = await self._poller.again(channel.url)
        except ChannelRefused:
            return None
        if fetched is None:
            return None
        self.confirming += 1
        self._count(channel.known.counts, bytes=fetched.bytes_wire)
        if fetched.status != HTTPStatus.OK or fetched.error:
            return None
        return PageBody(fetched.body, fetched.content_type, link=fetched.headers.get("link", ""))

    def _postpone(self, channel: Channel) -> None:
        """Leave a candidate change to the next poll, which fetches the page in full."""
        channel.known.doubts += 1
        channel.known.withheld = True
        self._count(channel.known.counts, noise=1)
        self._checked(channel, changed=False)
        self._settle(channel, unsettled=True)

    def _settle(self, channel: Channel, *, unsettled: bool) -> None:
        """Have a page fetched in full as long as something about it is not settled."""
        channel.known.unsettled = unsettled
        if unsettled:
            with suppress(ChannelRefused):  # the page is no longer polled
                self._poller.forget_validators(channel.url)

    def _unreadable(self, channel: Channel, problem: str) -> None:
        self._failed(channel, problem)
        with suppress(ChannelRefused):  # the page is no longer polled
            self._poller.complain(channel.url, problem)

    def _take(self, channel: Channel, body: PageBody, looked: Comparison) -> None:
        """Update the facts about a channel from a comparison."""
        known, content = channel.known, looked.content
        if not body.partial:
            known.print = _print(body.data)
        known.title, known.kind = content.title, content.kind
        if body.link is not None:
            self._pushes.saw(channel, content, link=body.link, changed=looked.delta is not None)
        known.version = looked.version
        fate = "first" if looked.first else "noise" if looked.delta is None else "changes"
        self._count(known.counts, **{fate: 1})
        self._checked(channel, changed=looked.delta is not None)
        known.doubts = 0
        known.withheld, known.muted = looked.withheld, looked.muted
        self._settle(channel, unsettled=looked.unsettled)
        with suppress(ChannelRefused):
            self._poller.hurry(channel.url, looked.first and looked.unsettled)
        if looked.delta is not None:
            known.changed_us = known.checked_us
        if content.kind == "feed":
            rate = complete(content.hints.item_times_us, now_us=known.checked_us)
            known.dated_us = round(SECOND_US / rate) if rate > 0 else 0
            with suppress(ChannelRefused):
                self._poller.hint(channel.url, content.hints)

    def _rows(self, channel: Channel, looked: Comparison) -> list[Row]:
        """Make the rows of one transaction: so no change is lost, and none is found twice."""
        self.refresh(channel)
        rows = [
            sql.put_channel(channel.url, channel.known),
            sql.put_version(channel.url, looked.rules, looked.state),
        ]
        if looked.delta is not None:
            rows.append(sql.put_delta(looked.delta))
        return rows

    def refresh(self, channel: Channel) -> None:
        """Copy the poller's state of a channel into its facts."""
        with suppress(ChannelRefused):
            channel.known.poll = self._poller.state(channel.url)

    async def tell(self, channel: Channel, delta: Delta, *, before: bool = False) -> None:
        """Publish a change and store that it was published; `before`: it was found before a restart."""
        self._publisher.publish(channel, delta, now_us=self._clock(), again=before)
        self.told += not before and not delta.restored  # what a person restored is no change of the page
        await self._publisher.flush(channel)
        await self._writer.told(delta)


class _Looking:
    """A poll that is being compared: counted out once, however the comparison ends."""

    def __init__(self, out: Callable[[], None]) -> None:
        self._out: Callable[[], None] | None = out

    def close(self) -> None:
        """Count it out, unless that was done."""
        out, self._out = self._out, None
        if out is not None:
            out()


def _print(body: bytes) -> bytes:
    """Hash of a body, in the event loop: 0.1 ms for 8 MB. Who makes two bodies collide hides his own page."""
    return xxh3_128_digest(body)
