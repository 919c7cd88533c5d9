"""Two nodes: one watches a page and is the hub of its feed, the other watches that feed and is sent it."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web
from typer.testing import CliRunner

from penstock.cli.app import app as cli
from penstock.errors import ChannelRefused
from penstock.node.config.read import load
from penstock.node.service import Node
from penstock_lab.rigs.ports import free_port
from tests.kit.waiting import until
from tests.kit.webhook_receiver import Receiver

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

CONFIG = """
listeners: [{{port: 0}}]
http: {{port: {port}, base_url: 'http://127.0.0.1:{port}'}}
data: {data}
sys_interval_s: 0
channels:
  enabled: true
  polling: {{networks: [127.0.0.0/8], least_s: {least}, robots: "off"}}
notify:
  networks: [127.0.0.0/8]
  per_minute: 6000
  webhook: {{enabled: true}}
  hub: {{enabled: true}}
"""


async def node(stack: AsyncExitStack, data: Path, *, least: str) -> tuple[Node, str]:
    """A node, and the URL of its HTTP port."""
    port = free_port()
    made = Node(load(CONFIG.format(port=port, data=data, least=least)))
    await stack.enter_async_context(made)
    return made, f"http://127.0.0.1:{port}"


async def penstock(*arguments: str) -> Any:
    """The JSON that a command prints."""
    result = await asyncio.to_thread(CliRunner().invoke, cli, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def test_from_a_page_through_a_hub_to_a_webhook_at_another_node(tmp_path: Path) -> None:
    text = ["first"]

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="\n".join(text))

    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(Receiver())
        pages = web.Application()
        pages.router.add_get("/page.txt", page)
        runner = web.AppRunner(pages, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/page.txt"
        first, here = await node(stack, tmp_path / "first", least="100ms")
        second, there = await node(stack, tmp_path / "second", least="1h")
        channels, followed = first.channels, second.channels
        assert channels is not None
        assert followed is not None
        await penstock("channels", "add", url, "--node", here)
        await until(lambda: channels.channel(url).kind)
        feed = (await penstock("notify", "feed", "--page", url, "--node", here))["url"]
        await penstock("channels", "subscribe", f"webhook:{receiver.url}", feed, "--node", there)
        await until(lambda: "sends changes" in followed.why(feed))
        text.append("second")
        async with asyncio.timeout(120):
            while not receiver.requests:  # the second node polls once an hour: only a push can be so soon
                with suppress(ChannelRefused):  # the node has polled it by itself within the last 100 ms
                    await channels.check_now(url)
                await asyncio.sleep(0.15)
        change = json.loads(receiver.requests[0].body)["change"]
        assert change["url"] == feed
        assert "second" in json.dumps(change["items"])
        status = await penstock("notify", "status", "--node", there)
        assert (status["taken"], status["transports"]["webhook"]["sent"]) == (1, 1)
        async with aiohttp.ClientSession() as session, session.get(f"{there}/metrics") as answer:
            metrics = await answer.text()
        assert 'penstock_notify_changes_total{fate="sent"} 1.0' in metrics
        assert "penstock_notify_waiting 0.0" in metrics
        status = await penstock("notify", "status", "--node", here)
        assert status["transports"]["hub"]["leases"] == 1
        key = await penstock("notify", "key", receiver.url, "--node", there)
        assert key["key"].startswith("whsec_")
