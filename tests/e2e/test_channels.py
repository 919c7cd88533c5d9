"""From a changing page to all who watch it: MQTT, webhook, chat, browser, terminal; real processes."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from playwright.async_api import async_playwright, expect

from penstock.client import Client
from penstock.core.channels.address import topic_of
from penstock.model.event import Event
from tests.e2e.chromium import ARGUMENTS, chromium
from tests.kit.channels import html
from tests.kit.prosody import PROSODY, prosody
from tests.kit.web_server import WebServer
from tests.kit.webhook_receiver import Receiver
from tests.kit.xmpp_people import ACCOUNTS, person

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Page

    from penstock.client import Subscription

pytestmark = pytest.mark.e2e

CONFIG = """
listeners: [{port: 0}]
http: {port: 0}
data: data
sys_interval_s: 0
channels:
  enabled: true
  interval_s: 300ms
  polling: {networks: [127.0.0.0/8], least_s: 100ms, host_polls: 1000000, robots: "off"}
"""
NOTIFY = """
notify:
  networks: [127.0.0.0/8]
  webhook: {enabled: true}
  xmpp: {jid: bot@localhost, host: 127.0.0.1, port: %d, ca: %s, password: %s}
"""


class Up:
    """`penstock up` as a process of its own."""

    def __init__(self, process: Process, said: dict[str, Any]) -> None:
        self.process = process
        self.mqtt: str = said["listeners"][0]["url"]
        self.window: str = said["http"]["url"]

    async def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        method = "GET" if body is None else "POST"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"{self.window}api/v1{path}", json=body) as answer,
        ):
            found = await answer.json(content_type=None)
            assert answer.status == 200, found
            return found

    async def first_version(self, url: str) -> None:
        """Wait until the page was read for the first time."""
        async with asyncio.timeout(120):
            while not any(one["version"] for one in (await self.ask(f"/channels?search={url}"))["channels"]):
                await asyncio.sleep(0.05)


@asynccontextmanager
async def up(folder: Path, more: str = "") -> AsyncIterator[Up]:
    (folder / "penstock.yaml").write_text(CONFIG + more)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", "up", "--json", "--config", str(folder / "penstock.yaml")),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield Up(process, json.loads(await asyncio.wait_for(process.stdout.readline(), 60)))
    finally:
        if process.returncode is None:
            process.terminate()
        assert await asyncio.wait_for(process.wait(), 120) in (0, -9)


@asynccontextmanager
async def dashboard(node: Up) -> AsyncIterator[Page]:
    """The dashboard in a browser, in which nothing may go wrong unseen."""
    program = chromium()
    wrong: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        page = await browser.new_page(viewport={"width": 1440, "height": 1000})
        page.set_default_timeout(120_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        await page.goto(f"{node.window}#/channels")
        yield page
        await browser.close()
    assert wrong == []


async def next_change(subscription: Subscription) -> dict[str, Any]:
    async with asyncio.timeout(120):
        async for item in subscription:
            assert isinstance(item, Event)
            found: dict[str, Any] = msgspec.json.decode(item.payload)
            return found
    raise AssertionError


@pytest.mark.skipif(PROSODY is None, reason="prosody is not installed")
async def test_one_change_reaches_everybody(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        folder = tmp_path / "prosody"
        folder.mkdir()
        chat = stack.enter_context(prosody(folder, ACCOUNTS))
        server = await stack.enter_async_context(WebServer())
        receiver = await stack.enter_async_context(Receiver())
        notify = NOTIFY % (chat.port, chat.ca, ACCOUNTS["bot"])
        node = await stack.enter_async_context(up(tmp_path, notify))
        url = server.put("/news", html("one", "two"))
        ann = await stack.enter_async_context(person("ann", chat))
        assert await ann.ask(f"subscribe {url}") == f"You are subscribed to {url}."
        await node.ask("/channels/subscribe", {"who": f"webhook:{receiver.url}", "url": url})
        client = await stack.enter_async_context(Client(node.mqtt))
        subscription = await client.subscribe(topic_of(url), qos=1)
        page = await stack.enter_async_context(dashboard(node))
        await node.first_version(url)
        await page.locator("#channel-rows .who button").click()
        await expect(page.locator(".history")).to_contain_text("Nothing so far.")

        server.put("/news", html("one", "two", "three <b>new</b>".replace("<", "&lt;")))
        found = await next_change(subscription)
        assert found["changes"] == [{"at": 2, "old": [], "new": ["three <b>new</b>"]}]
        (request,) = await receiver.wait(1)
        assert json.loads(request.body)["change"]["version"] == found["version"]
        assert "three <b>new</b>" in await ann.hear()
        await expect(page.locator(".history ins")).to_have_text("three <b>new</b>")
        status = (await node.ask("/channels"))["status"]
        assert (status["balanced"], status["counts"]["changes"]) == (True, 1)
        assert (status["published"], status["handed"]) == (1, 2)


async def test_a_killed_node_goes_on_where_it_was(tmp_path: Path) -> None:
    async with WebServer() as server:
        url = server.put("/news", html("one"))
        async with up(tmp_path) as node:
            await node.ask("/channels/add", {"url": url})
            await node.first_version(url)
            async with Client(node.mqtt) as client:
                subscription = await client.subscribe(topic_of(url))
                server.put("/news", html("one", "two"))
                first = await next_change(subscription)
            await asyncio.sleep(0.5)
            node.process.kill()
        whole = sum("if-none-match" not in each.headers for each in server.asked)
        async with up(tmp_path) as node, Client(node.mqtt) as client:
            subscription = await client.subscribe(topic_of(url), retain_handling=2)
            await asyncio.sleep(1)
            assert sum("if-none-match" not in each.headers for each in server.asked) == whole
            server.put("/news", html("one", "two", "three"))
            second = await next_change(subscription)
            assert (second["old_version"], second["added"]) == (first["version"], 1)
            history = await node.ask(f"/channels/history?url={url}")
            assert [one["version"] for one in history["deltas"]] == [second["version"], first["version"]]


async def test_the_dashboard_adds_pauses_and_removes_pages(tmp_path: Path) -> None:
    async with WebServer() as server, up(tmp_path) as node, dashboard(node) as page:
        url = server.put("/<img>", html("one", title="<img src=x onerror=alert(1)>"))
        server.put("/%3Cimg%3E", html("one", title="<img src=x onerror=alert(1)>".replace("<", "&lt;")))
        await expect(page.locator("#channels-none")).to_have_text("No page is watched yet.")
        await page.locator("#channel-url").fill("ftp://example.org/")
        await page.locator("#channel-form button.main").click()
        await expect(page.locator("#channel-said")).to_contain_text("http:// or https://")
        await page.locator("#channel-url").fill(url)
        await page.get_by_label("Run its scripts").check()
        await page.locator("#channel-url").press("Enter")
        await expect(page.locator("#channel-said")).to_contain_text("set channels.browser.enabled to true")
        await page.get_by_label("Run its scripts").uncheck()
        await page.locator("#channel-url").press("Enter")
        await expect(page.locator("#channel-said")).to_contain_text("is watched.")
        row = page.locator("#channel-rows .who button")
        await expect(row).to_have_text("<img src=x onerror=alert(1)>")
        await row.focus()
        await page.keyboard.press("Enter")
        await expect(page.locator(".why")).to_contain_text("It is polled every 300 ms")
        await page.get_by_role("button", name="Pause").click()
        await expect(page.locator("#channel-rows .state")).to_have_text("paused")
        await page.get_by_role("button", name="Resume").click()
        await expect(page.locator("#channel-rows .state")).to_have_text("polled")
        async with asyncio.timeout(120):  # a check right after a poll is refused, and said so
            while await page.locator("#channel-said").text_content() != "It has not changed.":
                await page.get_by_role("button", name="Check now").click()
                await asyncio.sleep(0.25)
        await expect(page.locator("main img")).to_have_count(0)
        await page.get_by_role("button", name="Remove", exact=True).click()
        await page.locator("#confirm-yes").click()
        await expect(page.locator("#channel-rows tr")).to_have_count(0)


async def test_a_list_is_imported_and_a_part_of_a_page_picked(tmp_path: Path) -> None:
    async with WebServer() as server, up(tmp_path) as node, dashboard(node) as page:
        watches = [
            {"url": server.put("/shop", html("Lamp", "EUR 49")), "tag": "shops", "trigger_text": ["x"]}
        ]
        listed = {
            "name": "url-watches.json",
            "mimeType": "application/json",
            "buffer": msgspec.json.encode(watches),
        }
        await page.locator("#channel-file").set_input_files(listed)  # type: ignore[arg-type]
        await expect(page.locator("#channel-said")).to_have_text("1 page of url-watches.json watched.")
        await expect(page.locator("#channel-left")).to_contain_text("trigger_text is not supported")
        await expect(page.locator("#channel-rows .tags .chip")).to_have_text("shops")
        await node.first_version("shop")
        await page.locator("#channel-rows .who button").click()
        await page.get_by_role("button", name="Pick a part …").click()
        await page.locator(".page-lines button").filter(has_text="EUR 49").click()
        await page.get_by_role("button", name="XPath", exact=True).click()
        await expect(page.locator(".choice code").first).to_have_text("//p")
        await page.get_by_role("button", name="CSS", exact=True).click()
        await page.get_by_role("button", name="Watch only this").first.click()
        await expect(page.locator("#channel-said")).to_contain_text("read by other rules from now on")
        found = await node.ask(f"/channels/one?url={watches[0]['url']}")
        assert len(found["rules"]["css"]) == 1
        await page.get_by_role("button", name="Pick a part …").click()
        await page.get_by_role("button", name="Pick a part …").click()
        await page.get_by_label("Or write a selector, CSS or XPath").fill("//p[contains(., 'EUR')]")
        async with asyncio.timeout(120):  # a fetch right after a poll is refused, and said so
            while not await page.get_by_text("1 line found").count():
                await page.get_by_role("button", name="Try it").click()
                await asyncio.sleep(0.25)
        await expect(page.locator(".trial li")).to_have_text("EUR 49")
        await page.locator(".trial").get_by_role("button", name="Watch only this").click()
        async with asyncio.timeout(120):
            while (await node.ask(f"/channels/one?url={watches[0]['url']}"))["rules"] != {
                "xpath": ["//p[contains(., 'EUR')]"]
            }:
                await asyncio.sleep(0.1)


async def test_a_click_in_the_history_restores_a_version(tmp_path: Path) -> None:
    async with WebServer() as server, up(tmp_path) as node, dashboard(node) as page:
        url = server.put("/prices", html("Lamp", "EUR forty"))
        await node.ask("/channels/add", {"url": url})
        await node.first_version(url)
        server.put("/prices", html("Lamp", "EUR fifty"))
        await page.locator("#channel-rows .who button").click()
        await expect(page.locator(".history ins")).to_have_text("EUR fifty", timeout=120_000)
        buttons = page.locator(".history .restore")
        await expect(buttons.first).to_be_hidden()  # the present version
        await buttons.nth(1).focus()
        await page.keyboard.press("Enter")
        await page.locator("#confirm-yes").click()
        await expect(page.locator("#channel-said")).to_contain_text("was restored as version")
        # The page was not changed: what it shows differs from what was restored, which is the next change.
        await expect(page.locator(".history ins")).to_have_text(
            ["EUR fifty", "EUR forty", "EUR fifty"], timeout=120_000
        )
        await expect(page.locator(".history .beside")).to_contain_text("was restored.")


def with_tips(server: WebServer) -> str:
    """A page with a tip that every request shows another one of, behind markup that is text."""
    tips = iter(range(10_000))

    def page(_: web.BaseRequest) -> web.Response:
        number = next(tips)
        said = f"{('tea', 'rice', 'salt')[number % 3]} &lt;b&gt; number {number}"
        text = html("A steady line").replace("</main>", f"<div class='tip'><p>Tip: {said}</p></div></main>")
        return web.Response(text=text, content_type="text/html")

    return server.page("/tips", page)


async def commanded(node: Up, *words: str) -> str:
    """The output of `penstock channels`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", "channels", *words, "--node", node.window),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, out
    return out.decode()


async def test_what_is_muted_is_shown_with_its_evidence_and_a_click_unmutes_it(tmp_path: Path) -> None:
    async with WebServer() as server, up(tmp_path) as node, dashboard(node) as page:
        url = with_tips(server)
        await node.ask("/channels/add", {"url": url})
        await node.first_version(url)
        said = await commanded(node, "why", url)
        assert "Muted at /main/div.tip/p in 'Tip: " in said
        assert "Two fetches of one moment differed in" in said
        await page.locator("#channel-rows .who button").click()
        muted = page.locator(".muted li").first
        await expect(muted.locator("code")).to_have_text("/main/div.tip/p", timeout=120_000)
        await expect(muted.locator("small")).to_contain_text("Two fetches of one moment differed in")
        await expect(page.locator(".muted q").first).to_contain_text("<b> number")
        await expect(page.locator(".muted mark").first).to_have_text(re.compile(r"tea|rice|salt|\d"))
        await expect(page.locator(".history")).to_contain_text("Nothing so far.")
        await muted.get_by_role("button", name="Unmute").click()
        await expect(page.locator("#channel-said")).to_contain_text("are told from now on", timeout=120_000)
        await expect(page.locator(".history ins").first).to_be_visible(timeout=120_000)
        await expect(page.locator(".muted li")).to_have_count(0, timeout=120_000)
        assert "Muted at" not in await commanded(node, "why", url)


async def test_a_command_unmutes_a_place(tmp_path: Path) -> None:
    async with WebServer() as server, up(tmp_path) as node:
        url = with_tips(server)
        await node.ask("/channels/add", {"url": url})
        await node.first_version(url)
        (found, *_) = json.loads(await commanded(node, "why", url, "--json"))["muted"]
        assert (found["place"], found["text"].startswith("Tip: ")) == ("/main/div.tip/p", True)
        assert "are told from now on" in await commanded(node, "unmute", url, found["place"])
        async with asyncio.timeout(120):
            while not (await node.ask(f"/channels/history?url={url}"))["deltas"]:
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("own", [True, False])
async def test_watch_shows_a_change_and_ends(tmp_path: Path, own: bool) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(WebServer())
        url = server.put("/news", html("one"))
        words = ["watch", url, "--once"]
        node = None if own else await stack.enter_async_context(up(tmp_path))
        words += ["--every", "1s"] if node is None else ["--node", node.mqtt, "--json"]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "penstock", *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(120):
                while not server.counts["/news"]:
                    await asyncio.sleep(0.05)
                await asyncio.sleep(0.3)
                server.put("/news", html("one", "two"))
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
        assert process.returncode == 0, err
        assert b"1 change" in err
        if own:
            assert b"+ two" in out
            assert b"watching News (html), every 1 s" in err
        else:
            assert json.loads(out)["changes"][0]["new"] == ["two"]
