"""The HTTP server: aiohttp on one port, with a bound on connections without a complete request.

aiohttp waits without limit for the first request of a connection. So a connection is handed to aiohttp only
when the head of a request is complete; a client that does not send it in time is disconnected.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

from aiohttp import web

from penstock import limits
from penstock.errors import NodeError, RequestRefused
from penstock.model.host import is_loopback
from penstock.node.access.unfinished import UnfinishedConnections
from penstock.node.broker.listeners import cannot_listen
from penstock.node.broker.websocket import http_log
from penstock.node.http import openapi
from penstock.node.http.access import ACCESS_ROUTES, AccessHandlers
from penstock.node.http.channels.handlers import ChannelHandlers
from penstock.node.http.channels.routes import CHANNEL_ROUTES
from penstock.node.http.guard import OPEN, Guard
from penstock.node.http.handlers import Handlers
from penstock.node.http.lists import LIST_ROUTES, ListHandlers
from penstock.node.http.notify import ROUTES as NOTIFY_ROUTES
from penstock.node.http.notify import NotifyHandlers
from penstock.node.http.routes import API, ROUTES
from penstock.node.http.traffic import TRAFFIC_ROUTES, TrafficHandlers
from penstock.node.observe.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp.web import Server

    from penstock.node.channels.service import ChannelService
    from penstock.node.config.schema import Config
    from penstock.node.notify.service import NotifyService
    from penstock.node.observe.history import History
    from penstock.node.observe.status import Observed

_END: Final = b"\r\n\r\n"


class PendingConnections:
    """Connections whose first request is not complete; each is handed to aiohttp's server when it is."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.unfinished = UnfinishedConnections[PendingConnection](
            most=limits.HTTP_CONNECTIONS, wait_s=limits.HTTP_HEAD_S, close=PendingConnection.abort
        )

    def __call__(self) -> PendingConnection:
        """Make the protocol of a new connection."""
        return PendingConnection(self)

    @property
    def full(self) -> bool:
        """Whether no more connections are accepted."""
        return len(self.unfinished) + len(self._server.connections) >= limits.HTTP_CONNECTIONS

    def hand_over(self, transport: asyncio.Transport, head: bytes) -> None:
        """Give a connection, and what was read from it, to aiohttp's server."""
        handler = self._server()
        transport.set_protocol(handler)
        handler.connection_made(transport)
        handler.data_received(head)


class PendingConnection(asyncio.Protocol):
    """A connection whose first request is not complete."""

    def __init__(self, pending: PendingConnections) -> None:
        self._pending = pending
        self._head = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the head of a request, for a bounded time."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not say so
        if self._pending.full:
            self._transport.abort()
        else:
            self._pending.unfinished.add(self)

    def data_received(self, data: bytes) -> None:
        """Collect the head of a request until it is complete."""
        unfinished = self._pending.unfinished
        if self not in unfinished:
            return
        self._head += data
        if _END in self._head:
            unfinished.remove(self)
            assert self._transport is not None
            self._pending.hand_over(self._transport, self._head)
        elif len(self._head) > limits.HTTP_HEAD_BYTES:
            unfinished.close(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Forget the connection: the client closed it."""
        self._pending.unfinished.remove(self)

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()


_log = logging.getLogger(__name__)

_KINDS: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class HttpServer:
    """The running server: API, dashboard and metrics on one port."""

    def __init__(
        self,
        *,
        server: asyncio.Server,
        pending: PendingConnections,
        watch: Watch,
        guard: Guard,
        runner: web.AppRunner,
    ) -> None:
        self.port: int = server.sockets[0].getsockname()[1]
        self._server = server
        self._pending = pending
        self._watch = watch
        self._guard = guard
        self._runner = runner
        self._sampling = asyncio.create_task(watch.run())
        self._sampling.add_done_callback(_log_failure)

    def reconfigure(self, config: Config) -> None:
        """Take a new token; the address stays until the node is started again."""
        if config.http.token or is_loopback(self._guard.host):
            self._guard.token = config.http.token
        else:
            _log.warning(
                "http.token is kept: without a token %s would be open to everybody", self._guard.host
            )

    async def close(self) -> None:
        """End live views, answer the requests in progress, and free the port."""
        self._sampling.cancel()
        with suppress(asyncio.CancelledError):
            await self._sampling
        self._server.close()
        self._pending.unfinished.close_all()
        await self._watch.close()
        await self._runner.cleanup()


async def start_http(
    observed: Observed,
    config: Config,
    *,
    history: History | None = None,
    channels: ChannelService | None = None,
    notify: NotifyService | None = None,
    reload: Callable[[], bool] = lambda: False,
) -> HttpServer:
    """Start the server; NodeError if the port cannot be opened, or others could reach it without a token.

    `reload` has the node read its configuration again; False: it has a problem, and nothing changed.
    """
    http = config.http
    if not http.token and not is_loopback(http.host):
        raise NodeError(
            f"http.host is {http.host}, which others can reach: set http.token to a long random text, "
            "or http.host to 127.0.0.1"
        )
    watch = Watch(observed, history)
    guard = Guard(http)
    app = web.Application(middlewares=[guard.middleware], client_max_size=limits.HTTP_BODY_BYTES)
    handlers = Handlers(observed, watch)
    tables = (
        (ROUTES, handlers),
        (TRAFFIC_ROUTES, TrafficHandlers(observed.broker, watch)),
        (ACCESS_ROUTES, AccessHandlers(observed.broker, token=lambda: guard.token, reload=reload)),
        (CHANNEL_ROUTES, ChannelHandlers(channels, changed=watch.changed)),
        (LIST_ROUTES, ListHandlers(channels, changed=watch.changed)),
    )
    for table, answering in tables:
        for route in table:
            app.router.add_route(route.method, route.path, getattr(answering, route.handler))
    app.router.add_routes(_open_routes(channels, notify))
    app.router.add_get(f"{API}/openapi.json", _api_document)
    for path, file in OPEN.items():
        app.router.add_get(path, _fixed(file.read_bytes(), _KINDS[file.name.rpartition(".")[2]]))
    # The node itself handles signals (service.py): aiohttp must not replace its handlers.
    runner = web.AppRunner(
        app,
        logger=http_log(__name__),
        access_log=None,
        handle_signals=False,
        shutdown_timeout=2.0,
        lingering_time=limits.HTTP_LINGER_S,
    )
    await runner.setup()
    assert runner.server is not None
    pending = PendingConnections(runner.server)
    try:
        server = await asyncio.get_running_loop().create_server(pending, http.host, http.port)
    except OSError as error:
        await runner.cleanup()
        raise cannot_listen(http.host, http.port, error) from None
    return HttpServer(server=server, pending=pending, watch=watch, guard=guard, runner=runner)


def _open_routes(channels: ChannelService | None, notify: NotifyService | None) -> list[web.RouteDef]:
    """Make the routes of notifications and of WebSub, where they are on."""
    found = []
    if notify is not None:
        found += NotifyHandlers(notify).routes()
    else:
        found += [web.route(each.method, each.path, _no_notifications) for each in NOTIFY_ROUTES]
    if channels is not None and channels.hub_subscriber is not None:
        from penstock.node.http.notify import HubCallbacks  # noqa: PLC0415  # most nodes ask no hub

        found += HubCallbacks(channels.hub_subscriber).routes()
    return found


async def _api_document(_: web.Request) -> web.Response:
    return web.Response(body=openapi.encoded(), content_type="application/json", charset="utf-8")


async def _no_notifications(_: web.Request) -> web.Response:
    raise RequestRefused(
        HTTPStatus.CONFLICT,
        "notifications are off: switch on channels, and a transport in the section `notify` of the "
        "configuration",
    )


def _fixed(body: bytes, kind: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return answer


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("internal error: the dashboard is no longer updated", exc_info=error)
