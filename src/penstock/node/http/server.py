"""Opening and closing the window: aiohttp on one port."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from penstock import limits
from penstock.errors import NodeError
from penstock.node.addresses import is_loopback
from penstock.node.http import openapi
from penstock.node.http.channel_handlers import ChannelHandlers
from penstock.node.http.channel_routes import CHANNEL_ROUTES
from penstock.node.http.door import Door
from penstock.node.http.guard import OPEN, Guard
from penstock.node.http.handlers import Handlers
from penstock.node.http.history import History
from penstock.node.http.routes import API, ROUTES
from penstock.node.http.watch import Watch
from penstock.node.listeners import cannot_listen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from penstock.node.config import Config
    from penstock.node.http.needs import Watched
    from penstock.node.web.service import Channels

_log = logging.getLogger(__name__)

_KINDS: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Window:
    """An open window."""

    def __init__(
        self, *, server: asyncio.Server, door: Door, watch: Watch, guard: Guard, runner: web.AppRunner
    ) -> None:
        self.port: int = server.sockets[0].getsockname()[1]
        self._server = server
        self._door = door
        self._watch = watch
        self._guard = guard
        self._runner = runner
        self._sampling = asyncio.create_task(watch.run())
        self._sampling.add_done_callback(_tell_failure)

    def reconfigure(self, config: Config) -> None:
        """Policies, bounds and the token from now on; the address stays until the node is started again."""
        self._watch.config = config
        if config.http.token or is_loopback(self._guard.host):
            self._guard.token = config.http.token
        else:
            _log.warning("http.token is kept: without one %s would be open to everybody", self._guard.host)

    async def close(self) -> None:
        """Let viewers go, finish what is being answered, free the port."""
        self._sampling.cancel()
        with suppress(asyncio.CancelledError):
            await self._sampling
        self._server.close()
        self._door.close()
        await self._watch.close()
        await self._runner.cleanup()


async def start_http(
    broker: Watched,
    config: Config,
    *,
    history: History | None = None,
    channels: Channels | None = None,
    more: Iterable[web.RouteDef] = (),
) -> Window:
    """Open the window that the configuration describes."""
    http = config.http
    if not http.token and not is_loopback(http.host):
        raise NodeError(
            f"http.host is {http.host}, which others can reach: set http.token to a long random text, "
            "or http.host to 127.0.0.1"
        )
    watch = Watch(broker, config, history or History())
    guard = Guard(http)
    app = web.Application(middlewares=[guard.middleware], client_max_size=limits.HTTP_BODY_BYTES)
    handlers = Handlers(broker, watch)
    for route in ROUTES:
        app.router.add_route(route.method, route.path, getattr(handlers, route.handler))
    about_channels = ChannelHandlers(channels, changed=watch.changed)
    for route in CHANNEL_ROUTES:
        app.router.add_route(route.method, route.path, getattr(about_channels, route.handler))
    app.router.add_routes(more)
    app.router.add_get(
        f"{API}/openapi.json", _fixed(msgspec.json.encode(openapi.document()), "application/json")
    )
    for path, file in OPEN.items():
        app.router.add_get(path, _fixed(file.read_bytes(), _KINDS[file.name.rpartition(".")[2]]))
    runner = web.AppRunner(
        app, logger=_server_log(), access_log=None, handle_signals=False, shutdown_timeout=2.0
    )
    await runner.setup()
    assert runner.server is not None
    door = Door(runner.server)
    try:
        server = await asyncio.get_running_loop().create_server(door, http.host, http.port)
    except OSError as error:
        await runner.cleanup()
        raise cannot_listen(http.host, http.port, error) from None
    return Window(server=server, door=door, watch=watch, guard=guard, runner=runner)


def _server_log() -> logging.Logger:
    """aiohttp's log, without a traceback for whatever strangers send instead of HTTP."""
    log = logging.getLogger(f"{__name__}.aiohttp")
    if not log.filters:
        log.addFilter(
            lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
        )
    return log


def _fixed(body: bytes, kind: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return answer


def _tell_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a bug: the dashboard stands still", exc_info=error)
