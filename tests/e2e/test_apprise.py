"""Apprise's own library against a real HTTP server: what is sent, what fails, what does not come back."""

from __future__ import annotations

import asyncio
import json

import pytest

from penstock import limits
from penstock.errors import ChannelError, NodeError
from penstock.node.config.notify import AppriseSettings, AppriseTarget
from tests.kit.channel_api import MemoryChannels
from tests.kit.notify_service import notifying
from tests.kit.webhook_receiver import Receiver

pytestmark = [
    pytest.mark.e2e,  # loading its hundred plugins takes seconds
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of theirs
]

PAGE = "http://page.example/"


def targets(receiver: Receiver, *, send_s: float = 10) -> AppriseSettings:
    url = receiver.url.replace("http://", "json://")
    return AppriseSettings(targets=(AppriseTarget("ops", url),), send_s=send_s)


async def test_a_change_is_notified_in_words() -> None:
    channels = MemoryChannels()
    async with Receiver() as receiver, notifying(channels, apprise=targets(receiver)) as at:
        await channels.subscribe("apprise:ops", PAGE)
        channels.change(PAGE, "fresh news", title="Daily")
        (request,) = await receiver.wait(1)
        said = json.loads(request.body)
        assert said["title"] == "Daily changed"
        assert "fresh news" in said["message"]
        async with asyncio.timeout(120):
            while not at.statistics().sent:
                await asyncio.sleep(0.01)
        with pytest.raises(ChannelError, match=r"no target 'other'.*there are: ops"):
            await channels.subscribe("apprise:other", PAGE)


async def test_slow_receivers_of_one_kind_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NOTIFY_SENDS", 1)
    channels = MemoryChannels()
    async with (
        Receiver(delay_s=60) as slow,
        Receiver() as receiver,
        notifying(channels, apprise=targets(receiver)) as at,
    ):
        for number in range(3):
            await channels.subscribe(f"webhook:{slow.url}/{number}", PAGE)
        await channels.subscribe("apprise:ops", PAGE)
        channels.change(PAGE)
        await receiver.wait(1)
        async with asyncio.timeout(120):
            while not at.statistics().sent:
                await asyncio.sleep(0.01)
        assert (len(slow.requests), at.statistics().waiting) == (1, 3)


async def test_a_service_that_fails_or_stalls_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NOTIFY_RETRY_LEAST_S", 0.05)
    channels = MemoryChannels()
    async with (
        Receiver(500, delay_s=0.3) as receiver,
        notifying(channels, apprise=targets(receiver, send_s=0.1)) as at,
    ):
        await channels.subscribe("apprise:ops", PAGE)
        channels.change(PAGE)
        await receiver.wait(2)  # the first did not come back in time, and is waited for
        failing = at.status().sending["failing"]["apprise:ops"]
        assert "not come back" in failing or "within 0.1 s" in failing
        assert at.statistics().waiting == 1


async def test_an_address_apprise_does_not_know_stops_the_start() -> None:
    bad = AppriseSettings(targets=(AppriseTarget("x", "nonsense://user:secret@host"),))
    with pytest.raises(NodeError, match=r"targets\[0\].url: Apprise does not know") as caught:
        async with notifying(MemoryChannels(), apprise=bad):
            pass
    assert "secret" not in str(caught.value)
