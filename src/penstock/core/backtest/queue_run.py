"""One recorded queue replayed under several candidates; its accounts are added to those of the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import force_setattr

from penstock.core.backtest.account import account
from penstock.core.backtest.measures import Recorded
from penstock.core.queues import Replay

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.backtest.account import Account
    from penstock.core.backtest.settings import RecordedStream, Settings
    from penstock.model.arrays import Floats, Ints
    from penstock.model.event import Event
    from penstock.policy.columns import Plan


class QueueRun:
    """Feed all events of a queue in order of time, in any number of parts, then `settle`."""

    def __init__(self, name: str, plans: Mapping[int, Plan | None], settings: Settings) -> None:
        """`plans` are the compiled policies by number of their candidate, for the candidates to run."""
        self.name = name
        self._settings = settings
        self._replays: dict[int, Replay] = {}
        for number, plan in plans.items():
            candidate = settings.candidates[number]
            queue = candidate.queue(plan, settings)
            self._replays[number] = Replay(queue, settings.drain, digests_on_wire=candidate.drops is None)
        self._events = 0
        self._published: list[Ints] = []
        self._series: list[Ints] = []
        self._values: dict[str, list[Floats]] = {name: [] for name in settings.measured}
        self._matters: dict[str, list[Any]] = {one.text: [] for one in settings.matters}

    def feed(
        self, events: list[Event], series: Ints, values: Sequence[Floats], *, numbered: bool = True
    ) -> None:
        """Offer the next events; without sequence numbers they are numbered as they come.

        `values` are the measured attributes, in the order of the settings.
        """
        if not numbered:
            for place, event in enumerate(events, start=self._events):
                force_setattr(event, "seq", place)
        self._events += len(events)
        self._published.append(np.array([event.ts_us for event in events], dtype=np.int64))
        self._series.append(series)
        for found, own in zip(self._values.values(), values, strict=True):
            found.append(own)
        for predicate in self._settings.matters:
            self._matters[predicate.text].append(predicate.matches(events))
        for replay in self._replays.values():
            replay.offer_all(events)

    def settle(self, totals: dict[int, Account], stream: RecordedStream) -> None:
        """The queue is complete: add it to the accounts."""
        recorded = Recorded(
            published_us=np.concatenate(self._published),
            series=np.concatenate(self._series),
            values={name: np.concatenate(found) for name, found in self._values.items()},
            matters={name: np.concatenate(found) for name, found in self._matters.items()},
        )
        for number, replay in self._replays.items():
            found = account(
                replay.finish(), recorded, stream, queue=self.name, window_us=self._settings.window_us
            )
            totals[number] = totals[number].merge(found) if number in totals else found
