"""Clients that come back: the row fails where the first waiting message comes late."""

from __future__ import annotations

import asyncio
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

from penstock_lab.bench.node import attach
from penstock_lab.rigs.brokers import Broker, our_node
from penstock_lab.rigs.returning_clients import quantile
from penstock_lab.rigs.way import SlowLink

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e


@pytest.fixture
def brokers() -> Iterator[tuple[Broker, Broker]]:
    """A node seen through a link of 60 bytes a second, and another as it is."""
    ready, done = Event(), Event()
    ports: list[int] = []

    async def relay(port: int) -> None:
        async with SlowLink(port, bytes_per_s=60) as link:
            ports.append(link.port)
            ready.set()
            await asyncio.to_thread(done.wait)

    with our_node({"data": "store"}) as node, our_node({"data": "store"}) as other:
        thread = Thread(target=lambda: asyncio.run(relay(node.port)))
        thread.start()
        try:
            assert ready.wait(60)
            yield Broker("slow", ports[0], node.pid), other
        finally:
            done.set()
            thread.join()


def test_a_late_first_event_fails_the_row(
    brokers: tuple[Broker, Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attach, "EVENTS", 2)
    taken = attach.Taken(), attach.Taken()
    attach.come_back(brokers, taken, clients=2, rounds=1)
    assert quantile(taken[0].waited, 50) > attach.GOAL_MS
    few, many, *others = attach.rows_of(taken, taken, "the other")
    assert (few.ok, few.ratio is not None and few.ratio < 1) == (False, True)
    assert few.name.startswith("attach request to first event")
    assert "fails if" in few.told
    assert many.value == few.value
    assert all(row.ok is None for row in others)
    assert all(waited <= total for waited, total in zip(taken[1].waited, taken[1].total, strict=True))
