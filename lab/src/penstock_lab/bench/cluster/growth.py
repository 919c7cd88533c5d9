"""A cluster that grows on one machine: joining, cost at rest, one hop; and many subscriptions elsewhere."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import GoalMissed
from penstock.mqtt.codes import V5
from penstock_lab.bench.load.client import LoadShape
from penstock_lab.bench.load.generator import Load
from penstock_lab.bench.result import BenchmarkRow
from penstock_lab.rigs.blocking_client import connect, subscribe_all
from penstock_lab.rigs.cluster import ClusterNode, await_met, cluster

if TYPE_CHECKING:
    from collections.abc import Mapping

SHAPE: Final = LoadShape(name="QoS 0, 1 → 1")
CLIENT: Final = 500
"""Subscriptions of one client."""
KNOWN_S: Final = 120.0
"""Longest wait until another node knows all subscriptions."""


@dataclass(frozen=True, slots=True)
class GrowthEffort:
    """Sizes of clusters, and how long each is measured."""

    sizes: tuple[int, ...]
    idle_s: float
    run_s: float
    rounds: int
    subscriptions: int


def measure(effort: GrowthEffort, config: Mapping[str, Any]) -> list[BenchmarkRow]:
    """Rows for each size, and for the subscriptions."""
    rows: list[BenchmarkRow] = []
    with TemporaryDirectory(prefix="penstock-growth-") as folder, ExitStack() as stack:
        nodes: list[ClusterNode] = []
        joined_s = 0.0
        while len(nodes) < max(effort.sizes):
            joined_s = _join(nodes, Path(folder), stack, config)
            if len(nodes) in effort.sizes:
                rows += _sized(nodes, joined_s, effort)
    return rows + _remote(effort, config)


def _join(nodes: list[ClusterNode], folder: Path, stack: ExitStack, config: Mapping[str, Any]) -> float:
    """Start one more node; how long it took from its being up until all know all."""
    seed = [nodes[0].fabric] if nodes else []
    node = ClusterNode(folder, f"n{len(nodes) + 1}", join=seed, **config)
    stack.callback(node.process.end)
    node.process.start()
    nodes.append(node)
    start_s = time.perf_counter()
    await_met(nodes)
    return time.perf_counter() - start_s


def _sized(nodes: list[ClusterNode], joined_s: float, effort: GrowthEffort) -> list[BenchmarkRow]:
    count = len(nodes)
    what = f"{count} node{'s' if count > 1 else ''}"
    brokers = [node.broker for node in nodes]
    time.sleep(0.5)  # what joining has left to do
    before = [each.cpu_ns() for each in brokers]
    start_s = time.perf_counter()
    time.sleep(effort.idle_s)
    lasted_s = time.perf_counter() - start_s
    busy = mean((each.cpu_ns() - was) / 1e9 / lasted_s for each, was in zip(brokers, before, strict=True))
    with Load(SHAPE, broker="cluster", port=nodes[-1].port, from_port=nodes[0].port) as load:
        messages = load.messages_for(effort.run_s)
        rate = median(load.run(messages) for _ in range(effort.rounds))
    rows = [
        BenchmarkRow(f"{what}: processor at rest, each", 100 * busy, "%"),
        BenchmarkRow(f"{what}: memory, each", mean(each.memory_bytes() for each in brokers) / 1e6, "MB"),
        BenchmarkRow(f"{what}: from the first to the last, {SHAPE.name}", rate, "msg/s"),
    ]
    if count > 1:
        rows.insert(0, BenchmarkRow(f"{what}: the last is up, all know all", 1_000 * joined_s, "ms"))
    return rows


def _remote(effort: GrowthEffort, config: Mapping[str, Any]) -> list[BenchmarkRow]:
    """Memory of a node for subscriptions of clients at another one."""
    wanted = effort.subscriptions
    with cluster(2, **config) as (near, far), ExitStack() as stack:
        before = near.broker.memory_bytes()
        for first in range(0, wanted, CLIENT):
            client = stack.enter_context(connect(far.port, f"many-{first}", version=V5))
            numbers = range(first, min(first + CLIENT, wanted))
            topics = [f"ward/{number // 100}/bed/{number}/pulse" for number in numbers]
            subscribe_all(client, topics, qos=0, version=V5)
        until_s = time.monotonic() + KNOWN_S
        while near.status()["links"][0]["filters"] < wanted:
            if time.monotonic() > until_s:
                raise GoalMissed(f"the other node does not know {wanted:,} subscriptions after {KNOWN_S:g} s")
            time.sleep(0.1)
        after = near.broker.memory_bytes()
    return [
        BenchmarkRow(f"memory of a node with {wanted:,} subscriptions at another node", after / 1e6, "MB"),
        BenchmarkRow("memory for each of them", (after - before) / wanted / 1_000, "KB"),
    ]
