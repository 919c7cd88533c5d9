"""The recorder: writes messages of chosen topics to Parquet files, for the Spark commands.

The recorder sees each message that the broker accepts; no publisher or subscriber waits for it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.node.store.parquet import EVENTS
from penstock.node.store.recording import Recording

if TYPE_CHECKING:
    from penstock.model.event import Event
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.routes import Tap
    from penstock.node.config.schema import RecorderSettings
    from penstock.node.store.recording import RecorderStatus

log = logging.getLogger(__name__)


class Recorder:
    """Records the messages of the configured topics until it is closed."""

    def __init__(self, settings: RecorderSettings, data: str) -> None:
        """Open the folder; MissingTool or NodeError if nothing can be recorded to it."""
        self._topics = settings.topics
        self._recording = Recording(Path(data) / settings.folder, EVENTS, settings)
        self._taps: list[Tap] = []
        self._last: Event | None = None

    def start(self, broker: Broker) -> None:
        """Record what the broker accepts from now on."""
        self._taps = [broker.tap(topic, self._see) for topic in dict.fromkeys(self._topics)]
        self._recording.begin()
        log.info("recording %s to %s", ", ".join(self._topics), self.status().folder)

    async def close(self) -> None:
        """Stop recording, and write the messages that wait."""
        for tap in self._taps:
            tap.close()
        await self._recording.close()

    def status(self) -> RecorderStatus:
        """Return what became of the messages so far."""
        return self._recording.status()

    def _see(self, event: Event) -> None:
        if event is not self._last:  # else the message matches another of the filters, too
            self._last = event
            self._recording.add(event)
