"""One sender, one full queue, one slow link: the setting of the PACK paper's Figure 8.

    sender ──every 30 ms──► queue on the node ──50 kbit/s──► receiver

The queue cores run unchanged. A receiver's view (latency, loss) and the node's (packs, levels) are both recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import SimulationError
from penstock.model.digest import Digest
from penstock.model.digest_wire import to_bytes
from penstock.model.event import Event
from penstock.model.instant import SECOND_US
from penstock.sim.link import LinkOptions

if TYPE_CHECKING:
    from penstock.core.queues import BoundedQueue, PackRecord, QueueStatistics
    from penstock.model.event import Item
    from penstock.sim.link import Link
    from penstock.sim.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLink:
    """The paper's numbers; the event size makes arrival exceed service by one third."""

    seconds: int = 600
    """Length of the run."""
    interval_us: int = 30_000
    """One event is published every so often."""
    bytes_per_s: int = 6_250
    """50 kbit/s."""
    event_bytes: int = 250
    """On the wire: 25 events a second go out while 33⅓ come in."""
    overhead_bytes: int = 4
    """Framing of each message on the wire, part of `event_bytes`."""
    digests_on_wire: bool = True
    """Whether the receiver is told what was dropped; a plain drop-tail queue tells nobody."""
    jitter_us: int = 0
    """The sender's interval varies by up to this much to either side."""

    def __post_init__(self) -> None:
        least = self.overhead_bytes + len("vitals") + 1
        if self.seconds < 1 or self.interval_us < 1 or self.bytes_per_s < 1 or self.event_bytes < least:
            raise SimulationError(
                f"a slow link needs a positive length, interval and rate, and events of at least {least} bytes"
            )
        if not 0 <= self.jitter_us < self.interval_us:
            raise SimulationError(f"jitter_us is {self.jitter_us}; it must be below interval_us")


@dataclass(slots=True)
class Seen:
    """What receiver and node saw."""

    arrivals: list[tuple[int, int, int]] = field(default_factory=list)
    """(delivered at, published at, sequence number) of each event received."""
    digests: list[tuple[int, Digest]] = field(default_factory=list)
    """(delivered at, digest)."""
    packs: list[PackRecord] = field(default_factory=list)
    published: int = 0
    first_overflow_us: int | None = None
    statistics: QueueStatistics | None = None
    fingerprint: str = ""


def run(world: World, queue: BoundedQueue, setting: SlowLink) -> Seen:
    """Play the scenario to its end."""
    seen = Seen()
    dice = world.dice("sender")
    sender = f"sensor-{world.seed}"
    body = b"\x00" * (setting.event_bytes - setting.overhead_bytes - len("vitals"))

    def deliver(item: Item, now_us: int) -> None:
        if isinstance(item, Event):
            seen.arrivals.append((now_us, item.ts_us, item.seq))
        elif isinstance(item, Digest):
            seen.digests.append((now_us, item))

    def pump(now_us: int) -> None:  # noqa: ARG001  # the link says when, the queue needs no telling
        while link.ready:
            items = queue.take(1)
            if not items:
                return
            item = items[0]
            if isinstance(item, Digest) and not setting.digests_on_wire:
                continue
            link.send(item, len(to_bytes(item)) if isinstance(item, Digest) else item.size)

    def publish() -> None:
        event = Event("vitals", body, world.now_us, sender=sender, seq=seen.published)
        seen.published += 1
        before = queue.packs + queue.dropped
        queue.offer(event, now_us=world.now_us)
        if seen.first_overflow_us is None and queue.packs + queue.dropped > before:
            seen.first_overflow_us = world.now_us
        seen.packs += queue.events()
        pump(world.now_us)
        wobble = dice.randint(-setting.jitter_us, setting.jitter_us) if setting.jitter_us else 0
        world.clock.after(setting.interval_us + wobble, publish)

    options = LinkOptions(bytes_per_s=setting.bytes_per_s, overhead_bytes=setting.overhead_bytes)
    link: Link[Item] = world.link("node-receiver", options, deliver=deliver, on_ready=pump)
    publish()
    world.run(setting.seconds * SECOND_US)
    seen.statistics = queue.statistics()
    seen.fingerprint = world.fingerprint()
    return seen
