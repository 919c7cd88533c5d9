"""Programs at a node that refuses, is lost in a bad moment, or has others at it."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from penstock import limits
from penstock.client import StreamReader, StreamWriter
from penstock.client.streams import reader as stream_reader
from penstock.client.streams.connection import StreamConnection
from penstock.client.streams.writer import AHEAD
from penstock.core.streams import handshake
from penstock.core.streams.requests import (
    Abort,
    Append,
    Begin,
    Begun,
    Commit,
    Done,
    Failed,
    Leave,
    Row,
    Staged,
    decode_request,
    encode,
)
from penstock.core.streams.wire import HEAD_BYTES, frame_size
from penstock.errors import InputError, StreamRefused, Unreachable
from tests.kit.stream_programs import STREAM, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.streams.requests import Figures, Request
    from tests.kit.stream_programs import Running


@pytest.fixture
def node() -> Iterator[Running]:
    with running() as found:
        yield found


def full(node: Running, *, whether: bool) -> None:
    hosting = node.hosted.hosting
    node.hosted.hosting = type(hosting)(STREAM, hosting.topics, bytes=1 if whether else 1 << 30)


def read(node: Running) -> list[bytes]:
    with StreamReader(node.url, STREAM, start="earliest", until="end") as reader:
        return [message.payload for message in reader]


def under_way(writer: StreamWriter, count: int) -> None:
    """As many requests of one message each, asked and not answered yet."""
    for number in range(1, count + 1):
        row = writer._row("a/b", str(number), 0, None, None)
        request = Append(0, STREAM, "w", (number,), (row,))
        writer._under_way.append((writer._connection.ask(request), [(number, row)]))
        writer._highest = number


def test_a_refusal_while_more_is_sent_loses_nothing(node: Running) -> None:
    with StreamWriter(node.url, STREAM, "w") as writer:
        full(node, whether=True)
        under_way(writer, AHEAD)
        for number in range(AHEAD + 1, 2_000):
            writer._rows.append((number, writer._row("a/b", str(number), 0, None, None)))
        with pytest.raises(StreamRefused, match="is full"):
            writer.flush()
        full(node, whether=False)
        writer.flush()
    assert read(node) == [b"%d" % number for number in range(1, 2_000)]


def test_large_messages_that_were_refused_are_sent_again_in_requests_that_a_node_takes(node: Running) -> None:
    with StreamWriter(node.url, STREAM, "w") as writer:
        writer.write("a/b", "0")
        writer.flush()
        full(node, whether=True)
        sent = [bytes([number]) * 1_000_000 for number in range(30)]
        for payload in sent:
            try:
                writer.write("a/b", payload)
            except StreamRefused:
                continue
        full(node, whether=False)
        if writer._under_way:  # refused before
            with pytest.raises(StreamRefused, match=r"is full|begin again"):
                writer.flush()
        writer.flush()
    assert read(node)[1:] == sent


def test_messages_with_many_properties_are_no_request_that_is_too_large(node: Running) -> None:
    properties = {f"name{number}": "x" * 20_000 for number in range(3)}
    with StreamWriter(node.url, STREAM, "w") as writer:
        for _ in range(400):
            writer.write("a/b", "x", properties=properties)
    assert len(read(node)) == 400


def test_nothing_is_taken_past_a_refusal_over_a_new_connection() -> None:
    """The first message waits, the second is refused, the node ends: the third must not come before it."""
    listening = socket.create_server(("127.0.0.1", 0))
    taken: list[tuple[int, ...]] = []

    def serve() -> None:
        with listening:
            with _met(listening) as first:
                while not isinstance(request := _asked(first), Append) or request.numbers[0] < 3:
                    if isinstance(request, Append) and request.numbers == (2,):
                        first.sendall(encode(Failed(request.id, "full", "no room")))
            with _met(listening) as second:
                while (request := _asked(second)) is not None:
                    if isinstance(request, Append):
                        taken.append(request.numbers)
                        second.sendall(encode(Done(request.id)))

    thread = threading.Thread(target=serve)
    thread.start()
    writer = StreamWriter(f"stream://127.0.0.1:{listening.getsockname()[1]}", STREAM, "w")
    try:
        under_way(writer, 3)
        with pytest.raises(StreamRefused, match="no room"):
            writer.flush()
        writer.flush()
    finally:
        writer.close()
        thread.join(10)
    assert [number for numbers in taken for number in numbers] == [1, 2, 3]


def _met(listening: socket.socket) -> socket.socket:
    connected, _ = listening.accept()
    size = frame_size(_exactly(connected, HEAD_BYTES))
    handshake.decode_hello(_exactly(connected, size))
    connected.sendall(handshake.encode(handshake.Welcome(handshake.VERSION, "home")))
    return connected


def _asked(connected: socket.socket) -> Request | None:
    head = _exactly(connected, HEAD_BYTES)
    if not head:
        return None
    request = decode_request(_exactly(connected, frame_size(head)))
    if isinstance(request, Begin):
        connected.sendall(encode(Begun(request.id, 0, ("a/#",), 1 << 20)))
    return request


def _exactly(connected: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := connected.recv(count - len(data))):
        data += more
    return data


@pytest.mark.parametrize("number", [0, -1, 1 << 62])
def test_a_number_that_is_none_is_refused_and_not_passed_over(node: Running, number: int) -> None:
    with StreamWriter(node.url, STREAM, "w") as writer, pytest.raises(InputError, match=f"number {number}"):
        writer.write("a/b", "x", number=number)


def test_a_reader_that_was_refused_asks_again(node: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    with StreamReader(node.url, STREAM, start="earliest") as reader, StreamWriter(node.url, STREAM) as writer:
        reads = node.server._reads[STREAM]
        monkeypatch.setattr(reads, "fetch", _refuse)
        writer.write("a/b", "1")
        writer.flush()
        with pytest.raises(StreamRefused, match="not at the moment"):
            reader.read(timeout_s=120)
        monkeypatch.undo()
        found = reader.read(timeout_s=120)
        assert found is not None
        assert found.payload == b"1"


async def _refuse(*_: object) -> None:
    raise StreamRefused("not at the moment", code="full")


def test_a_reader_waits_no_longer_than_told_though_the_node_answers(
    node: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STREAM_WAIT_MS", 20)
    with StreamReader(node.url, STREAM) as reader, pytest.raises(TimeoutError):
        reader.read(timeout_s=0.3)


def test_a_reader_waits_no_longer_than_told_though_the_node_is_gone() -> None:
    with running() as node:
        port = int(node.url.rpartition(":")[2])
        reader = StreamReader(node.url, STREAM)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            reader.read(timeout_s=0.1)
    with running(port=port) as node, reader:
        with StreamWriter(node.url, STREAM) as writer:
            writer.write("a/b", "1")
        found = reader.read(timeout_s=120)
        assert found is not None
        assert found.payload == b"1"


def test_patience_counts_over_several_short_reads() -> None:
    with running() as node:
        reader = StreamReader(node.url, STREAM, patience_s=0.3)
    with reader, pytest.raises(Unreachable):
        _read_in_short(reader)


def _read_in_short(reader: StreamReader) -> None:
    for _ in range(100):
        with suppress(TimeoutError):
            reader.read(timeout_s=0.05)


def test_a_consumer_begins_at_the_first_message_though_others_go_meanwhile(
    node: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StreamWriter(node.url, STREAM, "w") as writer:
        for number in range(10):
            writer.write("a/b", str(number))
    with StreamReader(node.url, STREAM, start="earliest", until="end") as before:
        ticks = [message.tick for message in before]
    described = stream_reader.described

    def then_trimmed(connection: StreamConnection, stream: str) -> Figures:
        found = described(connection, stream)
        node.trim(ticks[4])
        return found

    monkeypatch.setattr(stream_reader, "described", then_trimmed)
    with StreamReader(node.url, STREAM, consumer="c", start="earliest", until="end") as reader:
        assert [message.payload for message in reader] == [b"%d" % number for number in range(4, 10)]
    with pytest.raises(StreamRefused, match="are no longer in the log"):
        StreamReader(node.url, STREAM, consumer="d", start=ticks[0])


def test_another_kind_of_port_is_told(node: Running) -> None:
    port = node.node.listeners[0].port
    with pytest.raises(Unreachable, match="is this a port for streams"):
        StreamReader(f"stream://127.0.0.1:{port}", STREAM)


def test_who_may_not_write_has_no_business_with_writers_and_batches() -> None:
    more = """
acl:
  - {action: publish, user: ann}
  - {action: subscribe}
  - {action: publish, topic: b/#}
"""
    with running("", more) as node, StreamConnection(node.url) as connection:
        for request in (
            Begin(0, STREAM, "shop", "0"),
            Leave(0, STREAM, "shop", "0"),
            Commit(0, STREAM, "spark-query:1", 1_000_000, ()),
            Abort(0, STREAM, ("x",)),
            Append(0, STREAM, "shop", (1,), (Row("a/b", b""),)),
        ):
            with pytest.raises(StreamRefused, match="not allowed to write into stream 's'") as caught:
                connection.call(request)
            assert caught.value.code == "denied"


def test_one_topic_is_enough_to_write() -> None:
    more = """
acl:
  - {action: publish, topic: a/shut, allow: false}
  - {topic: a/+}
"""
    with running("", more) as node, StreamWriter(node.url, STREAM, "w") as writer:
        writer.write("a/b", "1")
        writer.flush()
        writer.write("a/shut", "1")
        with pytest.raises(StreamRefused, match="not allowed to publish on 'a/shut'"):
            writer.flush()
        writer.abandon()


def test_what_is_not_durable_is_not_told_to_be_there(node: Running) -> None:
    """A writer begins anew while messages of the one before are only in the node's memory."""
    log: Any = node.hosted.log
    committed = log._committed
    waiting: list[tuple[int, int]] = []
    first = StreamWriter(node.url, STREAM, "w")
    log._committed = lambda until, claimed: waiting.append((until, claimed))
    first.write("a/b", "1")
    while not waiting:
        time.sleep(0.01)
    with StreamConnection(node.url) as connection:
        number = connection.ask(Begin(0, STREAM, "w", "token"))
        with pytest.raises(TimeoutError):
            connection.answer(number, timeout_s=0.2)
        log._committed = committed
        node.call(lambda: [committed(*each) for each in waiting])
        found = connection.answer(number, timeout_s=120)
    first._connection.close()
    assert isinstance(found, Begun)
    assert found.last == 1


def test_streams_that_a_user_may_not_know_are_not_named() -> None:
    more = """
acl:
  - {action: publish, topic: t/#}
"""
    with (
        running("", more, hosts=2) as node,
        pytest.raises(StreamRefused, match=r"unknown stream 'u'; known streams: t$"),
    ):
        StreamWriter(node.url, "u", "w")


@pytest.mark.parametrize("wrong", [{"start": -1}, {"start": 10**20}, {"until": 1 << 62}])
def test_a_tick_that_is_none_is_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="ticks are from 0 to"):
        StreamReader("stream://127.0.0.1:1", STREAM, **wrong)


def test_after_a_fork_nobody_takes_the_answers_of_another(
    node: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StreamWriter(node.url, STREAM, "w") as writer, StreamReader(node.url, STREAM) as reader:
        with monkeypatch.context() as forked:
            forked.setattr(os, "getpid", lambda: -1)
            with pytest.raises(InputError, match="after a fork make a reader or writer anew"):
                reader.read(timeout_s=0)
            with pytest.raises(InputError, match="belongs to process"):
                writer.write("a/b", "child")
            writer.abandon()
        writer.write("a/b", "parent")
        writer.flush()
        assert next(reader).payload == b"parent"


def test_programs_that_go_before_their_answers_leave_no_traceback(
    node: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """The commit is refused, and the answers come, when nobody is there any more."""
    host, port = node.url.removeprefix("stream://").split(":")
    hello = handshake.encode(handshake.Hello(handshake.VERSION, "program", "p"))
    asked = encode(Commit(1, STREAM, "w", 0, (Staged("none", 1),))) + encode(Begin(2, STREAM, "v", "t"))
    for _ in range(20):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(hello + asked)
    node.run(_collected())
    assert [record.message for record in caplog.records if record.exc_info] == []


async def _collected() -> None:
    await asyncio.sleep(0.3)
    gc.collect()  # a task whose fault nobody has seen says so when it is collected
    await asyncio.sleep(0)
