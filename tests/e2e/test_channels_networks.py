"""A page of a private network is refused; once the network is allowed, a reload is enough for it."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

import pytest

from penstock.cli.api import api_address, ask
from tests.kit.channels import html
from tests.kit.up import up
from tests.kit.waiting import until
from tests.kit.web_server import WebServer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

CONFIG = """
data: data
sys_interval_s: 0
channels:
  enabled: true
  polling: {networks: [%s]}
"""


async def test_a_network_that_is_allowed_later_helps_at_once(tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text(CONFIG % "")
    async with WebServer() as site:
        # By address and by name; robots.txt is asked for first, and refused as well.
        pages = [site.put("/by-address", html("one")), site.url("/by-name", host="localhost")]
        site.put("/by-name", html("two"))
        with up(tmp_path, "--channels") as node:
            where = api_address(node.about["http"]["url"], "")

            async def rows() -> list[dict[str, Any]]:
                found = await asyncio.to_thread(ask, where, "/channels")
                assert isinstance(found["channels"], list)
                return found["channels"]

            for page in pages:
                await asyncio.to_thread(ask, where, "/channels/add", {"url": page})
            found: list[dict[str, Any]] = []

            async def seen(what: str) -> None:
                nonlocal found
                while not (len(found) == 2 and all(what in str(each) for each in found)):
                    await asyncio.sleep(0.05)
                    found = await rows()

            await asyncio.wait_for(seen("`networks` in the configuration"), 120)
            assert not site.asked, "nothing was sent to a network that is not allowed"

            path.write_text(CONFIG % "127.0.0.0/8, '::1/128'")
            node.process.send_signal(signal.SIGHUP)
            await until(lambda: site.counts["/by-address"] and site.counts["/by-name"])
            await asyncio.wait_for(seen("'problem': ''"), 120)
            assert "2 refused pages tried again" in node.log.read_text()
            assert "takes effect when the node is started again" not in node.log.read_text()

            before = sum(site.counts.values())
            path.write_text(CONFIG % "")
            node.process.send_signal(signal.SIGHUP)
            node.logged("0 refused pages tried again")
            assert sum(site.counts.values()) == before
