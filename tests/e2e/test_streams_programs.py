"""Programs beside a node that is killed again and again: each message once, in order, nothing lost."""

from __future__ import annotations

import threading
import time
from random import Random
from typing import TYPE_CHECKING

import pytest

from penstock.client import StreamReader, StreamWriter
from penstock.client.streams.connection import StreamConnection
from penstock.core.streams.requests import Commit, Row, Stage, Staged
from tests.kit.killed_node import Killed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

KILLS = 3
MESSAGES = 20_000


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Killed]:
    found = Killed(tmp_path)
    found.start()
    yield found
    found.close()


def test_a_writer_and_a_reader_over_kills(node: Killed) -> None:
    dice = Random(5)
    found: list[int] = []
    over = threading.Event()

    def write() -> None:
        with StreamWriter(node.url, "s", "w") as writer:
            for number in range(MESSAGES):
                writer.write("a/b", str(number))
                if number % 100 == 0:
                    time.sleep(0.005)

    def read() -> None:
        with StreamReader(node.url, "s", consumer="c", start="earliest") as reader:
            while len(found) < MESSAGES:
                message = reader.read()
                assert message is not None
                found.append(int(message.payload))
                if len(found) % 500 == 0:
                    reader.commit()
        over.set()

    threads = [threading.Thread(target=work, daemon=True) for work in (read, write)]
    for thread in threads:
        thread.start()
    for _ in range(KILLS):
        time.sleep(dice.uniform(0.3, 0.8))
        node.kill()
        node.start()
    assert over.wait(60), f"{len(found)} messages were read"
    for thread in threads:
        thread.join(30)
    assert found == list(range(MESSAGES))


def test_a_reader_that_dies_goes_on_where_it_committed(node: Killed) -> None:
    with StreamWriter(node.url, "s", "w") as writer:
        for number in range(1_000):
            writer.write("a/b", str(number))
    found: list[int] = []
    while len(found) < 1_000:
        with StreamReader(node.url, "s", consumer="c", start="earliest") as reader:
            for _ in range(400):
                found.append(int(next(reader).payload))
                if len(found) == 1_000:
                    break
            reader.commit()
        node.kill()
        node.start()
    assert found == list(range(1_000))


def test_batches_that_are_committed_while_the_node_is_killed_are_there_once(node: Killed) -> None:
    dice = Random(6)
    over = threading.Event()

    def commit() -> None:
        with StreamConnection(node.url) as connection:
            for batch in range(20):
                for attempt in (f"{batch}-wasted", f"{batch}"):
                    rows = tuple(Row("a/b", b"%d" % (batch * 1_000 + row)) for row in range(500))
                    more = tuple(Row("a/b", b"%d" % (batch * 1_000 + row)) for row in range(500, 1_000))
                    connection.call(Stage(0, "s", attempt, 0, rows))
                    connection.call(Stage(0, "s", attempt, 1, more))
                request = Commit(0, "s", "q", batch, (Staged(f"{batch}", 2),))
                connection.call(request)
                again = Commit(0, "s", "q", batch, (Staged(f"{batch}-wasted", 2),))
                connection.call(again)
        over.set()

    thread = threading.Thread(target=commit, daemon=True)
    thread.start()
    for _ in range(KILLS):
        time.sleep(dice.uniform(0.2, 0.6))
        node.kill()
        node.start()
    assert over.wait(60)
    thread.join(30)
    with StreamReader(node.url, "s", start="earliest", until="end") as reader:
        assert [int(message.payload) for message in reader] == list(range(20_000))
