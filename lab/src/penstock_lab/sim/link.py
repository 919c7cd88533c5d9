"""A one-directional link: one message at a time at a given rate, a delay, and faults by a seeded generator.

The link does not queue for its owner. It is ready, takes a message by `send`, and calls `on_ready` when the
next may come; until then messages wait in the owner's queue, where a policy can reach them.

`Bandwidth` computes when a transmission ends while the rate changes by schedule. It counts work in millionths
of a byte: a link of B bytes/s does B of them in a microsecond, so all numbers are integers and exact.
`Sent`, `Delivered`, `Lost` and `Duplicated` are what links write into the trace: flat values of numbers and
names, never the messages themselves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from penstock.errors import SimulationError
from penstock_lab.sim.faults import Fate, FaultOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from penstock_lab.sim.clock import Clock

WORK_PER_BYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a transmission."""

    when_us: int
    """The first whole microsecond by which everything is sent."""

    spare: int
    """Work it could still have done in that microsecond; a message that follows at once starts with it."""


class Bandwidth:
    """A rate in bytes per second as a function of time; what is not yet sent goes on at the new rate."""

    def __init__(self, bytes_per_s: int, schedule: tuple[tuple[int, int], ...] = ()) -> None:
        steps = schedule if schedule and schedule[0][0] == 0 else ((0, bytes_per_s), *schedule)
        self._starts = [from_us for from_us, _ in steps]
        self._rates = [rate for _, rate in steps]

    def bytes_per_s(self, now_us: int) -> int:
        """The rate from this microsecond to the next; 0 if the link is down."""
        return self._rates[bisect_right(self._starts, now_us) - 1]

    def finish(self, *, start_us: int, work: int) -> Finish | None:
        """Return the end of work begun at `start_us`; None if the link goes down for good before."""
        if work <= 0:
            return Finish(start_us, -work)
        now_us = start_us
        for index in range(bisect_right(self._starts, start_us) - 1, len(self._starts)):
            rate = self._rates[index]
            end_us = self._end(index)
            if rate:
                done_us = now_us - (-work // rate)
                if end_us is None or done_us <= end_us:
                    return Finish(done_us, (done_us - now_us) * rate - work)
            if end_us is not None:
                work -= (end_us - now_us) * rate
                now_us = end_us
        return None

    def up_us(self, *, start_us: int, end_us: int) -> int:
        """Return how many microseconds of an interval the link is up."""
        up = 0
        for index in range(bisect_right(self._starts, start_us) - 1, len(self._starts)):
            from_us = max(start_us, self._starts[index])
            step_end_us = self._end(index)
            until_us = end_us if step_end_us is None else min(end_us, step_end_us)
            if until_us <= from_us:
                break
            if self._rates[index]:
                up += until_us - from_us
        return up

    def _end(self, index: int) -> int | None:
        return self._starts[index + 1] if index + 1 < len(self._starts) else None


@dataclass(frozen=True, slots=True)
class Sent:
    """A link accepted a message."""

    at_us: int
    link: str
    number: int
    """Counts the messages of this link from 0."""
    size: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message, or a copy of it, reached the other end."""

    at_us: int
    link: str
    number: int


@dataclass(frozen=True, slots=True)
class Lost:
    """A message, or a copy of it, will not arrive; known when its transmission ends."""

    at_us: int
    link: str
    number: int
    partition: bool
    """True if a partition took it, false if it was lost at random."""


@dataclass(frozen=True, slots=True)
class Duplicated:
    """A copy of a message is on its way, too."""

    at_us: int
    link: str
    number: int


Message = TypeVar("Message")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOptions:
    """Properties of a link without faults."""

    bytes_per_s: int
    """The rate; `FaultOptions.bandwidth_schedule` may change it with time."""

    delay_us: int = 0
    """Propagation: from the end of the transmission to the arrival."""

    overhead_bytes: int = 0
    """Bytes sent with every message besides its own size (headers)."""

    window_bytes: int = 0
    """Stands for the kernel's send buffer: the link is ready while fewer bytes than this wait behind the
    message in transmission. The last one accepted may go over, as with a write high-water mark; at 0 none
    waits."""

    def __post_init__(self) -> None:
        for name, least in (("bytes_per_s", 1), ("delay_us", 0), ("overhead_bytes", 0), ("window_bytes", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise SimulationError(f"link.{name} is {value!r}: give a whole number, {least} or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStatistics:
    """A snapshot; always `sent + duplicated == delivered + lost + in_flight`."""

    sent: int
    """Messages accepted by `send`."""
    delivered: int
    """Arrivals, copies included."""
    lost: int
    """Messages and copies that will not arrive, lost at random or by a partition."""
    partitioned: int
    """Messages and copies lost by a partition; part of `lost`."""
    duplicated: int
    """Copies made."""
    reordered: int
    """Arrivals after one that was sent later (RFC 4737, section 3); late copies count too."""
    in_flight: int
    """Messages and copies waiting, in transmission or on the way."""
    bytes: int
    """Bytes whose transmission has ended, overhead included."""
    busy_us: int
    """Time in which bytes moved; while the link is down none do."""


@dataclass(frozen=True, slots=True)
class _Parcel(Generic[Message]):
    number: int
    message: Message
    wire_bytes: int


@dataclass(frozen=True, slots=True)
class _Transmission(Generic[Message]):
    parcel: _Parcel[Message]
    start_us: int


def _keep_no_trace(fact: object) -> None:
    del fact


class Link(Generic[Message]):
    """Carries opaque messages from its owner to `deliver`; without faults in order, each exactly once."""

    def __init__(
        self,
        name: str,
        options: LinkOptions,
        *,
        clock: Clock,
        dice: Random,
        deliver: Callable[[Message, int], None],
        on_ready: Callable[[int], None] | None = None,
        faults: FaultOptions | None = None,
        record: Callable[[object], None] = _keep_no_trace,
    ) -> None:
        self.name = name
        self.options = options
        self.faults = faults or FaultOptions()
        self._clock = clock
        self._fate = Fate(self.faults, delay_us=options.delay_us, dice=dice)
        self._deliver = deliver
        self._on_ready = on_ready
        self._record = record
        self._bandwidth = Bandwidth(options.bytes_per_s, self.faults.bandwidth_schedule)
        self._waiting: deque[_Parcel[Message]] = deque()
        self._waiting_bytes = 0
        self._current: _Transmission[Message] | None = None
        self._previous = Finish(0, 0)
        self._on_the_way = 0
        self._highest_delivered = -1
        self._sent = self._delivered = self._lost = self._partitioned = 0
        self._duplicated = self._reordered = self._bytes = self._busy_us = 0

    @property
    def ready(self) -> bool:
        """True if `send` may be called."""
        return self._current is None or self._waiting_bytes < self.options.window_bytes

    def send(self, message: Message, size: int) -> None:
        """Accept a message of `size` bytes; only while `ready`, else the owner keeps it until `on_ready`."""
        if not self.ready:
            raise SimulationError(f"link {self.name!r} is busy: look at `ready`, or wait for on_ready")
        if size < 0:
            raise SimulationError(f"link {self.name!r} was given a message of {size} bytes: give 0 or more")
        parcel = _Parcel(self._sent, message, size + self.options.overhead_bytes)
        self._sent += 1
        self._record(Sent(self._clock.now_us, self.name, parcel.number, size))
        if self._current is None:
            self._transmit(parcel)
        else:
            self._waiting.append(parcel)
            self._waiting_bytes += parcel.wire_bytes

    def statistics(self) -> LinkStatistics:
        """Return a snapshot of the counters."""
        busy_us = self._busy_us
        if self._current is not None:
            busy_us += self._bandwidth.up_us(start_us=self._current.start_us, end_us=self._clock.now_us)
        return LinkStatistics(
            sent=self._sent,
            delivered=self._delivered,
            lost=self._lost,
            partitioned=self._partitioned,
            duplicated=self._duplicated,
            reordered=self._reordered,
            in_flight=len(self._waiting) + (self._current is not None) + self._on_the_way,
            bytes=self._bytes,
            busy_us=busy_us,
        )

    def _transmit(self, parcel: _Parcel[Message]) -> None:
        now_us = self._clock.now_us
        # Back to back, the k-th of equal messages ends at ceil(k·size/rate), not at k·ceil(size/rate).
        spare = self._previous.spare if self._previous.when_us == now_us else 0
        finish = self._bandwidth.finish(start_us=now_us, work=parcel.wire_bytes * WORK_PER_BYTE - spare)
        self._current = _Transmission(parcel, now_us)
        if finish is not None:
            self._clock.at(finish.when_us, partial(self._transmitted, self._current, finish))

    def _transmitted(self, ended: _Transmission[Message], finish: Finish) -> None:
        self._current = None
        self._previous = finish
        self._bytes += ended.parcel.wire_bytes
        self._busy_us += self._bandwidth.up_us(start_us=ended.start_us, end_us=finish.when_us)
        self._launch(ended, end_us=finish.when_us)
        if self._waiting:
            parcel = self._waiting.popleft()
            self._waiting_bytes -= parcel.wire_bytes
            self._transmit(parcel)
        if self._on_ready is not None and self.ready:
            self._on_ready(finish.when_us)

    def _launch(self, ended: _Transmission[Message], *, end_us: int) -> None:
        parcel = ended.parcel
        outcomes = self._fate.draw(start_us=ended.start_us, end_us=end_us)
        if len(outcomes) > 1:
            self._duplicated += 1
            self._record(Duplicated(end_us, self.name, parcel.number))
        for outcome in outcomes:
            if outcome.arrival_us is None:
                self._lost += 1
                self._partitioned += outcome.partition
                self._record(Lost(end_us, self.name, parcel.number, outcome.partition))
            else:
                self._on_the_way += 1
                self._clock.at(outcome.arrival_us, partial(self._arrived, parcel))

    def _arrived(self, parcel: _Parcel[Message]) -> None:
        now_us = self._clock.now_us
        self._on_the_way -= 1
        self._delivered += 1
        self._reordered += parcel.number < self._highest_delivered
        self._highest_delivered = max(self._highest_delivered, parcel.number)
        self._record(Delivered(now_us, self.name, parcel.number))
        self._deliver(parcel.message, now_us)
