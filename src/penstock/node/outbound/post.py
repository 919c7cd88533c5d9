"""Sends POST and GET requests to servers that strangers name: guarded by address, bounded, no redirects."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from penstock import limits
from penstock.core.channels.address import canonical
from penstock.core.channels.polling.http_rules import date_us, seconds
from penstock.errors import BadAddress
from penstock.model.instant import SECOND_US
from penstock.node.outbound.fetch import unconnected, user_agent
from penstock.node.outbound.guard import AddressGuard, GuardedResolver

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Mapping

    from aiohttp.abc import AbstractResolver

    from penstock.model.instant import Instant


@dataclass(frozen=True, slots=True)
class PostResult:
    """Result of a request."""

    status: int = 0
    """HTTP status; 0: no answer."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers by name in lower case."""
    body: bytes = b""
    """The beginning of the answer, at most POST_ANSWER_BYTES."""
    error: str = ""
    """Why there is no answer, as a sentence."""

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    def sentence(self) -> str:
        """Describe in a sentence what went wrong."""
        return self.error or f"it answered with status {self.status}"

    def retry_after_s(self, *, now_us: Instant) -> float | None:
        """Return the pause that Retry-After asks for; None if there is none."""
        text = self.headers.get("retry-after", "")
        wait_s = seconds(text)
        if wait_s is not None:
            return float(wait_s)
        at_us = date_us(text)
        return None if at_us is None else max(0.0, (at_us - now_us) / SECOND_US)


class Poster:
    """Sends requests over reused connections."""

    def __init__(
        self,
        *,
        networks: Iterable[str] = (),
        contact: str = "",
        total_s: float = limits.POST_S,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._guard = AddressGuard(networks)
        self._resolver = GuardedResolver(self._guard, resolver)
        self._tls = tls
        self._total_s = total_s
        self._agent = user_agent(contact)
        self._session: aiohttp.ClientSession | None = None

    def allow(self, networks: Iterable[str]) -> None:
        """Allow other networks from now on."""
        self._guard.allow(networks)
        if self._session is not None and isinstance(self._session.connector, aiohttp.TCPConnector):
            self._session.connector.clear_dns_cache()  # it has what the guard allowed before

    def check(self, url: str) -> str:
        """Return the canonical URL; BadAddress if it is not a URL, or its host is a forbidden address."""
        found = canonical(url)
        refusal = self._guard.refusal(URL(found, encoded=True).host or "")
        if refusal:
            raise BadAddress(found, refusal)
        return found

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> PostResult:
        """Send a body. Network errors are part of the result."""
        return await self._ask("POST", url, body, headers)

    async def get(self, url: str, query: Mapping[str, str]) -> PostResult:
        """Send a GET request with parameters added to those of the URL."""
        target = URL(url, encoded=True)
        return await self._ask("GET", str(target.extend_query(query)), None, {})

    async def _ask(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> PostResult:
        try:
            self.check(url)
            async with (
                asyncio.timeout(self._total_s),
                self._opened().request(
                    method,
                    URL(url, encoded=True),
                    data=None if body is None else BytesIO(body),
                    headers=headers,
                    allow_redirects=False,
                ) as answer,
            ):
                found = await answer.content.read(limits.POST_ANSWER_BYTES)
                if not answer.content.at_eof():
                    answer.close()  # do not wait for the rest
                lowered = {name.lower(): value for name, value in answer.headers.items()}
                return PostResult(answer.status, lowered, found)
        except TimeoutError:
            return PostResult(error=f"it did not answer within {self._total_s:g} s")
        except BadAddress as error:
            return PostResult(error=str(error).removeprefix(f"{url}: "))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return PostResult(error=_sentence(error))

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                resolver=self._resolver, ssl=self._tls if self._tls is not None else True, limit_per_host=4
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # no decompression bombs: answers are read as they come
                headers={"User-Agent": self._agent, "Accept-Encoding": "identity"},
            )
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
        await self._resolver.close()


def _sentence(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return unconnected(error).removesuffix(".")
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an answer"
    return " ".join((str(error) or type(error).__name__).split())[:300]
