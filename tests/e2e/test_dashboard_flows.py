"""Flows on the dashboard of a real node, in a real browser."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from penstock.client import Client
from penstock_lab.rigs.local_node import local_node

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from penstock_lab.rigs.local_node import LocalNode

pytestmark = pytest.mark.e2e


async def beat(node: LocalNode, stop: threading.Event) -> None:
    """A told flow and one that is refused, until stopped."""
    async with Client(node.url, client_id="sensor") as sensor:
        while not stop.is_set():
            sensor.publish_nowait("beat", b"", properties={"penstock-period": "100ms"})
            sensor.publish_nowait("slow", b"", properties={"penstock-period": "1min"})
            await asyncio.sleep(0.1)


def test_served_flows_are_shown_and_a_node_without_slots_shows_no_table(looking: Browser) -> None:
    for slots in (True, False):
        with local_node({"listeners": [{"slots": slots}]}) as node:
            stop = threading.Event()
            thread = threading.Thread(target=asyncio.run, args=(beat(node, stop),))
            thread.start()
            try:
                page = looking.new_page()
                page.goto(f"{node.http}#/flows")
                expect(page.locator("#live")).to_have_text("live", timeout=120_000)
                if slots:
                    row = page.locator("#flow-rows tr", has_text="beat")
                    expect(row).to_contain_text("served", timeout=120_000)
                    expect(row).to_contain_text("sensor")
                    expect(page.locator("#flows-count")).to_contain_text("1 served")
                else:
                    expect(page.locator("#link-access")).to_be_visible()
                    expect(page.locator("#link-flows")).to_be_hidden()
                page.close()
            finally:
                stop.set()
                thread.join()
