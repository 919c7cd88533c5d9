"""A message that no node would take is refused where it is made, and the client lives."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import limits
from penstock.client import Client
from penstock.errors import ConnectionLost, PenstockError
from tests.kit.peer import node


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"payload": {"a": 1}}, "a payload is bytes or a text, found dict"),
        ({"payload": None}, "found NoneType"),
        ({"properties": {str(number): "x" for number in range(300)}}, "300 properties; at most 256"),
        ({"properties": {"a": 1}}, "names and values of properties are texts"),
        ({"response_topic": "r/#"}, "response_topic"),
        ({"qos": 1.0}, r"qos is 1\.0"),
        ({"qos": 3}, "qos is 3"),
        ({"topic": "a/#"}, "topic"),
    ],
)
async def test_it_is_refused_and_the_next_one_is_not(wrong: dict[str, Any], complaint: str) -> None:
    async with node() as running, Client(f"mqtt://127.0.0.1:{running.port}") as client:
        given: dict[str, Any] = {"topic": "x", "payload": b"y", "qos": 1} | wrong
        with pytest.raises(PenstockError, match=complaint):
            await client.publish(given.pop("topic"), given.pop("payload"), **given)
        await client.publish("x", b"y", qos=1)
        assert client.connected


def test_what_a_node_never_takes_is_not_sent_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: getattr(limits, name) for name in dir(limits) if name.isupper()}
    monkeypatch.setattr(
        "penstock.client.message.limits", SimpleNamespace(**(known | {"MQTT_USER_PROPERTIES": 1_000}))
    )

    async def story() -> None:
        async with node() as running, Client(f"mqtt://127.0.0.1:{running.port}") as client:
            with pytest.raises(ConnectionLost):
                await client.publish("x", b"y", qos=1, properties={str(one): "x" for one in range(300)})

    asyncio.run(asyncio.wait_for(story(), 300))
