"""Deduplication: which messages of each publisher are logged, so that repeats are not logged again.

A writer ("w:…") numbers its messages and sends them in order: its highest number is enough. A client
("c:…") numbers messages of QoS 2 by packet identifier, and each number is in use from PUBLISH to PUBREL.

A mark is durable with its message, because the record of the message carries it. So that a restart need
not read the whole log, the marks of all durable messages are written to the state file now and then,
with the tick before which they are complete (`checkpoint_tick`). The log must not be trimmed beyond this
tick. `recover` loads the marks from the state file and reads the log from that tick on.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.streams.ticks import TICKS_PER_S
from penstock.core.streams.wire import decode_record
from penstock.errors import StreamError
from penstock.node.streams.log.state import StateTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.streams.log.protocol import DurableLog
    from penstock.node.streams.log.state import StateFile

logger = logging.getLogger(__name__)

WRITER: Final = "w:"
"""Prefix of the origin of a writer's messages."""
CLIENT: Final = "c:"
"""Prefix of the origin of an MQTT client's messages."""

MARKS: Final = "marks"
"""Table of the state file: (log, origin) → the numbers of an origin and their ticks.

Also the name under which the log is held until the marks are in the table; no other holder has this name.
"""
CHECKPOINTS: Final = "marks-until"
"""Table of the state file: (log,) → the tick before which the table of marks is complete."""
FORGOTTEN: Final = "marks-forgotten"
"""Table of the state file: (log, origin, number) → the tick of a message whose number is free again.

Only for messages that recovery would still find in the log.
"""
EVERY: Final = ""
"""Stands for all numbers of an origin in the table FORGOTTEN."""

CHECKPOINT_TICKS: Final = TICKS_PER_S
"""The marks of a busy stream are put into the state file once a second."""


class PublisherMarks:
    """The marks of one log. All methods are called in the thread of the event loop."""

    def __init__(self, state: StateFile, log_name: str) -> None:
        self._state = state
        self._marks = StateTable(state, MARKS, dict[int, int], width=2)
        self._checkpoints = StateTable(state, CHECKPOINTS, int, width=1)
        self._forgotten_rows = StateTable(state, FORGOTTEN, int, width=3)
        self._log_name = log_name
        self._durable: dict[str, dict[int, int]] = {}
        """Durable messages: their numbers and ticks, by origin."""
        self._fresh: deque[tuple[int, str, int]] = deque()
        """Messages that are not durable yet, in order: tick, origin, number."""
        self._pending: dict[str, dict[int, int]] = {}
        """Messages that are not durable yet: their numbers and ticks, by origin."""
        self._dirty: dict[str, None] = {}
        """Origins that have changed since the last checkpoint."""
        self._forgotten: dict[tuple[str, str], int] = {}
        """The rows of the table FORGOTTEN, by origin and number."""
        self._stored: set[str] = set()
        """Origins that have a row in the table MARKS."""
        self._last = 0
        """The last tick noted."""
        self._until = 0
        """Messages before this tick are durable."""
        self._putting = 0
        """The tick of the last checkpoint, durable or not."""
        self.checkpoint_tick = 0
        """Marks of messages before this tick are in the state file: the log may be trimmed up to it."""
        self.on_checkpoint: Callable[[], None] | None = None
        """Called when `checkpoint_tick` has moved."""

    def seen(self, origin: str, number: int) -> bool:
        """Whether a message is logged or being logged, so that it must not be logged again."""
        return self.tick_of(origin, number) is not None

    def tick_of(self, origin: str, number: int) -> int | None:
        """The tick of a message; None if it has not been seen.

        Of a writer only the last tick is known: it is returned for the earlier numbers, too.
        """
        for numbers in (self._pending.get(origin), self._durable.get(origin)):
            if not numbers:
                continue
            if origin.startswith(WRITER):
                highest = max(numbers)
                if number <= highest:
                    return numbers[highest]
            elif number in numbers:
                return numbers[number]
        return None

    def highest(self, origin: str) -> int:
        """The last number of a writer, which continues with the next one; 0 if there is none."""
        return max((max(n) for n in (self._pending.get(origin), self._durable.get(origin)) if n), default=0)

    def clients(self) -> dict[str, list[int]]:
        """The numbers in use of all clients, by origin."""
        return {
            origin: list(numbers) for origin, numbers in self._durable.items() if origin.startswith(CLIENT)
        }

    def note(self, origin: str, number: int, tick: int) -> None:
        """Note a message that was appended to the log; `committed` is called once it is durable."""
        self._last = tick
        self._fresh.append((tick, origin, number))
        if origin.startswith(WRITER):
            self._pending[origin] = {number: tick}
        else:
            self._pending.setdefault(origin, {})[number] = tick

    def committed(self, until: int) -> None:
        """Note that messages before a tick are durable; called after each commit of the log."""
        while self._fresh and self._fresh[0][0] < until:
            tick, origin, number = self._fresh.popleft()
            pending = self._pending.get(origin, {})
            if pending.get(number) == tick:
                del pending[number]
                if not pending:
                    del self._pending[origin]
            elif not origin.startswith(WRITER) or tick <= self._forgotten.get((origin, EVERY), -1):
                continue  # the number was freed before the commit
            self._mark(origin, number, tick)
        idle = until == self._until
        self._until = max(self._until, until)
        if until - self._putting >= CHECKPOINT_TICKS or (idle and until > self._putting):
            self._checkpoint()

    def forget(self, origin: str, number: int) -> None:
        """Free a number of a client; the client is told once the state is durable (`when_durable`)."""
        tick = self.tick_of(origin, number)
        if tick is None:
            return
        for marks in (self._pending, self._durable):
            numbers = marks.get(origin, {})
            if numbers.pop(number, None) is not None and not numbers:
                del marks[origin]
        self._freed(origin, str(number), tick)

    def forget_all(self, origin: str) -> None:
        """Free all numbers of an origin, for example when the session of a client ends."""
        ticks = [*self._pending.pop(origin, {}).values(), *self._durable.pop(origin, {}).values()]
        if ticks:
            self._freed(origin, EVERY, max(self._last, *ticks))

    def _freed(self, origin: str, number: str, tick: int) -> None:
        if origin in self._stored:
            self._put(origin)
        if tick >= self._putting:
            self._forgotten[origin, number] = tick
            self._forgotten_rows.put((self._log_name, origin, number), tick)

    def _mark(self, origin: str, number: int, tick: int) -> None:
        numbers = self._durable.get(origin)
        if numbers is None:
            self._durable[origin] = {number: tick}
        elif not origin.startswith(WRITER):
            numbers[number] = tick
        elif number > max(numbers):
            self._durable[origin] = {number: tick}
        self._dirty[origin] = None

    def _checkpoint(self) -> None:
        """Write the marks of all durable messages to the state file.

        Only one checkpoint is under way at a time, so that they do not pile up while the disk is full.
        """
        if self.checkpoint_tick != self._putting:
            return
        until = self._putting = self._until
        for origin in self._dirty:
            self._put(origin)
        self._dirty.clear()
        for (origin, number), tick in list(self._forgotten.items()):
            if tick < until:
                del self._forgotten[origin, number]
                self._forgotten_rows.remove((self._log_name, origin, number))
        self._checkpoints.put((self._log_name,), until)
        self._state.when_durable(self._checkpointed)

    def _checkpointed(self) -> None:
        self.checkpoint_tick = self._putting
        if self.on_checkpoint is not None:
            self.on_checkpoint()

    def _put(self, origin: str) -> None:
        numbers = self._durable.get(origin)
        key = (self._log_name, origin)
        if numbers:
            self._stored.add(origin)
            self._marks.put(key, numbers)
        elif origin in self._stored:
            self._stored.discard(origin)
            self._marks.remove(key)

    async def recover(self, log: DurableLog) -> None:
        """Load the marks from the state file and read the rest from the log; StoreError if that fails."""
        mine = self._log_name
        until = self._checkpoints.load().get((mine,), 0)
        self.checkpoint_tick = self._putting = self._until = until
        for (log_name, origin), numbers in self._marks.load().items():
            if log_name == mine:
                self._durable[origin] = numbers
                self._stored.add(origin)
        for (log_name, origin, number), tick in self._forgotten_rows.load().items():
            if log_name == mine:
                self._forgotten[origin, number] = tick
        since = self.checkpoint_tick
        if since < log.trimmed:
            logger.warning(
                "stream %r: messages before tick %d are gone from the log and their marks were not stored: "
                "if a publisher sends one of them again, it is logged twice",
                mine,
                log.trimmed,
            )
            since = log.trimmed
        while found := await log.fetch(since, log.end, limits.STREAM_READ):
            for tick, body in found:
                self._found(tick, body)
            self._last = found[-1][0]
            since = self._until = self._last + 1

    def _found(self, tick: int, body: bytes) -> None:
        try:
            record = decode_record(body)
        except StreamError as error:
            logger.warning("stream %r, tick %d: %s", self._log_name, tick, error)
            return
        origin, number = record.origin, record.number
        if not origin:
            return
        freed = max(self._forgotten.get((origin, EVERY), -1), self._forgotten.get((origin, str(number)), -1))
        if tick > freed:
            self._mark(origin, number, tick)
