"""Channels through the API of a node and its commands, in metrics and in $SYS."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import aiohttp
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.core.channels.address import topic_of
from penstock.core.channels.delta import apply
from penstock.core.channels.difference import from_json
from penstock.model.event import Event
from penstock.node.http.lists import AT_ONCE
from penstock.node.observe.sys_topics import SysTopics
from tests.kit.channels import delta_in, first_version, html, polling, settled, watching
from tests.kit.http_node import check_answer, running
from tests.kit.waiting import until
from tests.kit.web_server import WebServer

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

    from penstock.client import Subscription
    from tests.kit.channels import Watched

OPML = '<opml version="2.0"><body><outline text="a" xmlUrl="{}"/><outline xmlUrl="nonsense"/></body></opml>'


async def ask(node: Watched, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Status and body of an answer that keeps what the document promises."""
    where = f"http://127.0.0.1:{node.node.http_port}/api/v1{path}"
    async with aiohttp.ClientSession() as session, session.request(method, where, json=body) as answer:
        found = await answer.json(content_type=None)
        check_answer(method, f"/api/v1{path.partition('?')[0]}", answer.status, answer.content_type, found)
        return answer.status, found


async def test_a_page_is_added_seen_paused_and_removed_through_the_api() -> None:
    async with WebServer() as server, watching(http=True) as node:
        url = server.put("/news", html("one"))
        named = f"url={quote(url, safe='')}"
        code, added = await ask(
            node, "POST", "/channels/add", {"url": url, "rules": {"ignore": ["^ad"]}, "every_s": 60}
        )
        assert (code, added["rules"], added["channel"]["every_us"]) == (
            200,
            {"ignore": ["^ad"]},
            60_000_000,
        )
        assert added["channel"]["topic"] == topic_of(url)
        await settled(node, url)
        server.put("/news", html("one", "ad", "two"))
        await asyncio.sleep(0.06)
        assert (await ask(node, "POST", "/channels/check", {"url": url}))[1]["done"] == "It has changed."
        _, listed = await ask(node, "GET", "/channels?search=NEWS&state=polled")
        assert (listed["total"], listed["enabled"], listed["status"]["balanced"]) == (1, True, True)
        assert (await ask(node, "GET", "/channels?search=other"))[1]["total"] == 0
        _, history = await ask(node, "GET", f"/channels/history?{named}&limit=5")
        assert [one["changes"][0]["new"] for one in history["deltas"]] == [["two"]]
        _, picked = await ask(node, "GET", f"/channels/lines?{named}")
        assert (picked["url"], [line["text"] for line in picked["lines"]]) == (url, ["one", "two"])
        assert picked["lines"][0]["selectors"]
        _, one = await ask(node, "GET", f"/channels/one?{named}")
        assert any("Somebody asked for an interval" in line for line in one["why"])
        _, paused = await ask(node, "POST", "/channels/pause", {"url": url})
        assert paused["channel"]["state"] == "paused"
        said = await ask(node, "POST", "/channels/subscribe", {"who": "feed:ann", "url": url})
        assert said == (200, {"done": f"You are subscribed to {url} (News)."})
        _, one = await ask(node, "GET", f"/channels/one?{named}")
        assert [each["who"] for each in one["subscribers"]] == ["feed:ann"]
        assert (await ask(node, "POST", "/channels/unsubscribe", {"who": "feed:ann", "url": url}))[0] == 200
        assert (await ask(node, "POST", "/channels/remove", {"url": url}))[0] == 200
        _, imported = await ask(node, "POST", "/channels/import", {"opml": OPML.format(url)})
        assert (imported["added"], [each["url"] for each in imported["refused"]]) == (1, ["nonsense"])


async def test_tags_are_kept_found_and_listed(tmp_path: Path) -> None:
    async with watching(str(tmp_path), http=True, polling=polling(networks=())) as node:
        for number, tags in enumerate((["shops", " prices "], ["shops", "shops"], [])):
            body = {"url": f"http://127.0.0.1/{number}", "tags": tags}
            assert (await ask(node, "POST", "/channels/add", body))[0] == 200
        _, found = await ask(node, "GET", "/channels?tag=prices")
        assert [(one["url"], one["tags"]) for one in found["channels"]] == [
            ("http://127.0.0.1/0", ["shops", "prices"])
        ]
        assert found["tags"] == ["prices", "shops"]
        await ask(node, "POST", "/channels/add", {"url": "http://127.0.0.1/0", "every_s": 0})
    async with watching(str(tmp_path), http=True, polling=polling(networks=())) as node:
        assert (await ask(node, "GET", "/channels?tag=shops"))[1]["total"] == 2


async def test_pages_of_another_watcher_are_imported_with_their_rules(tmp_path: Path) -> None:
    watches = [
        {"url": "http://127.0.0.1/a", "tag": "one, two", "include_filters": ["#prices"], "paused": True},
        {"url": "http://127.0.0.1/b", "include_filters": ["[broken"]},
        {"url": "http://127.0.0.1/c", "trigger_text": ["sale"], "ignore_text": ["Stand: "] * 3},
    ]
    async with watching(str(tmp_path), http=True, polling=polling(networks=())) as node:
        big = [*watches, *({"url": f"http://127.0.0.1/{n}", "notes": "x" * 2_000} for n in range(200))]
        status, found = await ask(node, "POST", "/channels/import", {"watches": json.dumps(big)})
        assert (status, found["added"]) == (200, 202)
        assert [one["url"] for one in found["refused"]] == ["http://127.0.0.1/b"]
        assert [one["url"] for one in found["left_out"]] == ["http://127.0.0.1/c"]
        one = node.channels.channel("http://127.0.0.1/a")
        assert (one.tags, one.state) == (("one", "two"), "paused")
        assert node.channels.rules("http://127.0.0.1/a") == {"css": ("#prices",)}


async def test_the_subscriptions_of_a_list_wait_for_the_disk_together(tmp_path: Path) -> None:
    async with watching(str(tmp_path), http=True, polling=polling(networks=())) as node:
        writes = 0
        write = node.channels._engine.store.write

        def counted(rows: Any) -> None:
            nonlocal writes
            writes += 1
            write(rows)

        node.channels._engine.store.write = counted  # type: ignore[method-assign]
        feeds = "".join(f'<outline xmlUrl="http://127.0.0.1/{number}"/>' for number in range(200))
        listed = {"opml": f"<opml><body>{feeds}</body></opml>", "who": "feed:ann"}
        most = 0

        async def others() -> None:
            nonlocal most
            before = 0
            while True:
                await asyncio.sleep(0)
                now = len(node.channels.subscriptions("feed:ann"))
                most, before = max(most, now - before), now

        beside = asyncio.create_task(others())
        _, imported = await ask(node, "POST", "/channels/import", listed)
        beside.cancel()
        assert (imported["added"], imported["refused"]) == (200, [])
        assert len(node.channels.subscriptions("feed:ann")) == 200
        assert writes < 60
        assert 0 < most <= 2 * AT_ONCE  # others are let do something between them


@pytest.mark.parametrize(
    ("path", "body", "status", "where"),
    [
        ("/channels/add", {"url": "example.org"}, 422, "url"),
        ("/channels/add", {"url": "https://example.org/", "rules": {"css": ["["]}}, 422, "rules"),
        ("/channels/add", {"url": "https://example.org/", "every_s": 0.001}, 403, "url"),
        ("/channels/add", {"url": "https://refused.org/"}, 403, "url"),
        ("/channels/add", {"url": "https://example.org/", "odd": 1}, 422, "body"),
        ("/channels/remove", {"url": "https://example.org/"}, 422, "url"),
        ("/channels/pause", {"url": "https://example.org/"}, 422, "url"),
        ("/channels/check", {"url": "https://example.org/"}, 422, "url"),
        ("/channels/unmute", {"url": "https://example.org/", "place": "/p"}, 422, "url"),
        ("/channels/restore", {"url": "https://example.org/", "version": 7}, 422, "url"),
        ("/channels/restore", {"url": "https://example.org/", "version": 0}, 422, "version"),
        ("/channels/try", {"url": "https://example.org/", "rules": {}}, 422, "url"),
        ("/channels/subscribe", {"who": "ann", "url": "https://example.org/"}, 422, "who, url, policy"),
        ("/channels/unsubscribe", {"who": "feed:ann", "url": "https://example.org/"}, 422, "who, url"),
        ("/channels/import", {"opml": "<rss/>"}, 422, "opml"),
        ("/channels/import", {"watches": "{}"}, 422, "watches"),
        ("/channels/import", {"watches": "[", "who": "feed:ann"}, 422, "watches"),
        ("/channels/import", {}, 422, "opml, watches"),
        ("/channels/add", {"url": "https://example.org/", "tags": ["x" * 61]}, 422, "tags"),
        ("/channels/add", {"url": "https://example.org/", "tags": [str(n) for n in range(21)]}, 422, "tags"),
        ("/channels/one", None, 400, "url"),
        ("/channels/one?url=https://example.org/", None, 422, "url"),
        ("/channels/history?url=https://example.org/", None, 422, "url"),
        ("/channels/lines", None, 400, "url"),
        ("/channels/lines?url=https://example.org/", None, 422, "url"),
        ("/channels?state=odd", None, 400, "state"),
    ],
)
async def test_what_cannot_be_done_says_why(path: str, body: Any, status: int, where: str) -> None:
    async with watching(http=True, deny_hosts=("refused.org",)) as node:
        code, said = await ask(node, "GET" if body is None else "POST", path, body)
        assert (code, said.get("where", "")) == (status, where), said


async def changed(node: Watched, server: WebServer, url: str, *lines: str) -> int:
    """Have a page show other lines, and wait until that is told; return the version."""
    before = node.channels.channel(url).version
    server.put("/prices", html(*lines))
    await until(lambda: node.channels.channel(url).version > before)
    return node.channels.channel(url).version


async def event(subscription: Subscription) -> Event:
    """The next message, which is no digest."""
    found = await anext(subscription)
    assert isinstance(found, Event)
    return found


async def test_an_older_version_is_restored_told_and_compared_with() -> None:
    async with WebServer() as server, watching(http=True) as node, node.client("reader") as reader:
        url = server.put("/prices", html("Lamp", "EUR forty"))
        node.channels.add(url)
        await node.channels.subscribe("feed:ann", url)
        await settled(node, url)
        first = node.channels.channel(url).version
        subscription = await reader.subscribe(topic_of(url), qos=1, retain_handling=2)
        second = await changed(node, server, url, "Lamp", "EUR fifty")
        third = await changed(node, server, url, "Lamp", "EUR fifty", "Chair")
        asked = {"url": url, "version": first}
        assert (await ask(node, "POST", "/channels/restore", {"url": url, "version": third}))[0] == 422
        code, said = await ask(node, "POST", "/channels/restore", asked)
        assert (code, "was restored as version" in said["done"]) == (200, True), said
        told = [delta_in(await event(subscription)) for _ in range(4)]
        assert [each["old_version"] for each in told] == [first, second, third, told[2]["version"]]
        assert [each.get("restored") for each in told] == [None, None, first, None]
        lines = ["Lamp", "EUR forty"]
        for each in told:
            lines = apply(from_json(json.dumps(each).encode()), lines)
        assert lines == ["Lamp", "EUR fifty", "Chair"]
        # The page itself has not changed since: what it shows is the next change, against what was restored.
        assert told[3]["changes"] == [{"at": 1, "old": ["EUR forty"], "new": ["EUR fifty", "Chair"]}]
        await until(lambda: len(node.told.heard) == 4)
        assert [delta.restored for _, delta in node.told.heard] == [0, 0, first, 0]
        status = node.channels.status()
        assert (status.counts.changes, status.published, status.balanced) == (3, 4, True)
        assert (await ask(node, "POST", "/channels/restore", asked))[0] == 200


async def test_a_restored_version_survives_a_restart(tmp_path: Path) -> None:
    async with WebServer() as server:
        url = server.put("/prices", html("Lamp", "EUR forty"))
        async with watching(str(tmp_path)) as node:
            node.channels.add(url)
            await settled(node, url)
            first = node.channels.channel(url).version
            await changed(node, server, url, "Lamp", "EUR fifty")
            node.channels.hold(url, paused=True)
            await node.channels.restore(url, first)
            restored = node.channels.channel(url).version
        async with watching(str(tmp_path)) as node:
            assert [each.restored for each in node.channels.deltas(url)] == [first, 0]
            node.channels.hold(url, paused=False)
            await until(lambda: node.channels.deltas(url)[0].version > restored)  # on disk, too
            newest = node.channels.deltas(url)[0]
            assert (newest.old_version, newest.changes[0].old) == (restored, ("EUR forty",))
            assert node.told.again == 0


async def test_rules_are_tried_on_one_fetch_and_change_nothing() -> None:
    async with WebServer() as server, watching(http=True, interval_s=3_600.0) as node:
        text = html("Lamp", "EUR forty").replace("<p>", "<p class='c'>", 1)
        url = server.put("/prices", text)
        node.channels.add(url, every_s=3_600)
        await first_version(node, url)
        await until(lambda: node.channels.status().fetching == 0)
        await asyncio.sleep(0.06)
        before = len(server.asked)
        for rules in ({"css": ["p.c"]}, {"xpath": ["//p[@class='c']"]}, {"xpath": ["//p[1]"]}):
            code, found = await ask(node, "POST", "/channels/try", {"url": url, "rules": rules})
            assert (code, [line["text"] for line in found["lines"]], found["total"]) == (200, ["Lamp"], 1), (
                found
            )
        assert len(server.asked) == before + 1
        assert node.channels.rules(url) == {}
        for rules, said in (
            ({"xpath": ["//p/following-sibling::p"]}, "all its neighbours"),
            ({"css": [".missing"]}, "finds nothing on the page"),
            ({"xpath": ["//p["]}, "not an XPath"),
        ):
            code, found = await ask(node, "POST", "/channels/try", {"url": url, "rules": rules})
            assert (code, found["where"], said in found["detail"]) == (422, "rules", True), found


async def test_a_node_without_web_channels_says_so() -> None:
    async with running() as node:
        assert (await node.get("/channels"))["enabled"] is False
        status, said = await node.post("/channels/add", {"url": "https://example.org/"})
        assert (status, "--channels" in said["detail"]) == (409, True)


async def test_figures_are_published_and_measured() -> None:
    async with WebServer() as server, watching(http=True) as node:
        url = server.put("/news", html("one"))
        node.channels.add(url)
        await first_version(node, url)
        figures = SysTopics(node.node.observed.status, node.node.broker.publish).figures(
            node.node.observed.status()
        )
        assert figures["channels/polled"] == "1"
        assert int(figures["channels/polls/count"]) >= 1
        await asyncio.sleep(0.15)  # what is answered may be a tenth of a second old
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{node.node.http_port}/metrics") as answer,
        ):
            text = await answer.text()
        assert 'penstock_channels_polls_total{fate="first"} 1.0' in text
        assert "penstock_channels_polled 1.0" in text
        assert "penstock_channels_balanced 1.0" in text


async def test_commands_speak_to_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = get_command(app)
    monkeypatch.setattr("typer.testing._get_command", lambda _: command)  # takes longer than what it does
    async with WebServer() as server, watching(http=True) as node:
        url = server.put("/news", html("one"))
        loop = asyncio.get_running_loop()

        async def run(*words: str, code: int = 0) -> str:
            window = ["--node", f"http://127.0.0.1:{node.node.http_port}"]

            def work() -> Result:
                return CliRunner().invoke(app, ["channels", *words, *window])

            found = await loop.run_in_executor(None, work)
            assert found.exit_code == code, (words, found.output, found.exception)
            return found.output

        assert "is watched" in await run("add", url, "--css", "main", "--every", "60s")
        await settled(node, url)
        server.put("/news", html("one", "two"))
        await asyncio.sleep(0.06)
        assert "It has changed." in await run("check", url)
        assert "+ two" in await run("history", url)
        assert '"changes": 1' in await run("list", "--json")
        listing = await run("list")
        assert listing.startswith("1 channel ")
        assert "News" in listing
        assert "\\n" not in listing
        assert "Somebody asked" in await run("why", url)
        assert '"muted": []' in await run("why", url, "--json")
        assert "are told from now on" in await run("unmute", url, "/main/p")
        await run("restore", url, "7", code=1)
        assert '"total"' in await run("try", url, "--xpath", "//p", "--json")
        await run("unmute", url, "/nowhere", code=1)
        assert "is paused" in await run("pause", url)
        assert "polled again" in await run("resume", url)
        assert "You are subscribed" in await run("subscribe", "feed:ann", url)
        assert "not subscribed" in await run("subscribe", "feed:ann", url, "--end")
        listed = tmp_path / "feeds.opml"
        await run("export", str(listed))
        assert url in listed.read_text()
        assert "removed" in await run("remove", url)
        listed.write_text(OPML.format(url))
        assert "1 of 2 pages" in await run("import", str(listed), code=1)
        await until(lambda: node.channels.channel(url).version)
        watches = tmp_path / "url-watches.json"
        watches.write_text(
            json.dumps({"watching": {"a": {"url": url, "tags": ["shops"], "include_filters": ["jq:."]}}})
        )
        assert "1 of 1 page watched" in await run("import", str(watches))
        assert "1 channel" in await run("list", "--tag", "shops")
        assert "0 channels" in await run("list", "--tag", "other")
        await run("add", url, "--tag", "a", "--tag", "b")
        assert node.channels.channel(url).tags == ("a", "b")
        await run("why", "nonsense", code=1)
