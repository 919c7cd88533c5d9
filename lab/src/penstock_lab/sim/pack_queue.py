"""One full queue before one slow link: events come from a source, wait in the queue, cross the link.

    source ──► queue on the node ──slow link──► receiver

The queue cores run unchanged. The run records both the receiver's view (latency, loss) and the node's (packs,
levels). `SlowLink` is the setting of the PACK paper's Figure 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.queues.pace import Pace
from penstock.core.queues.replay import wire_bytes
from penstock.errors import SimulationError
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.model.instant import SECOND_US
from penstock_lab.sim.link import LinkOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.core.queues import BoundedQueue, PackRecord, QueueStatistics
    from penstock.model.event import Item
    from penstock_lab.sim.link import Link
    from penstock_lab.sim.world import World


@dataclass(slots=True)
class QueueRun:
    """Result of one run: what the receiver got and what the node did."""

    arrivals: list[tuple[int, Event]] = field(default_factory=list)
    """(time of delivery, event) of everything that arrived."""
    digests: list[tuple[int, Digest]] = field(default_factory=list)
    """(time of delivery, digest) of everything that arrived."""
    digested_on_the_way: int = 0
    """Events counted in digests that were sent and have not arrived yet."""
    packs: list[PackRecord] = field(default_factory=list)
    published: list[Event] = field(default_factory=list)
    first_overflow_us: int | None = None
    statistics: QueueStatistics | None = None
    fingerprint: str = ""


class _LinkPace:
    """The pace of a link that sends one message at a time."""

    def __init__(self, options: LinkOptions) -> None:
        self.pace = Pace(overhead=options.overhead_bytes)
        self._size = 0
        """Bytes of the message that is being sent; 0: none."""
        self._since_us = 0

    def send(self, item: Item, now_us: int) -> None:
        """The link begins to send an item."""
        self._size = self.pace.amount(size=item.size, items=1)
        self._since_us = now_us

    def free(self, now_us: int) -> None:
        """The link has sent what it took, and takes the next."""
        if self._size:
            self.pace.took(self._size, over_us=now_us - self._since_us)
        self._size = 0

    def look(self, now_us: int) -> None:
        """An event comes: what is left of the message that is being sent waits before it."""
        gone = (self.pace.per_s or 0.0) * (now_us - self._since_us) / SECOND_US
        self.pace.outside = max(0.0, self._size - gone)


def _when_due(world: World, queue: BoundedQueue, pump: Callable[[int], None]) -> None:
    """Pump again when the time of a digest that is gathered has come."""
    if queue.due_us is not None:
        world.clock.at(max(queue.due_us, world.now_us + 1), lambda: pump(world.now_us))


def play(
    world: World,
    queue: BoundedQueue,
    source: Iterator[Event],
    options: LinkOptions,
    *,
    until_us: int,
    digests_on_wire: bool = True,
) -> QueueRun:
    """Publish the source's events, which are in order of time, up to `until_us`; return what happened."""
    seen = QueueRun()

    def deliver(item: Item, now_us: int) -> None:
        if isinstance(item, Event):
            seen.arrivals.append((now_us, item))
        elif isinstance(item, Digest):
            seen.digests.append((now_us, item))
            seen.digested_on_the_way -= item.count

    measured = _LinkPace(options)
    queue.follow(measured.pace)

    def pump(now_us: int) -> None:
        while link.ready:
            measured.free(now_us)
            items = queue.take(1, now_us=now_us)
            if not items:
                measured.pace.rested()
                _when_due(world, queue, pump)
                return
            item = items[0]
            if isinstance(item, Digest) and not digests_on_wire:
                continue
            seen.digested_on_the_way += item.count if isinstance(item, Digest) else 0
            measured.send(item, now_us)
            link.send(item, wire_bytes(item))

    def publish(event: Event) -> None:
        seen.published.append(event)
        before = queue.packs + queue.dropped
        measured.look(world.now_us)
        queue.offer(event, now_us=world.now_us)
        if seen.first_overflow_us is None and queue.packs + queue.dropped > before:
            seen.first_overflow_us = world.now_us
        seen.packs += queue.events()
        pump(world.now_us)
        schedule()

    def schedule() -> None:
        event = next(source, None)
        if event is not None:
            world.clock.at(max(event.ts_us, world.now_us), lambda: publish(event))

    link: Link[Item] = world.link("node-receiver", options, deliver=deliver, on_ready=pump)
    schedule()
    world.run(until_us)
    seen.statistics = queue.statistics()
    seen.fingerprint = world.fingerprint()
    return seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure8Setting:
    """The paper's numbers; the event size makes arrival exceed service by one third."""

    seconds: int = 600
    """Length of the run."""
    interval_us: int = 30_000
    """Time between two events."""
    bytes_per_s: int = 6_250
    """50 kbit/s."""
    event_bytes: int = 250
    """Bytes of an event on the wire: 25 events a second go out while 33⅓ come in."""
    overhead_bytes: int = 4
    """Framing of each message on the wire, part of `event_bytes`."""
    digests_on_wire: bool = True
    """Whether digests are sent to the receiver; a plain drop-tail queue sends none."""

    def __post_init__(self) -> None:
        least = self.overhead_bytes + len("vitals")
        if min(self.seconds, self.interval_us, self.bytes_per_s) < 1 or self.event_bytes < least:
            raise SimulationError(
                f"a slow link needs a length, an interval, a rate, and events of at least {least} bytes"
            )

    def events(self, sender: str) -> Iterator[Event]:
        """One event per interval, without end."""
        body = bytes(self.event_bytes - self.overhead_bytes - len("vitals"))
        seq = 0
        while True:
            yield Event("vitals", body, seq * self.interval_us, sender=sender, seq=seq)
            seq += 1


def run(world: World, queue: BoundedQueue, setting: Figure8Setting) -> QueueRun:
    """Play Figure 8's setting; the sender's name, and so what RANDOM drops, depends on the world's seed."""
    return play(
        world,
        queue,
        setting.events(f"sensor-{world.seed}"),
        LinkOptions(bytes_per_s=setting.bytes_per_s, overhead_bytes=setting.overhead_bytes),
        until_us=setting.seconds * SECOND_US,
        digests_on_wire=setting.digests_on_wire,
    )
