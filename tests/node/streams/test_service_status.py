"""The status of streams while they are used."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import msgspec

from penstock.client import Client
from penstock.core.streams.wire import Record, encode_record
from penstock.model.instant import SECOND_US
from penstock.node.streams.log.sqlite import SqliteLog
from tests.kit.stream_nodes import streams_node
from tests.kit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.node.streams.status import StreamRow
    from tests.kit.stream_nodes import WithStreams


def one(node: WithStreams) -> StreamRow:
    """The only stream."""
    (found,) = node.streams.status().streams
    return found


async def test_a_stream_that_is_published_and_read(tmp_path: Path) -> None:
    async with streams_node(data=tmp_path) as node:
        row = one(node)
        assert (row.name, row.topics, row.host, row.hosted) == ("orders", ("orders/#",), "node", True)
        assert row.log is not None
        assert (row.state, row.published, row.log.messages, row.log.fault) == ("live", 0, 0, "")
        url = f"mqtt://127.0.0.1:{node.port}"
        async with Client(url) as reader, Client(url) as publisher:
            subscription = await reader.subscribe("orders/#", qos=1)
            for number in range(5):
                await publisher.publish("orders/new", b"%d" % number, qos=1)
            for _ in range(5):
                await subscription.get()
            row = one(node)
            assert row.log is not None
            assert row.published == row.delivered == row.log.messages == row.log.committed == 5
            assert (row.readers.live, row.readers.away) == (1, 0)
            assert row.position <= row.durable
            assert row.log.commits >= 1
            assert row.log.commit_us > 0
            assert row.lag_s < 5
        await until(lambda: one(node).readers.live == 0)


async def test_a_log_that_takes_nothing_is_told_first(tmp_path: Path) -> None:
    async with streams_node(data=tmp_path) as node:
        log = node.orders.log
        assert isinstance(log, SqliteLog)
        log._commits.fault = "no space left on the disk"
        status = node.streams.status()
        assert status.streams[0].state == "stopped"
        assert status.faults == ("stream 'orders': no space left on the disk",)


async def test_a_log_that_is_full_is_told(tmp_path: Path) -> None:
    async with streams_node(data=tmp_path) as node:
        assert node.streams.status().faults == ()
        hosting = node.orders.hosting
        node.orders.hosting = msgspec.structs.replace(hosting, bytes=1)
        node.orders.publish_many([b"12"])
        status = node.streams.status()
        assert status.streams[0].state == "stopped"
        (fault,) = status.faults
        assert fault.startswith("stream 'orders': the log is full (1 bytes): let its readers catch up")


async def test_a_clock_that_is_behind_is_told_while_it_is(tmp_path: Path) -> None:
    async with streams_node(data=tmp_path) as node:
        node.orders.publish_many([b"1"])
        await until(lambda: node.orders.pubend.published == 1)
        clock = node.streams.broker.clock
        node.streams.broker.clock = lambda: clock() - 7_200_000_000
        (fault,) = node.streams.status().faults
        assert re.match(
            r"stream 'orders': the clock of this machine is 7,\d\d\d s behind the stream; ticks", fault
        )
        node.streams.broker.clock = clock
        assert node.streams.status().faults == ()


async def test_commits_a_second_are_those_of_the_last_second(tmp_path: Path) -> None:
    async with streams_node(data=tmp_path) as node:
        collector = node.streams._status
        now_us = node.broker.clock()
        collector._log(node.orders, now_us=now_us)
        done = asyncio.Event()
        node.orders.publish_many((encode_record(Record("orders/a", b"1")),), done.set)
        await done.wait()
        row = collector._log(node.orders, now_us=now_us + SECOND_US // 2)
        assert row.commits_per_s == 0.0  # too soon to tell
        row = collector._log(node.orders, now_us=now_us + 2 * SECOND_US)
        assert 0.5 <= row.commits_per_s <= 2.0
