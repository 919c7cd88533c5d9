"""Constant-rate flows and bursty best-effort traffic share a link that cannot carry both.

    voice (t0 + n·T, with jitter) ─┐
    bursts ────────────────────────┴─► lanes and a packing queue ──link──► receiver

The cores run unchanged: `FlowControl` chooses the lane, `Lanes` and `PackingQueue` hold what waits. Without
reservation everything waits in the queue. The link takes one packet at a time and holds none back
(`window_bytes=0` of a transport): what was once handed over waits for nobody, which TCP does not promise.

After the last packet is published the run goes on until nothing waits, so that what has not arrived is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import merge
from itertools import count
from typing import TYPE_CHECKING

from penstock.core.queues import Ladder, PackingQueue, QueueOptions
from penstock.core.queues.replay import wire_bytes
from penstock.core.slots.control import FlowControl
from penstock.core.slots.flows import FlowState, key_of
from penstock.core.slots.lanes import Lane, Lanes
from penstock.core.slots.options import ControlOptions
from penstock.errors import SimulationError
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.model.instant import SECOND_US
from penstock_lab.sim.link import LinkOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from penstock.model.event import Item
    from penstock.policy.nodes import Policy
    from penstock_lab.sim.link import Link
    from penstock_lab.sim.world import World

VOICE = "voice/"
BURSTS = "bursts/"
DRAIN_US = 60 * SECOND_US
"""Longest time in which what still waits at the end is delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantRateSetting:
    """The setting of one run."""

    seconds: int = 30
    bytes_per_s: int = 250_000
    """Capacity of the link: 2 Mbit/s."""
    load: float = 1.0
    """Offered load as a multiple of the link's capacity."""
    periods_us: tuple[int, ...] = (20_000, 40_000, 50_000)
    flows: int = 4
    """Flows of each period."""
    jitter: float = 0.05
    """Standard deviation of a packet from its grid, as a share of the period."""
    voice_bytes: int = 200
    """Size of a packet on the wire."""
    burst_bytes: int = 300
    sources: int = 20
    """Number of sources of bursts; each is silent for most of the time."""
    burst_events: int = 40
    """Mean number of events in a burst."""
    capacity: int = 400
    """Items in the queue."""
    reserve: bool = True
    bursts: bool = True
    """Whether there are bursts; without them the flows' own jitter is measured."""
    options: ControlOptions = field(
        default_factory=lambda: ControlOptions(slot_us=10_000, capacity=12, share=0.6, sigmas=3.0)
    )

    def __post_init__(self) -> None:
        if not 1 <= self.seconds <= 3_600 or self.bytes_per_s < 1:
            raise SimulationError("a run takes 1 to 3,600 seconds on a link that carries something")
        if self.bursts and self.voice_bytes_per_s >= self.load * self.bytes_per_s:
            raise SimulationError(
                f"the flows alone are {self.voice_bytes_per_s / self.bytes_per_s:.2f} of the link; "
                f"a load of {self.load} leaves nothing for best effort"
            )

    @property
    def voice_bytes_per_s(self) -> float:
        """Bytes per second that the constant-rate flows offer."""
        return sum(self.flows * self.voice_bytes * SECOND_US / period for period in self.periods_us)

    @property
    def bursts_per_s(self) -> float:
        """Bursts per second of one source that give the wanted load."""
        left = self.load * self.bytes_per_s - self.voice_bytes_per_s
        return left / self.burst_bytes / self.burst_events / self.sources


@dataclass(slots=True)
class ConstantRateRun:
    """Result of one run: what the receiver got, and an account of the rest."""

    voice: list[tuple[int, Event]] = field(default_factory=list)
    """(time of delivery, event) of everything that arrived."""
    bursts: list[tuple[int, Event]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    """All events published."""
    published: dict[str, int] = field(default_factory=dict)
    """Events published, per class."""
    digested: int = 0
    """Events counted in digests that arrived or are on the way."""
    waiting: int = 0
    """Events in lanes and queue at the end, themselves or in digests."""
    on_the_way: int = 0
    packs: int = 0
    levels: dict[int, int] = field(default_factory=dict)
    served: int = 0
    served_since_us: dict[str, int] = field(default_factory=dict)
    """Senders that are served when the last packet is published, and since when without a break."""
    refused: dict[str, int] = field(default_factory=dict)
    """Flows not admitted or no longer served, by reason."""
    places: float = 0.0
    """Places that served flows take in a slot on average, at the end."""
    most_places: float = 0.0
    """Places in a slot that flows may take together."""
    fullest: float = 0.0
    """Share taken of the fullest slot that was ever reserved, of what may be reserved in it."""
    lanes: dict[str, int] = field(default_factory=dict)
    in_order: bool = True
    """Whether every sender's events arrived in the order they were sent."""

    @property
    def accounted(self) -> bool:
        """Whether every event published is accounted for."""
        there = len(self.voice) + len(self.bursts) + self.digested + self.waiting + self.on_the_way
        return there == sum(self.published.values())


def _voice(setting: ConstantRateSetting, number: int, period_us: int, dice: Random) -> Iterator[Event]:
    """Yield the events of one flow; the sequence number is the position on its grid."""
    start_us = dice.randrange(period_us)
    sigma_us = setting.jitter * period_us
    name = f"v{number:02d}"
    last_us = 0
    for seq in count():
        at_us = round(start_us + seq * period_us + dice.gauss(0, sigma_us))
        last_us = max(last_us, at_us)
        if last_us > setting.seconds * SECOND_US:
            return
        body = _body(dice, setting.voice_bytes - len(VOICE) - len(name))
        yield Event(VOICE + name, body, last_us, sender=name, seq=seq)


def _body(dice: Random, size: int) -> bytes:
    """Return a payload with a random urgency, alike for both classes: the policy cannot tell them apart."""
    return (b'{"urgency":%d}' % dice.randrange(10)).ljust(size)


def _bursts(setting: ConstantRateSetting, number: int, dice: Random) -> Iterator[Event]:
    """Yield bursts at random moments, each at the link's full rate; bursts may overlap."""
    name = f"b{number:02d}"
    gap_us = setting.burst_bytes * SECOND_US / setting.bytes_per_s
    end_us = setting.seconds * SECOND_US
    at_us, moments = 0.0, []
    while at_us <= end_us:
        at_us += dice.expovariate(setting.bursts_per_s) * SECOND_US
        sent_us = at_us
        for _ in range(1 + round(dice.expovariate(1 / (setting.burst_events - 1)))):
            sent_us += dice.expovariate(1) * gap_us
            moments.append(round(sent_us))
    for seq, moment_us in enumerate(sorted(moments)):
        if moment_us > end_us:
            return
        body = _body(dice, setting.burst_bytes - len(BURSTS) - len(name))
        yield Event(BURSTS + name, body, moment_us, sender=name, seq=seq)


def source(world: World, setting: ConstantRateSetting) -> Iterator[Event]:
    """Yield what all flows and sources of bursts publish, in order of time."""
    streams: list[Iterator[Event]] = []
    for period_us in setting.periods_us:
        for _ in range(setting.flows):
            number = len(streams)
            streams.append(_voice(setting, number, period_us, world.dice(f"voice {number}")))
    if setting.bursts:
        numbers = range(setting.sources)
        streams += [_bursts(setting, number, world.dice(f"bursts {number}")) for number in numbers]
    return merge(*streams, key=lambda event: event.ts_us)


class _Node:
    """The node's side of the link: flow control, lanes and queue."""

    def __init__(self, world: World, setting: ConstantRateSetting, policy: Policy) -> None:
        self.world = world
        self.queue = PackingQueue(policy, QueueOptions(capacity_events=setting.capacity), Ladder())
        self.lanes: Lanes[Event] = Lanes(most=setting.capacity, late_share=0.1)
        self.control = FlowControl(setting.options, now_us=0) if setting.reserve else None
        self.fullest = 0.0

    def accept(self, event: Event) -> None:
        """Put an arriving event into a lane or into the queue."""
        now_us = self.world.now_us
        control = self.control
        if control is not None:
            key = key_of(event.sender, event.topic)
            flow = control.flow(key, event.sender, event.topic, now_us=now_us)
            if flow is not None:
                (lane,) = control.take(flow, 1, now_us=now_us)
                (link,) = control.links.of(event.topic)
                self.fullest = max(self.fullest, link.fullest([control.windows[0].reservations.now]))
                if self.lanes.put(
                    event,
                    key,
                    flow,
                    lane,
                    oldest_us=self._oldest_us(),
                    pick=lambda: self.queue.pick(lambda one: one.topic == event.topic),
                    now_us=now_us,
                ):
                    return
        self.queue.offer(event, now_us=now_us)

    def _oldest_us(self) -> int | None:
        head = self.queue.head()
        if isinstance(head, Event):
            return head.ts_us
        return head.from_us if isinstance(head, Digest) else None

    def next(self) -> Item | None:
        """Return the next item to send."""
        if self.lanes.head(others_wait=bool(len(self.queue))) is not None:
            return self.lanes.take()
        items = self.queue.take(1)
        self.lanes.passed(len(items))
        return items[0] if items else None


def run(world: World, setting: ConstantRateSetting, policy: Policy) -> ConstantRateRun:
    """Simulate one setting to its end."""
    seen = ConstantRateRun()
    node = _Node(world, setting, policy)
    last: dict[str, int] = {}

    def deliver(item: Item, now_us: int) -> None:
        seen.on_the_way -= 1 if isinstance(item, Event) else 0
        if isinstance(item, Event):
            seen.in_order &= item.seq > last.get(item.sender, -1)
            last[item.sender] = item.seq
            (seen.voice if item.topic.startswith(VOICE) else seen.bursts).append((now_us, item))

    def pump(now_us: int) -> None:  # noqa: ARG001  # the link says when
        while link.ready:
            item = node.next()
            if item is None:
                return
            seen.digested += item.count if isinstance(item, Digest) else 0
            seen.on_the_way += isinstance(item, Event)
            link.send(item, wire_bytes(item))

    def publish(event: Event) -> None:
        kind = VOICE if event.topic.startswith(VOICE) else BURSTS
        seen.events.append(event)
        seen.published[kind] = seen.published.get(kind, 0) + 1
        node.accept(event)
        pump(world.now_us)
        schedule()

    def schedule() -> None:
        event = next(events, None)
        if event is not None:
            world.clock.at(max(event.ts_us, world.now_us), lambda: publish(event))

    events = source(world, setting)
    link: Link[Item] = world.link(
        "shared", LinkOptions(bytes_per_s=setting.bytes_per_s), deliver=deliver, on_ready=pump
    )
    schedule()
    end_us = setting.seconds * SECOND_US
    world.run(end_us)
    if node.control is not None:
        (places,) = node.control.links.of(VOICE)
        seen.served, seen.refused = node.control.served, dict(node.control.refused)
        seen.places, seen.most_places, seen.fullest = places.load, places.most_load, node.fullest
        flows = [flow for flow in node.control.table.values() if flow.state is FlowState.SERVED]
        seen.served_since_us = {flow.client: flow.since_us for flow in flows}
    world.run(end_us + DRAIN_US)
    statistics = node.queue.statistics()
    seen.waiting = statistics.queued + statistics.queued_digested + len(node.lanes)
    seen.packs, seen.levels = statistics.packs, dict(statistics.packs_by_level)
    if node.control is not None:
        seen.lanes = {lane.name.lower(): node.control.packets[lane] for lane in Lane}
    return seen
