"""Fetches one URL, bounded in time, size, redirects and decompression.

`Fetcher.fetch` raises nothing: a `FetchResult` holds the answer, or a sentence that says what went wrong.
`BodyReader` counts and decompresses a body and refuses it as soon as it is too large.
"""

from __future__ import annotations

import asyncio
import errno
import os
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, TypeAlias

import aiohttp
from yarl import URL

from penstock import limits
from penstock.core.channels.address import canonical
from penstock.core.channels.polling import FetchOutcome, RedirectHop, http_rules
from penstock.core.channels.polling.http_rules import DELTA_STATUS
from penstock.core.channels.polling.robots import AGENT
from penstock.errors import BadAddress, ChannelError
from penstock.node.outbound.guard import AddressGuard, AddressRefused, GuardedResolver

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Mapping

    from aiohttp.abc import AbstractResolver

    from penstock.node.config.channels import Polling

ENCODINGS: Final = "gzip, deflate"
"""Value of Accept-Encoding: codings that can be decompressed piece by piece within a bound."""


class BadBody(Exception):
    """A body that is not accepted; the text is a sentence."""


class BodyReader:
    """Decompresses one body piece by piece."""

    def __init__(self, encoding: str, *, most_bytes: int) -> None:
        self._encoding = encoding.strip().lower()
        self._packed = self._encoding not in ("", "identity")
        self._inflater: zlib._Decompress | None = None
        self._most_bytes = most_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self.wire_bytes = 0
        """Bytes received over the network."""

    def take(self, piece: bytes) -> None:
        """Add the next piece; BadBody if the body is too large or damaged."""
        self.wire_bytes += len(piece)
        if self._encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise BadBody(f"The answer is encoded as {self._encoding[:40]}, which was not asked for.")
        if self.wire_bytes > self._most_bytes:
            raise BadBody(f"The page has more than {self._most_bytes:,} bytes.")
        if not self._packed:
            self._keep(piece)
            return
        try:
            self._inflate(piece)
        except zlib.error:
            raise BadBody(f"The answer says it is {self._encoding}, but it cannot be unpacked.") from None

    def whole(self) -> bytes:
        """Return the whole body; BadBody if its end is missing."""
        if self._inflater is not None and not self._inflater.eof:
            raise BadBody("The answer was broken off: its compressed body has no end.")
        return b"".join(self._parts)

    def _inflate(self, piece: bytes) -> None:
        while piece:
            if self._inflater is None or self._inflater.eof:  # gzip may have several members
                self._inflater = self._begin(piece)
            room = self._most_bytes - self._size + 1
            self._keep(self._inflater.decompress(piece, room))
            piece = self._inflater.unconsumed_tail or self._inflater.unused_data
            if self._inflater.eof and self._encoding == "deflate":
                return  # ignore what follows the end

    def _begin(self, piece: bytes) -> zlib._Decompress:
        if self._encoding != "deflate":
            return zlib.decompressobj(16 + zlib.MAX_WBITS)
        # RFC 9110 means zlib's format; some servers send the bare stream, which never begins with its mark.
        zlib_marked = piece[0] & 0x0F == 8 and piece[0] >> 4 <= 7
        return zlib.decompressobj(zlib.MAX_WBITS if zlib_marked else -zlib.MAX_WBITS)

    def _keep(self, found: bytes) -> None:
        self._size += len(found)
        if self._size > self._most_bytes:
            raise BadBody(f"The page has more than {self._most_bytes:,} bytes when decompressed.")
        if self._size > limits.BOMB_RATIO * self.wire_bytes + limits.BOMB_SPARE_BYTES:
            raise BadBody(
                f"The page grows more than {limits.BOMB_RATIO} times when decompressed: that is a trap."
            )
        self._parts.append(found)


@dataclass(frozen=True, slots=True)
class FetchResult:
    """An answer with its body, or a sentence that says why the fetch failed."""

    status: int = 0
    """HTTP status; 0: no answer."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers by name in lower case; values of repeated ones are joined by commas."""
    body: bytes = b""
    """Body, decompressed."""
    url: str = ""
    """URL that answered, after redirects."""
    bytes_wire: int = 0
    """Bytes of bodies received over the network."""
    duration_us: int = 0
    error: str = ""
    """Why there is no body, as a sentence; empty if there is one."""
    hops: tuple[RedirectHop, ...] = ()
    """Redirects followed."""
    conditional: bool = False
    """Whether the request had validators (If-None-Match, If-Modified-Since)."""

    @property
    def content_type(self) -> str:
        """Content type with charset, as the server says."""
        return self.headers.get("content-type", "")

    @property
    def partial(self) -> bool:
        """Whether the body holds only the new items of a feed (status 226)."""
        return self.status == DELTA_STATUS

    @property
    def outcome(self) -> FetchOutcome:
        """The part from which the poller learns."""
        return FetchOutcome(
            status=self.status,
            headers=self.headers,
            url=self.url,
            hops=self.hops,
            error=self.error,
            conditional=self.conditional,
        )


CAUGHT = (
    aiohttp.ClientError,
    aiohttp.http.HttpProcessingError,
    OSError,
    ValueError,
    BadBody,
    ChannelError,
)
"""Exceptions for everything that a network, a server or a URL can do wrong."""

_HUNG_UP = (errno.ECONNRESET, errno.EPIPE)


def sentence(problem: Exception, options: Polling) -> str:
    """Describe an exception in a sentence."""
    match problem:
        case BadBody() | ChannelError() | AddressRefused():
            return str(problem)
        case aiohttp.ClientConnectorError():
            return unconnected(problem)
        case TimeoutError():
            return _late(problem, options)
        case aiohttp.ClientPayloadError():
            return "The answer was broken off."
        case aiohttp.ClientResponseError() | aiohttp.http.HttpProcessingError():
            return f"The answer is not valid HTTP: {_line(problem.message)}."
        case aiohttp.ServerDisconnectedError():
            return "The server closed the connection without an answer."
        case OSError() if problem.errno in _HUNG_UP:
            return "The server closed the connection without an answer."
        case _:
            return f"The fetch failed: {brief(problem)}."


def unconnected(problem: aiohttp.ClientConnectorError) -> str:
    """Describe in a sentence why there is no connection."""
    match problem:
        case aiohttp.ClientConnectorCertificateError():
            return f"The certificate of {problem.host} is not valid: {brief(problem.certificate_error)}."
        case aiohttp.ClientConnectorDNSError() if isinstance(problem.os_error, AddressRefused):
            return str(problem.os_error)
        case aiohttp.ClientConnectorDNSError():
            return f"The name {problem.host} is not known (DNS)."
        case _:
            number = problem.os_error.errno or 0
            why = os.strerror(number) if number > 0 else brief(problem.os_error)
            return f"{problem.host} does not take connections: {why}."


def _late(problem: TimeoutError, options: Polling) -> str:
    match problem:
        case aiohttp.ConnectionTimeoutError():
            return f"The server did not take the connection within {options.connect_s:g} s."
        case aiohttp.SocketTimeoutError():
            return f"The server was silent for {options.silence_s:g} s."
        case _:
            return f"The fetch was not complete after {options.fetch_s:g} s."


def brief(problem: BaseException) -> str:
    """Shorten the text of an exception to one line."""
    return _line(str(getattr(problem, "strerror", "") or problem)) or type(problem).__name__


def _line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(":. ")[:200]


RobotsCheck: TypeAlias = Callable[[str], Awaitable[str]]
"""Says why a URL may not be fetched; empty: it may."""

VERSION: Final = version("penstock")
ACCEPT: Final = (
    "application/atom+xml, application/rss+xml, application/feed+json, application/xml;q=0.9, "
    "text/html;q=0.9, application/json;q=0.8, */*;q=0.5"
)
KEEP_S: Final = 10.0
"""Time an idle connection is kept: channels of one host share it; 300 polls a second keep 3,000 open."""
NAMES_S: Final = 300
"""Time a resolved and checked address is cached."""


def user_agent(contact: str, subscribers: int = 0) -> str:
    """Make the User-Agent: program, contact address and number of subscribers."""
    notes = [f"+{contact}"] if contact else []
    if subscribers:
        notes.append("1 subscriber" if subscribers == 1 else f"{subscribers} subscribers")
    comment = f" ({'; '.join(notes)})" if notes else ""
    return f"{AGENT}/{VERSION}{comment}"


class Fetcher:
    """Fetches URLs over reused connections."""

    def __init__(
        self,
        options: Polling,
        *,
        contact: str = "",
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
        check: Callable[[str], None] | None = None,
    ) -> None:
        """`check` raises a ChannelError for addresses that are not to be fetched, redirects included."""
        self._options = options
        self._contact = contact
        self.check = check
        self._guard = AddressGuard(options.networks)
        self._resolver = GuardedResolver(self._guard, resolver)
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def fetch(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        barred: RobotsCheck | None = None,
        post: bytes | None = None,
    ) -> FetchResult:
        """Fetch a URL. Network errors are part of the result; only cancellation raises.

        `barred` is called for every URL that a redirect leads to. `post` is sent to the first of them.
        """
        agent = {"User-Agent": user_agent(self._contact)}
        visit = _Visit(self, url, {**agent, **(headers or {})}, barred, post)
        began_ns = perf_counter_ns()
        error = ""
        try:
            async with asyncio.timeout(self._options.fetch_s):
                error = await visit.run()
        except CAUGHT as problem:
            error = sentence(problem, self._options)
        return visit.fetched(error, duration_us=(perf_counter_ns() - began_ns) // 1_000)

    def allow(self, networks: Iterable[str]) -> None:
        """Allow other networks from now on; connections that are open are not used longer than KEEP_S."""
        self._guard.allow(networks)
        if self._session is not None and isinstance(self._session.connector, aiohttp.TCPConnector):
            self._session.connector.clear_dns_cache()  # it has what the guard allowed before

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        await self._resolver.close()

    @property
    def options(self) -> Polling:
        """Settings of polling."""
        return self._options

    @property
    def guard(self) -> AddressGuard:
        """Guard that refuses addresses."""
        return self._guard

    def session(self) -> aiohttp.ClientSession:
        """Return the aiohttp session, made on first use because it needs a running loop."""
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
    """One fetch with its redirects."""

    def __init__(
        self,
        fetcher: Fetcher,
        url: str,
        headers: Mapping[str, str],
        barred: RobotsCheck | None,
        post: bytes | None,
    ) -> None:
        self._fetcher = fetcher
        self._post = post
        self._headers = headers
        self._barred = barred
        self._hops: list[RedirectHop] = []
        self._visited = [url]
        self._status = 0
        self._found: dict[str, str] = {}
        self._body = b""
        self._wire_bytes = 0

    async def run(self) -> str:
        """Fetch and follow redirects; return what went wrong as a sentence, or an empty text."""
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
            post, self._post = self._post, None  # a redirect is followed as browsers do, by GET
            async with self._fetcher.session().request(
                "GET" if post is None else "POST",
                target,
                headers=self._headers,
                data=post,
                allow_redirects=False,
            ) as answer:
                self._status = answer.status
                self._found = _joined(answer)
                location = self._found.get("location", "")
                if answer.status not in http_rules.REDIRECT_STATUSES or not location:
                    await self._read(answer)
                    return ""
                await self._skip(answer)
            try:
                led = canonical(str(target.join(URL(location))))
            except (ValueError, BadAddress) as error:
                return f"The redirect leads to no address that can be fetched: {brief(error)}."
            problem = http_rules.redirect_problem(self._visited, led)
            if problem:
                return problem
            self._hops.append(RedirectHop(self._status, led))
            self._visited.append(led)

    async def _read(self, answer: aiohttp.ClientResponse) -> None:
        most_bytes = self._fetcher.options.page_bytes
        if (
            answer.status != 304 and (answer.content_length or 0) > most_bytes
        ):  # not a byte of it is asked for in vain
            answer.close()
            raise BadBody(f"The page has more than {most_bytes:,} bytes.")
        body = BodyReader(self._found.get("content-encoding", ""), most_bytes=most_bytes)
        before = self._wire_bytes
        try:
            async for piece in answer.content.iter_any():
                body.take(piece)
                self._wire_bytes = before + body.wire_bytes
            self._body = body.whole()
        except BadBody:
            self._wire_bytes = before + body.wire_bytes
            answer.close()  # do not wait for the rest
            raise

    async def _skip(self, answer: aiohttp.ClientResponse) -> None:
        """Skip the body of a redirect if it is small, so that the connection can be reused."""
        skipped = 0
        async for piece in answer.content.iter_any():
            skipped += len(piece)
            if skipped > limits.REDIRECT_BODY_BYTES:
                answer.close()
                break
        self._wire_bytes += skipped

    def fetched(self, error: str, *, duration_us: int) -> FetchResult:
        """Make the result."""
        return FetchResult(
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
