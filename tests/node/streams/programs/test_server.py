"""Programs at a node: real sockets, blocking readers and writers in the test's thread."""

from __future__ import annotations

import socket
import ssl
import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock import limits
from penstock.client import StreamReader, StreamWriter
from penstock.client.streams.connection import StreamConnection
from penstock.client.streams.reader import forget_consumer, list_streams
from penstock.core.streams import handshake
from penstock.core.streams.requests import (
    Abort,
    Append,
    Begin,
    Commit,
    Cuts,
    Fetch,
    Fetched,
    Place,
    Placed,
    Row,
    Settle,
    Split,
    Stage,
    Staged,
)
from penstock.errors import InputError, StreamRefused, Unreachable
from penstock_lab.rigs.nats_server import nats_server
from tests.kit import certificates
from tests.kit.passwords import cheap
from tests.kit.stream_programs import STREAM, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.stream_programs import Running


@pytest.fixture
def node() -> Iterator[Running]:
    with running() as found:
        yield found


@pytest.fixture
def connection(node: Running) -> Iterator[StreamConnection]:
    with StreamConnection(node.url) as found:
        found.open()
        yield found


def write(node: Running, *payloads: str, name: str = "w") -> None:
    with StreamWriter(node.url, STREAM, name) as writer:
        for payload in payloads:
            writer.write("a/b", payload)


def put(writer: StreamWriter, payload: str, *, topic: str = "a/b") -> None:
    writer.write(topic, payload)
    writer.flush()


def read(node: Running, *, start: object = "earliest") -> list[str]:
    with StreamReader(node.url, STREAM, start=start, until="end") as reader:  # type: ignore[arg-type]
        return [message.payload.decode() for message in reader]


def fetched(connection: StreamConnection, since: int, until: int, **more: Any) -> Fetched:
    answer = connection.call(Fetch(0, STREAM, since, until, **more))
    assert isinstance(answer, Fetched)
    return answer


def test_what_is_written_is_read_in_order(node: Running) -> None:
    payloads = [str(number) for number in range(2_000)]
    write(node, *payloads)
    assert read(node) == payloads


def test_a_message_has_all_that_was_written(node: Running) -> None:
    with StreamWriter(node.url, STREAM, "shop") as writer:
        number = writer.write(
            "a/b", b"\0x", ts_us=77, content_type="text/plain", properties={"one": "1", "two": ""}
        )
    with StreamReader(node.url, STREAM, start="earliest") as reader:
        message = reader.read(timeout_s=120)
    assert message is not None
    assert (message.stream, message.topic, message.payload, message.ts_us) == (STREAM, "a/b", b"\0x", 77)
    assert (message.sender, message.seq, number) == ("shop", 1, 1)
    assert message.content_type == "text/plain"
    assert message.properties == (("one", "1"), ("two", ""))


def test_a_reader_waits_for_what_comes(node: Running) -> None:
    with StreamReader(node.url, STREAM) as reader:
        with pytest.raises(TimeoutError):
            reader.read(timeout_s=0.05)
        write(node, "late")
        message = reader.read(timeout_s=120)
    assert message is not None
    assert message.payload == b"late"


def test_a_consumer_goes_on_where_it_committed(node: Running) -> None:
    write(node, *"abcd")
    with StreamReader(node.url, STREAM, consumer="c", start="earliest") as reader:
        assert [next(reader).payload for _ in range(3)] == [b"a", b"b", b"c"]
        reader.commit()
        next(reader)
    with StreamReader(node.url, STREAM, consumer="c", start="new") as reader:
        assert next(reader).payload == b"d"
        assert node.call(node.server.figures)[0].connected
    rows = node.call(node.server.figures)
    assert [(row.stream, row.name) for row in rows] == [(STREAM, "c")]


def test_a_consumer_never_goes_back(node: Running, connection: StreamConnection) -> None:
    connection.call(Settle(0, STREAM, "c", 50))
    connection.call(Settle(0, STREAM, "c", 20))
    assert connection.call(Place(0, STREAM, "c")) == Placed(3, 50)


def test_places_and_messages_survive_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as node:
        write(node, *"abc")
        with StreamReader(node.url, STREAM, consumer="c", start="earliest") as reader:
            next(reader)
            reader.commit()
    with running(tmp_path) as node, StreamReader(node.url, STREAM, consumer="c") as reader:
        assert [next(reader).payload for _ in range(2)] == [b"b", b"c"]


def test_the_log_waits_for_a_consumer_and_not_for_a_forgotten_one(node: Running) -> None:
    write(node, *"abc")
    with StreamReader(node.url, STREAM, consumer="c", start="earliest") as reader:
        place = next(reader).tick
    node.call(lambda: node.hosted.pubend._trim(1 << 60))
    assert node.hosted.begin <= place
    assert forget_consumer(node.url, STREAM, "c")
    assert node.call(node.server.figures) == ()
    assert not forget_consumer(node.url, STREAM, "c")


def test_a_silent_consumer_is_forgotten_and_one_that_reads_is_not(
    node: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with StreamReader(node.url, STREAM, consumer="gone"):
        pass
    with StreamReader(node.url, STREAM, consumer="here"):
        node.run(node.server.older(1))
        node.run(node.server.older(limits.STREAM_CONSUMER_S))
        assert [row.name for row in node.call(node.server.figures)] == ["here"]
    assert "consumer 'gone' of stream 's' was not used for 7 days" in caplog.text


def test_the_same_span_has_the_same_messages(node: Running, connection: StreamConnection) -> None:
    write(node, *[str(number) for number in range(700)])
    end = node.hosted.end
    whole = fetched(connection, 0, end)
    write(node, "more")
    assert fetched(connection, 0, end).ticks == whole.ticks
    parts: list[int] = []
    at = 0
    while at < end:
        part = fetched(connection, at, end, most=300)
        parts += part.ticks
        at = part.behind
    assert tuple(parts) == whole.ticks
    assert len(parts) == 700


def test_an_answer_is_bounded_but_never_empty_for_a_large_message(
    node: Running, connection: StreamConnection
) -> None:
    write(node, "x" * 5_000, "y" * 5_000)
    first = fetched(connection, 0, node.hosted.end, most_bytes=100)
    assert len(first.ticks) == 1
    second = fetched(connection, first.behind, node.hosted.end, most_bytes=100)
    assert len(second.ticks) == 1
    assert second.ticks[0] > first.ticks[0]


def test_a_span_is_cut_into_parts(node: Running, connection: StreamConnection) -> None:
    write(node, *[str(number) for number in range(700)])
    end = node.hosted.end
    cuts = connection.call(Split(0, STREAM, 0, end, rows=300))
    assert isinstance(cuts, Cuts)
    assert cuts.rows == (300, 300, 100)
    assert cuts.ends[-1] == end
    assert len(fetched(connection, cuts.ends[0], cuts.ends[1]).ticks) == 300
    one = connection.call(Split(0, STREAM, 0, end, rows=300, parts=1))
    assert isinstance(one, Cuts)
    assert one.ends == cuts.ends[:1]


def test_messages_that_are_gone_are_told_and_not_passed_over(
    node: Running, connection: StreamConnection
) -> None:
    write(node, *"abc")
    ticks = fetched(connection, 0, node.hosted.end).ticks
    node.trim(ticks[1])
    with pytest.raises(StreamRefused, match="are no longer in the log") as caught:
        fetched(connection, ticks[0], node.hosted.end)
    assert (caught.value.code, caught.value.first) == ("trimmed", ticks[1])
    with pytest.raises(StreamRefused, match="are no longer in the log"):
        connection.call(Split(0, STREAM, ticks[0], node.hosted.end, rows=1))
    with pytest.raises(StreamRefused, match="are no longer in the log"):
        connection.call(Settle(0, STREAM, "c", ticks[0]))
    assert read(node) == ["b", "c"]


def test_numbers_that_are_known_are_passed_over(node: Running) -> None:
    for lines in (["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]):
        with StreamWriter(node.url, STREAM, "file") as writer:
            for number, line in enumerate(lines, 1):
                writer.write("a/b", line, number=number)
    assert read(node) == ["a", "b", "c", "d"]
    with StreamWriter(node.url, STREAM, "file") as writer:
        assert writer.last == 4


def test_a_request_that_comes_again_is_answered_as_done(node: Running, connection: StreamConnection) -> None:
    connection.call(Begin(0, STREAM, "w", "t"))
    append = Append(0, STREAM, "w", (1, 2), (Row("a/b", b"1"), Row("a/b", b"2")))
    numbers = [connection.ask(append) for _ in range(3)]
    for number in numbers:
        connection.answer(number)
    assert read(node) == ["1", "2"]


def test_whoever_begins_takes_over(node: Running) -> None:
    with StreamWriter(node.url, STREAM, "w") as second:
        first = StreamWriter(node.url, STREAM, "w")
        put(first, "1")
        third = StreamWriter(node.url, STREAM, "w")
        with pytest.raises(StreamRefused, match="another program has since begun as writer 'w'") as caught:
            put(first, "2")
        assert caught.value.code == "fenced"
        first.abandon()
        first.close()
        assert third.last == 1
        third.write("a/b", "3")
        third.close()
        with pytest.raises(StreamRefused, match="another program has since begun"):
            put(second, "4")
        assert second.abandon() == [1]
    assert read(node) == ["1", "3"]


def test_a_writer_without_a_name_is_forgotten_when_it_is_closed(node: Running) -> None:
    with StreamWriter(node.url, STREAM) as writer:
        put(writer, "1")
        assert node.call(lambda: node.hosted.marks.highest(f"w:{writer.name}")) == 1
    assert node.call(lambda: node.hosted.marks.highest(f"w:{writer.name}")) == 0
    with StreamWriter(node.url, STREAM) as writer:
        put(writer, "2")
    assert read(node) == ["1", "2"]


def test_topics_of_others_and_bad_arguments_are_refused(node: Running, connection: StreamConnection) -> None:
    with StreamWriter(node.url, STREAM, "w") as writer:
        with pytest.raises(InputError, match="topic 'x' does not belong to stream 's', whose topics are a/#"):
            writer.write("x", "")
        with pytest.raises(InputError, match="a payload is bytes or a text, found int"):
            writer.write("a/b", 7)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="a payload of 2,097,152 bytes; the node takes up to 1,048,576"):
            writer.write("a/b", b"x" * (2 << 20))
        writer.write("a/b", "", number=5)
        with pytest.raises(InputError, match="the numbers of a writer grow"):
            writer.write("a/b", "", number=4)
    connection.call(Begin(0, STREAM, "v", "t"))
    with pytest.raises(StreamRefused, match="topic 'x' does not belong to stream 's'"):
        connection.call(Append(0, STREAM, "v", (1,), (Row("x", b""),)))
    with pytest.raises(StreamRefused, match="begin again"):
        connection.call(Append(0, STREAM, "v", (2,), (Row("a/b", b""),)))
    with pytest.raises(StreamRefused, match="has not begun"):
        connection.call(Append(0, STREAM, "u", (1,), (Row("a/b", b""),)))
    with pytest.raises(StreamRefused, match="at most 1,048,576"):
        connection.call(Stage(0, STREAM, "t", 0, (Row("a/b", b"x" * (1 << 21)),)))
    with pytest.raises(InputError, match="start is 'old'"):
        StreamReader(node.url, STREAM, start="old")  # type: ignore[arg-type]


def test_unknown_streams_and_missing_nodes_are_named(node: Running) -> None:
    with pytest.raises(StreamRefused, match="node 'home' has no stream 't'; there are: s"):
        StreamReader(node.url, "t")
    with pytest.raises(StreamRefused, match="unknown stream 't'; known streams: s"):
        StreamWriter(node.url, "t", "w")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(Unreachable, match="connection refused"):
        StreamReader(f"stream://127.0.0.1:{port}", STREAM)
    (figures,) = list_streams(node.url)
    assert (figures.name, figures.topics, figures.host, figures.here) == (STREAM, ("a/#",), "home", True)


def test_a_batch_is_committed_once(node: Running, connection: StreamConnection) -> None:
    for attempt in ("x", "y", "again"):
        connection.call(Stage(0, STREAM, attempt, 0, (Row("a/b", attempt.encode()),)))
    connection.call(Stage(0, STREAM, "x", 1, (Row("a/b", b"x1"),)))
    commit = Commit(0, STREAM, "q", 7, (Staged("y", 1), Staged("x", 2)))
    connection.call(commit)
    connection.call(commit)
    connection.call(Commit(0, STREAM, "q", 7, (Staged("again", 1),)))
    connection.call(Commit(0, STREAM, "q", 3, (Staged("again", 1),)))
    assert read(node) == ["y", "x", "x1"]
    with pytest.raises(StreamRefused, match="are missing") as caught:
        connection.call(Commit(0, STREAM, "q", 8, (Staged("again", 1),)))
    assert caught.value.code == "gone"
    connection.call(Commit(0, STREAM, "q", 8, (Staged("empty", 0),)))
    assert read(node) == ["y", "x", "x1"]


def test_aborted_and_orphaned_rows_go(node: Running, connection: StreamConnection) -> None:
    for attempt in ("x", "y"):
        connection.call(Stage(0, STREAM, attempt, 0, (Row("a/b", b""),)))
    connection.call(Abort(0, STREAM, ("x",)))
    node.run(node.server.older(limits.STREAM_STAGED_S))
    for attempt in ("x", "y"):
        with pytest.raises(StreamRefused, match="are missing"):
            connection.call(Commit(0, STREAM, "q", 1, (Staged(attempt, 1),)))


def test_what_a_job_has_committed_is_known_for_a_day(node: Running, connection: StreamConnection) -> None:
    for writer, once in (("job", True), ("query", False)):
        connection.call(Stage(0, STREAM, writer, 0, (Row("a/b", writer.encode()),)))
        connection.call(Commit(0, STREAM, writer, 0, (Staged(writer, 1),), once=once))
    node.run(node.server.older(limits.STREAM_STAGED_S))
    assert node.call(lambda: node.hosted.marks.highest("w:job")) == 0
    assert node.call(lambda: node.hosted.marks.highest("w:query")) == 1


def test_staged_rows_are_bounded(
    node: Running, connection: StreamConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STREAM_STAGED_BYTES", 100)
    connection.call(Stage(0, STREAM, "x", 0, (Row("a/b", b"x" * 60),)))
    with pytest.raises(StreamRefused, match="wait for the commit of their batch") as caught:
        connection.call(Stage(0, STREAM, "x", 1, (Row("a/b", b"x" * 60),)))
    assert caught.value.code == "full"


def test_a_decision_is_carried_out_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.node.streams.programs.staging import Staging  # noqa: PLC0415

    async def die(*_: object) -> None:
        raise StreamRefused("the node dies here", code="full")

    with running(tmp_path) as node, StreamConnection(node.url) as connection:
        for part in range(3):
            rows = tuple(Row("a/b", b"%d" % (part * 10 + row)) for row in range(10))
            connection.call(Stage(0, STREAM, "x", part, rows))
        monkeypatch.setattr(Staging, "finish", die)
        with pytest.raises(StreamRefused, match="dies here"):
            connection.call(Commit(0, STREAM, "q", 0, (Staged("x", 3),)))
    monkeypatch.undo()
    with running(tmp_path) as node, StreamConnection(node.url) as connection:
        connection.call(Commit(0, STREAM, "q", 0, (Staged("x", 3),)))
        assert read(node) == [str(number) for number in range(30)]


def test_a_stream_that_is_full_refuses_and_takes_again(tmp_path: Path) -> None:
    with running(tmp_path) as node:
        hosting = node.hosted.hosting
        with StreamWriter(node.url, STREAM, "w") as writer:
            put(writer, "1")
            node.hosted.hosting = type(hosting)(STREAM, hosting.topics, bytes=1)
            with pytest.raises(StreamRefused, match="the log of stream 's' is full") as caught:
                put(writer, "2")
            assert caught.value.code == "full"
            node.hosted.hosting = hosting
            put(writer, "3")
        assert read(node) == ["1", "2", "3"]


def test_who_may_not_is_told() -> None:
    more = """
acl:
  - {action: publish, topic: a/open}
  - {action: subscribe, user: ann}
"""
    with running("", more) as node, StreamWriter(node.url, STREAM, "w") as writer:
        put(writer, "1", topic="a/open")
        with pytest.raises(StreamRefused, match="not allowed to publish on 'a/shut'") as caught:
            put(writer, "2", topic="a/shut")
        assert caught.value.code == "denied"
        assert writer.abandon() == [2]
        assert list_streams(node.url) == ()
        with (
            StreamConnection(node.url) as connection,
            pytest.raises(StreamRefused, match="not allowed to read"),
        ):
            fetched(connection, 0, 1)


def test_a_stream_hosted_elsewhere_is_named_with_its_node(node: Running) -> None:
    streams = node.node.streams
    assert streams is not None
    node.call(lambda: streams.driver.core.follow("far", "attic"))
    node.call(lambda: streams.directory.learn([handshake.Offered("far", ("f/#",), "attic")], "attic"))
    with pytest.raises(StreamRefused, match="stream 'far' is hosted by node 'attic'") as caught:
        StreamReader(node.url, "far")
    assert caught.value.code == "elsewhere"
    with pytest.raises(StreamRefused, match="is hosted by node 'attic': connect there"):
        StreamWriter(node.url, "far", "w")


def test_a_stream_of_a_neighbour_is_named_with_its_address() -> None:
    more = "  neighbours: [{name: attic, host: '::1', port: 1}]\n"
    with running("", more) as node:
        streams = node.node.streams
        assert streams is not None
        node.call(lambda: streams.driver.core.follow("far", "attic"))
        node.call(lambda: streams.directory.learn([handshake.Offered("far", ("f/#",), "attic")], "attic"))
        told = r"is hosted by node 'attic' \(stream://\[::1\]:1\)"
        with pytest.raises(StreamRefused, match=told):
            StreamReader(node.url, "far")
        with pytest.raises(StreamRefused, match=told):
            StreamWriter(node.url, "far", "w")


def test_users_and_tls(tmp_path: Path) -> None:
    more = f"""
anonymous: never
users: [{{name: ann, password: '{cheap("a:b@c")}'}}]
"""
    made = certificates.make(tmp_path)
    listen = f"{{enabled: true, port: 0, certificate: {made.server}, key: {made.server_key}}}"
    with running("", more, listen=listen) as node:
        url = node.url.replace("stream://", "streams://ann:a%3Ab%40c@")
        tls = ssl.create_default_context(cafile=str(made.ca))
        with StreamWriter(url, STREAM, "w", tls=tls) as writer:
            put(writer, "1")
        with pytest.raises(StreamRefused, match="wrong user name or password"):
            StreamReader(url.replace("ann", "bob"), STREAM, tls=tls)
        with pytest.raises(StreamRefused, match="a user name and a password are required"):
            StreamReader(node.url.replace("stream://", "streams://"), STREAM, tls=tls)
        with pytest.raises(Unreachable, match="its certificate is not trusted"):
            StreamReader(url, STREAM)
        with pytest.raises(Unreachable, match=r"closed while greeting|is this a port for streams"):
            StreamReader(node.url, STREAM)


@pytest.mark.parametrize("frame", [b"\xff\xff\xff\xff", b"\0\0\0\3abc", b"\0\0\0\2\x92\x28"])
def test_strange_bytes_end_the_connection_and_nothing_else(node: Running, frame: bytes) -> None:
    host, port = node.url.removeprefix("stream://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as strange:
        strange.sendall(handshake.encode(handshake.Hello(handshake.VERSION, "program", "x")))
        strange.sendall(frame)
        rest = b""
        while data := strange.recv(4096):
            rest += data
    assert b"broken" in rest
    write(node, "still here")
    assert read(node) == ["still here"]


def test_a_request_that_is_none_is_not_sent_again(node: Running, connection: StreamConnection) -> None:
    with pytest.raises(StreamRefused, match="batch -1") as caught:
        connection.call(Commit(0, STREAM, "w", -1, ()))
    assert caught.value.code == "broken"


def test_a_reader_and_a_writer_survive_a_node_that_restarts(tmp_path: Path) -> None:
    with running(tmp_path) as node:
        port = int(node.url.rpartition(":")[2])
        writer = StreamWriter(node.url, STREAM, "w")
        reader = StreamReader(node.url, STREAM, start="earliest")
        for number in range(100):
            writer.write("a/b", str(number))
        assert next(reader).payload == b"0"
    with running(tmp_path, port=port) as node:
        for number in range(100, 200):
            writer.write("a/b", str(number))
        writer.close()
        found = [next(reader).payload for _ in range(199)]
        reader.close()
    assert found == [b"%d" % number for number in range(1, 200)]


def test_one_slow_program_does_not_hold_up_another(node: Running) -> None:
    write(node, *["x" * 1_000 for _ in range(3_000)])
    with StreamConnection(node.url) as slow:
        slow.open()
        for _ in range(40):  # more than may be under way; nothing of it is read
            slow.ask(Fetch(0, STREAM, 0, node.hosted.end))
        began = time.monotonic()
        assert len(read(node)) == 3_000
        assert time.monotonic() - began < 120


@pytest.mark.e2e
@pytest.mark.xdist_group("nats-log")
def test_the_same_on_a_log_in_nats(tmp_path: Path) -> None:
    payloads = [str(number) for number in range(3_000)]
    with nats_server() as server:
        with running(tmp_path, nats=server.url) as node:
            write(node, *payloads)
            with StreamReader(node.url, STREAM, consumer="c", start="earliest") as reader:
                assert [next(reader).payload.decode() for _ in range(10)] == payloads[:10]
                reader.commit()
        with running(tmp_path, nats=server.url) as node, StreamConnection(node.url) as connection:
            assert read(node) == payloads
            cuts = connection.call(Split(0, STREAM, 0, node.hosted.end, rows=1_300))
            assert isinstance(cuts, Cuts)
            assert cuts.rows == (1_300, 1_300, 400)
            with StreamReader(node.url, STREAM, consumer="c", until="end") as reader:
                assert [message.payload.decode() for message in reader] == payloads[10:]
            server.kill()
            with StreamWriter(node.url, STREAM, "w") as writer:
                assert writer.last == 3_000
                server.start()
                while True:
                    try:
                        put(writer, "3000")
                    except StreamRefused as error:
                        assert error.code == "full"  # noqa: PT017
                        writer.abandon()
                        time.sleep(0.1)
                    else:
                        break
            assert read(node) == [*payloads, "3000"]
