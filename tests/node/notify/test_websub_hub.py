"""Our hub and our subscriber, over real HTTP: verified, told, signed, renewed, denied, forgotten."""

from __future__ import annotations

import asyncio
import hmac
from contextlib import asynccontextmanager
from io import BytesIO
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from penstock import limits
from penstock.core.channels.websub import HubLease, HubLink, discover_hub
from penstock.node.channels.websub import WebSubSubscriber
from penstock.node.clock import wall_us
from penstock.node.config.schema import Http
from penstock.node.http.guard import Guard
from penstock.node.http.notify import HubCallbacks
from penstock.node.outbound.post import Poster, PostResult
from penstock_lab.rigs.ports import free_port
from tests.kit.channel_api import MemoryChannels
from tests.kit.notify_http import TOKEN, served
from tests.kit.notify_service import LOOPBACK
from tests.kit.webhook_receiver import Receiver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from penstock.node.notify.service import NotifyService

PAGE = "http://page.example/"
SECRET = b"s" * 32


class Subscriber:
    """Our own WebSub, with its callbacks on a port."""

    def __init__(self, websub: WebSubSubscriber) -> None:
        self.websub = websub
        self.pushed: asyncio.Queue[tuple[str, bytes, str]] = asyncio.Queue()
        self.now_us = 0
        self.kept: dict[str, HubLease] = {}

    def keep(self, url: str, lease: HubLease) -> None:
        self.kept[url] = lease

    def take(self, url: str, body: bytes, kind: str) -> bool:
        self.pushed.put_nowait((url, body, kind))
        return True

    async def until(self, url: str, state: str) -> None:
        async with asyncio.timeout(120):
            while (standing := self.websub.standing(url)) is None or standing.state != state:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def subscriber() -> AsyncIterator[Subscriber]:
    guard = Guard(Http(token=TOKEN))
    app = web.Application(middlewares=[guard.middleware])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    poster = Poster(networks=LOOPBACK)
    at: Subscriber
    port = free_port()
    websub = WebSubSubscriber(
        poster,
        base_url=f"http://127.0.0.1:{port}",
        secret=SECRET,
        on_push=lambda *what: at.take(*what),  # noqa: PLW0108  # it is made below
        keep=lambda *what: at.keep(*what),  # noqa: PLW0108
        now_us=lambda: wall_us() + at.now_us,
    )
    at = Subscriber(websub)
    app.router.add_routes(HubCallbacks(websub).routes())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    websub.start()
    try:
        yield at
    finally:
        await websub.close()
        await runner.cleanup()
        await poster.close()


def hub_of(at: NotifyService) -> HubLink:
    assert at.feeds is not None
    return HubLink(at.feeds.hub_url, at.feeds.channel_url(PAGE))


async def test_from_a_change_to_a_push_and_to_the_end() -> None:
    channels = MemoryChannels()
    async with served(channels, hub=True) as at, subscriber() as there, aiohttp.ClientSession() as session:
        await channels.subscribe("feed:ann", PAGE)
        feed = at.feeds.channel_url(PAGE) if at.feeds is not None else ""
        async with session.get(URL(feed, encoded=True)) as answer:
            found = discover_hub(url=feed, link=answer.headers["Link"])
        assert found == hub_of(at)
        there.websub.found(feed, found)
        await there.until(feed, "active")
        assert there.websub.active(feed)
        channels.change(PAGE, "pushed news")
        url, body, kind = await asyncio.wait_for(there.pushed.get(), 120)
        assert url == feed
        assert b"pushed news" in body
        assert kind.startswith("application/atom+xml")
        there.websub.forget(feed)
        async with asyncio.timeout(120):
            while len(channels.subscriptions()) > 1:
                await asyncio.sleep(0.01)
        channels.change(PAGE, "not pushed")
        await asyncio.sleep(0.1)
        assert there.pushed.empty()
        assert at.statistics().conserved


async def test_a_hub_that_is_silent_is_asked_once_for_all_its_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    async with subscriber() as there:
        asked: list[str] = []
        post = there.websub._poster.post

        async def counted(url: str, body: bytes, headers: Mapping[str, str]) -> PostResult:
            asked.append(url)
            return await post(url, body, headers)

        monkeypatch.setattr(there.websub._poster, "post", counted)
        silent = f"http://127.0.0.1:{free_port()}"
        for number in range(20):
            there.websub.found(f"{PAGE}{number}", HubLink(f"{silent}/hub/{number}", f"{PAGE}{number}"))
        for number in range(20):
            await there.until(f"{PAGE}{number}", "failed")
        assert asked == [f"{silent}/hub/0"]


async def test_a_lease_is_renewed_before_it_ends_and_lapses_when_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    channels = MemoryChannels()
    async with served(channels, hub=True) as at, subscriber() as there:
        await channels.subscribe("feed:ann", PAGE)
        there.websub.found(PAGE, hub_of(at))
        await there.until(PAGE, "active")
        standing = there.websub.standing(PAGE)
        assert standing is not None
        first_us = standing.until_us
        there.now_us = (standing.due_us - wall_us()) + 1_000_000  # four fifths of the lease later
        there.websub._changed.set()
        async with asyncio.timeout(120):
            while standing.until_us == first_us:
                await asyncio.sleep(0.01)
        there.now_us += 400 * 86_400 * 1_000_000
        assert not there.websub.active(PAGE)  # back to ordinary polls


async def test_it_ends_when_it_is_told_to_in_the_moment_something_changes() -> None:
    async with subscriber() as there:
        await asyncio.sleep(0.01)
        there.websub._changed.set()
        async with asyncio.timeout(120):
            await there.websub.close()


async def test_what_a_hub_agreed_to_or_refused_holds_over_a_restart() -> None:
    async with subscriber() as there, Receiver() as hub, aiohttp.ClientSession() as session:
        there.websub.found(PAGE, HubLink(hub.url, PAGE))
        (asked,) = await hub.wait(1)
        callback = URL(f"http://x/?{asked.body.decode()}").query["hub.callback"]
        confirm = {"hub.mode": "subscribe", "hub.topic": PAGE, "hub.challenge": "c"}
        async with session.get(callback, params=confirm) as answer:
            assert answer.status == 200
        lease = there.kept[PAGE]
        assert lease.base == callback.partition("/websub")[0]
        other = HubLease("http://elsewhere.example", lease.until_us, lease.due_us)
        years = HubLease(lease.base, lease.until_us * 2, lease.due_us * 2)
        refused = HubLease(lease.base, 0, lease.due_us, failures=3)
        found = ((lease, True), (other, False), (years, False), (refused, False))
        for number, (kept, active) in enumerate(found):
            there.websub.found(f"{PAGE}{number}", HubLink(hub.url, f"{PAGE}{number}"), kept)
            assert there.websub.active(f"{PAGE}{number}") == active
        topics = [URL(f"http://x/?{each.body.decode()}").query["hub.topic"] for each in await hub.wait(3)]
        assert topics == [PAGE, f"{PAGE}1", f"{PAGE}2"]  # the others are not asked before it is time


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({}, "hub.mode"),
        ({"hub.mode": "publish"}, "hub.mode"),
        ({"hub.topic": "http://elsewhere.example/"}, "hub.topic"),
        ({"hub.topic": ""}, "hub.topic"),
        ({"hub.callback": "http://10.0.0.1/"}, "hub.callback"),
        ({"hub.callback": "nonsense"}, "hub.callback"),
        ({"hub.lease_seconds": "soon"}, "hub.lease_seconds"),
        ({"hub.lease_seconds": "0"}, "hub.lease_seconds"),
        ({"hub.secret": "s" * 200}, "hub.secret"),
    ],
)
async def test_requests_to_the_hub_that_are_wrong(form: dict[str, str], said: str) -> None:
    channels = MemoryChannels()
    async with served(channels, hub=True) as at, aiohttp.ClientSession() as session:
        await channels.subscribe("feed:ann", PAGE)
        hub = hub_of(at)
        right = {"hub.mode": "subscribe", "hub.topic": hub.topic, "hub.callback": "http://127.0.0.1:1/"}
        async with session.post(hub.url, data={**right, **form} if form else {}) as answer:
            assert answer.status == 400
            assert (await answer.json(content_type=None))["where"] == said
        async with session.post(hub.url, json=right) as answer:
            assert answer.status == 415


async def test_who_does_not_confirm_gets_nothing() -> None:
    channels = MemoryChannels()
    async with (
        served(channels, hub=True) as at,
        Receiver(404) as receiver,
        aiohttp.ClientSession() as session,
    ):
        await channels.subscribe("feed:ann", PAGE)
        hub = hub_of(at)
        form = {"hub.mode": "subscribe", "hub.topic": hub.topic, "hub.callback": receiver.url + "?x=1"}
        async with session.post(hub.url, data=form) as answer:
            assert answer.status == 202
        (asked,) = await receiver.wait(1)
        assert asked.query["x"] == "1"
        assert asked.query["hub.mode"] == "subscribe"
        assert asked.query["hub.topic"] == hub.topic
        assert int(asked.query["hub.lease_seconds"]) == 10 * 86_400
        await asyncio.sleep(0.05)
        assert [one.who for one in channels.subscriptions()] == ["feed:ann"]


async def test_pushes_are_signed_repeated_and_end_at_410(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NOTIFY_RETRY_LEAST_S", 0.02)
    channels = MemoryChannels()
    async with (
        served(channels, hub=True) as at,
        Receiver(200, 500, 200, 410) as receiver,
        aiohttp.ClientSession() as session,
    ):
        await channels.subscribe("feed:ann", PAGE)
        hub = hub_of(at)
        form = {
            "hub.mode": "subscribe",
            "hub.topic": hub.topic,
            "hub.callback": receiver.url,
            "hub.secret": "key",
        }
        async with session.post(hub.url, data=form):
            pass
        async with asyncio.timeout(120):
            while len(channels.subscriptions()) < 2:
                await asyncio.sleep(0.01)
        channels.change(PAGE)
        _, failed, taken = await receiver.wait(3)
        assert failed.body == taken.body
        mac = hmac.digest(b"key", taken.body, "sha256").hex()
        assert taken.headers["X-Hub-Signature"] == f"sha256={mac}"
        assert f'<{hub.topic}>; rel="self"' in taken.headers["Link"]
        channels.change(PAGE)
        await receiver.wait(4)
        async with asyncio.timeout(120):
            while len(channels.subscriptions()) > 1:
                await asyncio.sleep(0.01)
        assert at.status().transports["hub"]["leases"] == 0


async def test_leases_survive_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("data")
    channels = MemoryChannels()
    async with Receiver() as receiver:
        async with served(channels, data=data, hub=True) as at, aiohttp.ClientSession() as session:
            await channels.subscribe("feed:ann", PAGE)
            hub = hub_of(at)
            form = {"hub.mode": "subscribe", "hub.topic": hub.topic, "hub.callback": receiver.url}
            async with session.post(hub.url, data=form):
                pass
            async with asyncio.timeout(120):
                while len(channels.subscriptions()) < 2:
                    await asyncio.sleep(0.01)
        async with served(channels, data=data, hub=True) as at:
            channels.change(PAGE, "after the restart")
            requests = await receiver.wait(2)
            assert b"after the restart" in requests[1].body


# -- the subscriber against hubs that misbehave --------------------------------------------------------------


async def test_a_hub_that_denies_or_fails_is_not_asked_again_at_once() -> None:
    async with subscriber() as there, Receiver(500) as hub, aiohttp.ClientSession() as session:
        there.websub.found(PAGE, HubLink(hub.url, PAGE))
        await there.until(PAGE, "failed")
        standing = there.websub.standing(PAGE)
        assert standing is not None
        assert "status 500" in standing.reason
        assert standing.due_us - wall_us() > 200 * 1_000_000
        there.now_us = 301 * 1_000_000
        there.websub._changed.set()
        (_, asked) = await hub.wait(2)
        form = dict(URL(f"http://x/?{asked.body.decode()}").query)
        assert form["hub.mode"] == "subscribe"
        assert form["hub.topic"] == PAGE
        query = {"hub.mode": "denied", "hub.topic": PAGE, "hub.reason": "no \x1b[31mroom"}
        async with session.get(form["hub.callback"], params=query) as answer:
            assert answer.status == 200
        assert standing.state == "denied"
        assert standing.reason == "no \\x1b[31mroom"
        assert not there.websub.active(PAGE)


async def test_strangers_at_the_callback() -> None:
    async with subscriber() as there, Receiver() as hub, aiohttp.ClientSession() as session:
        there.websub.found(PAGE, HubLink(hub.url, PAGE))
        (asked,) = await hub.wait(1)
        callback = URL(f"http://x/?{asked.body.decode()}").query["hub.callback"]
        wrong = callback.rpartition("/")[0] + "/" + "0" * 32
        confirm = {"hub.mode": "subscribe", "hub.topic": PAGE, "hub.challenge": "c"}
        for url, query, status in (
            (wrong, confirm, 404),
            (callback, {**confirm, "hub.topic": "http://other.example/"}, 404),
            (callback, {**confirm, "hub.mode": "unsubscribe"}, 404),  # nobody asked for that
            (callback, {}, 404),
        ):
            async with session.get(url, params=query) as answer:
                assert answer.status == status
        assert not there.websub.active(PAGE)
        async with session.get(callback, params=confirm) as answer:
            assert (answer.status, await answer.text()) == (200, "c")
        for headers in ({}, {"X-Hub-Signature": "sha256=00"}, {"X-Hub-Signature": "md5=00"}):
            async with session.post(callback, data=b"forged", headers=headers) as answer:
                assert answer.status == 202
        async with session.post(wrong, data=b"x") as answer:
            assert answer.status == 410
        async with session.post(callback, data=BytesIO(b"x" * (limits.WEBSUB_PUSH_BYTES + 1))) as answer:
            assert answer.status == 413
        assert there.pushed.empty()
        standing = there.websub.standing(PAGE)
        assert standing is not None
        assert (standing.state, standing.doubt) == (
            "active", "what was sent in its name is not signed as agreed"
        )  # fmt: skip
        assert not there.websub.active(PAGE)


async def test_a_push_whose_page_is_given_up_while_it_comes_is_not_wanted() -> None:
    async with subscriber() as there, Receiver() as hub, aiohttp.ClientSession() as session:
        there.websub.found(PAGE, HubLink(hub.url, PAGE))
        (asked,) = await hub.wait(1)
        callback = URL(f"http://x/?{asked.body.decode()}").query["hub.callback"]
        reached = asyncio.Event()
        check = there.websub.check_push

        def noted(word: str) -> str:
            reached.set()
            return check(word)

        there.websub.check_push = noted  # type: ignore[method-assign]

        async def body() -> AsyncIterator[bytes]:
            yield b"first half"
            await reached.wait()
            there.websub.forget(PAGE)
            yield b"second half"

        async with session.post(callback, data=body()) as answer:
            assert answer.status == 410


async def test_what_a_hub_answers_about_a_page_that_was_given_up_is_not_kept() -> None:
    async with subscriber() as there:
        asked, answered = asyncio.Event(), asyncio.Event()

        async def post(url: str, body: bytes, headers: Mapping[str, str]) -> PostResult:
            asked.set()
            await answered.wait()
            return PostResult(202)

        there.websub._poster.post = post  # type: ignore[method-assign]
        there.websub.found(PAGE, HubLink("http://hub.example/", PAGE))
        await asked.wait()
        there.websub.forget(PAGE)
        there.websub.found(f"{PAGE}next", HubLink("http://hub.example/", f"{PAGE}next"))
        answered.set()
        async with asyncio.timeout(120):
            while f"{PAGE}next" not in there.kept:
                await asyncio.sleep(0.01)
        assert PAGE not in there.kept
