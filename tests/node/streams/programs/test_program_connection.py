"""All programs together have so many bytes in memory, and each gets on all the same."""

from __future__ import annotations

import asyncio
import socket
import time
import weakref
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.client import StreamReader, StreamWriter
from penstock.client.streams.connection import StreamConnection
from penstock.core.streams import handshake
from penstock.core.streams.requests import Append, Begin, Fetch, Fetched, Row, encode
from penstock.node.streams.programs import program_connection
from penstock.node.streams.programs.program_connection import AnswerMemory, ProgramConnection, RequestMemory
from tests.kit.stream_programs import STREAM, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.streams.requests import Request
    from tests.kit.stream_programs import Running


@pytest.fixture
def node() -> Iterator[Running]:
    with running() as found:
        yield found


async def test_requests_wait_in_turn_and_one_always_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STREAM_REQUESTS_BYTES", 100)
    monkeypatch.setattr(limits, "STREAM_REQUEST_SMALL_BYTES", 0)
    requests = RequestMemory()
    await requests.take(500)  # alone, however large
    order: list[int] = []

    async def take(size: int) -> None:
        await requests.take(size)
        order.append(size)

    waiting = [asyncio.create_task(take(size)) for size in (60, 70, 30, 1)]
    await asyncio.sleep(0)
    assert order == []
    requests.give(500)
    await asyncio.sleep(0)
    assert order == [60]
    waiting[1].cancel()
    await asyncio.gather(waiting[1], return_exceptions=True)
    await asyncio.gather(*waiting[2:])
    assert (order, requests.taken) == ([60, 30, 1], 91)
    for size in order:
        requests.give(size)
    assert requests.taken == 0


async def test_a_turn_that_comes_while_it_is_given_up_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STREAM_REQUESTS_BYTES", 100)
    monkeypatch.setattr(limits, "STREAM_REQUEST_SMALL_BYTES", 0)
    requests = RequestMemory()
    await requests.take(100)
    first, second = (asyncio.create_task(requests.take(80)) for _ in range(2))
    await asyncio.sleep(0)
    requests.give(100)  # the first one's turn
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await asyncio.wait_for(second, 60)
    assert requests.taken == 80


def test_answers_become_smaller_the_more_wait() -> None:
    answers = AnswerMemory()
    sizes = []
    held = []
    for _ in range(2_000):
        one = answers.reserve(1 << 30)
        held.append(one)
        sizes.append(one.__enter__())
    assert sizes[0] == limits.STREAM_FETCH_BYTES
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == limits.STREAM_FETCH_LEAST_BYTES
    assert answers.taken < limits.STREAM_ANSWERS_BYTES + 2_000 * limits.STREAM_FETCH_LEAST_BYTES
    for one in held:
        one.__exit__(None, None, None)
    assert answers.taken == 0


def test_programs_that_do_not_read_leave_others_small_answers(
    node: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StreamWriter(node.url, STREAM, "w") as writer:
        for _ in range(40):
            writer.write("a/b", bytes(100_000))
    monkeypatch.setattr(limits, "STREAM_ANSWERS_BYTES", 8 << 20)
    idle = []
    for _ in range(3):
        one = socket.create_connection(("127.0.0.1", int(node.url.rpartition(":")[2])))
        one.sendall(handshake.encode(handshake.Hello(handshake.VERSION, "program", "idle")))
        one.sendall(b"".join(encode(Fetch(number, STREAM, 0)) for number in range(1, 200)))
        idle.append(one)
    answers = node.server._answers
    while node.call(lambda: sum(map(stalled, node.server._programs))) < 3:  # no machine buffers 200 MB
        time.sleep(0.01)
    with StreamConnection(node.url) as connection:
        assert 1 <= fetched(connection) < 10
        with StreamReader(node.url, STREAM, start="earliest", until="end") as reader:
            assert len(list(reader)) == 40
        for one in idle:
            one.close()
        while answers.taken:
            time.sleep(0.01)
        assert fetched(connection) == 10


def stalled(program: ProgramConnection) -> bool:
    return program._writer.transport.get_write_buffer_size() > 0


def fetched(connection: StreamConnection) -> int:
    found = connection.call(Fetch(0, STREAM, 0))
    assert isinstance(found, Fetched)
    return len(found.ticks)


def test_programs_beyond_the_room_wait_for_it_and_lose_nothing(
    node: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STREAM_REQUESTS_BYTES", 1_000)
    monkeypatch.setattr(limits, "STREAM_REQUEST_SMALL_BYTES", 500)
    connections = [StreamConnection(node.url) for _ in range(4)]
    numbers = []
    for at, connection in enumerate(connections):
        connection.call(Begin(0, STREAM, f"w{at}", "t"))
        for number in range(1, 6):
            append = Append(0, STREAM, f"w{at}", (number,), (Row("a/b", bytes(900)),))
            numbers.append((connection, connection.ask(append)))
    for connection, number in numbers:
        connection.answer(number, timeout_s=300)
    for connection in connections:
        connection.close()
    assert node.hosted.log.figures().messages == 20
    while node.server._requests.taken:
        time.sleep(0.01)


def test_readers_do_not_wait_for_those_who_fill_the_room(
    node: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StreamWriter(node.url, STREAM, "w") as writer:
        writer.write("a/b", "1")
    monkeypatch.setattr(limits, "STREAM_REQUESTS_BYTES", 100_000)
    port = int(node.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(handshake.encode(handshake.Hello(handshake.VERSION, "program", "slow")))
        slow.sendall((100_000).to_bytes(4, "big"))  # and nothing behind it
        while node.server._requests.taken < 100_000:
            time.sleep(0.01)
        with StreamConnection(node.url) as connection:
            connection.call(Begin(0, STREAM, "v", "t"))
            large = connection.ask(Append(0, STREAM, "v", (1,), (Row("a/b", bytes(10_000)),)))
            while not node.server._requests._waiting:
                time.sleep(0.01)
            with StreamReader(
                node.url, STREAM, consumer="c" * 1_000, start="earliest", until="end"
            ) as reader:
                assert [one.payload for one in reader] == [b"1"]
                reader.commit()
            slow.close()
            connection.answer(large, timeout_s=300)


def test_whoever_takes_no_answers_keeps_no_room_from_others(node: Running) -> None:
    with StreamWriter(node.url, STREAM, "w") as writer:
        for _ in range(40):
            writer.write("a/b", bytes(100_000))
    with socket.create_connection(("127.0.0.1", int(node.url.rpartition(":")[2]))) as idle:
        idle.sendall(handshake.encode(handshake.Hello(handshake.VERSION, "program", "idle")))
        asked: list[Request] = [Fetch(number, STREAM, 0) for number in range(1, 13)]
        asked += Begin(13, STREAM, "v", "t"), Append(14, STREAM, "v", (1,), (Row("a/b", bytes(100_000)),))
        idle.sendall(b"".join(map(encode, asked)))
        while node.hosted.log.figures().messages < 41 or node.server._requests.taken:
            time.sleep(0.01)
        assert node.server._answers.taken  # and nothing is taken yet


async def test_a_request_that_was_answered_is_in_nobodys_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kept:
        """A request that can be looked after."""

        id = 1

    dealt: list[weakref.ref[Kept]] = []
    monkeypatch.setattr(program_connection, "decode_request", lambda _: Kept())

    async def deal(_: object, request: object) -> None:
        assert isinstance(request, Kept)
        dealt.append(weakref.ref(request))

    here, there = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=here)
    program = ProgramConnection(writer, name="p", user="", frame_bytes=100, requests=RequestMemory())
    serving = asyncio.create_task(program.run(reader, deal))
    there.sendall((5).to_bytes(4, "big") + b"12345")
    while not dealt or program._tasks:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert dealt[0]() is None
    there.close()
    await serving
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(("size", "within_s"), [(1_000_000, 0.1), (3 << 20, 0.3)])
def test_a_request_that_does_not_come_gives_its_room_back(
    node: Running, monkeypatch: pytest.MonkeyPatch, size: int, within_s: float
) -> None:
    monkeypatch.setattr(limits, "STREAM_REQUEST_S", 0.1)
    with socket.create_connection(("127.0.0.1", int(node.url.rpartition(":")[2]))) as slow:
        slow.settimeout(300)
        slow.sendall(handshake.encode(handshake.Hello(handshake.VERSION, "program", "slow")))
        slow.sendall(size.to_bytes(4, "big") + b"x")
        said = b""
        while more := slow.recv(4_096):
            said += more
        assert f"was not complete within {within_s:g} s".encode() in said
    while node.server._requests.taken:
        time.sleep(0.01)
