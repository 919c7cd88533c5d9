"""Programs at a node whose disk is full: they are told, and nothing is lost or doubled when it has room."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock import limits
from penstock.client import StreamReader, StreamWriter
from penstock.client.streams.connection import StreamConnection
from penstock.core.streams.requests import Append, Begin, Commit, Forget, Leave, Row, Settle, Stage, Staged
from penstock.errors import StreamRefused
from tests.kit.stream_programs import STREAM, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.stream_programs import Running

TOLD = r"not durable yet.*disk is full; free some space"
LARGE = b"x" * 100_000


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(limits, "STREAM_STALLED_S", 0.2)
    monkeypatch.setattr(limits, "JOURNAL_RETRY_S", 0.05)
    with running(tmp_path) as found:
        yield found


def room(file: Any, *, whether: bool) -> None:
    """A file may grow, or may not: what SQLite says is the same as of a full disk."""
    pages = 1 << 30 if whether else file._database.execute("PRAGMA page_count").fetchone()[0]
    file._database.execute(f"PRAGMA max_page_count = {pages}")


def places(node: Running, *, full: bool) -> None:
    assert node.node.streams is not None
    state: Any = node.node.streams.state
    node.call(lambda: room(state._database, whether=not full))
    while not full and state.fault:
        time.sleep(0.02)


def messages(node: Running, *, full: bool) -> None:
    log: Any = node.hosted.log
    node.call(lambda: room(log._file, whether=not full))
    while not full and log.fault:
        time.sleep(0.02)


def read(node: Running) -> list[bytes]:
    with StreamReader(node.url, STREAM, start="earliest", until="end") as reader:
        return [message.payload for message in reader]


def test_places_that_cannot_be_kept_are_told(node: Running) -> None:
    with StreamConnection(node.url) as connection:
        connection.call(Settle(0, STREAM, "there", 0))
        places(node, full=True)
        for number in range(200):  # what is there has some room left
            try:
                connection.call(Settle(0, STREAM, f"{number}-" + "c" * 900, 0))
            except StreamRefused:
                break
        later = Settle(0, STREAM, "d" * 1_000, 0), Begin(0, STREAM, "w", "t"), Forget(0, STREAM, "there")
        for request in later:
            with pytest.raises(StreamRefused, match=TOLD) as caught:
                connection.call(request)
            assert caught.value.code == "full"
        places(node, full=False)
        connection.call(Begin(0, STREAM, "w", "t"))
        connection.call(Forget(0, STREAM, "there"))


def test_who_asks_again_and_again_is_refused_at_once_in_the_end(
    node: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert node.node.streams is not None
    state = node.node.streams.state
    monkeypatch.setattr(limits, "STREAM_UNKEPT", 4)
    with StreamConnection(node.url) as connection:
        connection.call(Settle(0, STREAM, "there", 0))
        places(node, full=True)
        said = ""
        for number in range(200):
            try:
                connection.call(Settle(0, STREAM, f"{number}-" + "c" * 900, 0))
            except StreamRefused as error:
                said = str(error)
                if "nothing can be stored" in said:
                    break
        assert "nothing can be stored at the moment" in said
        assert state.waiting == 4
        for request in (Begin(0, STREAM, "w", "t"), Forget(0, STREAM, "there"), Leave(0, STREAM, "w", "t")):
            with pytest.raises(StreamRefused, match="nothing can be stored"):
                connection.call(request)
        places(node, full=False)
        connection.call(Forget(0, STREAM, "there"))
        assert state.waiting == 0


def test_a_writer_is_told_and_goes_on_once_there_is_room(node: Running) -> None:
    writer = StreamWriter(node.url, STREAM, "w")
    messages(node, full=True)
    writer.write("a/b", LARGE)
    with pytest.raises(StreamRefused, match=TOLD):
        writer.flush()
    with pytest.raises(StreamRefused, match="disk is full; free some space"):
        writer.flush()
    with pytest.raises(StreamRefused, match=TOLD):  # what is not durable is not told to be there
        StreamWriter(node.url, STREAM, "w")
    writer.abandon()
    writer.close()
    messages(node, full=False)
    with StreamWriter(node.url, STREAM, "w") as second:
        assert second.last == 1
    assert read(node) == [LARGE]


def told_of_a_batch(node: Running, connection: StreamConnection) -> Commit:
    """A commit that was refused by a full disk, which has room again."""
    connection.call(Stage(0, STREAM, "one", 0, (Row("a/b", LARGE),)))
    messages(node, full=True)
    commit = Commit(0, STREAM, "q", 7, (Staged("one", 1),))
    with pytest.raises(StreamRefused, match=TOLD):
        connection.call(commit)
    messages(node, full=False)
    return commit


def test_a_batch_that_was_told_is_in_the_stream_once(node: Running) -> None:
    with StreamConnection(node.url) as connection:
        commit = told_of_a_batch(node, connection)
        connection.call(commit)
    assert read(node) == [LARGE]


def test_a_batch_that_was_told_is_not_forgotten_before_it_is_done(node: Running) -> None:
    with StreamConnection(node.url) as connection:
        commit = told_of_a_batch(node, connection)
        node.run(node.server.older(limits.STREAM_WRITER_S))
        connection.call(commit)
    assert read(node) == [LARGE]


def test_who_waits_for_room_behind_what_is_not_durable_is_told_too(
    node: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STREAM_UNACKED", 1)
    appends = [Append(0, STREAM, "w", (number,), (Row("a/b", LARGE),)) for number in (1, 2)]
    with StreamConnection(node.url) as connection:
        connection.call(Begin(0, STREAM, "w", "t"))
        messages(node, full=True)
        for number in [connection.ask(one) for one in appends]:
            with pytest.raises(StreamRefused, match="disk is full; free some space") as caught:
                connection.answer(number, timeout_s=300)
            assert caught.value.code == "full"
        messages(node, full=False)
        connection.call(Begin(0, STREAM, "w", "t", resume=True))
        for one in appends:
            connection.call(one)
    assert read(node) == [LARGE, LARGE]
