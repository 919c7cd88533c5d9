"""A link between two real nodes whose other end is frozen: split, packed by each policy, and drained."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.client import Client
from penstock.errors import NodeError
from penstock.model.digest import Digest
from penstock_lab.experiments.pack import link_cost
from penstock_lab.experiments.result import Claim

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.client import Subscription
    from penstock_lab.rigs.cluster import ClusterNode

WAIT_S: Final = 300.0
"""Longest wait for events that are on their way, on a machine that is busy with other things."""

_numbers: Final = count(1)


class Frozen(NamedTuple):
    """Figures of a link whose other node was frozen."""

    receivers: int
    published: int
    got: int
    """Least that a receiver got."""
    exact: bool
    """Whether each receiver got, or was told in digests, every event."""
    ordered: bool
    private: int
    """Private queues while the node was frozen."""
    balanced: bool


def client(port: int) -> Client:
    """A client with a name of its own."""
    return Client(f"mqtt://127.0.0.1:{port}", client_id=f"fig7-{next(_numbers)}")


async def freeze(nodes: Sequence[ClusterNode], receivers: int, events: int) -> Frozen:
    """Freeze the second of two nodes, publish at the first, and let it go on."""
    topic = f"fig7/{next(_numbers)}"
    got: list[list[int]] = [[] for _ in range(receivers)]
    told = [0] * receivers
    near, far = nodes
    async with AsyncExitStack() as stack:
        tasks = []
        for number in range(receivers):
            receiver = await stack.enter_async_context(client(far.port))
            made = await receiver.subscribe(topic, qos=1, policy=link_cost.policy(number))
            tasks.append(asyncio.create_task(_collect(made, got[number], told, number)))
        sender = await stack.enter_async_context(client(near.port))
        private = 0
        try:
            far.process.freeze()
            try:
                await _until(near, lambda row: not row["connected"], "notice that a node is frozen")
                for number in range(events):
                    await sender.publish(topic, b"%d" % number, qos=1)
                row = await _until(near, lambda row: row["split"], "split its link")
                private = len(row["private"])
            finally:
                far.process.thaw()
            row = await _until(near, _drained, "drain its link")
            async with asyncio.timeout(WAIT_S):
                while any(len(each) + told[at] < events for at, each in enumerate(got)):
                    await asyncio.sleep(0.05)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    counts = row["events"]
    ends = counts["handed"] + counts["digested"] + counts["abandoned"]
    return Frozen(
        receivers,
        events,
        min(map(len, got)),
        all(len(each) + told[at] == events for at, each in enumerate(got)),
        all(each == sorted(set(each)) for each in got),
        private,
        counts["accepted"] == ends,
    )


async def _until(node: ClusterNode, holds: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
    """Wait until `holds` is true of the row of a node's only link; return the row."""
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                (row,) = (await asyncio.to_thread(node.status))["links"]
                if holds(row):
                    found: dict[str, Any] = row
                    return found
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise NodeError(f"node {node.name} did not {what} in {WAIT_S:g} s") from None


async def _collect(made: Subscription, got: list[int], told: list[int], at: int) -> None:
    async for item in made:
        if isinstance(item, Digest):
            told[at] += item.count
        else:
            got.append(int(item.payload))


def _drained(row: dict[str, Any]) -> bool:
    counts = row["events"]
    return row["connected"] and not row["split"] and not counts["queued"] and not counts["in_flight"]


def frozen_rows(frozen: Sequence[Frozen]) -> tuple[Claim, ...]:
    shown = ", ".join(f"{each.receivers}: {each.private} queues" for each in frozen)
    return (
        Claim(
            "a link that is behind is split into one queue for each policy",
            "one for each receiver",
            shown,
            ok=all(each.private == min(each.receivers, link_cost.POLICIES) for each in frozen),
            note="receivers with the same filter and policy share one; fails if there are more or fewer",
        ),
        Claim(
            "every receiver gets or is told every event, in order",
            "–",
            f"{frozen[-1].got:,} or more of {frozen[-1].published:,} events, digests count the rest",
            ok=all(each.exact and each.ordered and each.balanced for each in frozen),
            note="fails if events and digests of a receiver do not add up, or the link's account does not",
        ),
    )
