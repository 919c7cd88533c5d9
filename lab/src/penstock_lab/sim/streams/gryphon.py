"""The congestion experiments of the paper (003, §2 and §5): its two topologies, sampled once a second."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.core.streams.options import StreamOptions
from penstock.core.streams.ticks import TICKS_PER_S
from penstock.model.instant import SECOND_US
from penstock_lab.sim.faults import FaultOptions
from penstock_lab.sim.link import LinkOptions
from penstock_lab.sim.streams.checks import on_the_way, problems
from penstock_lab.sim.streams.network import StreamNetwork, Tree
from penstock_lab.sim.streams.node import NetworkOptions, StreamPublisher
from penstock_lab.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.core.streams.control import RateControl
    from penstock.core.streams.messages import Alert, Matches

KB: Final = 1_024
PUBENDS: Final = ("p0", "p1", "p2", "p3")
RATE: Final = 500
"""Messages a second that all publishers want to publish."""
PAYLOAD: Final = 100
HEADER: Final = 260
"""Sent with each message: the paper has headers and does not say how long. With our frame a message is 400
bytes, so that 500 a second fit into 250 KB/s (its Figure 4) and not into 150 KB/s (its Figure 13)."""
WINDOW: Final = 25
"""Messages of a pubend that its publishers have in flight: 0.2 s of them."""

NEAR_US: Final = 1_000
"""Delay of a link between machines in one room."""
DRAIN_S: Final = 60
"""Seconds that a run goes on without publication, at most, until everything has arrived."""

SIMPLE: Final = Tree(root="PB", parents={"IB": "PB", "SB1": "IB", "SB2": "IB"})


def two_fifths(leaf: int) -> Matches:
    """Return a leaf's filter: 100 subscribers of 2 messages per second want two fifths of 250 groups."""
    return lambda body: (body[3] + 256 * body[2] - leaf) % 5 < 2


COMPLEX: Final = Tree(
    root="PB",
    parents={
        "IB1": "PB",
        "SB1": "IB1",
        "IB2": "IB1",
        "SB2": "IB2",
        "SB3": "IB2",
        "IB3": "IB2",
        "SB4": "IB3",
        "SB5": "IB3",
    },
    filters={f"SB{leaf}": two_fifths(leaf) for leaf in range(1, 6)},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GryphonSetting:
    """The setting of one run."""

    seconds: int
    tree: Tree = SIMPLE
    bandwidth: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Bandwidth schedule of each link, by the node below it: (from second, KB/s)."""
    down: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Cuts of each link, by the node below it: (from second, to second)."""
    streams: StreamOptions = field(default_factory=StreamOptions)
    fair: bool = True
    delay_us: int = NEAR_US
    """Delay of each link, one way."""
    stop: Callable[[Sample], bool] | None = None
    """Ends the run early once it returns true for a sample."""
    drain_s: int = DRAIN_S
    """Longest wait for messages on their way when publication has ended; 0 where they never come."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Sample of one second; rates are messages per second, windows and lags tick-seconds."""

    second: int
    published: tuple[int, ...]
    """Messages published, per pubend."""
    delivered: Mapping[str, int]
    """Messages delivered, per leaf."""
    delivered_by_pubend: Mapping[str, tuple[int, ...]]
    queues: Mapping[str, int]
    """Bytes queued for each link downwards, by the node below it."""
    horizon_rate: Mapping[str, tuple[float, ...]]
    """Rate of the doubt horizon per leaf and pubend, smoothed as in alerts."""
    lag: Mapping[str, tuple[float, ...]]
    recovering: Mapping[str, int]
    """Pubends that each leaf is recovering."""
    nack_window: Mapping[str, tuple[float, ...]]
    refused: int
    """Messages dropped at full queues so far."""


@dataclass(frozen=True, slots=True)
class AlertSeen:
    """An alert that reached a pubend."""

    second: float
    pubend: str
    keeping: float
    recovering: float


@dataclass(slots=True)
class Played:
    """Result of one run."""

    samples: list[Sample]
    alerts: list[AlertSeen]
    bytes_down: Mapping[str, int]
    """Bytes that each link has carried downwards, by the node below it."""
    problems: list[str]
    """Violations in its history. Acknowledged messages that never came count, except in a run that is not
    drained: there only those that a subscriber's stream has passed."""
    on_the_way: int = 0
    """Acknowledged messages that had not reached a subscriber when publication ended."""
    undelivered: int = 0
    """… and that had not when the run ended."""

    def between(self, since: int, until: int) -> list[Sample]:
        """Return the samples between two seconds."""
        return [sample for sample in self.samples if since <= sample.second < until]


class _Heard:
    """A rate control that records the alerts it passes on."""

    def __init__(self, pubend: str, control: RateControl, world: World, alerts: list[AlertSeen]) -> None:
        self._pubend = pubend
        self._control = control
        self._world = world
        self._alerts = alerts

    @property
    def rate(self) -> float:
        return self._control.rate

    def asked(self, number: int, *, position: int, published: int, throttled: bool, now_us: int) -> None:
        self._control.asked(
            number, position=position, published=published, throttled=throttled, now_us=now_us
        )

    def alerted(self, alert: Alert, *, now_us: int) -> None:
        second = self._world.now_us / SECOND_US
        self._alerts.append(AlertSeen(second, self._pubend, alert.keeping, alert.recovering))
        self._control.alerted(alert, now_us=now_us)


def play(setting: GryphonSetting, *, seed: int, told: Callable[[int], None] | None = None) -> Played:
    """Play one setting; `told` is called with each second that has passed."""
    world = World(seed, keep_trace=False)
    network = StreamNetwork(world, setting.tree, PUBENDS, _options(setting))
    network.start()
    alerts: list[AlertSeen] = []
    dice = world.dice("publishers")
    root = network.nodes[setting.tree.root]
    publishers = []
    for pubend in PUBENDS:
        one = network.pubend(pubend)
        one.control = _Heard(pubend, one.control, world, alerts)
        publishers.append(
            StreamPublisher(
                world,
                root,
                pubend,
                every_us=SECOND_US * len(PUBENDS) // RATE,
                window=WINDOW,
                body=lambda number: number.to_bytes(4) + bytes(PAYLOAD - 4),
                until_us=setting.seconds * SECOND_US,
                start_us=dice.randrange(8_000),
            )
        )
    probe = _Probe(network)
    samples: list[Sample] = []
    for second in range(setting.seconds):
        world.run((second + 1) * SECOND_US)
        samples.append(probe.sample(second))
        if told is not None:
            told(second)
        if setting.stop is not None and setting.stop(samples[-1]):
            break
    down = {
        child: network.nodes[parent].links[child].statistics().bytes
        for child, parent in setting.tree.parents.items()
    }
    for publisher in publishers:
        publisher.stop()
    waiting = undelivered = on_the_way(network.history)
    for _ in range(setting.drain_s):
        if not undelivered:
            break
        world.run(world.now_us + SECOND_US)
        undelivered = on_the_way(network.history)
    found = problems(network.history, setting.tree, waiting=not setting.drain_s)
    return Played(samples, alerts, down, found, waiting, undelivered)


def _options(setting: GryphonSetting) -> NetworkOptions:
    faults = {}
    for child in setting.tree.parents:
        steps = tuple((since * SECOND_US, rate * KB) for since, rate in setting.bandwidth.get(child, ()))
        cut = setting.down.get(child)
        cuts = ((cut[0] * SECOND_US, cut[1] * SECOND_US),) if cut else ()
        faults[child] = FaultOptions(bandwidth_schedule=steps, partitions=cuts)
    return NetworkOptions(
        streams=setting.streams,
        link=LinkOptions(bytes_per_s=12_500_000, delay_us=setting.delay_us),
        faults=faults,
        down_only=True,
        header_bytes=HEADER,
        fair=setting.fair,
        record=False,
    )


class _Probe:
    """Samples counters once a second and keeps the differences."""

    def __init__(self, network: StreamNetwork) -> None:
        self._network = network
        self._published = dict.fromkeys(PUBENDS, 0)
        self._delivered: dict[tuple[str, str], int] = {}

    def sample(self, second: int) -> Sample:
        network, tree = self._network, self._network.tree
        leaves = tree.leaves
        position = {pubend: network.pubend(pubend).position for pubend in PUBENDS}
        ends = {leaf: [network.subend(leaf, pubend).statistics() for pubend in PUBENDS] for leaf in leaves}
        by_pubend = {
            leaf: tuple(
                self._more(leaf, pubend, end.delivered)
                for pubend, end in zip(PUBENDS, ends[leaf], strict=True)
            )
            for leaf in leaves
        }
        queues = {child: network.nodes[parent].queues[child] for child, parent in tree.parents.items()}
        return Sample(
            second,
            tuple(self._more("", pubend, network.pubend(pubend).published) for pubend in PUBENDS),
            {leaf: sum(counts) for leaf, counts in by_pubend.items()},
            by_pubend,
            {child: queue.bytes for child, queue in queues.items()},
            {leaf: tuple(end.rate for end in ends[leaf]) for leaf in leaves},
            {
                leaf: tuple(
                    (position[pubend] - end.horizon) / TICKS_PER_S
                    for pubend, end in zip(PUBENDS, ends[leaf], strict=True)
                )
                for leaf in leaves
            },
            {leaf: sum(end.recovering for end in ends[leaf]) for leaf in leaves},
            {leaf: tuple(end.nack_window / TICKS_PER_S for end in ends[leaf]) for leaf in leaves},
            sum(queue.statistics().refused for queue in queues.values()),
        )

    def _more(self, leaf: str, pubend: str, count: int) -> int:
        before = self._delivered.get((leaf, pubend), 0)
        self._delivered[leaf, pubend] = count
        return count - before
