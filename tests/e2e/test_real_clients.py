"""Clients that others wrote, against a node in a process of its own."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING

import pytest

from penstock.model.digest_wire import from_message
from penstock_lab.rigs.brokers import our_node
from tests.e2e.real_clients import Aiomqtt, Client, Heard, How, Npm, Paho, Tools, install_npm_mqtt, wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.e2e

CAPACITY = 50
POLICY = "levels: [{drop: {within: [50, 100], attribute: pulse}}]\ndigest: {pulse: [mean]}"
KINDS = ["paho 3.1.1", "paho 5", "aiomqtt", "mosquitto 3.1.1", "mosquitto 5", "npm 3.1.1", "npm 5"]
KINDS_5 = ["paho 5", "aiomqtt", "mosquitto 5", "npm 5"]

numbers = count(1)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A node's port; its queues are small."""
    config = {
        "queues": {"events": CAPACITY},
        "policies": {"normal": POLICY},
        "install": [{"policy": "normal", "client": "old-*", "filter": "ward/#"}],
    }
    with our_node(config) as node:
        yield node.port


@pytest.fixture
def dial(port: int, request: pytest.FixtureRequest) -> Iterator[Callable[..., Client]]:
    """Makes clients by kind, and closes them."""
    made: list[Client] = []

    def call(
        kind: str, client_id: str = "", *, keep: bool = False, will: tuple[str, bytes] | None = None
    ) -> Client:
        name, _, said = kind.partition(" ")
        client_id = client_id or f"client-{next(numbers)}"
        version = 4 if said == "3.1.1" else 5
        how = How(port, client_id, version=version, keep=keep, will=will)
        client: Client
        if name == "npm":
            folder = request.config.cache.mkdir("npm-mqtt")
            problem = install_npm_mqtt(folder)
            if problem:
                pytest.skip(problem)
            client = Npm(how, folder)
        elif name == "mosquitto":
            if shutil.which("mosquitto_sub") is None:
                pytest.skip("mosquitto_pub and mosquitto_sub are not installed")
            client = Tools(how)
        else:
            client = Paho(how) if name == "paho" else Aiomqtt(how)
        made.append(client)
        return client

    yield call
    with ExitStack() as stack:
        for client in made:
            stack.callback(client.close)


def topic() -> str:
    return f"t{next(numbers)}"


@pytest.mark.parametrize("kind", KINDS)
def test_messages_of_every_qos_both_ways(dial: Callable[..., Client], kind: str) -> None:
    name = topic()
    one, judge = dial(kind), dial("paho 5")
    one.subscribe(f"{name}/+/here/#", qos=2)
    judge.subscribe(f"{name}/#", qos=2)
    expected = []
    for qos in (0, 1, 2):
        for who, sender in (("one", one), ("judge", judge)):
            sender.publish(f"{name}/{who}/here/deep", b"%d" % qos, qos=qos)
            expected.append(Heard(f"{name}/{who}/here/deep", b"%d" % qos, qos, retain=False))
    judge.publish(f"{name}/not/there", b"", qos=1)
    for client in (one, judge):
        wait(lambda client=client: len(client.heard) >= len(expected))  # type: ignore[misc]
    key = repr  # two connections: their order is not defined
    assert sorted(one.heard, key=key) == sorted(expected, key=key)
    assert len(judge.heard) == len(expected) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_retained_messages_and_wills(dial: Callable[..., Client], kind: str) -> None:
    name = topic()
    judge = dial("paho 5")
    judge.publish(f"{name}/kept", b"old", qos=1, retain=True)
    judge.publish(f"{name}/kept", b"new", qos=1, retain=True)
    one = dial(kind, will=(f"{name}/gone", b"one is gone"))
    one.subscribe(f"{name}/kept", qos=1)
    wait(lambda: one.heard)
    assert one.heard == [Heard(f"{name}/kept", b"new", 1, retain=True)]
    judge.subscribe(f"{name}/gone", qos=1)
    one.vanish()
    wait(lambda: judge.heard)
    assert judge.heard == [Heard(f"{name}/gone", b"one is gone", 1, retain=False)]


@pytest.mark.parametrize("kind", KINDS)
def test_members_of_a_group_share(dial: Callable[..., Client], kind: str) -> None:
    name = topic()
    members = [dial(kind), dial(kind)]
    for member in members:
        member.subscribe(f"$share/g/{name}", qos=1)
    judge = dial("paho 5")
    for number in range(20):
        judge.publish(name, b"%d" % number, qos=1)
    wait(lambda: sum(len(member.heard) for member in members) >= 20)
    assert sorted(int(heard.payload) for member in members for heard in member.heard) == list(range(20))
    assert all(len(member.heard) >= 5 for member in members)


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_goes_on(dial: Callable[..., Client], kind: str) -> None:
    name, client_id = topic(), f"kept-{next(numbers)}"
    one = dial(kind, client_id, keep=True)
    one.subscribe(name, qos=1)
    one.close()
    judge = dial("paho 5")
    for number in range(100):
        judge.publish(name, b"%d" % number, qos=1)
    again = dial(kind, client_id, keep=True)
    wait(lambda: len(again.heard) >= 100)
    assert [int(heard.payload) for heard in again.heard] == list(range(100))


def readings() -> list[bytes]:
    """Two alarms among many normal readings."""
    pulses = [70] * 60 + [140] + [80] * 60 + [30] + [75] * 60
    return [json.dumps({"pulse": pulse}).encode() for pulse in pulses]


def check_ward(heard: list[Heard]) -> None:
    events = [json.loads(one.payload)["pulse"] for one in heard if not one.digest]
    digests = [from_message(one.payload)[1] for one in heard if one.digest]
    assert digests
    assert {30, 140} <= set(events)
    assert len(events) + sum(digest["count"] for digest in digests) == len(readings())


def counted(heard: list[Heard]) -> int:
    return sum(from_message(one.payload)[0].count if one.digest else 1 for one in heard)


@pytest.mark.parametrize("kind", KINDS_5)
def test_a_policy_decides_what_waits_and_digests_tell_the_rest(
    dial: Callable[..., Client], kind: str
) -> None:
    name, client_id = topic(), f"policy-{next(numbers)}"
    one = dial(kind, client_id, keep=True)
    one.subscribe(name, policy=POLICY)
    one.close()
    judge = dial("paho 5")
    for payload in readings():
        judge.publish(name, payload, qos=1)
    again = dial(kind, client_id, keep=True)
    wait(lambda: counted(again.heard) >= len(readings()))
    check_ward(again.heard)


def test_a_client_of_mqtt_3_gets_digests_on_a_topic_of_their_own(dial: Callable[..., Client]) -> None:
    client_id = f"old-{next(numbers)}"
    one = dial("paho 3.1.1", client_id, keep=True)
    one.subscribe("ward/1")
    one.subscribe("$digest/ward/1")
    one.close()
    judge = dial("paho 5")
    for payload in readings():
        judge.publish("ward/1", payload, qos=1)
    again = dial("paho 3.1.1", client_id, keep=True)

    def marked() -> list[Heard]:
        return [
            Heard(heard.topic, heard.payload, heard.qos, heard.retain, heard.topic.startswith("$digest/"))
            for heard in again.heard
        ]

    wait(lambda: counted(marked()) >= len(readings()))
    check_ward(marked())


@pytest.mark.parametrize("kind", ["paho 5"])
def test_a_wrong_policy_is_refused_and_the_connection_lives(dial: Callable[..., Client], kind: str) -> None:
    name = topic()
    one = dial(kind)
    with pytest.raises(AssertionError):
        one.subscribe(name, policy="levels: [{drop: {withn: [1, 2]}}]")
    one.subscribe(name)
    one.publish(name, b"x", qos=1)
    wait(lambda: one.heard)
