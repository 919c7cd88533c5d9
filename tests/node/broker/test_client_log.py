"""The log says who came and left, why, and what the access list refused; a storm does not fill it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.mqtt.codes import V4, V5, Reason
from penstock.mqtt.packets.connect import Disconnect
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.publish import Puback, Publish
from penstock.mqtt.packets.subscribe import Suback, Subscribe, Subscription
from penstock.node.broker.client_log import ClientLog
from penstock.node.config.schema import Config, Rule
from tests.kit.peer import node
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "penstock.node.broker.client_log"


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """Lines about clients, as they come."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler = Lines()
    logger = logging.getLogger(NAME)
    logger.addHandler(handler)
    with caplog.at_level(logging.INFO, logger=NAME):
        yield lines
    logger.removeHandler(handler)


async def test_who_comes_and_goes_is_said_with_address_version_and_reason(said: list[str]) -> None:
    async with node() as running:
        polite = await running.connect("phone\u202e", version=V4)
        polite.raw(encode(Disconnect(), V4))
        await until(lambda: len(said) == 2)
        rude = await running.connect("rude")
        rude.writer.close()
        await until(lambda: len(said) == 4)
        await running.connect("twice")
        await running.connect("twice")
        await until(lambda: len(said) == 7)
        running.broker.disconnect("twice")
        await until(lambda: len(said) == 8)
        stranger = await running.dial()
        stranger.raw(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: a browser at a wrong port\r\n\r\n")
        await until(lambda: len(said) == 9)
    assert said[:4] == [
        "client 'phone\\u202e' connected from 127.0.0.1: MQTT 3.1.1",
        "client 'phone\\u202e' disconnected from 127.0.0.1: DISCONNECT",
        "client 'rude' connected from 127.0.0.1: MQTT 5",
        "client 'rude' disconnected from 127.0.0.1: closed without a DISCONNECT",
    ]
    assert said[5].startswith("client 'twice' disconnected from 127.0.0.1: CONNECT: another connection")
    assert said[7].endswith("disconnected by the operator")
    assert said[8].startswith("connection from 127.0.0.1 refused: ")


@pytest.mark.parametrize("version", [V4, V5])
async def test_a_publish_that_the_access_list_refuses_is_told(said: list[str], version: int) -> None:
    async with node(Config(data="", acl=(Rule(topic="open/#"),))) as running:
        client = await running.connect("c", version=version)
        for _ in range(100):
            client.publish0("shut/door", b"x")
        client.raw(encode(Publish("shut/door", b"x", qos=1, packet_id=7), version))
        answer = await client.expect(Puback)
        assert answer.reason == (Reason.NOT_AUTHORIZED if version == V5 else 0)
        client.raw(encode(Subscribe(1, (Subscription("shut/#"),)), version))
        await client.expect(Suback)
        assert running.broker.status().refused["publish not allowed"] == 101
    assert [line for line in said if "may not" in line] == [
        "client 'c' (no user) may not publish on 'shut/door'; see `acl` in the configuration",
        "client 'c' (no user) may not subscribe to 'shut/#'; see `acl` in the configuration",
    ]


def test_a_storm_is_bounded_and_what_is_left_out_is_counted(said: list[str]) -> None:
    now_us = 1_000_000_000
    log = ClientLog(lambda: now_us)

    def come(count: int) -> None:
        for number in range(count):
            log.connected(f"c{number}", address="::1", version=5, user="", present=False)

    come(10_000)
    burst = len(said)
    assert burst <= limits.CLIENT_LOG_BURST + 1
    for _ in range(100):
        now_us += 100_000
        log.catch_up()
        come(1_000)
    assert len(said) - burst <= 10 * limits.CLIENT_LOG_PER_S + 1
    now_us += 60_000_000
    log.catch_up()
    left_out = sum(int(line.split()[0].replace(",", "")) for line in said if "left out" in line)
    assert left_out + sum("connected" in line for line in said) == 110_000


def test_each_topic_is_told_once_a_minute_and_few_are_remembered(said: list[str]) -> None:
    now_us = 1_000_000_000
    log = ClientLog(lambda: now_us)

    def refuse() -> None:
        log.denied("c", user="ann", may_not="publish on", topic="t")

    refuse()
    refuse()
    assert len(said) == 1
    now_us += (limits.CLIENT_LOG_REPEAT_S + 1) * 1_000_000
    refuse()
    assert len(said) == 2


def test_nothing_is_said_where_nobody_listens(said: list[str]) -> None:
    logging.getLogger(NAME).setLevel(logging.WARNING)
    ClientLog(lambda: 0).connected("c", address="", version=5, user="", present=False)
    assert said == []
