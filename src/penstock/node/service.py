"""A node as a service: puts all parts together, starts, reloads and stops them in order."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import socket
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from penstock import limits
from penstock.errors import ConfigError, NodeError, PenstockError
from penstock.node.access.gate import Gate
from penstock.node.broker.background import Background
from penstock.node.broker.broker import Broker
from penstock.node.broker.listeners import Listeners
from penstock.node.broker.policies import policy_follower
from penstock.node.config.reload import Files, applicable
from penstock.node.observe.status import Observed
from penstock.node.observe.sys_topics import SysTopics
from penstock.node.store.database import DataFolder
from penstock.node.store.tables import STORE, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from penstock.node.channels.service import ChannelService
    from penstock.node.cluster.service import ClusterService
    from penstock.node.config.cluster import ClusterSettings
    from penstock.node.config.read import LoadedConfig
    from penstock.node.config.schema import Listener
    from penstock.node.http import HttpServer
    from penstock.node.notify.service import NotifyService
    from penstock.node.slots.flows import Flows
    from penstock.node.streams.service import StreamService

log = logging.getLogger(__name__)

SPARE_FILES: Final = 256
"""Open files beside the connections: store, recorder, HTTP, the process's own."""


class Node:
    """A node in the running event loop: the owner calls `start`, and at the end `close`."""

    def __init__(
        self,
        loaded: LoadedConfig,
        *,
        again: Callable[[], LoadedConfig] | None = None,
        stop: Callable[[], None] | None = None,
    ) -> None:
        self.config = loaded.config
        self._files = Files(loaded.files)
        self._again = again
        """Reads the configuration again."""
        self._stop = stop
        """Stops the node that is told to leave its cluster."""
        self.loop = asyncio.get_running_loop()
        self._gate = Gate(self.config)
        self._stack = AsyncExitStack()
        self._background = Background()
        self._http: HttpServer | None = None
        self.streams: StreamService | None = None
        """Reliable streams; None if none are configured."""
        self.channels: ChannelService | None = None
        """Channels; None: the node watches no pages."""
        self.notify: NotifyService | None = None
        """Notifications to people and programs; None: there are none."""
        self.flows: Flows | None = None
        """Flows of constant rate; None: no listener has slots."""
        self.cluster: ClusterService | None = None
        """The other nodes; None: this node is on its own."""

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners that are open, with the ports they have."""
        return self._listeners.listeners

    @property
    def http_port(self) -> int | None:
        """Port of dashboard and API; None if they are off."""
        return None if self._http is None else self._http.port

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Open the store, then the listeners; if one of them cannot be opened, nothing stays open."""
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise

    async def _start(self) -> None:
        config = self.config
        self._stack.callback(self._gate.close)
        store = None
        if config.data:
            folder = DataFolder(config.data)
            self._stack.callback(folder.close)
            store = Store(folder.path / STORE)
            self._stack.callback(store.close)
        self.broker = Broker(config, gate=self._gate, store=store)
        self.observed = Observed(self.broker)
        self._listeners = Listeners(self.broker.protocol)
        if config.recorder.topics:
            self._start_recorder()
        if config.streams.on:
            from penstock.node.streams.service import StreamService  # noqa: PLC0415  # most nodes have none

            self.observed.streams = self.streams = StreamService(self.broker, config)
            self.broker.listeners.append(self.streams)
            self._stack.push_async_callback(self.streams.close)
        if config.policy_table:
            await self._follow_policies(config.policy_table)
        self._start_broker()
        if any(listener.slots for listener in config.listeners):
            self._start_flows()
        self._stack.callback(self._listeners.stop)
        if self.streams is not None:
            await self.streams.start()
        if config.channels.enabled:
            await self._start_channels()
        if self.cluster is not None:
            await self.cluster.start()
        # No client is let in before sessions, streams and channels are restored, and other nodes are joined.
        await self._listeners.open(config.listeners, config.bounds)
        if config.http.enabled:
            from penstock.node.http import start_http  # noqa: PLC0415  # a node without it starts sooner

            self._http = await start_http(
                self.observed, config, channels=self.channels, notify=self.notify, reload=self.reload
            )
            self._stack.push_async_callback(self._http.close)
        if config.sys_interval_s:
            topics = SysTopics(self.observed.status, self.broker.publish)
            self._background.begin(topics.run(config.sys_interval_s), "the $SYS topics are no longer updated")
        if config.watch_s and self._again is not None:
            self._background.begin(self._watch(config.watch_s), "the configuration file is no longer watched")

    def _start_recorder(self) -> None:
        from penstock.node.observe.recorder import Recorder  # noqa: PLC0415  # most nodes record nothing

        self.observed.recorder = recorder = Recorder(self.config.recorder, self.config.data)
        self._stack.push_async_callback(recorder.close)
        recorder.start(self.broker)

    async def _follow_policies(self, folder: str) -> None:
        """Take the policies of the control table before a client is let in, and newer ones as they come."""
        follower = policy_follower(folder, self.broker.take_policies)
        self.observed.tables.append(follower)
        await follower.look()
        self._background.begin(follower.run(limits.CONTROL_LOOK_S), "the policy table is no longer followed")

    def _start_broker(self) -> None:
        """Start the broker; what is pushed first ends last."""
        if self.config.cluster.on:
            self._make_cluster()
        self.broker.start()
        self._stack.push_async_callback(self._listeners.close)
        self._stack.push_async_callback(self.broker.close)
        if self.cluster is not None:
            self._stack.callback(self.cluster.stop)

    def _make_cluster(self) -> None:
        """Prepare to join; this node leaves the cluster after its clients have left it."""
        from penstock.core.cluster.view import Sighting  # noqa: PLC0415  # most nodes are on their own
        from penstock.node.cluster.direct.fabric import DirectFabric  # noqa: PLC0415
        from penstock.node.cluster.draining import reached_at  # noqa: PLC0415
        from penstock.node.cluster.service import ClusterService  # noqa: PLC0415
        from penstock.node.cluster.zenoh_fabric import ZenohFabric  # noqa: PLC0415

        settings = self.config.cluster
        name = settings.node or f"{socket.gethostname()}-{self.config.listeners[0].port}"
        own = Sighting(settings.name, name, self.broker.clock())
        cluster = ClusterService(
            self.broker,
            settings,
            own=own,
            fabric=DirectFabric(ZenohFabric(settings, own), settings, own),
            about=partial(self._addresses, reached_at),
            stop=self._stop,
        )
        self._stack.push_async_callback(cluster.close)
        self.observed.cluster = self.cluster = cluster

    def _addresses(
        self, reached_at: Callable[[tuple[Listener, ...], ClusterSettings], tuple[str, ...]]
    ) -> tuple[tuple[str, ...], str]:
        """Addresses for MQTT clients, and that of the API, as other nodes are told."""
        api = "" if self.http_port is None else _http_url(self.config.http.host, self.http_port)
        return reached_at(self._listeners.listeners, self.config.cluster), api

    def _start_flows(self) -> None:
        from penstock.node.slots.flows import Flows  # noqa: PLC0415  # most nodes do without
        from penstock.node.slots.publisher import add_flows  # noqa: PLC0415

        broker = self.broker
        flows = Flows(self.config.slots, clock=broker.clock, publish=broker.publish, router=broker.router)
        add_flows(self.broker, flows)
        flows.start(self.loop)
        self._stack.callback(flows.close)
        self.observed.flows = self.flows = flows
        if self.cluster is not None:
            from penstock.node.slots.elsewhere import FlowsElsewhere  # noqa: PLC0415

            self.cluster.recognise(FlowsElsewhere(flows).recognise)
        if flows.follower is not None:
            self.observed.tables.append(flows.follower)

    async def _start_channels(self) -> None:
        from penstock.node.channels.service import ChannelService  # noqa: PLC0415  # most nodes watch no pages

        self.channels = channels = ChannelService(self.broker, self.config)
        if self.config.notify.on:
            await self._start_notify(channels)
        self._stack.push_async_callback(channels.close)
        await channels.start()
        self.observed.channels = channels
        if channels.table is not None:
            self.observed.tables.append(channels.table)

    async def _start_notify(self, channels: ChannelService) -> None:
        """Start notifications before the channels, so that they stop after them and get the last changes."""
        from penstock.node.notify.service import NotifyService  # noqa: PLC0415  # most nodes tell nobody

        self.notify = NotifyService(
            channels, self.config, Path(self.config.data) if self.config.data else None
        )
        self._stack.push_async_callback(self.notify.close)
        channels.notify_through(self.notify)
        self.observed.notify = self.notify
        await self.notify.start()

    async def close(self) -> None:
        """Stop listening, disconnect the clients, write what is kept, and close everything."""
        await self._background.close()
        await self._stack.aclose()

    # -- reload --------------------------------------------------------------------------------------------

    def reload(self) -> bool:
        """Read the configuration again and apply it; False, and nothing changes, if it has a problem."""
        if self._again is None:
            log.warning("nothing to reload: the node was started without a configuration file")
            return False
        try:
            loaded = self._again()
            config, waiting = applicable(self.config, loaded.config)
            # What can fail comes first: a wrong configuration changes nothing.
            self._listeners.reload_certificates(config.listeners)
            if self.streams is not None:
                self.streams.reconfigure(config)
            self.broker.reconfigure(config)
        except PenstockError as error:
            problems = [said for said, _ in error.each()] if isinstance(error, ConfigError) else [str(error)]
            for problem in problems:
                log.error("configuration not reloaded, the running one stays: %s", problem)  # noqa: TRY400
            return False
        self._gate.reconfigure(config)
        if self.channels is not None:
            self.channels.reconfigure(config)
        if self.notify is not None:
            self.notify.reconfigure(config)
        if self.flows is not None:
            self.flows.reconfigure(config.slots)
        if self._http is not None:
            self._http.reconfigure(config)
        logging.getLogger("penstock").setLevel(config.log.upper())
        self.config = config
        if self.cluster is not None:
            self.cluster.reconfigure(config.cluster)
        self._files.follow(loaded.files)
        for warning in loaded.warnings:
            log.warning("%s", warning)
        for name in waiting:
            log.warning("%s: the change takes effect when the node is started again", name)
        log.info("configuration reloaded")
        return True

    async def _watch(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            if self._files.changed():
                self.reload()


def allow_files(connections: int) -> None:
    """Raise the limit of open files as far as allowed; log a warning if it is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
        if soft < wanted:
            log.warning(
                "the system allows %d open files, bounds.connections are %d; see `ulimit -n`",
                soft,
                connections,
            )


async def serve(
    loaded: LoadedConfig, *, again: Callable[[], LoadedConfig] | None = None, ready: Callable[[Node], None]
) -> None:
    """Run a node until SIGTERM or SIGINT; SIGHUP reads the configuration again."""
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()

    def on_stop(name: str) -> None:
        log.info("%s: %s", name, "stopping at once" if stop.is_set() else "stopping")
        # A second signal gives up waiting for clients and writers.
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_stop, number.name)
    allow_files(loaded.config.bounds.connections)
    node = Node(loaded, again=again, stop=partial(on_stop, "the cluster is left"))
    await node.start()
    loop.add_signal_handler(signal.SIGHUP, node.reload)
    gc.collect()
    gc.freeze()  # long-lived objects: without this, every full collection would walk all of them
    ready(node)
    await stop.wait()
    await _close(node, hurry)


async def _close(node: Node, hurry: asyncio.Event) -> None:
    closing = asyncio.create_task(node.close())
    hurrying = asyncio.create_task(hurry.wait())
    await asyncio.wait(
        {closing, hurrying}, timeout=node.config.shutdown_s, return_when=asyncio.FIRST_COMPLETED
    )
    hurrying.cancel()
    if not closing.done():
        closing.cancel()
        when = "at the second signal" if hurry.is_set() else f"within {node.config.shutdown_s:g} s"
        raise NodeError(f"not everything was closed {when}; the rest was given up")
    await closing
    log.info("stopped")


def run(main: Coroutine[None, None, None]) -> None:
    """Run in an event loop of uvloop if it is installed, else of asyncio."""
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with suppress(ImportError):
        from uvloop import new_event_loop  # noqa: PLC0415

        factory = new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


def about(node: Node) -> dict[str, Any]:
    """Addresses of a node's listeners, and its data folder."""
    config = node.config
    return {
        "listeners": [
            {"kind": one.kind, "host": one.host, "port": one.port, "url": one.url} for one in node.listeners
        ],
        "http": None
        if node.http_port is None
        else {
            "host": config.http.host,
            "port": node.http_port,
            "url": _http_url(config.http.host, node.http_port),
        },
        "streams": None if node.streams is None else _streams(node.streams),
        "cluster": None
        if node.cluster is None
        else {
            "name": node.cluster.own.cluster,
            "node": node.cluster.own.name,
            "address": node.cluster.address,
        },
        "data": config.data,
    }


def _streams(streams: StreamService) -> dict[str, Any]:
    """Return the streams hosted here, and the address of the listener for streams."""
    found: dict[str, Any] = {"hosted": list(streams.hosted), "listener": None}
    if streams.listener is not None:
        listen = streams.settings.listen
        scheme = "streams" if listen.certificate else "stream"
        port = streams.listener.port
        found["listener"] = {
            "host": listen.host,
            "port": port,
            "url": f"{scheme}://{_host(listen.host)}:{port}",
        }
    return found


def _http_url(host: str, port: int) -> str:
    return f"http://{_host(host)}:{port}/"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
