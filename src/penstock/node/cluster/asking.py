"""Asking other nodes, and answering them.

Each part of the cluster answers the questions of its own kinds: it puts a handler into `handlers`. A handler
gets the node that asks and the body of the question. It returns the body of the answer, or a coroutine that
does if it has to wait; a ClusterError is told to the node that has asked.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.cluster.frames import Answer
from penstock.errors import ClusterError, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any, TypeAlias

    from penstock.core.cluster.frames import Ask
    from penstock.node.broker.background import Background
    from penstock.node.cluster.peer import ClusterPeer, PeerHost

    Handler: TypeAlias = "Callable[[ClusterPeer, bytes], bytes | Coroutine[Any, Any, bytes]]"

log = logging.getLogger(__name__)


class Questions:
    """The questions between this node and the others."""

    def __init__(self, host: PeerHost, background: Background) -> None:
        self._host = host
        self._background = background
        self.handlers: dict[str, Handler] = {}
        """Functions that answer questions of other nodes, by kind of question."""

    async def ask(self, peer: ClusterPeer, kind: str, body: bytes = b"", *, wait_us: int) -> bytes:
        """Ask another node; ClusterError if it is away, does not answer in time, or says why it cannot."""
        if not peer.link.connected:
            raise ClusterError(f"node {printable(peer.seen.name)} is away")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def then(found: Answer) -> None:
            if not answer.done():  # whoever has asked may have been cancelled
                answer.set_result(found)

        peer.link.post(peer.asking.ask(kind, body, then, until_us=self._host.now_us() + wait_us))
        self._host.send_soon(peer)
        found = await answer
        if found.problem:
            raise ClusterError(f"node {printable(peer.seen.name)}: {printable(found.problem)}")
        return found.body

    def asked(self, peer: ClusterPeer, ask: Ask) -> None:
        """Another node asks."""
        handler = self.handlers.get(ask.kind)
        if handler is None:
            self._answer(peer, Answer(ask.number, problem=f"no node answers {ask.kind!r} here"))
            return
        try:
            found = handler(peer, ask.body)
        except ClusterError as error:
            self._answer(peer, Answer(ask.number, problem=str(error)))
            return
        if inspect.iscoroutine(found):
            if peer.answering >= limits.CLUSTER_ASKS:
                found.close()
                raise ClusterError(
                    f"more than {limits.CLUSTER_ASKS} questions at once; {ask.kind} is not answered"
                )
            peer.answering += 1
            self._background.begin(self._answer_later(peer, ask, found), f"{ask.kind} is not answered")
        else:
            assert isinstance(found, bytes)
            self._answer(peer, Answer(ask.number, found))

    async def _answer_later(self, peer: ClusterPeer, ask: Ask, body: Coroutine[Any, Any, bytes]) -> None:
        try:
            found = Answer(ask.number, await body)
        except ClusterError as error:
            found = Answer(ask.number, problem=str(error))
        finally:
            peer.answering -= 1
        try:
            self._answer(peer, found)
        except ClusterError as error:
            log.warning("cluster: node %s: %s", printable(peer.seen.name), error)

    def _answer(self, peer: ClusterPeer, answer: Answer) -> None:
        peer.link.post(answer)
        self._host.send_soon(peer)
