"""One key of a packed stream behind a drain: rows wait in a queue and leave it as fast as the drain takes.

Events arrive at their own times and the drain runs from event to event, as in a backtest: how the rows are
cut into triggers changes nothing. While a key is silent, the time of triggers goes on for it. The same queue,
pace and controller as on a node decide what is packed, and when: `fresh` and `urgent` mean the same.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.core.queues import PackingQueue, Predictive, QueueOptions, Replay
from penstock.core.queues.controllers import PredictiveState  # noqa: TC001  # read by msgspec
from penstock.core.queues.replay import ReplayState  # noqa: TC001
from penstock.core.queues.statistics import PackingState  # noqa: TC001
from penstock.errors import InputError
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.pipeline.stream.key_queue import Assembly, HeldRows, TriggerResult, behind_held, items_of
from penstock.policy.columns import Plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.core.queues import Drain
    from penstock.model.instant import Instant
    from penstock.pipeline.stream.key_queue import QueueRules

_VERSION: Final = 1


class _DrainState(msgspec.Struct, frozen=True):
    """State of a key besides the rows that wait."""

    version: int
    in_bytes: bool
    """Unit of the pace."""
    lag_us: int
    """Time of the last trigger that brought rows of the key, less the time of its newest event."""
    controller: PredictiveState
    queue: PackingState
    drain: ReplayState


class DrainedQueue:
    """The rules of a stream with a drain, compiled once per worker."""

    def __init__(self, rules: QueueRules) -> None:
        assert rules.drain is not None
        self._rules = rules
        self._drain = rules.drain
        self._plan = Plan(rules.policy)
        self._options = QueueOptions(capacity_events=rules.capacity)

    def turn(
        self, rows: pa.Table, *, now_us: Instant, held: HeldRows | None, state: bytes | None
    ) -> TriggerResult:
        """Process a trigger's rows, in order."""
        known = _read(state)
        if held is None:
            held_count, whole = 0, rows
        else:
            held_count, whole = held.rows.num_rows, behind_held(held.rows, rows)
        items, found = items_of(whole, self._rules)
        if known is None:  # what waits for another reason than a drain, or for longer than `forget_s`
            held_count = 0
        key = self._resumed(known, items[:held_count])
        for part in _parts(items[held_count:]):
            if isinstance(part, Digest):
                key.replay.offer_digest(part)
            else:
                key.replay.offer_all(part)
        return key.result(Assembly(whole, found, self._rules.key), now_us=now_us, lag_us=None)

    def elapse(self, held: HeldRows, *, now_us: Instant, state: bytes | None) -> TriggerResult:
        """Let the drain go on until the time of a trigger that brings no rows of the key."""
        known = _read(state)
        if known is None:  # forgotten: they have waited long enough
            return TriggerResult(held.rows, None, None)
        items, found = items_of(held.rows, self._rules)
        key = self._resumed(known, items)
        key.replay.advance(now_us - known.lag_us)
        return key.result(Assembly(held.rows, found, self._rules.key), now_us=now_us, lag_us=known.lag_us)

    def _resumed(self, known: _DrainState | None, waiting: Sequence[Event | Digest]) -> _Running:
        running = _Running(self._plan, self._options, self._drain)
        if known is not None:
            running.restore(known, waiting)
        return running


class _Running:
    """The queue of a key, its controller and its drain, during a trigger."""

    def __init__(self, plan: Plan, options: QueueOptions, drain: Drain) -> None:
        self._in_bytes = drain.in_bytes
        self._controller = Predictive()
        self._queue = PackingQueue(plan, options, self._controller)
        self.replay = Replay(self._queue, drain)
        self._out = self.replay.collect()

    def restore(self, known: _DrainState, waiting: Sequence[Event | Digest]) -> None:
        """Continue as another one, in whose queue these items waited."""
        self._controller.restore(known.controller)
        self._queue.restore(known.queue, waiting)
        drain = known.drain
        if known.in_bytes != self._in_bytes:  # a pace in items says nothing of one in bytes
            drain = replace(drain, pace=(0.0, 0.0), amount=0, takes_us=Fraction(0))
        self.replay.restore(drain, [item for item in waiting if isinstance(item, Event)])

    def result(self, assembled: Assembly, *, now_us: Instant, lag_us: int | None) -> TriggerResult:
        """Return what goes out, what waits, and the state of the key for its next trigger."""
        drain = self.replay.state()
        assert drain is not None
        lag_us = now_us - drain.now_us if lag_us is None else lag_us
        left = self._queue.items()
        next_us = self.replay.next_us()
        until_us = now_us if next_us is None else next_us + lag_us
        state = _DrainState(
            version=_VERSION,
            in_bytes=self._in_bytes,
            lag_us=lag_us,
            controller=self._controller.state(),
            queue=self._queue.state(),
            drain=drain,
        )
        return TriggerResult(
            out=assembled.rows(self._out) if self._out else None,
            held=assembled.held(left, until_us),
            ladder=None,
            drained=_written(state),
        )


def _parts(items: Sequence[Event | Digest]) -> Iterator[list[Event] | Digest]:
    """Runs of events, and single digests."""
    events: list[Event] = []
    for item in items:
        if isinstance(item, Event):
            events.append(item)
            continue
        if events:
            yield events
            events = []
        yield item
    if events:
        yield events


def _written(state: _DrainState) -> bytes:
    return msgspec.json.encode(state, enc_hook=str)  # the only values of another kind are fractions


def _read(data: bytes | None) -> _DrainState | None:
    if data is None:
        return None
    try:
        found = _STATE.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise _unreadable(str(error)) from None
    if found.version != _VERSION:
        raise _unreadable(f"its version is {found.version}, not {_VERSION}")
    return found


def _unreadable(problem: str) -> InputError:
    return InputError(f"the checkpoint's state of a drain cannot be read ({problem}); use a new checkpoint")


def _fraction(kind: type, found: Any) -> Any:
    return kind(found)


_STATE: Final = msgspec.json.Decoder(_DrainState, dec_hook=_fraction)
