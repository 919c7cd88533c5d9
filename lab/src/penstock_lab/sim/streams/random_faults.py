"""A random run of reliable streams with every kind of fault: tree, rates, losses, crashes, skew, by seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.streams.options import StreamOptions
from penstock.model.instant import SECOND_US
from penstock_lab.sim.faults import FaultOptions
from penstock_lab.sim.link import LinkOptions
from penstock_lab.sim.streams.checks import problems
from penstock_lab.sim.streams.network import StreamNetwork, Tree
from penstock_lab.sim.streams.node import NetworkOptions, StreamPublisher
from penstock_lab.sim.world import World

if TYPE_CHECKING:
    from random import Random

    from penstock.core.streams.messages import Matches

PUBLISH_US: Final = 5 * SECOND_US
SETTLE_US: Final = 5 * SECOND_US
"""Interval of checks whether everything has arrived."""
MOST_US: Final = 400 * SECOND_US
"""Longest wait for messages to arrive; retries are at most half a minute apart."""


@dataclass(frozen=True, slots=True)
class FaultRun:
    """Result of one run and its violations."""

    seed: int
    published: int
    delivered: int
    crashes: int
    lost: int
    """Messages that links lost."""
    trimmed: int
    """Messages that have left the log."""
    seconds: int
    """Virtual time until everything had arrived."""
    problems: tuple[str, ...]
    fingerprint: str


def fault_run(seed: int) -> FaultRun:
    """Play the random run of a seed and check its history."""
    world = World(seed, keep_trace=False)
    dice = world.dice("setting")
    tree = random_tree(dice)
    pubends = tuple(f"p{number}" for number in range(dice.randint(1, 3)))
    network = StreamNetwork(world, tree, pubends, _options(dice, tree))
    network.start()
    publishers = [
        StreamPublisher(
            world,
            network.nodes[tree.root],
            pubend,
            every_us=dice.randrange(20_000, dice.choice((100_000, 900_000))),
            window=dice.randint(1, 20),
            body=_body,
            until_us=PUBLISH_US,
            start_us=dice.randrange(300_000),
        )
        for pubend in pubends
    ]
    for _ in range(dice.randint(0, 4)):
        node = dice.choice(tree.nodes)
        at_us = dice.randrange(100_000, PUBLISH_US)
        network.plan_crash(
            node,
            at_us=at_us,
            down_us=dice.randrange(50_000, 2 * SECOND_US),
            set_back_us=dice.choice((0, 0, dice.randrange(3 * SECOND_US))),
        )
    world.run(PUBLISH_US + 2 * SECOND_US)
    found = problems(network.history, tree)
    while found and world.now_us < MOST_US:
        world.run(world.now_us + SETTLE_US)
        found = problems(network.history, tree)
    return FaultRun(
        seed=seed,
        published=sum(publisher.published for publisher in publishers),
        delivered=_delivered(network),
        crashes=sum(node.crashes for node in network.nodes.values()),
        lost=sum(link.lost for link in world.statistics().values()),
        trimmed=sum(map(len, network.history.durable.values())) - sum(map(len, network.logs.values())),
        seconds=world.now_us // SECOND_US,
        problems=tuple(found),
        fingerprint=_fingerprint(network),
    )


def _delivered(network: StreamNetwork) -> int:
    everybody = network.history.subscribers
    return sum(len(received) for one in everybody for received in one.received.values())


def _fingerprint(network: StreamNetwork) -> str:
    for subscriber in network.history.subscribers:
        for pubend, received in subscriber.received.items():
            network.world.record((subscriber.name, pubend, tuple(tick for tick, _ in received)))
    return network.world.fingerprint()


def _body(number: int) -> bytes:
    return number.to_bytes(4) + bytes(28)


def _residue(modulus: int, rest: int) -> Matches:
    return lambda body: int.from_bytes(body[:4]) % modulus == rest


def random_tree(dice: Random) -> Tree:
    """Return a random tree with up to three inner nodes and four leaves; some leaves have filters."""
    parents: dict[str, str] = {}
    inner = ["root"]
    for number in range(dice.randint(0, 3)):
        parents[f"i{number}"] = dice.choice(inner)
        inner.append(f"i{number}")
    filters: dict[str, Matches] = {}
    # Every inner node needs a node below it, else it would be a leaf.
    hosts = [node for node in inner if node not in parents.values()]
    hosts += [dice.choice(inner) for _ in range(dice.randint(0, 2))]
    for number, host in enumerate(hosts):
        parents[f"s{number}"] = host
        if dice.random() < 0.5:
            modulus = dice.randint(2, 3)
            filters[f"s{number}"] = _residue(modulus, dice.randrange(modulus))
    return Tree(root="root", parents=parents, filters=filters)


def _options(dice: Random, tree: Tree) -> NetworkOptions:
    streams = StreamOptions(
        publisher_control=dice.choice(("pdcc", "steady", "off")),
        subscriber_control=dice.choice(("sdcc", "off")),
        silence_us=dice.choice((200_000, 500_000)),
        query_us=dice.choice((200_000, 500_000)),
        receive_window_us=dice.choice((400_000, 2 * SECOND_US)),
        nack_window_us=100_000,
        retry_us=dice.choice((100_000, 400_000)),
        hold_us=dice.choice((20_000, 200_000)),
        cache_us=dice.choice((0, 300_000, 5 * SECOND_US)),
        cache_bytes=dice.choice((500, 100_000)),
        retain_us=dice.choice((0, SECOND_US)),
    )
    link = LinkOptions(bytes_per_s=dice.choice((20_000, 1_000_000)), delay_us=dice.randrange(500, 30_000))
    faults = {child: _faults(dice) for child in tree.parents}
    return NetworkOptions(
        streams=streams,
        link=link,
        faults=faults,
        queue_bytes=dice.choice((4_000, 1 << 20)),
        fair=dice.random() < 0.5,
        commit_us=dice.choice((1_000, 50_000)),
        before_us=3 * SECOND_US,
    )


def _faults(dice: Random) -> FaultOptions:
    cuts: list[tuple[int, int]] = []
    if dice.random() < 0.4:
        at_us = dice.randrange(PUBLISH_US)
        cuts.append((at_us, at_us + dice.randrange(50_000, 3 * SECOND_US)))
    return FaultOptions(
        loss=dice.choice((0.0, 0.02, 0.1)),
        duplication=dice.choice((0.0, 0.05)),
        reordering=dice.choice((0.0, 0.1)),
        reordering_delay_us=dice.randrange(1_000, 60_000),
        jitter_us=dice.choice((0, 5_000)),
        partitions=tuple(cuts),
        clock_offset_us=2 * SECOND_US,
        clock_drift_ppm=300,
    )
