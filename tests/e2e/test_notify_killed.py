"""A node that is killed while a webhook's receiver is down: what it had found is told after all."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web

from tests.kit.webhook_receiver import Receiver

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

CONFIG = """
listeners: [{port: 0}]
http: {port: 0}
data: data
sys_interval_s: 0
channels:
  enabled: true
  polling: {networks: [127.0.0.0/8], least_s: 100ms, robots: "off"}
notify:
  networks: [127.0.0.0/8]
  webhook: {enabled: true}
"""


@asynccontextmanager
async def up(folder: Path) -> AsyncIterator[tuple[Process, str]]:
    """`penstock up`, and where its API is."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", "up", "--json", "--config", str(folder / "penstock.yaml")),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        said = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
        yield process, said["http"]["url"] + "api/v1"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class Page:
    """A page that the test writes."""

    def __init__(self) -> None:
        self.text = "first line\n"

    async def get(self, _: web.Request) -> web.Response:
        return web.Response(text=self.text)


async def test_what_a_killed_node_had_found_is_told(tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text(CONFIG)
    page = Page()

    async def before(session: aiohttp.ClientSession, url: str, receiver: Receiver) -> str:
        """Until the change is found, and its receiver was down."""
        async with up(tmp_path) as (process, api):

            async def post(path: str, body: dict[str, Any], *good: int) -> None:
                async with session.post(f"{api}{path}", json=body) as answer:
                    assert answer.status in (200, *good), await answer.text()

            await post("/channels/subscribe", {"who": f"webhook:{receiver.url}", "url": url})
            async with asyncio.timeout(120):
                while True:
                    async with session.get(f"{api}/channels/one", params={"url": url}) as answer:
                        found = await answer.json(content_type=None)
                    if found["channel"]["kind"]:
                        break
                    await asyncio.sleep(0.1)
            page.text += "second line\n"
            async with asyncio.timeout(120):
                while not receiver.requests:
                    await post("/channels/check", {"url": url}, 403)  # too soon after the last fetch
                    await asyncio.sleep(0.2)
            await asyncio.sleep(0.3)
            async with session.get(f"{api}/notify") as answer:
                status = await answer.json()
            assert (status["taken"], status["sent"], status["waiting"]) == (1, 0, 1)
            process.kill()
            await process.wait()
            return receiver.requests[0].headers["webhook-id"]

    app = web.Application()
    app.router.add_get("/page.txt", page.get)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/page.txt"
    try:
        async with Receiver(*[503] * 10) as receiver, aiohttp.ClientSession() as session:
            first = await before(session, url, receiver)
            seen = len(receiver.requests)
            async with up(tmp_path):
                again = (await receiver.wait(seen + 1))[seen]
                assert again.headers["webhook-id"] == first
                change = json.loads(again.body)["change"]
                assert change["url"] == url
                assert change["changes"] == [{"at": 1, "old": [], "new": ["second line"]}]
    finally:
        await runner.cleanup()
