"""Streams on the dashboard of real nodes, in a real browser."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from penstock.client import Client, StreamReader
from penstock_lab.rigs.local_node import local_node

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.e2e

STREAMS = {
    "node": "north",
    "host": [{"name": "orders", "topics": ["orders/#"]}],
    "neighbours": [{"name": "south"}],
    "listen": {"enabled": True, "port": 0},
}


async def publish(url: str) -> None:
    async with Client(url, client_id="reader", session_expiry_s=600) as client:
        await client.subscribe("orders/#", qos=1)
    async with Client(url) as client:
        for number in range(7):
            await client.publish("orders/<b>new</b>", b"%d" % number, qos=1)


def test_streams_and_neighbours_are_shown_and_a_node_without_them_shows_no_table(
    looking: Browser,
) -> None:
    with local_node({"streams": STREAMS}) as node:
        publishing = threading.Thread(target=asyncio.run, args=(publish(node.url),))
        publishing.start()  # playwright has a loop in this one
        publishing.join()
        with StreamReader(
            f"stream://127.0.0.1:{node.streams}", "orders", consumer="<i>c</i>", start="earliest"
        ):
            pass
        page = looking.new_page()
        page.goto(f"{node.http}#/streams")
        row = page.locator("#stream-rows tr", has_text="orders")
        expect(row).to_contain_text("live", timeout=120_000)
        cells = row.locator("td")
        expect(cells.nth(1)).to_have_text("here")
        expect(cells.nth(6)).to_have_text("7")
        expect(cells.nth(8)).to_have_text("0 / 0 / 1")
        consumer = page.locator("#consumer-rows td")
        expect(consumer).to_have_text(["orders · <i>c</i>", "–", "away", "everything"], timeout=120_000)
        expect(page.locator("#neighbour-rows tr", has_text="south")).to_contain_text("down")
        expect(page.locator("#streams-count")).to_contain_text("0 of 1 neighbour up")
        page.close()
    with local_node() as node:
        page = looking.new_page()
        page.goto(node.http)
        expect(page.locator("#live")).to_have_text("live", timeout=120_000)
        expect(page.locator("#link-access")).to_be_visible()
        for name in ("streams", "cluster", "pipeline"):
            expect(page.locator(f"#link-{name}")).to_be_hidden()
        page.close()
