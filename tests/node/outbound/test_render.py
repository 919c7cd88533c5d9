"""Pages that scripts build, rendered by a real Chromium: what they leave is read, and nothing gets out."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from penstock.errors import ChannelRefused, MissingTool
from penstock.node.config.channels import Browser
from penstock.node.outbound.fetch import Fetcher, FetchResult
from penstock.node.outbound.render import Renderer, kill, memory_of, program_of
from penstock_lab.rigs.browser import browser
from tests.kit.channels import first_version, polling, watching
from tests.kit.waiting import until
from tests.kit.web_server import WebServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.e2e

BUILT = """<!doctype html><title>Prices</title><body><main id="list"></main><script>
fetch("/prices.json").then((answer) => answer.json()).then((prices) => {
  for (const [name, price] of Object.entries(prices)) {
    const line = document.createElement("p");
    line.textContent = `${name}: EUR ${price}`;
    document.getElementById("list").append(line);
  }
});
</script>"""
"""A page without content, until its script has asked for it."""
GREEDY = "for (var a = []; true;) if (a.length < 60) a.push(new Uint8Array(8e6).fill(1));"
"""Takes 480 MB and never ends, so that the page is not taken before somebody has looked at its memory."""
FINE = "<body><p id=a><script>a.append('fine')</script>"
CURIOUS = """<body><img src="/pixel.png"><script>
document.cookie = "c=d";
const say = (text) => document.body.append(document.createElement("p"), text);
const get = (url, how) => fetch(url, how).then(async (r) => say(await r.text()))
  .catch(() => say("no " + url));
(async () => {
  await get("PRIVATE"); await get("/one"); await get("/two", {method: "POST", body: "q"});
  await get("/three");
  try {
    await new Promise((done, failed) => {
      const socket = new WebSocket("PRIVATE".replace("http", "ws"));
      socket.onopen = done; socket.onerror = failed;
    });
    say("socket open");
  } catch { say("no socket"); }
  open("/one"); say("end");
})();
</script>"""
"""A page that asks for a private address, sends something, and opens a socket and a window."""


def settings(**more: Any) -> Browser:
    """Chromium without its sandbox, which does not start for root."""
    if browser() is None:
        pytest.skip("no Chromium on this machine")
    usual: dict[str, Any] = {"enabled": True, "sandbox": os.geteuid() != 0}
    return Browser(**usual | {"timeout_s": 300.0, "wait_s": 600.0} | more)


def html(text: str) -> Any:
    """A page of this text."""
    return lambda _: web.Response(text=text, content_type="text/html")


class Rendered:
    """Fetches pages and renders them."""

    def __init__(self, fetcher: Fetcher, renderer: Renderer) -> None:
        self._fetcher = fetcher
        self.renderer = renderer

    async def __call__(self, url: str) -> FetchResult:
        return await self.renderer.render(await self._fetcher.fetch(url))


@asynccontextmanager
async def rendering(
    *, networks: tuple[str, ...] = ("127.0.0.0/8",), page_bytes: int = 1 << 20, **more: Any
) -> AsyncIterator[Rendered]:
    """A renderer with a real browser."""
    fetcher = Fetcher(polling(networks=networks, page_bytes=page_bytes))
    renderer = Renderer(settings(**more), fetcher)
    try:
        yield Rendered(fetcher, renderer)
    finally:
        await renderer.close()
        await fetcher.close()


async def test_a_page_built_by_a_script_is_watched() -> None:
    prices = {"Lamp": 49}
    async with WebServer() as server, watching(browser=settings()) as node:
        url = server.page("/shop", html(BUILT))
        server.page("/prices.json", lambda _: web.json_response(prices))
        node.channels.add(url, rules={"render": True})
        await first_version(node, url)
        assert [line for line, _ in await node.channels.lines(url)] == ["Lamp: EUR 49"]
        prices["Chair"] = 120
        await until(lambda: node.channels.channel(url).counts.changes, within_s=600)
        (delta,) = node.channels.deltas(url, most=1)
        assert delta.changes[0].new == ("Chair: EUR 120",)
        assert node.channels.status().balanced
        # Read without the browser, the page has nothing to compare.
        node.channels.add(url, rules={})
        await until(lambda: "nothing to compare" in node.channels.channel(url).problem)


async def test_requests_of_scripts_are_guarded_counted_and_bounded() -> None:
    asked: list[str] = []

    def answer(request: web.BaseRequest) -> web.Response:
        asked.append(request.path)
        assert "Cookie" not in request.headers
        assert request.headers["User-Agent"].startswith("penstock")
        return web.Response(text="yes", headers={"Set-Cookie": "a=b", "Access-Control-Allow-Origin": "*"})

    async with WebServer() as server, WebServer() as other:
        for place in ("/one", "/two", "/three", "/pixel.png"):
            server.page(place, answer)
        private = other.page("/secret", answer).replace("127.0.0.1", "127.9.9.9")
        script = CURIOUS.replace("PRIVATE", private)
        url = server.page("/page", html(script))
        async with rendering(networks=("127.0.0.1/32",), requests=3) as rendered:
            found = await rendered(url)
        assert found.error == ""
        text = found.body.decode()
        assert f"no {private}" in text
        assert "no socket" in text
        assert "end" in text
        assert "no /three" in text  # the fourth request
        assert asked == ["/one", "/two"]
        assert found.bytes_wire > len(script)
        assert "etag" not in found.headers


@pytest.mark.parametrize(
    ("script", "more", "said"),
    [
        ("while (true) {}", {"timeout_s": 12.0}, "not rendered after 12 s"),
        (GREEDY, {"memory_bytes": 320 << 20}, "of memory (channels.browser.memory_bytes)"),
        ("document.body.append('x'.repeat(2e5))", {"page_bytes": 100_000}, "bytes when rendered"),
    ],
)  # fmt: skip
async def test_what_a_script_does_to_the_browser_is_the_failure_of_one_poll(
    script: str, more: dict[str, Any], said: str
) -> None:
    async with WebServer() as server, rendering(**more) as rendered:
        found = await rendered(server.page("/bad", html(f"<body>text<script>{script}</script>")))
        assert said in found.error
        assert found.body == b""
        if "timeout_s" in more:
            return
        found = await rendered(server.page("/good", html(FINE)))
        assert (found.error, b"fine" in found.body) == ("", True)


async def test_a_page_that_ends_before_its_browser_is_told_as_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the processes that are killed, that of the page may be the first to end."""

    def kill_pages(processes: list[int]) -> None:
        for one in processes:
            with suppress(OSError):  # it has ended
                if b"--type=renderer" in Path(f"/proc/{one}/cmdline").read_bytes():
                    kill([one])

    monkeypatch.setattr("penstock.node.outbound.render.kill", kill_pages)
    async with WebServer() as server, rendering(memory_bytes=320 << 20) as rendered:
        found = await rendered(server.page("/bad", html(f"<body>text<script>{GREEDY}</script>")))
        assert "of memory (channels.browser.memory_bytes)" in found.error


async def test_feeds_errors_and_documents_are_not_rendered() -> None:
    async with WebServer() as server, rendering() as rendered:
        for kind in ("application/json", "application/rss+xml", "text/plain"):
            page = lambda _, kind=kind: web.Response(text="{}", content_type=kind)  # noqa: E731
            found = await rendered(server.page("/other", page))
            assert (found.body, found.error) == (b"{}", "")
        assert (await rendered(server.url("/missing"))).status == 404


async def test_a_node_that_renders_no_pages_says_so() -> None:
    async with WebServer() as server, watching() as node:
        url = server.page("/shop", html(BUILT))
        with pytest.raises(ChannelRefused, match=r"set channels\.browser.enabled to true"):
            node.channels.add(url, rules={"render": True})


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingTool, match=r"channels\.browser.program"):
        program_of(Browser(program="no-such-chromium"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: 0)
        with pytest.raises(MissingTool, match=r"channels\.browser.sandbox to false"):
            program_of(Browser(program=sys.executable))
    monkeypatch.setitem(sys.modules, "playwright.async_api", None)
    with pytest.raises(MissingTool, match=r"pip install 'penstock\[browser\]'"):
        program_of(Browser())


async def test_a_killed_browser_is_an_error_of_its_poll() -> None:
    async with WebServer() as server, rendering(settle_s=120.0) as rendered:
        endless = "<body>text<script>setInterval(() => fetch('/more'), 50)</script>"
        server.page("/more", html("more"))
        work = asyncio.create_task(rendered(server.page("/endless", html(endless))))
        await until(lambda: any(asked.path == "/more" for asked in server.asked), within_s=300)
        (profile,) = rendered.renderer.profiles
        used, processes = await asyncio.to_thread(memory_of, profile)
        assert used > 1 << 20
        kill(processes)
        assert "browser" in (await work).error
        assert (await asyncio.to_thread(memory_of, profile))[1] == []
        assert not Path(profile).exists()
        found = await rendered(server.page("/good", html(FINE)))
        assert (found.error, b"fine" in found.body) == ("", True)


def drivers() -> list[int]:
    """Processes of Playwright that this process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"playwright" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


async def test_playwright_is_started_again_after_it_was_killed() -> None:
    async with WebServer() as server, rendering() as rendered:
        url = server.page("/good", html(FINE))
        assert (await rendered(url)).error == ""
        kill(drivers())
        assert "browser" in (await rendered(url)).error
        found = await rendered(url)
        assert (found.error, b"fine" in found.body) == ("", True)
