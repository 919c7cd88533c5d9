"""A run is a function of its seed: replays agree, in this process and under other hash seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_lab.sim.faults import FaultOptions
from penstock_lab.sim.link import Link, LinkOptions
from penstock_lab.sim.world import World

NODES = ("ash", "birch", "cedar", "elm")
FAULTS = FaultOptions(
    loss=0.05,
    duplication=0.05,
    reordering=0.1,
    reordering_delay_us=20_000,
    jitter_us=3_000,
    partitions=((1_000_000, 1_200_000),),
    bandwidth_schedule=((2_000_000, 0), (2_500_000, 40_000)),
    clock_offset_us=5_000,
    clock_drift_ppm=100,
)


class Node:
    """Passes what it gets on to its neighbour until the message has made its hops."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.clock = world.local_clock(name, FAULTS)
        self.queue: deque[int] = deque()
        self.link: Link[int]

    def connect(self, neighbour: Node) -> None:
        self.link = self.world.link(
            f"{self.name}-{neighbour.name}",
            LinkOptions(bytes_per_s=20_000, delay_us=4_000, window_bytes=400),
            deliver=neighbour.take,
            on_ready=self.pump,
            faults=FAULTS,
        )

    def take(self, hops: int, now_us: int) -> None:
        self.world.record((self.name, hops, self.clock.now_us))
        if hops:
            self.queue.append(hops - 1)
            self.pump(now_us)

    def pump(self, now_us: int) -> None:
        assert now_us == self.world.now_us
        while self.queue and self.link.ready:
            self.link.send(self.queue.popleft(), 200)


def ring(seed: int) -> World:
    """Four nodes, every fault there is, 80 messages of 12 hops."""
    world = World(seed)
    nodes = [Node(world, name) for name in NODES]
    for node, neighbour in zip(nodes, nodes[1:] + nodes[:1], strict=True):
        node.connect(neighbour)
    for node in nodes:
        for _ in range(20):
            when_us = world.dice(f"arrivals {node.name}").randrange(1_500_000)
            world.clock.at(when_us, partial(node.take, 12, when_us))
    world.run(5_000_000)
    return world


def test_the_ring_meets_every_fault() -> None:
    every = list(ring(11).statistics().values())
    assert all(
        sum(getattr(link, fault) for link in every) > 0
        for fault in ("lost", "partitioned", "duplicated", "reordered")
    )
    assert sum(link.delivered for link in every) > 500


def test_a_replay_by_seed_is_identical() -> None:
    one, other = ring(11), ring(11)
    assert one.trace == other.trace
    assert one.fingerprint() == other.fingerprint()
    assert one.statistics() == other.statistics()


def test_different_seeds_give_different_runs() -> None:
    assert len({ring(seed).fingerprint() for seed in range(20)}) == 20


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_the_hash_seed_has_no_influence(hash_seed: str) -> None:
    program = f"import runpy; print(runpy.run_path({__file__!r})['ring'](11).fingerprint())"
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert result.stdout.strip() == ring(11).fingerprint()


def ignore(message: int, now_us: int) -> None:
    del message, now_us


def arrivals_over_one_link(seed: int, *, others: int) -> list[int]:
    """Over one link of a world that has `others` more of them, made and used first."""
    world, arrivals = World(seed), list[int]()
    options = LinkOptions(bytes_per_s=10_000)
    faults = FaultOptions(loss=0.3, jitter_us=500)
    for number in range(others):
        world.link(f"other {number}", options, deliver=ignore, faults=faults).send(0, 10)
    link: Link[int] = world.link(
        "watched", options, deliver=lambda _, now_us: arrivals.append(now_us), faults=faults
    )
    for number in range(50):
        world.clock.at(number * 10_000, partial(link.send, number, 10))
    world.run_until_idle()
    return arrivals


@settings(max_examples=25)
@given(seed=st.integers(0, 2**64 - 1), others=st.integers(1, 5))
def test_more_links_do_not_change_the_fate_of_one(seed: int, others: int) -> None:
    assert arrivals_over_one_link(seed, others=0) == arrivals_over_one_link(seed, others=others)
