"""One full queue before one slow link: events come from a source, wait in the queue, cross the link.

    source ──► queue on the node ──slow link──► receiver

The queue cores run unchanged. The run records both the receiver's view (latency, loss) and the node's (packs,
levels). `SlowLink` is the setting of the PACK paper's Figure 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.queues.replay import wire_bytes
from penstock.errors import SimulationError
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.model.instant import SECOND_US
from penstock_lab.sim.link import LinkOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    def pump(now_us: int) -> None:  # noqa: ARG001  # the link says when, the queue needs no telling
        while link.ready:
            items = queue.take(1)
            if not items:
                return
            item = items[0]
            if isinstance(item, Digest) and not digests_on_wire:
                continue
            seen.digested_on_the_way += item.count if isinstance(item, Digest) else 0
            link.send(item, wire_bytes(item))

    def publish(event: Event) -> None:
        seen.published.append(event)
        before = queue.packs + queue.dropped
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
    """On the wire: 25 events a second go out while 33⅓ come in."""
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
