"""Publishers are told the policies of their receivers, and of nobody else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.mqtt.codes import Reason
from penstock.node.broker import receiver_policies
from penstock.node.broker.receiver_policies import described
from penstock.node.config.schema import Config, Rule
from penstock.node.store.tables import STORE, Store
from tests.kit.cluster import Network, members
from tests.kit.peer import node

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.peer import Peer

LAST = '{"name": "last", "levels": [{"keep": {"latest": 3}}]}'


@pytest.fixture(autouse=True)
def changes_are_looked_for_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver_policies, "LOOK_S", 0.05)


async def receivers(sensor: Peer) -> list[tuple[str, str]]:
    """Filters and names of policies as they are told next."""
    found = json.loads((await sensor.message()).payload)
    assert (found["version"], found["more"]) == (1, False)
    return [
        (each["filter"], json.loads(each["policy"])["name"] if each["policy"] else "")
        for each in found["receivers"]
    ]


async def test_a_publisher_is_told_at_once_and_when_receivers_change() -> None:
    async with node() as running:
        phone = await running.connect("phone")
        await phone.subscribe("ward/#", "other", qos=1, user=(("policy", LAST),))
        sensor = await running.connect("sensor")
        await sensor.subscribe("$policies/ward/+", qos=1)
        assert await receivers(sensor) == [("ward/#", "last")]
        await phone.subscribe("$share/group/ward/1")
        assert await receivers(sensor) == [("ward/#", "last"), ("ward/1", "")]
        await phone.unsubscribe("ward/#", "$share/group/ward/1")
        assert await receivers(sensor) == []


async def test_a_publisher_with_a_kept_session_is_told_after_a_restart(tmp_path: Path) -> None:
    async with node(store=Store(tmp_path / STORE)) as running:
        sensor = await running.connect("sensor", session_expiry_s=60)
        await sensor.subscribe("$policies/ward/+", qos=1)
        assert await receivers(sensor) == []
    async with node(store=Store(tmp_path / STORE)) as running:
        sensor = await running.connect("sensor", clean=False, session_expiry_s=60)
        assert sensor.connack.session_present
        assert await receivers(sensor) == []
        phone = await running.connect("phone")
        await phone.subscribe("ward/1")
        while not (found := await receivers(sensor)):
            pass  # what was told before, and not acknowledged
        assert found == [("ward/1", "")]


async def test_receivers_at_other_nodes_are_told_too() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        sensor = await n1.connect("sensor")
        await sensor.subscribe("$policies/ward/1", qos=1)
        assert await receivers(sensor) == []
        phone = await n2.connect("phone")
        await phone.subscribe("ward/#", qos=1, user=(("policy", LAST),))
        assert await receivers(sensor) == [("ward/#", "last")]
        await phone.subscribe("ward/+")
        assert await receivers(sensor) == [("ward/#", "last"), ("ward/+", "")]


async def test_whoever_may_not_publish_there_is_told_nothing() -> None:
    rules = (
        Rule(topic="ward/secret", action="publish", allow=False),
        Rule(topic="ward/+", action="publish"),
        Rule(topic="#", action="subscribe"),
    )
    async with node(Config(data="", acl=rules)) as running:
        sensor = await running.connect("sensor")
        asked = ("ward/1", "ward/+", "ward/#", "other", "ward/secret")
        found = await sensor.subscribe(*(f"$policies/{each}" for each in asked))
        assert found.reasons == (0, *[Reason.NOT_AUTHORIZED] * 4)


def test_what_is_told_is_bounded() -> None:
    many = [(f"ward/{number}", "") for number in range(limits.POLICY_RECEIVERS_TOLD + 1)]
    found = json.loads(described("ward/+", many))
    assert (len(found["receivers"]), found["more"]) == (limits.POLICY_RECEIVERS_TOLD, True)
    large = [("#", "x" * limits.POLICY_BYTES), ("ward/+", "y")]
    assert json.loads(described("ward/+", large))["more"]
    assert json.loads(described("a", [("$SYS/#", ""), ("b", ""), ("#", "x")]))["receivers"] == [
        {"filter": "#", "policy": "x"}
    ]
