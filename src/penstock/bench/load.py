"""Load on a broker, from processes that cost less than any broker.

    senders, one process ──► broker ──► receivers, one process
         └────────── counters in shared memory ◄─────┘

Messages are encoded once and sent many at a time; all have the same size, so receivers count bytes. A sender
is never more than a window ahead of the slowest receiver, so that a broker need not drop anything, and every
message must arrive: a run that does not add up is an error, not a figure.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Final, Self

from penstock.bench.load_process import Counters, Worker
from penstock.bench.load_receivers import Receivers
from penstock.bench.load_senders import Senders

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.bench.load_shape import Shape

LEAST: Final = 256
"""Messages of a run, at least."""

_numbers: Final = count(1)
"""Loads at the same broker have topics and client identifiers of their own."""


class Load:
    """Senders and receivers of one shape at one broker, ready to run."""

    def __init__(self, shape: Shape, *, broker: str, port: int) -> None:
        self._receivers = shape.receivers
        self._stack = ExitStack()
        self._asked = 0
        self._arrived = Counters(shape.receivers)
        name = f"load-{next(_numbers):03}"
        what = f"{broker}: {shape.name}"
        self._workers = [
            Worker(what, part, shape, name, port, self._arrived) for part in (Receivers, Senders)
        ]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._arrived.close)
            for worker in self._workers:  # receivers have subscribed before anybody sends
                stack.enter_context(worker)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(self, messages: int) -> float:
        """Send so many messages; how many were delivered per second."""
        self._asked += messages
        for worker in self._workers:
            worker.ask(self._asked)
        received_ns, (started_ns, answered_ns) = (worker.answer() for worker in self._workers)
        seconds: float = (max(received_ns, answered_ns) - started_ns) / 1e9
        return messages * self._receivers / seconds

    def messages_for(self, seconds: float) -> int:
        """How many messages take about so long; the broker is warm then."""
        messages = LEAST
        for share in (0.25, 1.0):
            per_s = self.run(messages) / self._receivers
            messages = max(LEAST, int(per_s * seconds * share))
        return messages
