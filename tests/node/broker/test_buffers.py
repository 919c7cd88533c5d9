"""Sizes of writes and buffers: small for a slow client, by its pace where time counts."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.node.broker.buffers import SendBuffers
from penstock.node.broker.pacing import not_sent

if TYPE_CHECKING:
    from collections.abc import Iterator

LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", None)


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    """The sending end of a connection over loopback."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
        server.accept()[0],
    ):
        yield near


def never() -> None:
    raise AssertionError("the kernel was not full")


def full(buffers: SendBuffers) -> bool:
    return buffers.full


def unsent(sock: socket.socket) -> int:
    assert LOWAT is not None
    return sock.getsockopt(socket.IPPROTO_TCP, LOWAT)


def busy(buffers: SendBuffers, *, bytes_per_s: float, pauses: int) -> None:
    """Pauses of 4 ms in which the client takes what it can."""
    taken = 0
    for _ in range(pauses):
        buffers.paused(taken)
        taken += round(bytes_per_s * 0.004)
        buffers.resumed(4_000, taken=taken, timed=True)


@pytest.mark.skipif(LOWAT is None, reason="the system has no TCP_NOTSENT_LOWAT")
def test_a_long_pause_makes_buffers_small_and_a_short_one_large(sock: socket.socket) -> None:
    buffers = SendBuffers(sock, again=never)
    buffers.resumed(limits.SLOW_PAUSE_US, taken=0, timed=False)
    assert buffers.size == limits.FLUSH_BYTES
    buffers.resumed(limits.SLOW_PAUSE_US + 1, taken=0, timed=False)
    assert buffers.size == unsent(sock) == limits.SLOW_FLUSH_BYTES
    before = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    buffers.resumed(limits.FAST_PAUSE_US, taken=0, timed=False)
    assert buffers.size == limits.FLUSH_BYTES
    assert unsent(sock) == limits.UNSENT_LOWAT
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > before


@pytest.mark.skipif(LOWAT is None, reason="the system has no TCP_NOTSENT_LOWAT")
def test_where_time_counts_a_single_short_pause_proves_nothing(sock: socket.socket) -> None:
    buffers = SendBuffers(sock, again=never)
    buffers.slow()
    assert buffers.size == limits.TIMED_FLUSH_BYTES
    assert unsent(sock) == 2 * limits.TIMED_FLUSH_BYTES
    buffers.paused(0)
    buffers.resumed(10, taken=600, timed=True)
    busy(buffers, bytes_per_s=60_000, pauses=100)
    assert buffers.size == limits.TIMED_FLUSH_BYTES


@pytest.mark.parametrize(
    ("bytes_per_s", "size"), [(50_000, 256), (500_000, 1_024), (5_000_000, 8_192), (20_000_000, 32_768)]
)
def test_where_time_counts_sizes_follow_the_pace(bytes_per_s: float, size: int) -> None:
    buffers = SendBuffers(None, again=never)
    buffers.slow()
    busy(buffers, bytes_per_s=bytes_per_s, pauses=50)
    assert buffers.size == size
    buffers.slow()
    assert buffers.size == limits.TIMED_FLUSH_BYTES


def test_little_is_kept_only_while_nothing_is_proved(sock: socket.socket) -> None:
    buffers = SendBuffers(sock, again=never)
    buffers.keep_little()
    assert buffers.size == limits.FLUSH_BYTES
    if LOWAT is not None:
        assert unsent(sock) == limits.SLOW_FLUSH_BYTES
        buffers.slow()
        buffers.keep_little()
        assert unsent(sock) == 2 * limits.TIMED_FLUSH_BYTES


async def test_a_kernel_that_holds_enough_is_asked_again_until_it_has_sent_that() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_024)
        with socket.create_connection(server.getsockname()) as near, server.accept()[0] as far:
            near.setblocking(False)
            far.setblocking(False)
            asked = asyncio.Event()
            buffers = SendBuffers(near, again=asked.set)
            for _ in range(200):
                with suppress(BlockingIOError):
                    near.send(bytes(1_000))
            assert not full(buffers), "a fast client may have as much as the kernel takes"
            buffers.slow()
            if not not_sent(near)[0]:
                pytest.skip("the system does not tell what was not sent")
            assert full(buffers)
            async with asyncio.timeout(120):
                while full(buffers):
                    with suppress(BlockingIOError):
                        far.recv(65_536)
                    await asked.wait()
                    asked.clear()
            buffers.close()
