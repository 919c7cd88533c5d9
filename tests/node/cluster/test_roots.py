"""What the roots of clients know of their sessions."""

from __future__ import annotations

import asyncio

import pytest

from penstock.core.cluster.handover import body_of, read_body
from penstock.core.cluster.sessions import Record
from penstock.node.cluster.roots import COMING_US
from tests.kit.cluster import Network, members, owned_by, settled
from tests.kit.waiting import until


@pytest.mark.slow
async def test_a_client_that_never_came_to_a_node_is_where_it_was() -> None:
    """The question of that node has come late, when the client was elsewhere already."""
    async with members(Network(), "n1", "n2", "n3") as nodes:
        n1, n2, n3 = nodes
        client = owned_by(nodes, "n3")
        await n1.connect(client, session_expiry_s=3600)
        roots, directory = n1.service.moves.roots, n3.service.moves.roots.directory
        roots.epochs[client] = 1
        directory.drop(client, n3.broker.clock(), "n1")

        def place(now_us: int) -> None:
            directory.drop(client, now_us + 1, "n2")
            directory.place(client, "n2", n2.service.own.incarnation, now_us=now_us)
            roots.changed(client)

        place(n3.broker.clock())
        await until(lambda: directory.has(client) != directory.get(client))  # the holder has told the root
        await settled(*nodes)
        found = directory.get(client)
        assert found is not None
        assert found.coming, "it may still come"
        place(n3.broker.clock() - COMING_US)
        await until(lambda: (found := directory.get(client)) is not None and not found.coming)
        found = directory.get(client)
        assert found is not None
        assert found.holder == "n1"


async def test_a_client_that_is_still_on_its_way_is_waited_for() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        on_its_way = asyncio.Event()

        async def arrive() -> None:
            await on_its_way.wait()

        n2.service.moves.follow("phone", arrive())
        asked = asyncio.ensure_future(n1.service.moves.ask("n2", "arrived", body_of("phone")))
        await settled(n1, n2)
        assert not asked.done()
        on_its_way.set()
        assert read_body(await asked, list[Record]) == []
