"""The recorder: writes messages of chosen topics, and samples of queues, to Parquet files for Spark.

The recorder sees each message that the broker accepts; no publisher or subscriber waits for it. The samples
(`traces`) say what the receivers' queues were like: level, depth, account, latency.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock import limits
from penstock.node.broker.background import Background
from penstock.node.observe import rows
from penstock.node.store.parquet import EVENTS, kind_of
from penstock.node.store.recording import Recording

if TYPE_CHECKING:
    from penstock.model.event import Event
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.routes import Tap
    from penstock.node.broker.status import BrokerStatus
    from penstock.node.config.schema import RecorderSettings
    from penstock.node.store.recording import RecorderStatus

log = logging.getLogger(__name__)


class TraceRecord(NamedTuple):
    """Row of the table `traces`: one subscription and its queue at one moment."""

    ts: int
    """Microseconds since 1970."""
    client: str
    filter: str
    policy: str
    level: int
    items: int
    bytes: int
    accepted: int
    """This and the following counts are since the subscription began."""
    delivered: int
    digested: int
    counted: int
    packs: int
    oldest_us: int
    latency_p50_us: int
    latency_p99_us: int


TRACES: Final = kind_of(
    TraceRecord,
    "traces",
    ("int64", "string", "string", "string", "int32", *("int64",) * 10),
    ("client", "filter", "policy"),
)


def traces(status: BrokerStatus) -> list[TraceRecord]:
    """Samples of all subscriptions, or of so many of them as are recorded: those furthest behind."""
    return [
        TraceRecord(
            ts=status.now_us,
            client=row.client_id,
            filter=one.filter,
            policy=one.policy,
            level=one.level,
            items=one.items,
            bytes=one.bytes,
            accepted=one.account.accepted,
            delivered=one.account.delivered,
            digested=one.account.digested,
            counted=one.account.counted,
            packs=one.packs,
            oldest_us=one.oldest_us,
            latency_p50_us=one.latency_p50_us,
            latency_p99_us=one.latency_p99_us,
        )
        for row in rows.subscriptions(status)[: limits.RECORD_TRACES]
        for one in [row.subscription]
    ]


class Recorder:
    """Records the messages of the configured topics until it is closed."""

    def __init__(self, settings: RecorderSettings, data: str) -> None:
        """Open the folder; MissingTool or NodeError if nothing can be recorded to it."""
        self._topics = settings.topics
        folder = Path(data) / settings.folder
        self._recording = Recording(folder, EVENTS, settings)
        self._traces_s = settings.traces_s
        # A node without a data folder has been given the folder for events; samples lie beside it.
        beside = (Path(data) if data else folder.parent) / TRACES.name
        self._traces = Recording(beside, TRACES, settings) if settings.traces_s else None
        self._background = Background()
        self._taps: list[Tap] = []
        self._last: Event | None = None

    def start(self, broker: Broker) -> None:
        """Record what the broker accepts from now on."""
        self._taps = [broker.tap(topic, self._see) for topic in dict.fromkeys(self._topics)]
        self._recording.begin()
        if self._traces is not None:
            self._traces.begin()
            self._background.begin(self._sample(broker, self._traces), "queues are no longer sampled")
        log.info("recording %s to %s", ", ".join(self._topics), self.status().folder)

    async def close(self) -> None:
        """Stop recording, and write the messages that wait."""
        for tap in self._taps:
            tap.close()
        await self._background.close()
        await self._recording.close()
        if self._traces is not None:
            await self._traces.close()

    def status(self) -> RecorderStatus:
        """Return what became of the messages so far."""
        return self._recording.status()

    async def _sample(self, broker: Broker, recording: Recording) -> None:
        while True:
            await asyncio.sleep(self._traces_s)
            for row in await asyncio.to_thread(traces, broker.status()):
                recording.add(row)

    def _see(self, event: Event) -> None:
        if event is not self._last:  # else the message matches another of the filters, too
            self._last = event
            self._recording.add(event)
