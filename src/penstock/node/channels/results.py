"""Handles the result of a poll: count it, compare the body, store the change, publish it.

`ChangePublisher` publishes one message on the topic of the channel and calls the notifier once for each
other subscriber, after the change is on disk.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from hashlib import blake2b
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

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
    from collections.abc import Callable

    from penstock.core.channels.delta import Delta
    from penstock.core.channels.polling import PollState
    from penstock.core.channels.subscriptions import Notifier
    from penstock.model.instant import Instant
    from penstock.node.broker.broker import Broker
    from penstock.node.channels.channel import Channel
    from penstock.node.channels.compare import Comparer, Comparison
    from penstock.node.channels.poll_log import PollLog
    from penstock.node.channels.poller import Poller
    from penstock.node.channels.websub import WebSubPushes
    from penstock.node.channels.writer import ChannelWriter
    from penstock.node.outbound.fetch import FetchResult
    from penstock.node.store.database import Row

QOS: Final = 1
"""Whoever subscribes with QoS 1 and a kept session gets what changed while away."""

_JSON: Final = Properties(content_type="application/json", payload_format_indicator=1)


class ChangePublisher:
    """Tells everybody once."""

    def __init__(self, broker: Broker, *, retain: bool) -> None:
        self._broker = broker
        self._retain = retain
        self.notifier: Notifier | None = None
        """Notifies subscribers other than MQTT clients; None: nobody does."""
        self.published = 0
        """Changes published."""
        self.handed = 0
        """Changes handed on to single subscribers."""

    def announce(self, channel: Channel, delta: Delta, *, now_us: Instant, again: bool = False) -> None:
        """A change is told; `safe` follows at once. `again`: it may have been, before a restart."""
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
        """Whether it is retained: that and what waits for clients that are away came to the disk together."""
        retained = self._broker.retained.get(topic, now_us=now_us)
        return retained is not None and retained.payload == payload

    async def safe(self, channel: Channel) -> None:
        """Wait until what was told last is on disk, for clients that are away and for other subscribers."""
        told = asyncio.Event()
        if self._broker.journal is not None and self._broker.journal.hold(told.set):
            await told.wait()
        if self.notifier is not None and channel.people:
            await self.notifier.flush()

    def forget(self, channel: Channel) -> None:
        """A channel is gone: its last change is retained no more, its subscribers get nothing."""
        if self._retain:
            self._broker.publish(topic_of(channel.url), b"", retain=True)
        if self.notifier is not None:
            for who in channel.people:
                self.notifier.forget(who, channel.url)


log = logging.getLogger(__name__)

PRINT_BYTES = 16
"""Of a body's hash: two bodies that differ have the same one once in 2⁶⁴."""

RECENT = 0.25
"""How much the last poll counts in the mean size of polls."""


class PollResults:
    """Takes what the poller fetched."""

    def __init__(
        self,
        comparing: Comparer,
        announcing: ChangePublisher,
        keeping: ChannelWriter,
        pushes: WebSubPushes,
        *,
        channel: Callable[[str], Channel | None],
        clock: Callable[[], Instant],
        log_to: PollLog | None,
    ) -> None:
        self._comparing = comparing
        self._announcing = announcing
        self._keeping = keeping
        self._pushes = pushes
        self._channel = channel
        self._clock = clock
        self._log = log_to
        self.counts = PollCounts()
        """Of all channels, since the node started."""
        self.untold = 0
        """Changes found that are on their way to the disk, and told then."""
        self.told = 0
        """Changes told, of those found since the node started."""
        self._working: set[asyncio.Task[Any]] = set()

    def attach(self, poller: Poller) -> None:
        """Whom to tell what a feed says about its schedule, and what could not be read."""
        self._poller = poller

    async def fetched(self, url: str, fetched: FetchResult, state: PollState) -> None:
        """A poll is over."""
        channel = self._channel(url)
        if channel is None:
            return
        counts = channel.known.counts
        self._count(counts, polls=1, bytes=fetched.bytes_wire)
        known = channel.known
        known.barred = ""
        known.mean_bytes += (fetched.bytes_wire - known.mean_bytes) * (RECENT if known.mean_bytes else 1.0)
        if state.problem:
            self._failed(channel, state.problem)
        elif fetched.status == 304 or _print(fetched.body) == known.print:
            self._count(counts, same=1)
            self._checked(channel, changed=False)
        else:
            link = fetched.headers.get("link", "")
            body = PageBody(fetched.body, fetched.content_type, partial=fetched.partial, link=link)
            await self._whole(channel, body)
        self._note(channel, status=fetched.status, size=fetched.bytes_wire, duration_us=fetched.duration_us)

    def barred(self, url: str, reason: str) -> None:
        """What a robots.txt said about a channel; with a reason, it is not fetched."""
        channel = self._channel(url)
        if channel is not None and channel.known.barred != reason:
            channel.known.barred = reason
            self._keeping.changed(url)

    async def _whole(self, channel: Channel, body: PageBody, *, beside: PageBody | None = None) -> None:
        """Compare to the end, even if the poll it belongs to is stopped."""
        self._count(channel.known.counts, looking=1)
        task = asyncio.create_task(self._compare(channel, body, beside=beside))
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        await asyncio.shield(task)

    async def close(self) -> None:
        """Wait for what was found to be written down and told; a disk that is full is not waited for."""
        if not self._working:
            return
        _, late = await asyncio.wait(self._working, timeout=limits.CHANNEL_CLOSE_S)
        for task in late:  # what they found is found or told after the next start
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _count(self, counts: PollCounts, **more: int) -> None:
        for name, number in more.items():
            for each in (counts, self.counts):
                setattr(each, name, getattr(each, name) + number)

    def _failed(self, channel: Channel, problem: str) -> None:
        self._count(channel.known.counts, errors=1)
        channel.known.problem = problem
        self._keeping.changed(channel.url)

    def _checked(self, channel: Channel, *, changed: bool) -> None:
        """A poll told whether there was a change since the last one that did."""
        known, now_us = channel.known, self._clock()
        if known.checked_us:
            known.rate.observe(now_us - known.checked_us, changed=changed)
            known.found_us = known.rate.update_interval_us or 0
        known.checked_us = now_us
        if known.version:  # else what is not modified could not be read
            known.problem = ""
        self._keeping.changed(channel.url)

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
        """A hub sent what changed: it counts as a poll."""
        size = len(body.data)
        self._count(channel.known.counts, polls=1, bytes=size)
        await self._whole(channel, body)
        self._note(channel, status=HTTPStatus.OK, size=size, duration_us=0)

    async def pair(
        self, channel: Channel, one: PageBody, other: PageBody, *, size: int, duration_us: int
    ) -> None:
        """Two fetches of one moment: the first counts as a poll, the second teaches what is noise."""
        self._count(channel.known.counts, polls=1, bytes=size)
        await self._whole(channel, one, beside=other)
        self._note(channel, status=HTTPStatus.OK, size=size, duration_us=duration_us)

    # -- comparing -------------------------------------------------------------------------------------------

    async def _compare(self, channel: Channel, body: PageBody, *, beside: PageBody | None) -> None:
        """Find what changed, write it down, tell it; a problem with the content is noted."""
        known = channel.known
        async with self._comparing.one:
            try:
                looked = await self._comparing.look(
                    channel.url, known.rules, body, beside=beside, now_us=self._clock()
                )
            except ChannelError as error:
                self._unreadable(channel, str(error).removeprefix(f"{channel.url}: "))
                return
            finally:
                self._count(known.counts, looking=-1)
            if self._channel(channel.url) is not channel:  # removed meanwhile
                self._count(known.counts, errors=1)
                return
            self._take(channel, body, looked)
            found = looked.delta is not None
            self.untold += found
            try:
                await self._keeping.commit(channel.url, lambda: self._rows(channel, looked))
            finally:
                self.untold -= found
        if looked.delta is not None:
            await self.tell(channel, looked.delta)

    def _unreadable(self, channel: Channel, problem: str) -> None:
        self._failed(channel, problem)
        with suppress(ChannelRefused):  # it is not polled any more
            self._poller.complain(channel.url, problem)

    def _take(self, channel: Channel, body: PageBody, looked: Comparison) -> None:
        """What was found is known from now on."""
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
        known.streak = known.streak + 1 if looked.delta is not None else 0
        if looked.delta is not None:
            known.changed_us = known.checked_us
        if content.kind == "feed":
            rate = complete(content.hints.item_times_us, now_us=known.checked_us)
            known.dated_us = round(SECOND_US / rate) if rate > 0 else 0
            with suppress(ChannelRefused):
                self._poller.hint(channel.url, content.hints)

    def _rows(self, channel: Channel, looked: Comparison) -> list[Row]:
        """Facts, version and delta belong together: so none is lost, and none found twice."""
        self.refresh(channel)
        rows = [
            sql.put_channel(channel.url, channel.known),
            sql.put_version(channel.url, looked.rules, looked.state),
        ]
        if looked.delta is not None:
            rows.append(sql.put_delta(looked.delta))
        return rows

    def refresh(self, channel: Channel) -> None:
        """Take over what the poller knows about the channel's server."""
        with suppress(ChannelRefused):
            channel.known.poll = self._poller.state(channel.url)

    async def tell(self, channel: Channel, delta: Delta, *, before: bool = False) -> None:
        """Everybody is told, and it is written down that they were; `before`: found before a restart."""
        self._announcing.announce(channel, delta, now_us=self._clock(), again=before)
        self.told += not before
        await self._announcing.safe(channel)
        await self._keeping.told(delta)


def _print(body: bytes) -> bytes:
    return blake2b(body, digest_size=PRINT_BYTES).digest()
