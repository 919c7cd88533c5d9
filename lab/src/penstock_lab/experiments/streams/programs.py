"""The programs that `streams-kill` starts, one per process; each records what it knows, line by line.

    publish-mqtt    publishes with QoS 2; writes the number of each message that was acknowledged
    publish-writer  publishes with a StreamWriter; writes the same
    subscribe       subscribes; writes tick and message to disk before it acknowledges
    read            reads with a StreamReader and a consumer; writes the same

Publishers run until a line comes on standard input, and end when everything is acknowledged. The others run
until they are killed, and continue from their file: they skip what they wrote before a restart by its tick,
the first word of a line.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from penstock.client import Client, StreamReader, StreamWriter
from penstock.errors import PublishRefused
from penstock.model.event import Event

if TYPE_CHECKING:
    from collections.abc import Iterable

STREAM: Final = "kill"
AGAIN_S: Final = 1.0
"""Longest pause before a client connects again: nodes come back at once here."""
KEEP_S: Final = 3_600
UNDER_WAY: Final = 20
"""Messages of the MQTT publisher that are not acknowledged."""
FLUSH: Final = 20
"""Messages of the StreamWriter that are flushed together."""
TOGETHER: Final = 50
"""Messages of a reader that are written and committed together."""

NEW, AGAIN, TWICE = "+", "~", "!"
"""First letter of a line: a new message, one written before the restart, one that came twice since."""


def main(role: str, told: dict[str, Any]) -> None:
    """Run the program named on the command line."""
    match role:
        case "publish-mqtt":
            asyncio.run(_publish_mqtt(told))
        case "publish-writer":
            _publish_writer(told)
        case "subscribe":
            asyncio.run(_subscribe(told))
        case "read":
            _read(told)
        case _:
            raise SystemExit(f"no role {role!r}")


# -- publishers ----------------------------------------------------------------------------------------------


def _until_told() -> threading.Event:
    """Return an event that is set when a line or the end of standard input comes."""
    told = threading.Event()

    def wait() -> None:
        sys.stdin.readline()
        told.set()

    threading.Thread(target=wait, daemon=True).start()
    return told


async def _publish_mqtt(told: dict[str, Any]) -> None:
    stop, loop = _until_told(), asyncio.get_running_loop()
    number = 0
    with Path(told["file"]).open("a") as file:
        client = Client(told["url"], client_id="publisher", session_expiry_s=KEEP_S, reconnect_most_s=AGAIN_S)
        async with client:
            ready()
            begin_s = loop.time()
            turns = count()

            async def one() -> None:
                nonlocal number
                while not stop.is_set():
                    await asyncio.sleep(begin_s + next(turns) / told["per_s"] - loop.time())
                    number += 1
                    mine = number
                    try:
                        await client.publish("kill/mqtt", str(mine), qos=2)
                    except PublishRefused as error:
                        sys.stderr.write(f"{mine} refused: {error}\n")
                    else:
                        file.write(f"{mine}\n")
                        file.flush()

            await asyncio.gather(*(one() for _ in range(UNDER_WAY)))


def _publish_writer(told: dict[str, Any]) -> None:
    stop = _until_told()
    number = 0
    with Path(told["file"]).open("a") as file, StreamWriter(told["url"], STREAM, "writer") as writer:
        ready()
        begin_s = time.monotonic()
        while not stop.is_set():
            for _ in range(FLUSH):
                number += 1
                writer.write("kill/writer", str(number), number=number)
            writer.flush()
            file.writelines(f"{one}\n" for one in range(number - FLUSH + 1, number + 1))
            file.flush()
            time.sleep(max(0.0, begin_s + number / told["per_s"] - time.monotonic()))


# -- subscribers ---------------------------------------------------------------------------------------------


class Book:
    """The file in which a subscriber records what it has processed; every write is synced to disk."""

    def __init__(self, path: Path) -> None:
        self._before = self._last = last_tick(path)
        self._file: TextIO = path.open("a")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def write(self, messages: Iterable[tuple[int, str, bytes]]) -> None:
        """Append tick, topic and payload of each message, and sync."""
        lines = []
        for tick, topic, payload in messages:
            mark = NEW if tick > self._last else AGAIN if tick <= self._before else TWICE
            self._last = max(self._last, tick)
            lines.append(f"{mark} {tick} {topic.rpartition('/')[2]} {payload.decode()}\n")
        self._file.write("".join(lines))
        self._file.flush()
        os.fsync(self._file.fileno())


def last_tick(path: Path) -> int:
    """Return the last tick of a file; a line that a crash cut off is removed."""
    data = path.read_bytes() if path.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        os.truncate(path, len(whole))
    return max((int(line.split()[1]) for line in whole.splitlines()), default=-1)


async def _subscribe(told: dict[str, Any]) -> None:
    book = Book(Path(told["file"]))
    client = Client(
        told["url"], client_id=told["client_id"], session_expiry_s=KEEP_S, reconnect_most_s=AGAIN_S
    )
    async with client:
        subscription = await client.subscribe("kill/#", qos=told["qos"], acknowledge="done")
        ready()
        while True:
            found = [await subscription.get()]
            while len(found) < TOGETHER and (item := subscription.take()) is not None:
                found.append(item)
            book.write(_facts(item) for item in found if isinstance(item, Event))
            subscription.done()


def _facts(event: Event) -> tuple[int, str, bytes]:
    return int(dict(event.properties)["tick"]), event.topic, event.payload


def _read(told: dict[str, Any]) -> None:
    book = Book(Path(told["file"]))
    with StreamReader(told["url"], STREAM, consumer="reader", start="earliest") as reader:
        ready()
        while True:
            found = []
            message = reader.read()
            while message is not None:
                found.append((message.tick, message.topic, message.payload))
                if len(found) == TOGETHER:
                    break
                try:
                    message = reader.read(timeout_s=0)
                except TimeoutError:
                    break
            book.write(found)
            reader.commit()


def ready() -> None:
    """Print the line that tells the parent process this one is ready."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
