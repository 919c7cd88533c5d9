"""A node that watches pages of a local web server, with clients, as fast as the machine goes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.client import Client
from penstock.errors import ChannelRefused
from penstock.node.config.channels import ChannelSettings, Polling
from penstock.node.config.read import LoadedConfig
from penstock.node.config.schema import Config, Http, Listener
from penstock.node.service import Node
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.core.channels.delta import Delta
    from penstock.core.channels.subscriptions import ChannelSubscription
    from penstock.model.event import Event
    from penstock.node.channels.service import ChannelService

SOON_S = 120.0
"""Far more than anything here takes, on a machine that is busy with other things."""

PAGE = "<html><head><title>{title}</title></head><body><main>{lines}</main></body></html>"


def html(*lines: str, title: str = "News") -> str:
    """A page whose content is these lines."""
    return PAGE.format(title=title, lines="".join(f"<p>{line}</p>" for line in lines))


def polling(**settings: Any) -> Polling:
    """Fast, from loopback."""
    usual: dict[str, Any] = {
        "least_s": 0.05,
        "error_least_s": 0.05,
        "networks": ("127.0.0.0/8",),
        "host_polls": 1_000_000,
        "host_bytes": 1 << 40,
        "robots": "off",
    }
    return Polling(**usual | settings)


class Told:
    """Keeps what subscribers were told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Delta]] = []
        self.again = 0
        """Those that may have been told before a restart."""
        self.forgotten: list[tuple[str, str]] = []
        self.written = asyncio.Event()
        """Cleared: what was told stays in memory only."""
        self.written.set()

    def check(self, who: str) -> str:
        """Everybody can be told."""
        return who

    def resumed(self, who: str, url: str) -> None:
        """Nothing was held."""

    def notify(
        self, subscribed: ChannelSubscription, delta: Delta, *, now_us: int, again: bool = False
    ) -> None:
        """Note it."""
        assert now_us >= delta.at_us
        self.again += again
        self.heard.append((subscribed.who, delta))

    async def flush(self) -> None:
        """When the test says so."""
        await self.written.wait()

    def forget(self, who: str, url: str) -> None:
        """Note it."""
        self.forgotten.append((who, url))


class Watched:
    """A running node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.told = Told()
        assert node.channels is not None
        self.channels: ChannelService = node.channels
        self.channels.notify_through(self.told)
        self.port = node.listeners[0].port

    def client(self, client_id: str, **how: Any) -> Client:
        """A client that is not connected yet."""
        return Client(f"mqtt://127.0.0.1:{self.port}", client_id=client_id, **how)


@asynccontextmanager
async def watching(data: str = "", *, http: bool = False, **web: Any) -> AsyncIterator[Watched]:
    """A node that watches pages; its intervals are a tenth of a second."""
    fast: dict[str, Any] = {"interval_s": 0.1, "polling": polling()}
    config = Config(
        listeners=(Listener(port=0),),
        http=Http(enabled=http, port=0),
        data=data,
        sys_interval_s=0,
        channels=ChannelSettings(enabled=True, **fast | web),
    )
    node = Node(LoadedConfig(config))
    async with node:
        yield Watched(node)


async def first_version(watched: Watched, url: str) -> None:
    """Wait until a page was read for the first time."""
    await until(lambda: watched.channels.channel(url).version)


async def settled(watched: Watched, url: str) -> None:
    """Have a new page looked at until it is known what keeps changing on it, and changes are told."""
    await first_version(watched, url)
    known = watched.channels._engine.registry.known(url).known
    while known.unsettled:
        with suppress(ChannelRefused):  # too soon after the last look, or under way
            await watched.channels.check_now(url)
        await asyncio.sleep(0.01)


def delta_in(event: Event) -> dict[str, Any]:
    """The change in a message."""
    found: dict[str, Any] = msgspec.json.decode(event.payload)
    return found
