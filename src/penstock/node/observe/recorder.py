"""The recorder: messages of chosen topics to Parquet files, for the Spark commands.

The recorder taps what the broker accepts and slows nobody.
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

log = logging.getLogger(__name__)


class Recorder(Recording):
    """Records until it is closed."""

    def __init__(self, settings: RecorderSettings, data: str) -> None:
        """Nothing is recorded yet; MissingTool or NodeError says what stands in the way."""
        super().__init__(Path(data) / settings.folder, EVENTS, settings)
        self._taps: list[Tap] = []
        self._last: Event | None = None

    def start(self, broker: Broker) -> None:
        """Record from now on."""
        self._taps = [broker.tap(topic, self._see) for topic in dict.fromkeys(self._settings.topics)]
        self.begin()
        log.info("recording %s to %s", ", ".join(self._settings.topics), self._folder)

    async def close(self) -> None:
        """Look no more, write what is there, and end."""
        for tap in self._taps:
            tap.close()
        await super().close()

    def _see(self, event: Event) -> None:
        if event is not self._last:  # else another of the filters matches it, too
            self._last = event
            self.add(event)
