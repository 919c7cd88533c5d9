"""The reliable streams of a node: creates the parts, starts and stops them, and collects their status."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.streams.ticks import duration_us, tick_at
from penstock.model.instant import SECOND_US, to_us
from penstock.node.broker.extensions import SessionListener
from penstock.node.config.stream_checks import has_users
from penstock.node.streams.log.dedup import PublisherMarks
from penstock.node.streams.log.factory import AHEAD_US, open_log
from penstock.node.streams.log.state import FILE, StateFile
from penstock.node.streams.programs.listener import StreamListener
from penstock.node.streams.programs.server import ProgramServer
from penstock.node.streams.sessions.publishing import StreamPublishing
from penstock.node.streams.sessions.stream_readers import MAIN
from penstock.node.streams.sessions.subscriptions import StreamSubscriptions
from penstock.node.streams.status import ConsumerRow, LogRow, ReaderFigures, StreamRow, StreamsStatus
from penstock.node.streams.tree.directory import StreamContext, StreamDirectory
from penstock.node.streams.tree.driver import CoreDriver
from penstock.node.streams.tree.hosted import HostedStream
from penstock.node.streams.tree.links import Links

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.core.streams.broker import StreamStatistics
    from penstock.core.streams.pubend import PubendStatistics
    from penstock.core.streams.subend import SubendStatistics
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.extensions import SessionIdentity
    from penstock.node.broker.subscription import Subscription
    from penstock.node.config.schema import Config
    from penstock.node.config.streams import Hosting
    from penstock.node.streams.tree.directory import KnownStream

FOLDER: Final = "streams"
"""Folder of logs and state, below the data folder of a node."""

START: Final = "start"
"""User property of SUBSCRIBE: where in reliable streams to begin, `earliest` or a tick."""


class StreamService(SessionListener):
    """The streams of a node: creates their parts, starts them in order, and closes them in reverse order."""

    def __init__(self, broker: Broker, config: Config) -> None:
        self.broker = broker
        self.config = config
        self.settings = config.streams
        self.node = config.streams.node or "node"
        self._folder = Path(config.data) / FOLDER if config.data else None
        self._options = config.streams.options()
        self._stack = AsyncExitStack()
        self.started = False
        """Whether messages on the topics of streams are diverted into them."""
        self.driver = CoreDriver.make(self.node, self._options, clock=broker.clock)
        self.directory = StreamDirectory(self.node)
        self.hosted = self.directory.hosted
        self.state: StateFile
        """Durable values beside the logs; set by `start`."""
        self.publishing = StreamPublishing(self.directory, broker)
        self.subscriptions: StreamSubscriptions | None = None
        self.links: Links | None = None
        self.listener: StreamListener | None = None
        self.programs: ProgramServer | None = None
        self._status = StatusCollector(self)

    async def start(self) -> None:
        """Open the logs, then everything else; StoreError or NodeError if something cannot be opened."""
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise

    async def _start(self) -> None:
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        self.state = StateFile(None if self._folder is None else self._folder / FILE)
        self.state.start()
        self._stack.push_async_callback(self.state.close)
        for hosting in self.settings.host:
            await self._host(hosting)
        context = StreamContext(self.directory, self.driver, self.state, self.broker.clock)
        await self.publishing.start()
        self.subscriptions = StreamSubscriptions(context, self.broker, show=self.publishing.show)
        self._stack.callback(self.subscriptions.close)
        self.subscriptions.start()
        if self.settings.listen.enabled:
            self.programs = ProgramServer(
                context,
                self.broker,
                neighbours=self.settings.neighbours,
                has_users=lambda: has_users(self.config),
                folder=self._folder,
            )
            self._stack.push_async_callback(self.programs.close)
            await self.programs.start()
        self._stack.callback(self.driver.close)
        self.driver.start(asyncio.get_running_loop())
        if self.settings.neighbours:
            self.links = Links(context, self.config)
            self._stack.push_async_callback(self.links.close)
            self.links.start()
        if self.programs is not None:
            self.listener = StreamListener(
                self.config,
                self.broker.gate,
                node=self.node,
                serve_node=None if self.links is None else self.links.accept,
                serve_program=self.programs.serve,
            )
            self._stack.push_async_callback(self.listener.close)
            await self.listener.open()
        self.started = True
        self.broker.sessions.look(now_us=self.broker.clock())  # sessions that expired before the start

    async def _host(self, hosting: Hosting) -> None:
        log = await open_log(self.settings, hosting.name, self._folder)
        self._stack.push_async_callback(log.close)
        marks = PublisherMarks(self.state, hosting.name)
        await marks.recover(log)
        options = replace(self._options, retain_us=to_us(hosting.retain_s))
        clock = self.broker.clock
        pubend = self.driver.core.host(hosting.name, log, now_us=clock(), options=options)
        hosted = HostedStream(hosting, log, pubend, marks, driver=self.driver, clock=clock)
        hosted.show = partial(self.publishing.show, hosting.name)
        self.directory.host(hosted)
        hosted.start()

    # -- sessions --------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether messages on the topics of streams are diverted into them."""
        return self.started

    def check(self, client_id: str, filter_: str, asked: Mapping[str, str]) -> None:  # noqa: ARG002
        """StreamError if a subscription to topics of streams is not possible as it is asked for."""
        if self.subscriptions is not None:
            self.subscriptions.check(filter_, asked.get(START))

    def subscribed(self, subscription: Subscription, asked: Mapping[str, str], *, again: bool) -> None:  # noqa: ARG002
        """A session has subscribed, or subscribed again, perhaps from an earlier tick."""
        if self.subscriptions is not None:
            start = self.subscriptions.check(subscription.filter, asked.get(START))
            self.subscriptions.subscribed(subscription, start)

    def unsubscribed(self, session: SessionIdentity, filter_: str) -> None:
        """A session has unsubscribed."""
        if self.subscriptions is not None:
            self.subscriptions.unsubscribed(session.client_id, filter_)

    def held_back(self, session: SessionIdentity, answer: Callable[[], None]) -> Callable[[], None]:
        """Have an answer wait until the places of a session are on disk."""
        return answer if self.subscriptions is None else self.subscriptions.after_save(session, answer)

    def released(self, session: SessionIdentity, packet_id: int) -> bool:
        """Forget a QoS 2 message that its client has released; False if no stream has it.

        If a stream had it, the client is answered once `state` is durable.
        """
        return self.publishing.release(session, packet_id)

    def when_durable(self, then: Callable[[], None]) -> None:
        """Call back when everything noted so far is on disk."""
        self.state.when_durable(then)

    def carried(self, session: SessionIdentity) -> dict[str, bytes]:
        """The places of a session that goes to another node."""
        return {} if self.subscriptions is None else self.subscriptions.carried(session.client_id)

    def came(self, session: SessionIdentity, carried: Mapping[str, bytes]) -> bool:
        """Continue a session of another node at its places."""
        if self.subscriptions is None:
            return False
        self.subscriptions.came(session.client_id, carried)
        return True

    def ended(self, session: SessionIdentity) -> None:
        """Forget a session that has ended."""
        self.publishing.ended(session)
        if self.subscriptions is not None:
            self.subscriptions.ended(session.client_id)

    # -- status, reload, end ---------------------------------------------------------------------------------

    def status(self) -> StreamsStatus:
        """The present status of all streams."""
        return self._status.status()

    def reconfigure(self, config: Config) -> None:
        """Apply changed rates and switches of links, users, and TLS files."""
        self.config = config
        if self.listener is not None:
            self.listener.reconfigure(config)
        if self.links is not None:
            self.links.reconfigure(config)

    async def close(self) -> None:
        """Make everything durable that waits, and close all parts."""
        await self._stack.aclose()


_RATE_US: Final = SECOND_US
"""Shortest time over which the rate of commits is computed."""


class StatusCollector:
    """Collects the status of all streams; remembers the number of commits to compute their rate."""

    def __init__(self, service: StreamService) -> None:
        self._service = service
        self._commits: dict[str, tuple[int, int, float]] = {}
        """By stream: when commits were counted, their number then, and their rate per second."""

    def status(self) -> StreamsStatus:
        """The present status of all streams."""
        service = self._service
        now_us = service.broker.clock()
        statistics = service.driver.core.statistics()
        readers = service.subscriptions.figures() if service.subscriptions is not None else {}
        consumers: dict[str, list[ConsumerRow]] = {}
        for consumer in service.programs.figures() if service.programs is not None else ():
            consumers.setdefault(consumer.stream, []).append(consumer)
        rows = [
            self._row(
                known,
                statistics[known.name],
                readers.get(known.name, ReaderFigures()),
                consumers.get(known.name, ()),
                now_us=now_us,
            )
            for known in service.directory.known.values()
            if known.name in statistics
        ]
        faults = [f"stream {row.name!r}: {row.log.fault}" for row in rows if row.log and row.log.fault]
        faults += [f"stream {row.name!r}: {clock}" for row in rows if (clock := _clock(row, now_us=now_us))]
        if service.links is not None:
            faults += service.links.faults()
        if service.state.fault:
            faults.append(f"state of streams: {service.state.fault}")
        return StreamsStatus(
            node=service.node,
            streams=tuple(sorted(rows, key=lambda row: row.name)),
            neighbours=tuple(service.links.figures()) if service.links is not None else (),
            faults=tuple(faults),
        )

    def _row(
        self,
        known: KnownStream,
        found: StreamStatistics,
        readers: ReaderFigures,
        consumers: Iterable[ConsumerRow],
        *,
        now_us: int,
    ) -> StreamRow:
        hosted = self._service.hosted.get(known.name)
        log = None if hosted is None else self._log(hosted, now_us=now_us)
        pubend, main = found.pubend, found.subends.get(MAIN)
        horizon = 0 if main is None else main.horizon
        position = horizon if pubend is None else pubend.position
        until = tick_at(now_us) if pubend is None else position
        rate = None if pubend is None or not isfinite(pubend.rate) else pubend.rate
        slowest = sorted(consumers, key=lambda one: (one.place, one.name))
        recovering = any(one.recovering for one in found.subends.values())
        return StreamRow(
            name=known.name,
            topics=known.topics,
            host=known.host,
            hosted=hosted is not None,
            upstream=known.upstream,
            state=_state(log, position=position, recovering=main is not None and main.recovering),
            position=position,
            durable=0 if hosted is None else hosted.log.end,
            acked=(found.relay.acked or 0) if pubend is None else pubend.acked,
            trimmed=0 if hosted is None else hosted.log.trimmed,
            published=0 if pubend is None else pubend.published,
            delivered=_delivered(pubend, main),
            rate=rate,
            waiting=0 if pubend is None else pubend.waiting,
            held=0 if pubend is None else pubend.held,
            horizon=horizon,
            lag_s=round(duration_us(max(0, until - horizon)) / SECOND_US, 3) if horizon else 0.0,
            recovering=recovering,
            nack_window_ms=0.0 if main is None else duration_us(main.nack_window) / 1_000,
            nacks=found.relay.nacks,
            cached_messages=found.relay.cached_messages,
            cached_bytes=found.relay.cached_bytes,
            readers=readers,
            consumers=tuple(slowest[: limits.STREAM_CONSUMERS_SHOWN]),
            consumers_total=len(slowest),
            log=log,
        )

    def _log(self, hosted: HostedStream, *, now_us: int) -> LogRow:
        figures = hosted.log.figures()
        since_us, before, per_s = self._commits.get(hosted.name, (now_us, figures.commits, 0.0))
        if now_us - since_us >= _RATE_US:
            per_s = (figures.commits - before) * SECOND_US / (now_us - since_us)
            since_us, before = now_us, figures.commits
        self._commits[hosted.name] = (since_us, before, per_s)
        return LogRow(
            kind=self._service.settings.log,
            messages=figures.messages,
            bytes=figures.bytes,
            bytes_most=hosted.hosting.bytes,
            commits=figures.commits,
            committed=figures.committed,
            commits_per_s=round(per_s, 3),
            commit_us=figures.commit_us // figures.commits if figures.commits else 0,
            fault=hosted.log.fault or (hosted.full and f"the log {hosted.full}"),
        )


def _delivered(pubend: PubendStatistics | None, main: SubendStatistics | None) -> int:
    """Messages that have reached the subscribers' side; at the host of a stream these are all of them."""
    if pubend is not None:
        return pubend.published
    return 0 if main is None else main.delivered


def _clock(row: StreamRow, *, now_us: int) -> str:
    """The fault if the clock of this machine is behind a stream hosted here; empty if it is not."""
    behind_us = duration_us(row.position) - now_us if row.hosted else 0
    if behind_us <= AHEAD_US:
        return ""
    return (
        f"the clock of this machine is {behind_us // SECOND_US:,} s behind the stream; ticks are counted on "
        "without the clock, and times of messages are wrong: correct the clock"
    )


def _state(log: LogRow | None, *, position: int, recovering: bool) -> str:
    if log is not None and log.fault:
        return "stopped"
    if recovering:
        return "catching up"
    return "live" if position else "waiting"
