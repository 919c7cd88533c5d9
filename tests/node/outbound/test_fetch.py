"""Fetching from a server that answers like the real web: bounded, and every failure a sentence."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from penstock import limits
from penstock.core.channels.polling import Manners, PollState, RedirectHop, learn
from penstock.core.channels.polling.http_rules import conditions
from penstock.errors import ChannelRefused
from penstock.node.config.channels import Polling
from penstock.node.outbound.fetch import BadBody, BodyReader, Fetcher, user_agent
from tests.kit import certificates
from tests.kit import web_server as pages
from tests.kit.web_server import Feed, Names, WebServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from pathlib import Path

LOCAL = ("127.0.0.0/8",)
QUICK = Polling(networks=LOCAL, fetch_s=0.4, silence_s=0.3, connect_s=2, page_bytes=2 << 20)


@asynccontextmanager
async def fetching(options: Polling = QUICK, **more: Any) -> AsyncIterator[tuple[WebServer, Fetcher]]:
    async with WebServer() as server:
        fetcher = Fetcher(options, **more)
        try:
            yield server, fetcher
        finally:
            await fetcher.close()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


SENTENCES = {
    "etag only": "",
    "modified only": "",
    "modified in the future": "",
    "modified is no date": "",
    "not found": "404, not found",
    "forbidden": "403, forbidden",
    "gone": "410, gone",
    "no content": "204, no content",
    "304 at once": "without conditions",
    "too many, seconds": "429, too many requests",
    "too many, date": "429, too many requests",
    "too many, wrong clock": "429, too many requests",
    "too many, for ever": "429, too many requests",
    "too many, nonsense": "429, too many requests",
    "unavailable": "503, not available",
    "server error": "500, an error of the server",
    "loop": "in a circle",
    "to itself": "in a circle",
    "redirect to nowhere": "301, a redirect without a target",
    "redirect to a file": "no address that can be fetched",
    "redirect to nonsense": "no address that can be fetched",
    "gzip bomb": "bytes when decompressed",
    "many bombs": "bytes when decompressed",
    "not gzip": "cannot be unpacked",
    "half a gzip": "has no end",
    "unknown encoding": "br, which was not asked for",
    "endless": "more than 2,097,152 bytes",
    "broken off": "was broken off",
    "hangs up": "without an answer",
    "slow body": "not complete after 0.4 s",
    "slow head": "silent for 0.3 s",
}


def test_every_bad_answer_has_its_sentence() -> None:
    async def test() -> None:
        async with fetching() as (server, fetcher):
            found = {}
            for name, url in pages.pages(server).items():
                fetched = await fetcher.fetch(url)
                state = learn(PollState(), fetched.outcome, url=url, manners=Manners(), now_us=10**15)
                found[name] = state.problem
                assert fetched.body == b"" or not fetched.error
                assert fetched.bytes_wire < 3 << 20
                assert (state.not_before_us > 10**15) == (
                    name.startswith(("too many", "unavailable")) and "nonsense" not in name
                )
            assert found.keys() == SENTENCES.keys()
            for name, sentence in SENTENCES.items():
                assert sentence in found[name], name
                assert bool(sentence) == bool(found[name]), name

    run(test())


def test_a_page_that_says_it_is_too_large_is_not_read() -> None:
    async def test() -> None:
        async with fetching() as (server, fetcher):
            url = server.put("/large", b"x" * (QUICK.page_bytes + 1))
            fetched = await fetcher.fetch(url)
            assert (fetched.error, fetched.bytes_wire) == ("The page has more than 2,097,152 bytes.", 0)

    run(test())


@pytest.mark.parametrize(
    "name", ["etag only", "modified only", "modified in the future", "modified is no date"]
)
def test_validators_go_back_as_they_came_and_bring_a_304(name: str) -> None:
    async def test() -> None:
        async with fetching() as (server, fetcher):
            url = pages.pages(server)[name]
            state = PollState()
            for expected in (200, 304, 304):
                fetched = await fetcher.fetch(url, headers=conditions(state, now_us=10**15))
                assert fetched.status == expected
                state = learn(state, fetched.outcome, url=url, manners=Manners(), now_us=10**15)
                assert state.errors == 0

    run(test())


def test_a_feed_that_sends_only_what_is_new() -> None:
    async def test() -> None:
        async with fetching() as (server, fetcher):
            feed = Feed(server, deltas=True)
            feed.add("one", "two")
            first = await fetcher.fetch(feed.url)
            state = learn(PollState(), first.outcome, url=feed.url, manners=Manners(), now_us=10**15)
            assert (first.status, first.partial, first.body.count(b"<entry>")) == (200, False, 2)
            feed.add("three")
            second = await fetcher.fetch(feed.url, headers=conditions(state, now_us=10**15))
            assert (second.status, second.partial, second.body.count(b"<entry>")) == (226, True, 1)
            state = learn(state, second.outcome, url=feed.url, manners=Manners(), now_us=10**15)
            third = await fetcher.fetch(feed.url, headers=conditions(state, now_us=10**15))
            assert third.status == 304

    run(test())


def test_bodies_come_whole_however_they_are_sent() -> None:
    async def test() -> None:
        async with fetching() as (server, fetcher):
            text = "Grüße an alle. ".encode() * 1_000
            ways = {
                "chunked": pages.chunked([text[:7], text[7:5_000], text[5_000:]]),
                "gzip": pages.packed(gzip.compress(text)),
                "gzip in members": pages.packed(gzip.compress(text[:100]) + gzip.compress(text[100:])),
                "deflate": pages.deflated(text, bare=False),
                "bare deflate": pages.deflated(text, bare=True),
            }
            for name, page in ways.items():
                fetched = await fetcher.fetch(server.page("/" + name.replace(" ", ""), page))
                assert (fetched.error, fetched.body) == ("", text), name
            wrong = await fetcher.fetch(server.page("/charset", pages.wrong_charset()))
            assert wrong.body == "Grüße".encode("latin-1")
            assert wrong.content_type == "text/html; charset=utf-8"

    run(test())


def test_redirects_are_followed_noted_and_bounded() -> None:
    async def test() -> None:
        async with fetching() as (server, fetcher):
            end = server.put("/end", "here")
            server.page("/b", pages.redirect(302, "end#part"))
            start = server.page("/a", pages.redirect(301, "/b"))
            fetched = await fetcher.fetch(start)
            assert (fetched.status, fetched.body, fetched.url) == (200, b"here", end)
            assert fetched.hops == (RedirectHop(301, server.url("/b")), RedirectHop(302, end))
            for number in range(limits.REDIRECTS + 1):
                server.page(f"/way{number}", pages.redirect(302, f"/way{number + 1}"))
            server.put(f"/way{limits.REDIRECTS}", "far")
            assert (await fetcher.fetch(server.url("/way0"))).body == b"far"
            server.page(f"/way{limits.REDIRECTS}", pages.redirect(302, "/end"))
            assert "more than 10 redirects" in (await fetcher.fetch(server.url("/way0"))).error

    run(test())


@pytest.mark.parametrize(
    "target", ["http://169.254.169.254/latest/", "http://[::1]/", "http://localhost:{}/x"]
)
def test_no_redirect_leads_to_a_private_address(target: str) -> None:
    async def test() -> None:
        names = Names({"outside.example": ["127.0.0.9"]})  # stands for a public address
        async with fetching(Polling(networks=("127.0.0.9/32",)), resolver=names) as (server, fetcher):
            await server.listen_also("127.0.0.9")
            server.page("/", pages.redirect(302, target.format(server.port)))
            fetched = await fetcher.fetch(server.url("/", host="outside.example"))
            assert "is not fetched from" in fetched.error
            assert server.counts["/"] == 1
            assert server.counts.total() == 1

    run(test())


def test_a_name_that_leads_inside_the_second_time_gains_nothing() -> None:
    async def test() -> None:
        names = Names({"evil.example": ["127.0.0.9", "127.0.0.1"]})
        options = Polling(networks=("127.0.0.9/32",))
        async with fetching(options, resolver=names) as (server, fetcher):
            await server.listen_also("127.0.0.9")
            url = server.page("/", pages.status(200)).replace("127.0.0.1", "evil.example")
            assert (await fetcher.fetch(url)).status == 200
            again = Fetcher(options, resolver=names)  # without what the first remembers
            fetched = await again.fetch(url)
            await again.close()
            assert "evil.example leads to 127.0.0.1" in fetched.error
            assert server.counts["/"] == 1

    run(test())


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "127.1", "2130706433", "0x7f000001"]
)
def test_this_machine_is_not_fetched_from_by_any_spelling(host: str) -> None:
    async def test() -> None:
        async with fetching(Polling()) as (server, fetcher):
            fetched = await fetcher.fetch(server.url("/", host=host))
            assert fetched.status == 0
            assert fetched.error
            assert server.counts.total() == 0

    run(test())


def test_hosts_the_operator_refuses_are_refused_on_redirects_as_well() -> None:
    async def test() -> None:
        def check(url: str) -> None:
            if "refused.example" in url:
                raise ChannelRefused("its operator refuses the host")

        async with fetching(check=check, resolver=Names()) as (server, fetcher):
            start = server.page("/", pages.redirect(302, server.url("/x", host="refused.example")))
            assert (await fetcher.fetch(start)).error == "its operator refuses the host"
            assert server.counts["/x"] == 0

    run(test())


def test_nobody_there_and_no_such_name_are_sentences() -> None:
    async def test() -> None:
        async with fetching() as (server, fetcher):
            url = server.url("/")
            await server.close()
            assert "does not take connections: Connection refused." in (await fetcher.fetch(url)).error
            unknown = await fetcher.fetch("http://no-such-host.invalid/")
            assert unknown.error

    run(test())


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"".join(b"X%d: x\r\n" % n for n in range(10_000)), "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "not valid HTTP: Invalid"),
        (b"HTTP/1.1 999999 OK\r\n\r\n", "not valid HTTP"),
        (bytes(range(256)) * 100, "not valid HTTP"),
        (b"", "without an answer"),
    ],
)
def test_servers_that_speak_something_else(said: bytes, problem: str) -> None:
    async def test() -> None:
        async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(said)
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        fetcher = Fetcher(QUICK)
        fetched = await fetcher.fetch(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        await fetcher.close()
        server.close()
        assert problem in fetched.error, fetched
        assert fetched.body == b""

    run(test())


def test_certificates_are_checked(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)

    async def test() -> None:
        inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        inside.load_cert_chain(made.server, made.server_key)
        trusting = ssl.create_default_context(cafile=str(made.ca))
        async with WebServer(tls=inside) as server:
            server.put("/", "secret")
            url = f"https://localhost:{server.port}/"
            for name, tls, problem in (
                (url, None, "certificate of localhost is not valid"),
                (
                    url.replace("localhost", "other.example"),
                    trusting,
                    "certificate of other.example is not valid",
                ),
                (url, trusting, ""),
            ):
                # With the usual time limits: on a busy machine a handshake takes longer than those of QUICK.
                fetcher = Fetcher(Polling(networks=LOCAL), tls=tls, resolver=Names())
                fetched = await fetcher.fetch(name)
                await fetcher.close()
                assert problem in fetched.error
                assert bool(problem) == bool(fetched.error)
                assert fetched.body == (b"" if problem else b"secret")

    run(test())


def test_connections_are_used_again_and_we_say_who_we_are() -> None:
    async def test() -> None:
        async with fetching() as (server, fetcher):
            ports = set()

            def page(request: web.BaseRequest) -> web.Response:
                assert request.transport is not None
                ports.add(request.transport.get_extra_info("peername")[1])
                return web.Response(text="x")

            url = server.page("/", page)
            for _ in range(5):
                await fetcher.fetch(url)
            assert len(ports) == 1
            asked = server.asked[-1].headers
            assert asked["user-agent"].startswith("Penstock/")
            assert asked["accept-encoding"] == "gzip, deflate"
            assert "cookie" not in asked

    run(test())


def test_the_user_agent_names_contact_and_subscribers() -> None:
    assert user_agent("").startswith("Penstock/")
    assert user_agent("bot@example.org", 1).endswith(" (+bot@example.org; 1 subscriber)")
    assert user_agent("", 12).endswith(" (12 subscribers)")


def test_a_fetch_that_is_cancelled_ends_at_once() -> None:
    async def test() -> None:
        async with fetching() as (server, fetcher):
            task = asyncio.create_task(fetcher.fetch(server.page("/", pages.slow(1, 0, head_s=60))))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(test())


@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_a_packed_body_is_the_same_cut_anywhere(step: int) -> None:
    text = b"line of text\n" * 2_000
    packed = gzip.compress(text[:5_000]) + gzip.compress(text[5_000:])
    body = BodyReader("gzip", most_bytes=len(text))
    for start in range(0, len(packed), step):
        body.take(packed[start : start + step])
    assert body.whole() == text


def test_a_body_is_refused_in_the_moment_it_is_too_large() -> None:
    body = BodyReader("", most_bytes=10)
    body.take(b"x" * 10)
    assert body.whole() == b"x" * 10
    with pytest.raises(BadBody, match="more than 10 bytes"):
        body.take(b"x")
    bomb = BodyReader("gzip", most_bytes=1 << 30)
    with pytest.raises(BadBody, match="a trap"):
        bomb.take(pages.zeros(16 << 20))
    assert BodyReader("br", most_bytes=10).whole() == b""  # said of a 304, which has no body
    packed = BodyReader("gzip", most_bytes=1_000)
    with pytest.raises(BadBody, match="1,000 bytes when decompressed"):
        packed.take(gzip.compress(bytes(range(256)) * 100))
