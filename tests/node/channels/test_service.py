"""Pages as streams: subscribed to by MQTT or at the node, polled, compared, told, kept over a restart."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from penstock import limits
from penstock.core.channels.address import topic_of
from penstock.errors import BadAddress, ChannelError, ChannelRefused, ChannelsFull, SubscribeRefused
from penstock.model.event import Event
from penstock.mqtt.codes import Reason
from tests.kit.channels import delta_in, first_version, html, polling, settled, watching
from tests.kit.waiting import until
from tests.kit.web_server import WebServer, status

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.client import Subscription
    from penstock.node.channels.channel import Channel

pytestmark = pytest.mark.slow  # each test starts a node and the process that reads its pages


async def next_change(subscription: Subscription) -> dict[str, Any]:
    async with asyncio.timeout(120):
        async for item in subscription:
            assert isinstance(item, Event)
            return delta_in(item)
    raise AssertionError


async def test_a_changing_page_is_a_stream_for_an_mqtt_client() -> None:
    async with WebServer() as server, watching() as node, node.client("reader") as client:
        url = server.put("/news", html("one", "two"))
        subscription = await client.subscribe(topic_of(url), qos=1)
        await first_version(node, url)
        server.put("/news", html("one", "two", "three"))
        found = await next_change(subscription)
        assert (found["url"], found["title"], found["added"], found["removed"]) == (url, "News", 1, 0)
        assert found["changes"] == [{"at": 2, "old": [], "new": ["three"]}]
        seen = node.channels.channel(url)
        assert (seen.state, seen.clients, seen.people, seen.counts.changes) == ("polled", 1, 0, 1)
        assert seen.version == found["version"]
        total = node.channels.status()
        assert total.balanced
        assert (total.counts.changes, total.published, total.counts.errors) == (1, 1, 0)


async def test_one_fetch_serves_all_and_content_filters_apply() -> None:
    async with (
        WebServer() as server,
        watching(interval_s=0.3) as node,
        node.client("a") as one,
        node.client("b") as other,
    ):
        early = server.put("/early", html("one"))
        await one.subscribe(topic_of(early))
        await first_version(
            node, early
        )  # the process that reads pages takes longer to start than an interval
        url = server.put("/news", html("one"))
        topic = topic_of(url)
        every = await one.subscribe(topic)
        large = await other.subscribe(topic, filter="keep: {gt: 2, attribute: added}")
        await first_version(node, url)
        assert server.counts["/news"] == 2  # a new page is fetched twice, to see what differs
        server.put("/news", html("one", "two"))
        assert (await next_change(every))["added"] == 1
        server.put("/news", html("one", "two", "three", "four", "five", "six"))
        assert (await next_change(large))["added"] == 4
        assert node.channels.status().published == 2


async def test_a_page_that_exhausts_its_reader_says_so_and_disturbs_no_other() -> None:
    async with WebServer() as server, watching() as node, node.client("a") as client:
        reader = node.channels._engine.comparer.process
        await asyncio.sleep(0.1)
        assert reader.started == 0  # no page, no process
        bad = server.put("/bad", "<p>" + "word 12:30 " * 700_000)
        good = server.put("/good", html("one"))
        await client.subscribe(topic_of(bad))
        changes = await client.subscribe(topic_of(good))
        await until(lambda: "reading it takes more than 64 MB of memory" in node.channels.why(bad))
        await first_version(node, good)
        server.put("/good", html("one", "two"))
        assert (await next_change(changes))["added"] == 1
        assert node.channels.status().balanced


async def test_a_newcomer_sees_the_last_change_and_only_the_node_publishes_there() -> None:
    async with WebServer() as server, watching() as node, node.client("a") as early:
        url = server.put("/news", html("one"))
        first = await early.subscribe(topic_of(url))
        await first_version(node, url)
        server.put("/news", html("two"))
        told = await next_change(first)
        async with node.client("b") as late:
            await late.publish(topic_of(url), b"forged")
            assert (await next_change(await late.subscribe(topic_of(url)))) == told
        assert node.node.broker.status().refused["publish not allowed"] == 1


@pytest.mark.parametrize(
    ("filter_", "reason", "words"),
    [
        ("web/ftp://example.org/", Reason.TOPIC_FILTER_INVALID, "http:// or https://"),
        ("web/https://Example.ORG/a", Reason.TOPIC_FILTER_INVALID, "topic web/https://example.org/a"),
        ("web/http://intern.example.org/", Reason.NOT_AUTHORIZED, "refuses the host"),
        ("web/https://example.net/", Reason.NOT_AUTHORIZED, "allows other hosts only"),
        ("$share/group/web/nonsense", Reason.TOPIC_FILTER_INVALID, "http:// or https://"),
    ],
)
async def test_a_page_that_cannot_be_watched_is_refused_with_a_reason(
    filter_: str, reason: Reason, words: str
) -> None:
    hosts: dict[str, Any] = {"allow_hosts": ("*.example.org",), "deny_hosts": ("intern.example.org",)}
    async with watching(**hosts) as node, node.client("a") as client:
        with pytest.raises(SubscribeRefused) as caught:
            await client.subscribe(filter_)
        assert caught.value.reason == reason
        assert words in str(caught.value)
        assert node.channels.status().channels == 0
        await client.subscribe("web/#")  # looks on, and asks for nothing
        assert node.channels.status().channels == 0


async def test_the_numbers_of_channels_and_subscriptions_are_bounded() -> None:
    async with (
        WebServer() as server,
        watching(max_channels=3, max_per_subscriber=2, max_subscriptions=4) as node,
        node.client("a") as client,
    ):
        urls = [server.put(f"/{number}", html("x")) for number in range(5)]
        for url in urls[:2]:
            await client.subscribe(topic_of(url))
        with pytest.raises(SubscribeRefused, match="2 channels, which is the most") as caught:
            await client.subscribe(topic_of(urls[2]))
        assert caught.value.reason == Reason.QUOTA_EXCEEDED
        service = node.channels
        await service.subscribe("feed:ann", urls[2])
        with pytest.raises(ChannelsFull, match="watches 3 pages already"):
            await service.subscribe("feed:ann", urls[3])
        await service.subscribe("feed:ann", urls[0])
        with pytest.raises(ChannelsFull, match="4 subscriptions, which is the most"):
            await service.subscribe("feed:bob", urls[0])
        await service.unsubscribe("feed:ann", urls[2])
        await service.subscribe("feed:bob", urls[3])  # an idle channel makes room
        assert {each.url for each in service.channels()} == {urls[0], urls[1], urls[3]}
        assert service.status().subscriptions == 4


async def test_unsubscribing_and_leaving_end_the_polling() -> None:
    async with WebServer() as server, watching() as node:
        url = server.put("/news", html("one"))
        async with node.client("a") as client:
            subscription = await client.subscribe(topic_of(url))
            await client.subscribe(f"$share/g/{topic_of(url)}")
            assert node.channels.channel(url).clients == 1
            await first_version(node, url)
            await subscription.close()
            assert node.channels.channel(url).state == "polled"
        await until(lambda: node.channels.channel(url).state == "idle")
        assert "Nobody waits for it since" in node.channels.why(url)
        await asyncio.sleep(0.2)  # one may be on its way
        polls = server.counts["/news"]
        await asyncio.sleep(0.4)
        assert server.counts["/news"] == polls


async def test_the_service_answers_in_sentences() -> None:
    async with WebServer() as server, watching() as node:
        service = node.channels
        url = server.put("/news", html("one"))
        assert (
            await service.subscribe("xmpp:ann@example.org", f"{url}#top") == f"You are subscribed to {url}."
        )
        await first_version(node, url)
        again = await service.subscribe("xmpp:ann@example.org", url)
        assert again == f"You were subscribed to {url} already."
        server.put("/news", html("one", "two"))
        await until(lambda: node.told.heard)
        who, delta = node.told.heard[0]
        assert (who, delta.url, delta.changes[0].new) == ("xmpp:ann@example.org", url, ("two",))
        assert service.deltas(url) == [delta]
        assert "paused" in await service.pause("xmpp:ann@example.org", None, paused=True)
        assert service.subscriptions("xmpp:ann@example.org")[0].paused
        assert service.channel(url).state == "idle"
        assert "told again" in await service.pause("xmpp:ann@example.org", url, paused=False)
        assert [each.who for each in service.subscribers(url)] == ["xmpp:ann@example.org"]
        assert "polled" in service.why(url)
        await service.unsubscribe("xmpp:ann@example.org", url)
        assert node.told.forgotten == [("xmpp:ann@example.org", url)]
        assert service.status().balanced
        assert service.status().handed == 1


async def test_nobody_is_promised_what_nobody_tells() -> None:
    async with watching() as node:
        node.channels._engine.publisher.notifier = None
        with pytest.raises(ChannelRefused, match="notifies MQTT clients only"):
            await node.channels.subscribe("feed:ann", "https://example.org/")


@pytest.mark.parametrize(
    ("who", "url", "policy", "words"),
    [
        ("ann", "https://example.org/", "", "is no subscriber"),
        ("mqtt:ann", "https://example.org/", "", "is no subscriber"),
        ("feed:ann", "example.org", "", "must begin with http"),
        ("feed:ann", "https://example.org/", "vitals", "no policy 'vitals' is registered"),
        ("feed:ann", "https://example.org/", "levels: [drop: {odd: 1}]", "the policy cannot be used"),
        ("feed:ann", f"https://example.org/{'a/' * 1_000}", "", "its topic would have"),
    ],
)
async def test_what_cannot_be_subscribed_to_gets_a_sentence(
    who: str, url: str, policy: str, words: str
) -> None:
    async with watching() as node:
        with pytest.raises(ChannelError, match=words):
            await node.channels.subscribe(who, url, policy=policy)
        for ask in (node.channels.unsubscribe(who, "https://example.org/x"),):
            with pytest.raises(ChannelError, match="you are not subscribed"):
                await ask
        with pytest.raises(ChannelError, match="is no channel of this node"):
            node.channels.why("https://example.org/x")
        with pytest.raises(BadAddress):
            node.channels.why("x")


async def test_a_restart_fetches_nothing_again_and_tells_nothing_twice(tmp_path: Path) -> None:
    async with WebServer() as server:
        url = server.put("/news", html("one"))
        async with watching(str(tmp_path)) as node:
            await node.channels.subscribe("feed:ann", url)
            await first_version(node, url)
            server.put("/news", html("one", "two"))
            await until(lambda: node.told.heard)
            before = node.channels.channel(url)
        bodies = sum("if-none-match" not in each.headers for each in server.asked)
        async with watching(str(tmp_path)) as node:
            assert [each.who for each in node.channels.subscriptions()] == ["feed:ann"]
            await until(lambda: node.channels.channel(url).counts.polls > before.counts.polls + 2)
            now = node.channels.channel(url)
            assert (now.counts.changes, now.version, now.title) == (1, before.version, "News")
            assert node.told.heard == []
            assert sum("if-none-match" not in each.headers for each in server.asked) == bodies
            server.put("/news", html("one", "two", "three"))
            await until(lambda: node.told.heard)
            assert [change.new for change in node.told.heard[0][1].changes] == [("three",)]
            assert len(node.channels.deltas(url)) == 2


async def test_a_change_that_was_found_and_not_told_is_told_after_a_restart(tmp_path: Path) -> None:
    async with WebServer() as server:
        url = server.put("/news", html("one"))
        async with watching(str(tmp_path), retain=False) as node, node.client("a") as client:
            await client.subscribe(topic_of(url), qos=1)
            await first_version(node, url)

            async def dies(channel: Channel, delta: object) -> None:
                raise RuntimeError(f"{channel.url}: {delta}")

            node.channels._engine.results.tell = dies  # type: ignore[assignment, method-assign]
            server.put("/news", html("one", "two"))
            await until(lambda: not node.channels.status().balanced)  # everybody can see it
        async with watching(str(tmp_path)) as node, node.client("a") as client:
            found = await next_change(await client.subscribe(topic_of(url), qos=1))
            assert found["changes"][0]["new"] == ["two"]
        async with watching(str(tmp_path), retain=False) as node:
            assert node.channels._engine.store.untold() == []


async def test_a_change_counts_as_told_when_subscribers_have_it_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CHANNEL_CLOSE_S", 0.05)
    async with WebServer() as server:
        url = server.put("/news", html("one"))
        async with watching(str(tmp_path)) as node:
            await node.channels.subscribe("xmpp:ann@example.org", url)
            await first_version(node, url)
            node.told.written.clear()
            server.put("/news", html("one", "two"))
            await until(lambda: node.told.heard)
        async with watching(str(tmp_path)) as node:  # told again at its start, before anybody listened
            await first_version(node, url)
            assert node.channels._engine.store.untold() == []
            assert node.channels.status().published == 0  # that one was on disk with all that waits


async def test_a_channel_is_added_paused_resumed_checked_and_removed() -> None:
    async with WebServer() as server, watching(interval_s=60.0) as node:
        service = node.channels
        url = server.put("/news", html("one"))
        assert service.add(url, every_s=30).every_us == 30_000_000
        await first_version(node, url)
        assert "Somebody asked for an interval of 30 s." in service.why(url)
        server.put("/news", html("two"))
        await asyncio.sleep(0.06)
        assert await service.check_now(url) == "It has changed, which is told when a later look confirms it."
        assert "told when a later look confirms it" in service.why(url)
        await settled(node, url)
        assert service.channel(url).counts.changes == 1
        await asyncio.sleep(0.06)
        assert await service.check_now(url) == "It has not changed."
        assert service.hold(url, paused=True).state == "paused"
        assert service.why(url) == "It is paused, and not polled until it is resumed."
        assert service.hold(url, paused=False).state == "polled"
        assert "removed" in service.remove(url)
        with pytest.raises(ChannelError):
            service.channel(url)
        with pytest.raises(ChannelRefused, match="more often than"):
            service.add(url, every_s=0.01)
        async with node.client("a") as client:
            await client.subscribe(topic_of(url))
            with pytest.raises(ChannelRefused, match="1 MQTT client subscribes"):
                service.remove(url)


async def test_rules_decide_what_is_a_change() -> None:
    async with WebServer() as server, watching() as node:
        service = node.channels
        page = "<html><body><main><p id='price'>10</p><p id='mood'>{}</p></main></body></html>"
        url = server.put("/shop", page.format("calm"))
        service.add(url)
        await first_version(node, url)
        service.add(url, rules={"css": ["#price"]})
        await until(lambda: service.channel(url).counts.first == 2)
        assert service.rules(url) == {"css": ("#price",)}
        server.put("/shop", page.format("wild"))
        await until(lambda: service.channel(url).counts.noise)
        assert service.channel(url).counts.changes == 0
        server.put("/shop", page.format("wild").replace("10", "12"))
        await until(lambda: service.deltas(url))
        assert service.deltas(url)[0].changes[0].new == ("12",)
        with pytest.raises(ChannelError, match=r"rules\.css\[0\]"):
            service.add(url, rules={"css": ["["]})
        with pytest.raises(ChannelError, match="rules"):
            service.add(url, rules={"colour": "red"})


async def test_what_fails_is_said_and_counted() -> None:
    async with WebServer() as server, watching() as node:
        service = node.channels
        gone = server.page("/gone", status(410))
        picture = server.put("/picture", b"\x89PNG\x00\x01\x02", content_type="image/png")
        for url in (gone, picture):
            service.add(url)
        await until(lambda: all(each.state == "failing" for each in service.channels()))
        assert "410" in service.channel(gone).problem
        assert "only feeds, pages, JSON and text" in service.channel(picture).problem
        assert service.status().failing == 2
        assert service.status().balanced


async def test_a_redirect_to_a_host_that_is_not_allowed_is_not_followed() -> None:
    async with WebServer() as server, watching(allow_hosts=("127.0.0.1",)) as node:
        server.put("/secret", html("secret"))
        await server.listen_also("127.0.0.2")
        url = server.page("/door", status(302, {"Location": f"http://127.0.0.2:{server.port}/secret"}))
        node.channels.add(url)
        await until(lambda: node.channels.channel(url).problem)
        assert "allows other hosts only" in node.channels.channel(url).problem
        assert node.channels.channel(url).version == 0
        assert server.counts["/secret"] == 0


async def test_private_networks_are_refused_unless_allowed() -> None:
    async with WebServer() as server, watching(polling=polling(networks=())) as node:
        url = server.put("/news", html("one"))
        node.channels.add(url)
        await until(lambda: node.channels.channel(url).problem)
        assert "unless the operator allows its network" in node.channels.channel(url).problem
        assert not server.asked


async def test_a_page_that_robots_txt_keeps_us_away_from_says_so_and_is_read_once_it_may_be(
    tmp_path: Path,
) -> None:
    async with WebServer() as server:
        url = server.put("/news", html("one"))
        server.put("/robots.txt", "User-agent: *\nDisallow: /", content_type="text/plain")
        async with watching(str(tmp_path), polling=polling(robots="all")) as node:
            node.channels.add(url)
            await until(lambda: node.channels.status().failing)
            assert "does not allow Penstock to fetch" in node.channels.channel(url).problem
            assert node.channels.find(state="failing", limit=1)[0] == 1
            assert server.counts["/news"] == 0
        async with watching(str(tmp_path)) as node:  # without robots.txt
            await first_version(node, url)
            assert node.channels.channel(url).state == "polled"
            assert node.channels.status().balanced


def noisy(server: WebServer) -> tuple[str, list[str]]:
    """A page with a line that is another one at every request; its other lines may be changed."""
    lines = ["A steady line of text", "Another one that stays"]
    count = 0
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"]

    def page(_: web.BaseRequest) -> web.Response:
        nonlocal count
        count += 1
        picked = " ".join(words[count * step % 7] for step in (1, 3, 5))
        text = html(*lines).replace("</main>", f"<div class='tip'><p>{picked} {count}</p></div></main>")
        return web.Response(text=text, content_type="text/html")

    return server.page("/noisy", page), lines


async def test_what_differs_between_two_fetches_is_never_told_and_the_rest_is() -> None:
    async with WebServer() as server, watching() as node:
        service = node.channels
        url, lines = noisy(server)
        await service.subscribe("feed:ann", url)
        await settled(node, url)
        noise = service.channel(url).counts.noise
        await until(lambda: service.channel(url).counts.noise >= noise + 3)
        assert service.channel(url).counts.changes == 0
        muted = await service.muted(url)
        assert {found.place for found in muted} == {"/main/div.tip/p"}
        assert "Two fetches of one moment differed" in muted[0].evidence
        assert "changing, which is not told" in service.why(url)
        lines.append("News at last")
        await until(lambda: node.told.heard)
        (change,) = node.told.heard[0][1].changes
        assert (change.old, change.new) == ((), ("News at last",))
        assert service.status().confirming >= 2
        assert service.status().balanced


async def test_a_muted_place_can_be_unmuted_and_stays_so_after_a_restart(tmp_path: Path) -> None:
    async with WebServer() as server:
        url, _ = noisy(server)
        async with watching(str(tmp_path)) as node:
            node.channels.add(url)
            await settled(node, url)
            with pytest.raises(ChannelError, match="no place '/nowhere'"):
                await node.channels.unmute(url, "/nowhere")
            assert "are told from now on" in await node.channels.unmute(url, "/main/div.tip/p")
            await until(lambda: node.channels.channel(url).counts.changes)
            assert await node.channels.muted(url) == []
        async with watching(str(tmp_path)) as node:
            assert await node.channels.muted(url) == []


async def test_a_candidate_is_postponed_while_the_host_allows_no_second_fetch() -> None:
    """Of a candidate that cannot be fetched again nothing is told, until it was seen at three polls."""
    async with WebServer() as server, watching(interval_s=60.0) as node:
        service = node.channels
        url = server.put("/news", html("one"))
        await service.subscribe("feed:ann", url)
        await settled(node, url)
        poller = service._engine.poller
        poller.again = lambda _: asyncio.sleep(0)  # type: ignore[method-assign, assignment]
        server.put("/news", html("one", "two"))
        for polls in range(3):
            assert node.told.heard == []
            assert service.status().balanced
            assert service.channel(url).counts.noise >= polls
            await asyncio.sleep(0.06)
            await service.check_now(url)
        await until(lambda: node.told.heard)
        assert node.told.heard[0][1].changes[0].new == ("two",)


async def test_a_client_that_is_away_gets_what_changed_meanwhile_even_after_a_restart(tmp_path: Path) -> None:
    async with WebServer() as server:
        url = server.put("/news", html("one"))
        async with watching(str(tmp_path), retain=False) as node:
            async with node.client("phone", session_expiry_s=600) as client:
                await client.subscribe(topic_of(url), qos=1)
                await first_version(node, url)
            server.put("/news", html("one", "two"))
            await until(lambda: node.channels.status().published)
        async with watching(str(tmp_path), retain=False) as node:
            assert node.channels.channel(url).clients == 1
            async with node.client("phone", session_expiry_s=600) as client:
                found = await next_change(await client.subscribe(topic_of(url), qos=1))
                assert found["changes"][0]["new"] == ["two"]


async def test_what_cannot_be_read_stays_a_problem_until_it_can() -> None:
    async with WebServer() as server, watching() as node:
        url = server.put("/page", b"\x89PNG\x00\x01\x02", content_type="image/png")
        node.channels.add(url)
        await until(lambda: node.channels.channel(url).counts.polls >= 2)
        assert node.channels.channel(url).state == "failing"
        server.put("/page", html("one"))
        await first_version(node, url)
        await until(lambda: node.channels.channel(url).state == "polled")
        server.put("/page", b"\x89PNG\x00\x01\x02", content_type="image/png")
        await until(lambda: node.channels.channel(url).state == "failing")
        polls = node.channels.channel(url).counts.polls
        await until(lambda: node.channels.channel(url).counts.polls > polls)
        assert node.channels.channel(url).state == "failing"
        assert node.channels.status().balanced
