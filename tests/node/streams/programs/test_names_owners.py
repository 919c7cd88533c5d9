"""Names of consumers and writers belong to the user who made them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.client import StreamReader, StreamWriter
from penstock.client.streams.connection import StreamConnection
from penstock.client.streams.reader import forget_consumer
from penstock.core.streams.requests import Begin, Commit, Fetch, Forget, Place, Row, Settle, Stage, Staged
from penstock.errors import StreamRefused
from tests.kit.passwords import cheap
from tests.kit.stream_programs import STREAM, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.core.streams.requests import Request
    from tests.kit.stream_programs import Running

USERS = f"""
users:
  - {{name: ann, password: '{cheap("a")}'}}
  - {{name: bob, password: '{cheap("b")}'}}
"""


@pytest.fixture
def node() -> Iterator[Running]:
    with running("", USERS) as found:
        yield found


def ann(node: Running) -> str:
    return node.url.replace("stream://", "stream://ann:a@")


def bob(node: Running) -> str:
    return node.url.replace("stream://", "stream://bob:b@")


def refused(url: str, request: Request) -> None:
    with StreamConnection(url) as connection, pytest.raises(StreamRefused, match="another user") as caught:
        connection.call(request)
    assert caught.value.code == "denied"


def test_a_consumer_is_moved_read_and_forgotten_by_its_user_only(node: Running) -> None:
    with StreamReader(ann(node), STREAM, consumer="c", start="earliest") as reader:
        place = reader.place
    for url in (bob(node), node.url):
        for request in (
            Settle(0, STREAM, "c", node.hosted.end),
            Place(0, STREAM, "c"),
            Forget(0, STREAM, "c"),
            Fetch(0, STREAM, 0, consumer="c"),
        ):
            refused(url, request)
        with pytest.raises(StreamRefused, match="consumer 'c' of stream 's' belongs to another user"):
            StreamReader(url, STREAM, consumer="c")
    (row,) = node.call(node.server.figures)
    assert (row.name, row.place, row.user) == ("c", place, "ann")
    assert forget_consumer(ann(node), STREAM, "c")
    with StreamReader(bob(node), STREAM, consumer="c"):
        pass  # the name is free again


def test_a_writer_is_taken_over_by_its_user_only(node: Running) -> None:
    with StreamWriter(ann(node), STREAM, "w") as writer:
        writer.write("a/b", "1", number=1)
    for url in (bob(node), node.url):
        refused(url, Begin(0, STREAM, "w", "token"))
        refused(url, Commit(0, STREAM, "w", 1_000_000, ()))
        refused(url, Commit(0, STREAM, "w", 1_000_000, (), once=True))
    with StreamWriter(ann(node), STREAM, "w") as writer:
        assert writer.last == 1
        writer.write("a/b", "2", number=2)
        writer.flush()
        assert writer.last == 2


def test_a_query_that_writes_batches_has_its_name_to_itself(node: Running) -> None:
    with StreamConnection(ann(node)) as connection:
        connection.call(Stage(0, STREAM, "one", 0, (Row("a/b", b"1"),)))
        connection.call(Commit(0, STREAM, "q", 0, (Staged("one", 1),)))
    refused(bob(node), Commit(0, STREAM, "q", 1_000_000, ()))
    refused(bob(node), Begin(0, STREAM, "q", "token"))


def test_what_somebody_without_a_name_made_is_everybodys(node: Running) -> None:
    with StreamWriter(node.url, STREAM, "w") as writer:
        writer.write("a/b", "1")
    with StreamReader(node.url, STREAM, consumer="c", start="earliest"):
        pass
    with StreamWriter(ann(node), STREAM, "w") as writer:
        assert writer.last == 1
    with StreamReader(bob(node), STREAM, consumer="c") as reader:
        assert reader.read() is not None
        reader.commit()


def test_it_is_known_after_a_restart_whose_a_name_is(tmp_path: Path) -> None:
    with running(tmp_path, USERS) as node:
        with StreamWriter(ann(node), STREAM, "w") as writer:
            writer.write("a/b", "1")
        with StreamReader(ann(node), STREAM, consumer="c", start="earliest"):
            pass
    with running(tmp_path, USERS) as node:
        refused(bob(node), Begin(0, STREAM, "w", "token"))
        refused(bob(node), Settle(0, STREAM, "c", node.hosted.end))
        node.run(node.server.older(3_600))
        refused(bob(node), Begin(0, STREAM, "w", "token"))
        refused(bob(node), Place(0, STREAM, "c"))


def test_names_are_everybodys_once_there_are_no_users_any_more(tmp_path: Path) -> None:
    with running(tmp_path, USERS) as node:
        with StreamWriter(ann(node), STREAM, "w") as writer:
            writer.write("a/b", "1")
        with StreamReader(ann(node), STREAM, consumer="c", start="earliest"):
            pass
    with running(tmp_path) as node:
        for url in (ann(node), node.url):  # nobody looks at the name
            with StreamWriter(url, STREAM, "w") as writer:
                assert writer.last == 1
            with StreamReader(url, STREAM, consumer="c") as reader:
                message = reader.read(timeout_s=120)
                assert message is not None
                assert message.payload == b"1"
    with running(tmp_path, USERS) as node:
        refused(bob(node), Begin(0, STREAM, "w", "token"))
        refused(bob(node), Place(0, STREAM, "c"))
