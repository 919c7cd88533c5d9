"""Fetching one address: bounded in time, size, redirects and decompression; never an error but a sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, TypeAlias

import aiohttp
from yarl import URL

from penstock import limits
from penstock.core.channels.address import canonical
from penstock.core.channels.polling import Hop, redirects
from penstock.core.channels.polling.robots import AGENT
from penstock.errors import BadAddress
from penstock.node.web.body import ENCODINGS, BadBody, Body
from penstock.node.web.fetch_errors import CAUGHT, brief, sentence
from penstock.node.web.fetched import Fetched
from penstock.node.web.guard import AddressGuard, GuardedResolver

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from aiohttp.abc import AbstractResolver

    from penstock.node.web.settings import Polling

Barred: TypeAlias = Callable[[str], Awaitable[str]]
"""Says why an address may not be fetched; empty: it may."""

VERSION: Final = version("penstock")
ACCEPT: Final = (
    "application/atom+xml, application/rss+xml, application/feed+json, application/xml;q=0.9, "
    "text/html;q=0.9, application/json;q=0.8, */*;q=0.5"
)
KEEP_S: Final = 10.0
"""Idle connections are kept so long: channels of one host share one, and 300 polls a second hold 3,000."""
NAMES_S: Final = 300
"""An address that was looked up and checked is used so long."""


def user_agent(contact: str, subscribers: int = 0) -> str:
    """Who we are, how to reach us, and for how many we fetch: what those who run a site want to know."""
    notes = [f"+{contact}"] if contact else []
    if subscribers:
        notes.append("1 subscriber" if subscribers == 1 else f"{subscribers} subscribers")
    comment = f" ({'; '.join(notes)})" if notes else ""
    return f"{AGENT}/{VERSION}{comment}"


class Fetcher:
    """Fetches addresses, over connections that are used again."""

    def __init__(
        self,
        options: Polling,
        *,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
        check: Callable[[str], None] | None = None,
    ) -> None:
        """`check` raises a ChannelError for addresses that are not to be fetched, redirects included."""
        self._options = options
        self.check = check
        self._guard = AddressGuard(options.networks)
        self._resolver = GuardedResolver(self._guard, resolver)
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def fetch(
        self, url: str, *, headers: Mapping[str, str] | None = None, barred: Barred | None = None
    ) -> Fetched:
        """Whatever the network does, this returns; only being cancelled ends it otherwise.

        `barred` is asked about every address that a redirect leads to.
        """
        agent = {"User-Agent": user_agent(self._options.contact)}
        visit = _Visit(self, url, {**agent, **(headers or {})}, barred)
        began_ns = perf_counter_ns()
        error = ""
        try:
            async with asyncio.timeout(self._options.fetch_s):
                error = await visit.run()
        except CAUGHT as problem:
            error = sentence(problem, self._options)
        return visit.fetched(error, duration_us=(perf_counter_ns() - began_ns) // 1_000)

    async def close(self) -> None:
        """Close what is open."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        await self._resolver.close()

    @property
    def options(self) -> Polling:
        """What it was told."""
        return self._options

    @property
    def guard(self) -> AddressGuard:
        """Which addresses it fetches from."""
        return self._guard

    def session(self) -> aiohttp.ClientSession:
        """The connections; made when they are first needed, since that takes a running loop."""
        if self._session is None:
            options = self._options
            connector = aiohttp.TCPConnector(
                resolver=self._resolver,
                limit=2 * options.fetches,
                ttl_dns_cache=NAMES_S,
                keepalive_timeout=KEEP_S,
                ssl=self._tls or True,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=options.connect_s, sock_read=options.silence_s
                ),
                headers={"Accept": ACCEPT, "Accept-Encoding": ENCODINGS},
            )
        return self._session


class _Visit:
    """One fetch, from address to address."""

    def __init__(self, fetcher: Fetcher, url: str, headers: Mapping[str, str], barred: Barred | None) -> None:
        self._fetcher = fetcher
        self._headers = headers
        self._barred = barred
        self._hops: list[Hop] = []
        self._visited = [url]
        self._status = 0
        self._found: dict[str, str] = {}
        self._body = b""
        self._wire_bytes = 0

    async def run(self) -> str:
        """Go to the end; what went wrong as a sentence, empty if nothing did."""
        while True:
            url = self._visited[-1]
            target = URL(url, encoded=True)
            if self._fetcher.check is not None:
                self._fetcher.check(url)
            refusal = self._fetcher.guard.refusal(target.raw_host or "")
            if not refusal and self._hops and self._barred is not None:
                refusal = await self._barred(url)
            if refusal:
                return refusal
            async with self._fetcher.session().get(
                target, headers=self._headers, allow_redirects=False
            ) as answer:
                self._status = answer.status
                self._found = _joined(answer)
                location = self._found.get("location", "")
                if answer.status not in redirects.STATUSES or not location:
                    await self._read(answer)
                    return ""
                await self._skip(answer)
            try:
                led = canonical(str(target.join(URL(location))))
            except (ValueError, BadAddress) as error:
                return f"The redirect leads to no address that can be fetched: {brief(error)}."
            problem = redirects.problem(self._visited, led)
            if problem:
                return problem
            self._hops.append(Hop(self._status, led))
            self._visited.append(led)

    async def _read(self, answer: aiohttp.ClientResponse) -> None:
        body = Body(self._found.get("content-encoding", ""), most_bytes=self._fetcher.options.page_bytes)
        before = self._wire_bytes
        try:
            async for piece in answer.content.iter_any():
                body.take(piece)
                self._wire_bytes = before + body.wire_bytes
            self._body = body.whole()
        except BadBody:
            self._wire_bytes = before + body.wire_bytes
            answer.close()  # the rest of it is not waited for
            raise

    async def _skip(self, answer: aiohttp.ClientResponse) -> None:
        """Read over the body of a redirect, if it is small enough to keep the connection for it."""
        skipped = 0
        async for piece in answer.content.iter_any():
            skipped += len(piece)
            if skipped > limits.REDIRECT_BODY_BYTES:
                answer.close()
                break
        self._wire_bytes += skipped

    def fetched(self, error: str, *, duration_us: int) -> Fetched:
        """What came of it."""
        return Fetched(
            status=self._status,
            headers=self._found,
            body=b"" if error else self._body,
            url=self._visited[-1],
            bytes_wire=self._wire_bytes,
            duration_us=duration_us,
            error=error,
            hops=tuple(self._hops),
            conditional=bool(self._headers.keys() & {"If-None-Match", "If-Modified-Since"}),
        )


def _joined(answer: aiohttp.ClientResponse) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in answer.headers.items():
        key = name.lower()
        found[key] = f"{found[key]}, {value}" if key in found else value
    return found
