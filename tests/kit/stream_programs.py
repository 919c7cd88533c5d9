"""A node in a thread of its own, for programs that block."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.node.config.read import load
from penstock.node.service import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from penstock.node.streams.programs.server import ProgramServer
    from penstock.node.streams.tree.hosted import HostedStream

STREAM = "s"
LEAST = """
listeners: [{port: 0}]
http: {enabled: false}
sys_interval_s: 0
streams:
  node: home
  host: [HOSTS]
  listen: LISTEN
"""


class Running:
    """A node, and how to reach it from the test's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, node: Node) -> None:
        self.loop = loop
        self.node = node

    @property
    def url(self) -> str:
        """For programs."""
        streams = self.node.streams
        assert streams is not None
        assert streams.listener is not None
        return f"stream://127.0.0.1:{streams.listener.port}"

    @property
    def hosted(self) -> HostedStream:
        """The stream."""
        assert self.node.streams is not None
        return self.node.streams.hosted[STREAM]

    @property
    def server(self) -> ProgramServer:
        """Who serves programs."""
        assert self.node.streams is not None
        assert self.node.streams.programs is not None
        return self.node.streams.programs

    def call(self, work: Callable[[], Any]) -> Any:
        """In the node's thread."""

        async def called() -> Any:
            return work()

        return self.run(called())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """In the node's thread, to its end."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def trim(self, until: int) -> None:
        """Let messages go."""
        self.call(lambda: self.hosted.log.trim(until))


@contextmanager
def running(
    folder: object = "", more: str = "", *, port: int = 0, hosts: int = 1, listen: str = "", nats: str = ""
) -> Iterator[Running]:
    """A node with a stream `s` on the topics a/#, and if there are two, `t` on t/#."""
    streams = ['{name: s, topics: ["a/#"]}', '{name: t, topics: ["t/#"]}'][:hosts]
    door = listen or f"{{enabled: true, port: {port}}}"
    settings = LEAST.replace("LISTEN", door).replace("HOSTS", ", ".join(streams))
    settings += f"  log: nats\n  nats: {{servers: ['{nats}']}}\n" if nats else ""
    started: list[Running | BaseException] = []
    ready = threading.Event()
    over: list[asyncio.Event] = []

    async def live() -> None:
        over.append(asyncio.Event())
        loaded = load(f"data: '{folder}'\n{settings}{more}")
        async with Node(loaded) as node:
            started.append(Running(asyncio.get_running_loop(), node))
            ready.set()
            await over[0].wait()

    def main() -> None:
        try:
            asyncio.run(live())
        except BaseException as error:  # shown in the test
            started.append(error)
            ready.set()

    thread = threading.Thread(target=main)
    thread.start()
    assert ready.wait(30)
    found = started[0]
    if not isinstance(found, Running):
        raise found
    try:
        yield found
    finally:
        found.loop.call_soon_threadsafe(over[0].set)
        thread.join(30)
        assert len(started) == 1, started[1]
