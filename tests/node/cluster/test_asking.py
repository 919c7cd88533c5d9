"""Nodes that ask each other, over a network that loses frames."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from penstock.errors import ClusterError
from tests.kit.cluster import Network, members

if TYPE_CHECKING:
    from penstock.node.cluster.peer import ClusterPeer

LONG_US = 120_000_000


async def test_a_question_is_answered_at_once_or_later_or_refused() -> None:
    async with members(Network(3, lose=0.2, repeat=0.2, delay_s=0.01), "n1", "n2") as (n1, n2):

        def now(peer: ClusterPeer, body: bytes) -> bytes:
            return peer.seen.name.encode() + b" " + body

        async def later(_: ClusterPeer, body: bytes) -> bytes:
            await asyncio.sleep(0.01)
            return body[::-1]

        def never(_: ClusterPeer, body: bytes) -> bytes:
            raise ClusterError("not today")

        n2.service.questions.handlers.update({"now": now, "later": later, "never": never})
        ask, peer = n1.service.questions.ask, n1.to("n2")
        assert await ask(peer, "now", b"x", wait_us=LONG_US) == b"n1 x"
        found = await asyncio.gather(*(ask(peer, "later", b"%d!" % n, wait_us=LONG_US) for n in range(50)))
        assert found == [(b"%d!" % n)[::-1] for n in range(50)]
        with pytest.raises(ClusterError, match="node n2: not today"):
            await ask(peer, "never", wait_us=LONG_US)
        with pytest.raises(ClusterError, match="node n2: no node answers 'what' here"):
            await ask(peer, "what", wait_us=LONG_US)
        assert not len(peer.asking)


async def test_whoever_asks_a_node_that_is_silent_or_away_is_told() -> None:
    network = Network()
    async with members(network, "n1", "n2") as (n1, n2):
        n2.service.questions.handlers["now"] = lambda _, body: body
        ask, peer = n1.service.questions.ask, n1.to("n2")
        network.freeze("n2")
        with pytest.raises(ClusterError, match="no answer to now in time"):
            await ask(peer, "now", wait_us=10_000)
        waiting = asyncio.ensure_future(ask(peer, "now", wait_us=LONG_US))
        await asyncio.sleep(0)
        network.cut("n1", "n2")
        with pytest.raises(ClusterError, match="the node is away"):
            await waiting
        with pytest.raises(ClusterError, match="node n2 is away"):
            await ask(peer, "now", wait_us=LONG_US)
        network.thaw("n2")
        network.mend("n1", "n2")
        assert await ask(peer, "now", b"x", wait_us=LONG_US) == b"x"
