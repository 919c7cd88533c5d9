"""Webhooks: signed, told once, again after failures, over at 410, and never to a private address."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock import limits
from penstock.core.channels.subscriptions import ChannelSubscription
from penstock.core.queues import QueueOptions
from penstock.errors import ChannelError, ChannelRefused
from penstock.node.notify.outbox import Outbox
from penstock.node.notify.subscriber_queue import delta_of
from penstock.node.notify.transport import Notification
from penstock.node.notify.webhook import key_of, signature
from penstock.policy.columns import Plan
from penstock.policy.text.forms import parse
from tests.kit.channel_api import MemoryChannels, made
from tests.kit.notify_service import counted, notifying
from tests.kit.webhook_receiver import Receiver

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.node.notify.service import NotifyService
    from tests.kit.webhook_receiver import Request

PAGE = "http://page.example/"


def genuine(request: Request, key: str) -> bool:
    """Check a signature as the guide tells receivers to."""
    secret = base64.b64decode(key.removeprefix("whsec_"))
    headers = {name.lower(): value for name, value in request.headers.items()}
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + request.body
    wanted = base64.b64encode(hmac.digest(secret, signed, "sha256")).decode()
    fresh = abs(time.time() - int(headers["webhook-timestamp"])) < 300
    return fresh and hmac.compare_digest(headers["webhook-signature"], f"v1,{wanted}")


async def test_a_change_is_sent_signed_and_counted() -> None:
    channels = MemoryChannels()
    async with Receiver() as receiver, notifying(channels) as at:
        await channels.subscribe(f"webhook:{receiver.url}", PAGE)
        delta = channels.change(PAGE, "news")
        (request,) = await receiver.wait(1)
        assert genuine(request, at.webhook_key(receiver.url))
        assert not genuine(request, at.webhook_key(receiver.url + "/other"))
        body = json.loads(request.body)
        assert body["type"] == "change"
        assert body["topic"] == f"web/{PAGE}"
        assert body["change"]["version"] == delta.version
        assert body["change"]["changes"] == [{"at": 0, "old": [], "new": ["news"]}]
        await counted(at, 1, 1, 0, 0, 0, 0)


def test_the_signature_is_the_one_of_the_specification() -> None:
    # The example in the Standard Webhooks specification's own test vectors.
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    found = signature(
        key, id_="msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp_s=1614265330, body=b'{"test": 2432232314}'
    )
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_a_failure_is_tried_again_with_the_same_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NOTIFY_RETRY_LEAST_S", 0.05)
    channels = MemoryChannels()
    async with Receiver(500, 302, 429) as receiver, notifying(channels) as at:
        await channels.subscribe(f"webhook:{receiver.url}", PAGE)
        channels.change(PAGE, "one")
        channels.change(PAGE, "two")
        requests = await receiver.wait(5)
        ids = [request.headers["webhook-id"] for request in requests]
        assert len(set(ids[:4])) == 1  # a redirect is a failure: it is not followed
        assert ids[4] != ids[0]
        await counted(at, 2, 2, 0, 0, 0, 0)


async def test_retry_after_is_obeyed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "NOTIFY_RETRY_LEAST_S", 0.01)
    caplog.set_level("INFO")
    channels = MemoryChannels()
    async with Receiver(503, headers={"Retry-After": "60"}) as receiver, notifying(channels) as at:
        address = f"{receiver.url}?token=as-good-as-a-password"
        await channels.subscribe(f"webhook:{address}", PAGE)
        channels.change(PAGE)
        await receiver.wait(1)
        await failing(at)
        await asyncio.sleep(0.1)
        assert len(receiver.requests) == 1
        assert at.status().sending["failing"] == {f"webhook:{address}": "it answered with status 503"}
        assert ": it answered with status 503; retry in" in caplog.text
        assert "as-good-as-a-password" not in caplog.text


@pytest.mark.parametrize("status", [410, 500])
async def test_gone_or_too_long_silent_ends_the_subscription(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "NOTIFY_RETRY_LEAST_S", 0.01)
    channels = MemoryChannels()
    async with Receiver(*[status] * 50) as receiver, notifying(channels, give_up_s=0.05) as at:
        await channels.subscribe(f"webhook:{receiver.url}", PAGE)
        channels.change(PAGE)
        channels.change(PAGE)
        async with asyncio.timeout(120):
            while channels.subscriptions():
                await asyncio.sleep(0.01)
        await counted(at, 2, 0, 0, 0, 2, 0)
        count = len(receiver.requests)
        channels.change(PAGE)
        await asyncio.sleep(0.05)
        assert len(receiver.requests) == count


async def test_addresses_of_this_machine_are_refused() -> None:
    channels = MemoryChannels()
    async with Receiver() as receiver, notifying(channels, networks=()) as at:
        with pytest.raises(ChannelError, match="private network"):
            await channels.subscribe(f"webhook:{receiver.url}", PAGE)
        by_name = receiver.url.replace("127.0.0.1", "localhost")
        await channels.subscribe(f"webhook:{by_name}", PAGE)  # what a name leads to is seen when it is used
        channels.change(PAGE)
        assert "localhost leads to" in await failing(at)
        assert receiver.requests == []


async def failing(at: NotifyService) -> str:
    """Wait until a subscriber cannot be reached; return who, and why."""
    async with asyncio.timeout(120):
        while not at.status().sending["failing"]:
            await asyncio.sleep(0.01)
    return str(at.status().sending["failing"])


async def test_a_receiver_that_is_not_there_is_said_in_words() -> None:
    channels = MemoryChannels()
    async with Receiver() as receiver:
        url = receiver.url
    async with notifying(channels) as at:
        await channels.subscribe(f"webhook:{url}", PAGE)
        channels.change(PAGE)
        assert "127.0.0.1 does not take connections: Connection refused" in await failing(at)


@pytest.mark.parametrize(
    "who",
    ["webhook:", "webhook:ftp://a/", "webhook:nonsense", "apprise:x", "feed:ann", "xmpp:a@b", "", "x:y"],
)
async def test_nobody_subscribes_who_cannot_be_told(who: str) -> None:
    async with notifying(MemoryChannels()) as at:
        with pytest.raises((ChannelError, ChannelRefused)):
            at.check(who)


async def test_what_waits_survives_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NOTIFY_RETRY_LEAST_S", 100.0)

    async def before(url: str, channels: MemoryChannels) -> None:
        async with notifying(channels, data=tmp_path, queue_events=4) as at:
            await channels.subscribe(f"webhook:{url}", PAGE)
            for _ in range(10):
                channels.change(PAGE)
            async with asyncio.timeout(120):
                while not at.status().sending["failures"]:
                    await asyncio.sleep(0.01)
            assert at.statistics().waiting == 10

    channels = MemoryChannels()
    async with Receiver(500) as receiver:
        await before(receiver.url, channels)
        async with notifying(channels, data=tmp_path, queue_events=6) as at:
            async with asyncio.timeout(120):
                while at.statistics().waiting:
                    await asyncio.sleep(0.01)
            stats = at.statistics()
            assert stats.taken == 10 == stats.sent + stats.digested
        bodies: list[Any] = [json.loads(request.body) for request in receiver.requests[1:]]
        digests = [body["digest"]["count"] for body in bodies if body["type"] == "digest"]
        assert sum(digests) == stats.digested > 0
        first, again = receiver.requests[0], receiver.requests[1]
        assert first.headers["webhook-id"] == again.headers["webhook-id"]


async def test_a_way_that_was_switched_off_is_missed_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    channels = MemoryChannels()
    async with Receiver() as receiver, notifying(channels) as at:
        await channels.subscribe(f"webhook:{receiver.url}", PAGE)
        del at._transports["webhook"]
        channels.change(PAGE)
        channels.change(PAGE)
        assert [one.message for one in caplog.records] == [
            "transport 'webhook' is no longer configured; its subscribers are not notified"
        ]


def test_a_parcel_of_another_target_has_another_key_and_id() -> None:
    secret = b"s" * 32
    assert key_of(secret, "http://a/") != key_of(secret, "http://b/")
    parcels = [
        Notification(who, made(PAGE, version), 0) for who in ("webhook:a", "webhook:b") for version in (1, 2)
    ]
    assert len({parcel.id for parcel in parcels}) == 4
    assert Notification("webhook:a", made(PAGE, 1), 0).id == Notification("webhook:a", made(PAGE, 1), 99).id


def test_digests_that_stand_for_other_changes_have_other_ids() -> None:
    box = Outbox(lambda _: Plan(parse("levels: [{keep: {latest: 1}}]")), QueueOptions(capacity_events=4))
    ids = []
    for version in (1, 2):
        delta = made(PAGE, version)
        box.put(ChannelSubscription("webhook:a", PAGE, paused=True), delta, now_us=delta.at_us)
        box.release("webhook:a", PAGE, now_us=delta.at_us)
        item = box.next("webhook:a")
        assert item is not None
        ids += [Notification("webhook:a", delta_of(item), at_us).id for at_us in (0, 99)]
        box.settled("webhook:a", item)
    assert ids[0] == ids[1] != ids[2] == ids[3]


async def test_what_waits_is_not_taken_twice_when_a_killed_node_tells_it_again(tmp_path: Path) -> None:
    channels = MemoryChannels()
    async with Receiver(503) as receiver:
        async with notifying(channels, data=tmp_path) as at:
            await channels.subscribe(f"webhook:{receiver.url}", PAGE)
            delta = channels.change(PAGE)
            await receiver.wait(1)
            await at.flush()
        async with notifying(channels, data=tmp_path) as at:
            (subscribed,) = channels.subscriptions()
            at.notify(subscribed, delta, now_us=delta.at_us, again=True)
            assert at.statistics().waiting == 1
            at.notify(subscribed, made(PAGE, 2), now_us=delta.at_us, again=True)
            assert at.statistics().waiting == 2


async def test_a_test_is_sent_at_once_and_counts_nowhere() -> None:
    channels = MemoryChannels()
    async with Receiver(200, 500) as receiver, notifying(channels) as at:
        said = await at.test(f"webhook:{receiver.url}", url="http://node.example/")
        assert said.startswith("A test was sent to webhook:http://127.0.0.1:")
        assert "/hook" not in said
        (request,) = await receiver.wait(1)
        assert genuine(request, at.webhook_key(receiver.url))
        assert json.loads(request.body)["change"]["title"] == "A test from Penstock"
        with pytest.raises(ChannelError, match="did not reach"):
            await at.test(f"webhook:{receiver.url}", url="http://node.example/")
        for who in ("xmpp:ann@example.org", "webhook:nonsense", "odd"):
            with pytest.raises(ChannelError):
                await at.test(who, url="http://node.example/")
        await counted(at, 0, 0, 0, 0, 0, 0)
