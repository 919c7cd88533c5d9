"""Why a log in JetStream takes nothing: for a while, or until somebody has done something about it.

What changes is logged once, and the sentence stays for whoever asks.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger(__name__)


class Fault:
    """Of one log; empty sentences: there is none."""

    def __init__(self, place: str) -> None:
        self._place = place
        self.away = ""
        """Why nothing can be stored for now."""
        self.refused = ""
        """Why nothing will be stored any more."""

    @property
    def sentence(self) -> str:
        """What to tell first."""
        return self.refused or self.away

    def went(self, why: str) -> None:
        """Nothing can be stored for now."""
        if not self.away:
            log.error("%s; nothing is acknowledged until it is back", why)
        self.away = why

    def came(self) -> None:
        """It can again."""
        if self.away:
            log.warning("%s: can be written again", self._place)
        self.away = ""

    def refuse(self, why: str) -> None:
        """Nothing will be stored any more."""
        self.refused = f"{self._place}: {why}"
        log.error("%s", self.refused)

    def ended(self, task: asyncio.Task[None]) -> None:
        """A task that fails for no reason that is known must not leave everybody waiting for nothing."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.refuse(f"{error!r}; nothing more is taken: start the node again")
