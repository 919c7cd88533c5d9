"""Runs the scripts of a page in Chromium and returns the page as they left it.

The browser has no network. Its requests are intercepted and made by the node's own `Fetcher`, so that
addresses are refused and sizes bounded exactly as for plain polling; whatever is not intercepted (web
sockets, WebRTC, prefetching of names) meets a proxy that does not exist. Each page gets a browser process and
a profile of its own, which end with it: nothing is shared, no cookie is kept, and a crash is the failure of
one poll.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from penstock import limits
from penstock.core.channels.address import canonical
from penstock.errors import BadAddress, MissingTool
from penstock.node.outbound.fetch import brief, user_agent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from playwright.async_api import BrowserContext, Page, Playwright, Route

    from penstock.node.config.channels import Browser
    from penstock.node.outbound.fetch import Fetcher, FetchResult

log = logging.getLogger(__name__)

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names under which systems have Chromium."""

_ARGUMENTS: Final = (
    "--proxy-server=http://0.0.0.0:1",  # nobody listens there: only what is intercepted gets an answer
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-pings",
    "--renderer-process-limit=1",
)
_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "FONTCONFIG_PATH")
"""Variables of the node's environment that the browser needs; others may be secrets."""

_FETCHED: Final = frozenset({"document", "script", "xhr", "fetch"})
"""Kinds of requests that bring content. Pictures, fonts and films are not asked for."""
_METHODS: Final = frozenset({"GET", "POST"})
_OWN_HEADERS: Final = frozenset(
    ("cookie", "host", "user-agent", "accept-encoding", "connection", "content-length")
)
"""Headers of a request that the node sets, or that would identify a visitor."""
_DROPPED: Final = frozenset(
    ("content-encoding", "content-length", "transfer-encoding", "set-cookie", "connection")
)
"""Headers of an answer that do not describe the body as it is handed to the browser."""
_TAKEN: Final = "(most) => document.documentElement.outerHTML.slice(0, most)"
_TEXT: Final = "text/html; charset=utf-8"


def is_page(fetched: FetchResult) -> bool:
    """Whether an answer is a page whose scripts may change it; feeds and documents are not."""
    kind = fetched.content_type.partition(";")[0].strip().lower()
    return fetched.status == 200 and not fetched.error and kind in ("text/html", "application/xhtml+xml")


def program_of(settings: Browser) -> str:
    """Return the path of Chromium; MissingTool says how to get what is missing."""
    try:
        import_module("playwright.async_api")
    except ImportError:
        raise MissingTool(
            "channels.browser needs playwright, which is not installed: pip install 'penstock[browser]'"
        ) from None
    names = (settings.program,) if settings.program else PROGRAMS
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise MissingTool(
            f"channels.browser needs Chromium, and there is no {' or '.join(names)}: install it "
            "(`apt install chromium`), or name it with channels.browser.program"
        )
    if settings.sandbox and hasattr(os, "geteuid") and os.geteuid() == 0:
        raise MissingTool(
            "Chromium's sandbox does not start for root: run the node as another user, or set "
            "channels.browser.sandbox to false"
        )
    return found


class Renderer:
    """Renders pages, a bounded number at a time. Playwright is started with the first one."""

    def __init__(self, settings: Browser, fetcher: Fetcher, *, contact: str = "") -> None:
        """MissingTool if Playwright or Chromium is not installed."""
        self._settings = settings
        self._fetcher = fetcher
        self._agent = user_agent(contact)
        self._program = program_of(settings)
        self._turn = asyncio.Semaphore(settings.pages)
        self._starting = asyncio.Lock()
        self._playwright: Playwright | None = None
        self.profiles: set[str] = set()
        """Folders of the browsers that run now."""

    async def render(self, fetched: FetchResult) -> FetchResult:
        """Run the scripts of a page that was fetched; the error of the result says why that failed."""
        if not is_page(fetched):
            return fetched
        began_ns = perf_counter_ns()
        settings = self._settings
        visit = _Rendering(self._fetcher, settings, fetched)
        try:
            async with asyncio.timeout(settings.wait_s):
                await self._turn.acquire()
        except TimeoutError:
            return visit.failed(f"No browser was free within {settings.wait_s:g} s (channels.browser.pages).")
        try:
            async with asyncio.timeout(settings.timeout_s):
                result = await self._run(visit)
        except TimeoutError:
            result = visit.failed(
                f"The page was not rendered after {settings.timeout_s:g} s (channels.browser.timeout_s)."
            )
        finally:
            self._turn.release()
        return replace(result, duration_us=fetched.duration_us + (perf_counter_ns() - began_ns) // 1_000)

    async def _run(self, visit: _Rendering) -> FetchResult:
        from playwright.async_api import Error  # noqa: PLC0415  # an extra

        with TemporaryDirectory(prefix="penstock-page-", ignore_cleanup_errors=True) as profile:
            watch = asyncio.create_task(_watch_memory(profile, self._settings.memory_bytes))
            context: BrowserContext | None = None
            self.profiles.add(profile)
            try:
                context = await self._launch(profile)
                result = await visit.run(context)
            except Error as error:
                if context is None and self.profiles == {profile}:
                    await self.close()  # Playwright itself may have ended: the next page starts it again
                result = visit.failed(f"The browser failed: {brief(error)}.")
            finally:
                too_large = watch.done()
                watch.cancel()
                self.profiles.discard(profile)
                await asyncio.shield(_end(context, profile))
        # The end of a browser that was killed is told as an error or, if its page's process ended first, as
        # a crash of the page.
        if too_large and result.error:
            most = self._settings.memory_bytes >> 20
            return visit.failed(
                f"Rendering took more than {most} MB of memory (channels.browser.memory_bytes)."
            )
        return result

    async def _launch(self, profile: str) -> BrowserContext:
        async with self._starting:
            if self._playwright is None:
                from playwright.async_api import async_playwright  # noqa: PLC0415  # an extra

                self._playwright = await async_playwright().start()
        known = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        heap_mb = max(64, self._settings.memory_bytes >> 21)
        return await self._playwright.chromium.launch_persistent_context(
            profile,
            executable_path=self._program,
            args=[*_ARGUMENTS, f"--js-flags=--max-old-space-size={heap_mb}"],
            chromium_sandbox=self._settings.sandbox,
            env={**known, "HOME": profile, "TMPDIR": profile},
            headless=True,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
            accept_downloads=False,
            service_workers="block",
            user_agent=self._agent,
            timeout=self._settings.timeout_s * 1_000,
        )

    async def close(self) -> None:
        """End Playwright; pages that are being rendered fail."""
        playwright, self._playwright = self._playwright, None
        if playwright is not None:
            with suppress(Exception):  # it may have ended by itself
                async with asyncio.timeout(limits.RENDER_END_S):
                    await playwright.stop()


class _Rendering:
    """One page: answers what its scripts ask for, and takes the text they leave."""

    def __init__(self, fetcher: Fetcher, settings: Browser, fetched: FetchResult) -> None:
        self._fetcher = fetcher
        self._settings = settings
        self._fetched = fetched
        self._given = False
        """Whether the page itself was handed to the browser."""
        self._ended = False
        """Whether nothing is fetched for it any more."""
        self._requests = 0
        self._wire_bytes = 0
        self._refused = ""
        """Why a request was refused, the first of them; for the log."""

    def failed(self, problem: str) -> FetchResult:
        """The page without a body, and why."""
        total = self._fetched.bytes_wire + self._wire_bytes
        return replace(self._fetched, body=b"", error=problem, bytes_wire=total)

    async def run(self, context: BrowserContext) -> FetchResult:
        """Load the page and wait until its scripts ask for nothing more."""
        from playwright.async_api import TimeoutError as NotYet  # noqa: PLC0415  # an extra

        await context.route("**/*", self._answer)
        page = context.pages[0] if context.pages else await context.new_page()
        crashed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_crash(_: Page) -> None:
            if not crashed.done():
                crashed.set_result(None)

        page.on("crash", on_crash)
        context.on("page", _close_window)
        work = asyncio.ensure_future(self._load(page, NotYet))
        try:
            either: set[asyncio.Future[Any]] = {work, crashed}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                return self.failed("The page crashed the browser.")
            text: str = work.result()
        finally:
            self._ended = True
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        if self._refused:
            log.info("%s: a request of the page was refused: %s", self._fetched.url, self._refused)
        body = text.encode(errors="replace")
        most = self._fetcher.options.page_bytes
        if len(body) > most:
            return self.failed(f"The page has more than {most:,} bytes when rendered.")
        kept = {name: value for name, value in self._fetched.headers.items() if name not in _VALIDATORS}
        total = self._fetched.bytes_wire + self._wire_bytes
        return replace(self._fetched, headers={**kept, "content-type": _TEXT}, body=body, bytes_wire=total)

    async def _load(self, page: Page, not_yet: type[Exception]) -> str:
        settle_ms = self._settings.settle_s * 1_000
        await page.goto(self._fetched.url, wait_until="load", timeout=self._settings.timeout_s * 1_000)
        with suppress(not_yet):  # a page that never stops asking is taken as it is
            await page.wait_for_load_state("networkidle", timeout=settle_ms)
        most = self._fetcher.options.page_bytes
        found: str = await page.evaluate(_TAKEN, most + 1)
        return f"<!doctype html>{found}"

    # -- what the page asks for ------------------------------------------------------------------------

    async def _answer(self, route: Route) -> None:
        """Answer a request of the browser; an exception would leave it waiting."""
        from playwright.async_api import Error  # noqa: PLC0415  # an extra

        with suppress(Error):  # the browser has ended meanwhile
            try:
                answer = await self._fetch(route)
            except Exception:
                log.exception("a request of %s could not be made", self._fetched.url)
                answer = None
            if answer is None:
                await route.abort()
            else:
                await route.fulfill(**answer)

    async def _fetch(self, route: Route) -> dict[str, Any] | None:
        """The answer to a request; None: it is refused."""
        request = route.request
        if not self._given and request.is_navigation_request():
            self._given = True
            return _fulfilled(self._fetched)
        if request.resource_type == "stylesheet":  # its absence would be an error to scripts that wait for it
            return {"status": 200, "content_type": "text/css", "body": ""}
        if self._ended or request.resource_type not in _FETCHED or request.method not in _METHODS:
            return None
        self._requests += 1
        if self._requests > self._settings.requests:
            return self._no(f"it is the {self._requests}th (channels.browser.requests)")
        if self._wire_bytes > self._settings.bytes:
            return self._no("the page has asked for too much (channels.browser.bytes)")
        try:
            url = canonical(request.url)
        except BadAddress as error:
            return self._no(str(error))
        headers = {
            name: value
            for name, value in request.headers.items()
            if name not in _OWN_HEADERS and not name.startswith(("sec-", ":"))
        }
        post = request.post_data_buffer if request.method == "POST" else None
        if post is not None and len(post) > limits.RENDER_POST_BYTES:
            return self._no("it sends too much")
        found = await self._fetcher.fetch(url, headers=headers, post=post)
        self._wire_bytes += found.bytes_wire
        return self._no(found.error) if found.error or not found.status else _fulfilled(found)

    def _no(self, reason: str) -> dict[str, Any] | None:
        """Refuse a request, and keep the first reason."""
        self._refused = self._refused or reason
        return None


_VALIDATORS: Final = frozenset({"etag", "last-modified", "content-length", "content-encoding"})
"""Headers about the page before its scripts ran: what scripts load may change although these do not."""


def _fulfilled(found: FetchResult) -> dict[str, Any]:
    headers: Mapping[str, str] = {
        name: value for name, value in found.headers.items() if name not in _DROPPED
    }
    return {"status": found.status, "headers": headers, "body": found.body}


async def _close_window(page: Page) -> None:
    """Close a window that the page opened."""
    with suppress(Exception):
        await page.close()


# -- the process of the browser ------------------------------------------------------------------------


async def _watch_memory(profile: str, most_bytes: int) -> None:
    """End the browser with this profile when it has more memory of its own than it may; then return."""
    while True:
        await asyncio.sleep(limits.RENDER_LOOK_S)
        used, processes = await asyncio.to_thread(memory_of, profile)
        if used > most_bytes:
            kill(processes)
            return


def memory_of(profile: str) -> tuple[int, list[int]]:
    """Memory that the processes of a browser have of their own, and their ids; none without /proc."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            number = int(folder.name)
            parents[number] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if f"--user-data-dir={profile}".encode() in (folder / "cmdline").read_bytes():
                found.add(number)
    more = True
    while more:
        below = {number for number, parent in parents.items() if parent in found} - found
        found |= below
        more = bool(below)
    used = 0
    for number in found:
        with suppress(OSError, ValueError):
            for line in Path(f"/proc/{number}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    used += int(line.split()[1]) << 10
    return used, sorted(found)


def kill(processes: list[int]) -> None:
    """End processes at once."""
    for number in processes:
        with suppress(OSError):
            os.kill(number, signal.SIGKILL)


async def _end(context: BrowserContext | None, profile: str) -> None:
    """Close the browser, and end what is left of its processes."""
    if context is not None:
        with suppress(Exception):  # it has crashed, or does not answer
            async with asyncio.timeout(limits.RENDER_END_S):
                await context.close()
    _, left = await asyncio.to_thread(memory_of, profile)
    kill(left)
