"""A web server that answers like the real web, at its worst: pages by what is wrong with them."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from email.utils import formatdate
from functools import cache
from time import time
from typing import TYPE_CHECKING

from aiohttp import web

from penstock_lab.rigs.web_site import HOST, Asked, Names, Page, WebServer, document

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HOST", "Asked", "Feed", "Names", "Page", "WebServer", "document", "pages"]

MODIFIED = "Tue, 03 Feb 2026 10:20:30 GMT"
TEXT = {"Content-Type": "text/html; charset=utf-8"}


def status(code: int, headers: dict[str, str] | None = None, text: str = "") -> Page:
    """An answer that is always the same."""
    return lambda _: web.Response(status=code, headers=headers, text=text)


def etag_only(text: str = "one") -> Page:
    """ETag, compared byte for byte; weak, with spaces and signs in it."""
    etag = 'W/"a b;c--gzip"'

    def answer(request: web.BaseRequest) -> web.Response:
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304)
        return web.Response(text=text, headers={"ETag": etag})

    return answer


def modified_only(text: str = "one", date: str = MODIFIED) -> Page:
    """Last-Modified, compared by text as many servers do; any date, or what is none."""

    def answer(request: web.BaseRequest) -> web.Response:
        if request.headers.get("If-Modified-Since") == date:
            return web.Response(status=304, headers={"Last-Modified": date})
        return web.Response(text=text, headers={"Last-Modified": date})

    return answer


def redirect(code: int, target: str) -> Page:
    """To another address."""
    return lambda _: web.Response(status=code, headers={"Location": target})


def busy(code: int, *, seconds: str | None = None, date_in_s: float | None = None, skew_s: float = 0) -> Page:
    """429 or 503 with either form of Retry-After; the server's own clock may be wrong."""

    def answer(_: web.BaseRequest) -> web.Response:
        headers = {"Date": formatdate(time() + skew_s, usegmt=True)}
        if seconds is not None:
            headers["Retry-After"] = seconds
        if date_in_s is not None:
            headers["Retry-After"] = formatdate(time() + skew_s + date_in_s, usegmt=True)
        return web.Response(status=code, headers=headers)

    return answer


def slow(pieces: int, pause_s: float, head_s: float = 0.0) -> Page:
    """A body that comes letter by letter, after a while."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(head_s)
        response = web.StreamResponse(headers=TEXT)
        await response.prepare(request)
        for _ in range(pieces):
            await response.write(b"x")
            await asyncio.sleep(pause_s)
        return response

    return answer


def packed(body: bytes, encoding: str = "gzip") -> Page:
    """A body that is compressed already, or says so."""
    return lambda _: web.Response(body=body, headers={**TEXT, "Content-Encoding": encoding})


@cache
def zeros(size: int) -> bytes:
    """So many bytes of nothing, a thousandth of them on the way."""
    return gzip.compress(bytes(size))


def gzip_bomb(size: int) -> Page:
    """A small body that becomes a large one."""
    return packed(zeros(size))


def nested_bomb(size: int, members: int) -> Page:
    """A small body of several gzip members that becomes a large one."""
    return packed(zeros(size) * members)


def deflated(text: bytes, *, bare: bool) -> Page:
    """Deflate in its right form, and in the bare one that some servers send."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS if bare else zlib.MAX_WBITS)
    return packed(packer.compress(text) + packer.flush(), "deflate")


def wrong_charset(text: str = "Grüße") -> Page:
    """Says UTF-8 and sends Latin-1."""
    return lambda _: web.Response(body=text.encode("latin-1"), headers=TEXT)


def chunked(parts: Sequence[bytes]) -> Page:
    """A body in pieces, without a length."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers=TEXT)
        response.enable_chunked_encoding()
        await response.prepare(request)
        for part in parts:
            await response.write(part)
        return response

    return answer


def endless(piece: bytes = b"x" * 65_536) -> Page:
    """A body that never ends."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers=TEXT)
        response.enable_chunked_encoding()
        await response.prepare(request)
        while True:
            await response.write(piece)

    return answer


def broken_off(announced: int, sent: bytes) -> Page:
    """Announces more than it sends, and hangs up."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={**TEXT, "Content-Length": str(announced)})
        await response.prepare(request)
        await response.write(sent)
        assert request.transport is not None
        request.transport.close()
        return response

    return answer


def hang_up() -> Page:
    """Closes the connection instead of answering."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        await asyncio.sleep(0)
        return web.Response()

    return answer


class Feed:
    """An Atom feed that changes when told to; knows RFC 3229's 226 if asked with `A-IM: feed`."""

    def __init__(self, server: WebServer, path: str = "/feed", *, deltas: bool = False) -> None:
        self._entries: list[str] = []
        self._deltas = deltas
        self.url = server.page(path, self._answer)

    def add(self, *titles: str) -> None:
        """New entries, in front."""
        self._entries[:0] = titles

    def _answer(self, request: web.BaseRequest) -> web.Response:
        etag = f'"{len(self._entries)}"'
        known = request.headers.get("If-None-Match", "").strip('"')
        headers = {"ETag": etag, "Content-Type": "application/atom+xml"}
        if known == str(len(self._entries)):
            return web.Response(status=304, headers=headers)
        if self._deltas and request.headers.get("A-IM") == "feed" and known.isdecimal():
            new = self._entries[: len(self._entries) - int(known)]
            return web.Response(status=226, text=self._text(new), headers={**headers, "IM": "feed"})
        return web.Response(text=self._text(self._entries), headers=headers)

    def _text(self, titles: Sequence[str]) -> str:
        entries = "".join(
            f"<entry><id>urn:{title}</id><title>{title}</title>"
            f"<updated>2026-02-03T10:20:30Z</updated></entry>"
            for title in titles
        )
        return (
            '<?xml version="1.0" encoding="utf-8"?><feed xmlns="http://www.w3.org/2005/Atom">'
            f"<id>urn:feed</id><title>A feed</title><updated>2026-02-03T10:20:30Z</updated>{entries}</feed>"
        )


def pages(server: WebServer) -> dict[str, str]:
    """One address for everything that can be wrong, by what it is."""
    return {
        "etag only": server.page("/etag", etag_only()),
        "modified only": server.page("/modified", modified_only()),
        "modified in the future": server.page("/future", modified_only(date="Fri, 01 Jan 2123 00:00:00 GMT")),
        "modified is no date": server.page("/nodate", modified_only(date="yesterday, about noon")),
        "not found": server.url("/none"),
        "forbidden": server.page("/forbidden", status(403)),
        "gone": server.page("/gone", status(410)),
        "no content": server.page("/204", status(204)),
        "304 at once": server.page("/304", status(304)),
        "too many, seconds": server.page("/429s", busy(429, seconds="120")),
        "too many, date": server.page("/429d", busy(429, date_in_s=120)),
        "too many, wrong clock": server.page("/429c", busy(429, date_in_s=120, skew_s=-86_400 * 365)),
        "too many, for ever": server.page("/429e", busy(429, seconds="999999999999")),
        "too many, nonsense": server.page("/429n", busy(429, seconds="soon")),
        "unavailable": server.page("/503", busy(503, seconds="120")),
        "server error": server.page("/500", status(500)),
        "loop": server.page("/loop", redirect(302, "/loop2"))
        and server.page("/loop2", redirect(301, "/loop")),
        "to itself": server.page("/itself", redirect(301, "/itself")),
        "redirect to nowhere": server.page("/nowhere", status(301)),
        "redirect to a file": server.page("/file", redirect(302, "file:///etc/passwd")),
        "redirect to nonsense": server.page("/nonsense", redirect(302, "http://[::bad/")),
        "gzip bomb": server.page("/bomb", gzip_bomb(16 << 20)),
        "many bombs": server.page("/bombs", nested_bomb(1 << 20, 64)),
        "not gzip": server.page("/notgzip", packed(b"plain text")),
        "half a gzip": server.page("/half", packed(gzip.compress(b"text" * 1_000)[:20])),
        "unknown encoding": server.page("/br", packed(b"\x0b\x02\x80text\x03", "br")),
        "endless": server.page("/endless", endless()),
        "broken off": server.page("/broken", broken_off(1_000, b"half")),
        "hangs up": server.page("/hang", hang_up()),
        "slow body": server.page("/slow", slow(1_000, 0.05)),
        "slow head": server.page("/slowhead", slow(1, 0, head_s=60)),
    }
