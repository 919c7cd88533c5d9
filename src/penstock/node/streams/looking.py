"""Looks at all parts of a node's streams and says in one value what is there."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.streams.tick import duration_us, tick_at
from penstock.model.instant import SECOND_US
from penstock.node.streams.logs import AHEAD_US
from penstock.node.streams.status import ConsumerRow, LogRow, ReaderFigures, StreamRow, StreamsStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.core.streams.broker import StreamStatistics
    from penstock.core.streams.pubend import PubendStatistics
    from penstock.core.streams.subend import SubendStatistics
    from penstock.node.streams.hosted import Hosted
    from penstock.node.streams.service import Known, StreamService

MAIN: Final = "main"
"""The subscriber-hosting end that feeds all sessions that keep up."""

_RATE_US: Final = SECOND_US
"""A rate is taken over so long at least."""


class Looking:
    """One per node; remembers how many commits there were, to tell how many there are a second."""

    def __init__(self, service: StreamService) -> None:
        self._service = service
        self._commits: dict[str, tuple[int, int, float]] = {}
        """Of each log: when they were counted, how many they were, how many a second."""

    def status(self) -> StreamsStatus:
        """The streams at this moment."""
        service = self._service
        now_us = service.broker.clock()
        statistics = service.hub.core.statistics()
        readers = service.reading.figures() if service.reading is not None else {}
        consumers: dict[str, list[ConsumerRow]] = {}
        for consumer in service.serving.figures() if service.serving is not None else ():
            consumers.setdefault(consumer.stream, []).append(consumer)
        rows = [
            self._row(
                known,
                statistics[known.name],
                readers.get(known.name, ReaderFigures()),
                consumers.get(known.name, ()),
                now_us=now_us,
            )
            for known in service.known.values()
            if known.name in statistics
        ]
        faults = [f"stream {row.name!r}: {row.log.fault}" for row in rows if row.log and row.log.fault]
        faults += [f"stream {row.name!r}: {clock}" for row in rows if (clock := _clock(row, now_us=now_us))]
        if service.links is not None:
            faults += service.links.faults()
        if service.state.fault:
            faults.append(f"the file of places: {service.state.fault}")
        return StreamsStatus(
            node=service.node,
            streams=tuple(sorted(rows, key=lambda row: row.name)),
            neighbours=tuple(service.links.figures()) if service.links is not None else (),
            faults=tuple(faults),
        )

    def _row(
        self,
        known: Known,
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

    def _log(self, hosted: Hosted, *, now_us: int) -> LogRow:
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
    """Where a stream is hosted, everything that is told comes to subscribers' side."""
    if pubend is not None:
        return pubend.published
    return 0 if main is None else main.delivered


def _clock(row: StreamRow, *, now_us: int) -> str:
    """What is wrong with this machine's clock; empty: nothing, or the stream is hosted elsewhere."""
    behind_us = duration_us(row.position) - now_us if row.hosted else 0
    if behind_us <= AHEAD_US:
        return ""
    return (
        f"this machine's clock is {behind_us // SECOND_US:,} s behind it; ticks go on without the clock, "
        "times of messages are of no use: set it right"
    )


def _state(log: LogRow | None, *, position: int, recovering: bool) -> str:
    if log is not None and log.fault:
        return "stopped"
    if recovering:
        return "catching up"
    return "live" if position else "waiting"
