"""A client that packs what it has waiting by the policy of its receivers, as the node tells it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Client
from penstock.client.receiver_policy import common_plan
from penstock.errors import InputError, PolicyError
from penstock.model.digest import Digest
from tests.kit.breakable_link import apart, away, back
from tests.kit.waiting import until

if TYPE_CHECKING:
    from penstock.client import Subscription

LAST = '{"name": "last", "levels": [{"keep": {"latest": 3}}]}'
OTHER = '{"name": "other", "levels": [{"keep": {"latest": 5}}]}'
FEW: dict[str, Any] = {"receivers_of": "ward/+", "send_events": 10}


def told(*receivers: tuple[str, str], **other: Any) -> bytes:
    found = [{"filter": filter_, "policy": policy} for filter_, policy in receivers]
    return json.dumps({"version": 1, "receivers": found, "more": False} | other).encode()


def test_there_is_a_policy_if_all_receivers_have_it_and_get_everything() -> None:
    assert common_plan(told(("ward/+", LAST), ("#", LAST)), "ward/+") is not None
    for nothing in (
        told(),
        told(("ward/+", LAST), ("ward/+", "")),
        told(("ward/+", LAST), ("ward/+", OTHER)),
        told(("ward/1", LAST)),
        told(("ward/+", LAST), more=True),
        told(("ward/+", LAST), version=2),
    ):
        assert common_plan(nothing, "ward/+") is None


def test_what_cannot_be_read_is_refused() -> None:
    for damaged in (b"", b"{}", b"[" * 10_000, b" " * 200_000, told(("a", ""))[:-3]):
        with pytest.raises(InputError):
            common_plan(damaged, "ward/+")
    with pytest.raises(PolicyError):
        common_plan(told(("#", "levels: nonsense")), "ward/+")


async def everything(subscription: Subscription, count: int) -> tuple[list[bytes], int]:
    """Events and digests until so many events are accounted for."""
    events: list[bytes] = []
    digested = 0
    while len(events) + digested < count:
        item = await subscription.get()
        assert item is not None
        if isinstance(item, Digest):
            digested += item.count
        else:
            events.append(item.payload)
    return events, digested


async def test_what_is_published_without_a_connection_is_packed_as_the_receivers_want() -> None:
    async with apart(**FEW) as (running, found, far, near):
        first = await near.subscribe("ward/+", qos=1, policy=LAST)
        second = await near.subscribe("ward/#", qos=1, policy=LAST)
        await until(lambda: far._sender._packs)
        await away(running, found, far)
        for number in range(100):
            await far.publish(f"ward/{number % 3}", str(number))
        assert far.statistics().sent.waiting == 100
        await back(found, far)
        for subscription in (first, second):
            events, digested = await everything(subscription, 100)
            assert digested > 80
            assert events[-3:] == [b"97", b"98", b"99"]
            assert len(events) + digested == 100
        sent = far.statistics().sent
        assert (sent.published, sent.sent + sent.digested, sent.waiting) == (100, 100, 0)


@pytest.mark.slow
async def test_nothing_is_dropped_once_a_receiver_without_that_policy_comes() -> None:
    async with apart(**FEW) as (running, found, far, near):
        await near.subscribe("ward/+", qos=1, policy=LAST)
        await until(lambda: far._sender._packs)
        plain = await near.subscribe("ward/1", qos=1)
        await until(lambda: not far._sender._packs)
        await away(running, found, far)
        for number in range(10):
            far.publish_nowait("ward/1", str(number))
        await back(found, far)
        assert (await everything(plain, 10))[0] == [str(number).encode() for number in range(10)]
        await plain.close()
        await until(lambda: far._sender._packs)


async def test_such_a_client_publishes_on_its_topics_alone() -> None:
    async with apart(**FEW) as (_, _, far, _):
        with pytest.raises(InputError, match="is not in 'ward/\\+'"):
            await far.publish("other", "x")
        with pytest.raises(InputError, match="retained"):
            far.publish_nowait("ward/1", "x", retain=True)
    with pytest.raises(InputError, match="not both"):
        Client(receivers_of="a", send_policy=LAST)
    with pytest.raises(InputError, match="no receivers"):
        Client(receivers_of="$SYS/#")
