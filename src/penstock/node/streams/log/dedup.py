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

import msgspec

from penstock import limits
from penstock.core.streams.ticks import TICKS_PER_S
from penstock.core.streams.wire import decode_record
from penstock.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.streams.log.protocol import DurableLog
    from penstock.node.streams.log.state import StateFile

logger = logging.getLogger(__name__)

WRITER: Final = "w:"
CLIENT: Final = "c:"

TABLE: Final = "marks"
"""In the state file: (log, origin) → the numbers of an origin and their ticks."""
PLACES: Final = "marks-until"
"""(log,) → the tick before which the table is complete."""
FORGOTTEN: Final = "marks-forgotten"
"""(log, origin, number) → the tick of a message whose number is free again, if the table does not know it."""
EVERY: Final = ""
"""In place of a number there: all numbers of the origin."""

CHECKPOINT_TICKS: Final = TICKS_PER_S
"""A busy stream's marks are put into the state file once a second of it."""

_numbers: Final = msgspec.msgpack.Decoder(dict[int, int])
_tick: Final = msgspec.msgpack.Decoder(int)
_bytes: Final = msgspec.msgpack.Encoder()


class PublisherMarks:
    """Of one log. Everything is called in the thread of the loop."""

    def __init__(self, state: StateFile, log_name: str) -> None:
        self._state = state
        self._log_name = log_name
        self._durable: dict[str, dict[int, int]] = {}
        """Numbers and their ticks by origin, of messages that are durable."""
        self._fresh: deque[tuple[int, str, int]] = deque()
        """Of messages that are not durable yet."""
        self._pending: dict[str, dict[int, int]] = {}
        """The same by origin."""
        self._dirty: dict[str, None] = {}
        """Origins that have changed since the last checkpoint."""
        self._forgotten: dict[tuple[str, str], int] = {}
        """What the state file has in FORGOTTEN."""
        self._stored: set[str] = set()
        """Origins that have a row in TABLE."""
        self._last = 0
        """The last tick noted."""
        self._until = 0
        """Messages before this tick are durable."""
        self._putting = 0
        """The tick of the last checkpoint, durable or not."""
        self.checkpoint_tick = 0
        """Marks of messages before this tick are durable in the state file: the log may let these go."""
        self.on_checkpoint: Callable[[], None] | None = None
        """Called when that has moved."""

    def seen(self, origin: str, number: int) -> bool:
        """Whether a message was logged before, or is being logged; the same must not be logged again."""
        return self.tick_of(origin, number) is not None

    def tick_of(self, origin: str, number: int) -> int | None:
        """Its tick; of a writer's older message the tick of its last. None: it has not been seen."""
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
        """A writer's last number, after which it goes on; 0: none yet."""
        return max((max(n) for n in (self._pending.get(origin), self._durable.get(origin)) if n), default=0)

    def clients(self) -> dict[str, list[int]]:
        """The numbers of clients that are open, by origin."""
        return {
            origin: list(numbers) for origin, numbers in self._durable.items() if origin.startswith(CLIENT)
        }

    def note(self, origin: str, number: int, tick: int) -> None:
        """A message was appended to the log; `committed` must follow."""
        self._last = tick
        self._fresh.append((tick, origin, number))
        if origin.startswith(WRITER):
            self._pending[origin] = {number: tick}
        else:
            self._pending.setdefault(origin, {})[number] = tick

    def committed(self, until: int) -> None:
        """Messages before a tick are durable; called after each commit of the log."""
        while self._fresh and self._fresh[0][0] < until:
            tick, origin, number = self._fresh.popleft()
            pending = self._pending.get(origin, {})
            if pending.get(number) == tick:
                del pending[number]
                if not pending:
                    del self._pending[origin]
            elif not origin.startswith(WRITER) or tick <= self._forgotten.get((origin, EVERY), -1):
                continue  # forgotten meanwhile
            self._mark(origin, number, tick)
        idle = until == self._until
        self._until = max(self._until, until)
        if until - self._putting >= CHECKPOINT_TICKS or (idle and until > self._putting):
            self._checkpoint()

    def forget(self, origin: str, number: int) -> None:
        """A client's number is free again; tell the client once the state is durable (`when_durable`)."""
        tick = self.tick_of(origin, number)
        if tick is None:
            return
        for marks in (self._pending, self._durable):
            numbers = marks.get(origin, {})
            if numbers.pop(number, None) is not None and not numbers:
                del marks[origin]
        self._freed(origin, str(number), tick)

    def forget_all(self, origin: str) -> None:
        """All of an origin's numbers are free again, as when a client's session ends; as `forget`."""
        ticks = [*self._pending.pop(origin, {}).values(), *self._durable.pop(origin, {}).values()]
        if ticks:
            self._freed(origin, EVERY, max(self._last, *ticks))

    def _freed(self, origin: str, number: str, tick: int) -> None:
        if origin in self._stored:
            self._put(origin)
        if tick >= self._putting:
            self._forgotten[origin, number] = tick
            self._state.put(FORGOTTEN, (self._log_name, origin, number), _bytes.encode(tick))

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
        """Put the marks of all durable messages; one at a time, so that a full disk does not gather them."""
        if self.checkpoint_tick != self._putting:
            return
        until = self._putting = self._until
        for origin in self._dirty:
            self._put(origin)
        self._dirty.clear()
        for (origin, number), tick in list(self._forgotten.items()):
            if tick < until:
                del self._forgotten[origin, number]
                self._state.remove(FORGOTTEN, (self._log_name, origin, number))
        self._state.put(PLACES, (self._log_name,), _bytes.encode(until))
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
            self._state.put(TABLE, key, _bytes.encode(numbers))
        elif origin in self._stored:
            self._stored.discard(origin)
            self._state.remove(TABLE, key)

    async def recover(self, log: DurableLog) -> None:
        """Find out what was known of everything durable; StoreError if it cannot be read."""
        mine = self._log_name
        for key, value in self._state.load(PLACES):
            if key == (mine,):
                self.checkpoint_tick = self._putting = self._until = _tick.decode(value)
        for key, value in self._state.load(TABLE):
            if key[0] == mine:
                self._durable[key[1]] = _numbers.decode(value)
                self._stored.add(key[1])
        for key, value in self._state.load(FORGOTTEN):
            if key[0] == mine:
                self._forgotten[key[1], key[2]] = _tick.decode(value)
        since = self.checkpoint_tick
        if since < log.trimmed:
            logger.warning(
                "stream %r: what was logged before tick %d is gone and its publishers' marks were not kept: "
                "what one of them sends again from there is logged again",
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
