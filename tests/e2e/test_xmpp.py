"""The chat bot at a real Prosody: commands, changes, people who come and go, servers that come and go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import uvloop

from penstock import limits
from penstock.errors import ChannelRefused, NodeError
from penstock.node.config.notify import XmppSettings
from penstock.node.notify.status import OutboxStatistics
from penstock.node.notify.xmpp import PASSWORD_VARIABLE, may_talk, password_of
from tests.kit.channel_api import MemoryChannels
from tests.kit.notify_service import notifying
from tests.kit.prosody import PROSODY, Prosody, prosody
from tests.kit.xmpp_people import ACCOUNTS, person

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.node.notify.service import NotifyService

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(PROSODY is None, reason="prosody is not installed"),
]

PAGE = "http://page.example/"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prosody]:
    with prosody(tmp_path_factory.mktemp("prosody"), ACCOUNTS) as running:
        yield running


def settings(server: Prosody, **more: Any) -> XmppSettings:
    given = {"password": ACCOUNTS["bot"], "ca": str(server.ca), **more}
    return XmppSettings(jid="bot@localhost", host="127.0.0.1", port=server.port, **given)


async def connected(at: NotifyService) -> None:
    async with asyncio.timeout(120):
        while not at.status().transports["xmpp"]["connected"]:
            await asyncio.sleep(0.02)


async def settled(at: NotifyService) -> None:
    async with asyncio.timeout(120):
        while at.statistics().waiting:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_commands_and_changes(server: Prosody, loop: Any) -> None:
    async def run() -> None:
        channels = MemoryChannels()
        async with notifying(channels, xmpp=settings(server)) as at, person("ann", server) as ann:
            await connected(at)
            assert "subscribe URL" in await ann.ask("help")
            assert await ann.ask(f"subscribe {PAGE}") == f"You are subscribed to {PAGE}."
            assert await ann.ask("list") == PAGE
            assert "did you mean" in (await ann.ask("lits")).lower()
            assert "must begin with http" in await ann.ask("subscribe gopher://x")
            assert "not allowed" in await ann.ask("subscribe http://refused.example/")
            assert "every 15 min" in await ann.ask(f"why {PAGE}")
            channels.change(PAGE, "fresh <b>news</b> & \x00\x0b\ufffe more", title="Daily")
            told = await ann.hear()
            assert r"fresh <b>news</b> & \x00\x0b\ufffe more" in told  # raw, they would end the stream
            assert await ann.ask("pause") == "paused"
            channels.change(PAGE)
            channels.change(PAGE)
            ann.say("resume")
            answers = {await ann.hear(), await ann.hear()}
            assert "resumed" in answers
            assert any("2 changes" in one and "paused" in one for one in answers)
            await settled(at)
            assert "any more" in await ann.ask(f"unsubscribe {PAGE}")
            assert at.statistics() == OutboxStatistics(3, 1, 2, 0, 0, 0)

    with asyncio.Runner(loop_factory=loop) as runner:  # `penstock up` runs on the second
        runner.run(run())


async def test_who_is_offline_is_told_later_even_after_a_restart(server: Prosody, tmp_path: Path) -> None:
    channels = MemoryChannels()
    async with notifying(channels, data=tmp_path, xmpp=settings(server)) as at:
        await connected(at)
        async with person("bob", server) as bob:
            await bob.ask(f"subscribe {PAGE}")
            await bob.befriended()
            channels.change(PAGE, "while there")
            assert "while there" in await bob.hear()
        async with asyncio.timeout(120):
            while not at._transports["xmpp"].away("xmpp:bob@localhost"):
                await asyncio.sleep(0.02)
        for number in range(3):
            channels.change(PAGE, f"while away {number}")
        await asyncio.sleep(0.3)
        assert at.statistics().waiting == 3
    async with notifying(channels, data=tmp_path, xmpp=settings(server)) as at:
        await connected(at)
        await asyncio.sleep(0.3)
        assert at.statistics().waiting == 3  # still not there
        async with person("bob", server) as bob:
            told = [await bob.hear() for _ in range(3)]
            assert ["while away" in one for one in told] == [True] * 3
            assert [one for number, one in enumerate(told) if f"away {number}" in one] == told
            await settled(at)
            assert bob.silent


async def test_strangers_are_told_that_they_are(server: Prosody) -> None:
    channels = MemoryChannels()
    only = settings(server, accept=("ann@localhost",))
    async with notifying(channels, xmpp=only) as at, person("bob", server) as bob:
        await connected(at)
        assert "I take no commands from you" in await bob.ask(f"subscribe {PAGE}")
        with pytest.raises(ChannelRefused, match="does not talk to 'bob@localhost'"):
            at.check("xmpp:Bob@localhost/phone")
        assert at.check("xmpp:Ann@localhost/phone") == "xmpp:ann@localhost"
        assert channels.subscriptions() == []


async def test_one_person_is_not_flooded(server: Prosody) -> None:
    channels = MemoryChannels()
    pace = {"per_minute": 6.0, "burst": 2, "queue_events": 4}
    async with notifying(channels, xmpp=settings(server), **pace) as at, person("ann", server) as ann:  # type: ignore[arg-type]
        await connected(at)
        await ann.ask(f"subscribe {PAGE}")
        for _ in range(30):
            channels.change(PAGE)
        told = [await ann.hear(), await ann.hear()]
        assert any("not sent one by one, because too many waited" in one for one in told)
        await asyncio.sleep(0.3)
        assert ann.silent
        assert at.statistics().waiting > 0
        await ann.hear()  # ten seconds after the burst
        assert at.statistics().conserved


def test_a_server_that_goes_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RECONNECT_LEAST_S", 0.1)

    async def run(server: Prosody) -> None:
        channels = MemoryChannels()
        async with notifying(channels, xmpp=settings(server)) as at:
            await connected(at)
            async with person("ann", server) as ann:
                await ann.ask(f"subscribe {PAGE}")
            await asyncio.to_thread(server.stop)
            channels.change(PAGE, "while the server was away")
            async with asyncio.timeout(120):
                while not at.status().transports["xmpp"]["fault"]:
                    await asyncio.sleep(0.02)
            assert at.statistics().waiting == 1
            await asyncio.to_thread(server.start)
            async with person("ann", server) as ann:
                assert "while the server was away" in await ann.hear()
            assert at.status().transports["xmpp"]["sessions"] >= 2

    with prosody(tmp_path, ACCOUNTS) as server:
        asyncio.run(run(server))


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"password": "wrong"}, "password"),
        ({"ca": ""}, "certificate|disconnected"),
        ({"port": 1}, "no connection"),
    ],
)
async def test_what_stands_in_the_way_is_said(server: Prosody, more: dict[str, Any], fault: str) -> None:
    given = msgspec.structs.replace(settings(server), **more)
    async with notifying(MemoryChannels(), xmpp=given) as at:
        async with asyncio.timeout(120):
            while not (said := str(at.status().transports["xmpp"]["fault"])):
                await asyncio.sleep(0.02)
        assert any(word in said for word in fault.split("|")), said
        assert not at.status().transports["xmpp"]["connected"]


async def test_what_comes_back_is_not_counted_as_told(
    server: Prosody, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "NOTIFY_RETRY_LEAST_S", 0.2)
    channels = MemoryChannels()
    async with notifying(channels, xmpp=settings(server), give_up_s=0.5) as at:
        await connected(at)
        await channels.subscribe("xmpp:nobody@localhost", PAGE)
        channels.change(PAGE)
        async with asyncio.timeout(120):
            while not at.status().sending["failing"]:
                await asyncio.sleep(0.02)
        assert "came back" in at.status().sending["failing"]["xmpp:nobody@localhost"]
        assert at.statistics() == OutboxStatistics(1, 0, 0, 1, 0, 1)
        async with asyncio.timeout(120):
            while channels.subscriptions():  # nobody ever comes
                await asyncio.sleep(0.02)
        assert at.statistics() == OutboxStatistics(1, 0, 0, 0, 1, 0)


def test_other_ways_to_encrypt(server: Prosody, tmp_path: Path) -> None:
    async def connects(given: XmppSettings) -> None:
        async with notifying(MemoryChannels(), xmpp=given) as at:
            await connected(at)

    direct = settings(server, tls="direct")
    asyncio.run(connects(msgspec.structs.replace(direct, port=server.direct_port)))
    with prosody(tmp_path, ACCOUNTS, encrypted=False) as plain:
        asyncio.run(connects(settings(plain, tls="off", ca="")))


def test_where_the_password_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)
    file = tmp_path / "word"
    with pytest.raises(NodeError, match="no password: set"):
        password_of(XmppSettings(jid="a@b"))
    with pytest.raises(NodeError, match="password_file"):
        password_of(XmppSettings(jid="a@b", password_file=str(file)))
    file.write_text("from the file\nsecond line\n")
    assert password_of(XmppSettings(jid="a@b", password_file=str(file))) == "from the file"
    monkeypatch.setenv(PASSWORD_VARIABLE, "from the environment")
    assert password_of(XmppSettings(jid="a@b")) == "from the environment"


@pytest.mark.parametrize(
    ("accept", "bare", "may"),
    [
        ((), "ann@example.org", True),
        ((), "ann@other.example", False),
        (("other.example",), "ann@OTHER.example", True),
        (("other.example",), "ann@example.org", False),
        (("ann@other.example",), "ann@other.example", True),
        (("ann@other.example",), "bob@other.example", False),
        (("example.org",), "ann@notexample.org", False),
    ],
)
def test_who_may_talk(accept: tuple[str, ...], bare: str, may: bool) -> None:
    assert may_talk(XmppSettings(jid="bot@example.org/x", accept=accept), bare) is may
