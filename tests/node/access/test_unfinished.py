"""Connections that are not finished: the oldest gives way, and none stays for long."""

from __future__ import annotations

import asyncio

from penstock.node.access.unfinished import UnfinishedConnections
from tests.kit.waiting import until


async def test_the_oldest_gives_way_to_one_too_many() -> None:
    closed: list[str] = []
    unfinished = UnfinishedConnections[str](most=2, wait_s=60, close=closed.append)
    for name in "abc":
        unfinished.add(name)
    assert closed == ["a"]
    unfinished.remove("b")  # it is finished
    unfinished.add("d")
    assert closed == ["a"]
    assert [name in unfinished for name in "abcd"] == [False, False, True, True]
    unfinished.close_all()
    assert closed == ["a", "c", "d"]
    assert len(unfinished) == 0


async def test_what_does_not_finish_in_time_is_closed_once() -> None:
    closed: list[str] = []
    unfinished = UnfinishedConnections[str](most=2, wait_s=0.01, close=closed.append)
    unfinished.add("finished")
    unfinished.add("silent")
    unfinished.remove("finished")
    unfinished.remove("finished")  # a connection that is finished is also lost one day
    await until(lambda: bool(closed))
    await asyncio.sleep(0.03)
    assert closed == ["silent"]
