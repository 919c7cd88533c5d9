"""The recipes of the documentation, with programs of others against a real node."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from typing import TYPE_CHECKING, Any

import paho.mqtt.client as mqtt
import pytest
import yaml
from paho.mqtt.enums import CallbackAPIVersion
from prometheus_client.parser import text_string_to_metric_families

from penstock.cli.api import api_address
from penstock.client import Client
from penstock.node.config.read import load
from penstock_lab.rigs.way import SlowLink
from tests.kit.passwords import cheap
from tests.kit.paths import ROOT
from tests.kit.up import Up, up
from tests.kit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

PAGE = (ROOT / "docs" / "guides" / "recipes.md").read_text()


def block(language: str, beginning: str) -> str:
    """The code of the page that begins like this."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (text,) = (each for each in found if each.startswith(beginning))
    assert isinstance(text, str)
    return text


async def test_a_phone_with_paho_on_a_slow_link_gets_alarms_and_accounts_for_the_rest(tmp_path: Path) -> None:
    program = tmp_path / "phone.py"
    program.write_text(block("python", "# phone.py"))
    with up(tmp_path) as node:
        async with SlowLink(node.port, bytes_per_s=2_000) as link:
            phone = await asyncio.create_subprocess_exec(
                sys.executable, str(program), str(link.port), stdout=asyncio.subprocess.PIPE
            )
            try:
                await published(node)
                alarms, kept, digested = 0, 0, 0
                assert phone.stdout is not None
                while kept + digested < 3_000:
                    line = (await asyncio.wait_for(phone.stdout.readline(), 240)).decode()
                    assert line, "the phone has ended"
                    found = eval(line.split(" ", 2)[2])  # noqa: S307  # what Python printed
                    if line.startswith("digest"):
                        digested += found["count"]
                    else:
                        kept += 1
                        alarms += found["pulse"] > 120
                assert (alarms, kept + digested) == (4, 3_000)
                assert digested > kept
            finally:
                phone.kill()
                await phone.wait()


async def published(node: Up) -> None:
    """3,000 readings, four of them alarms, once the phone has subscribed."""
    async with Client(f"mqtt://127.0.0.1:{node.port}") as sensors:
        answer = await sensors.publish("ward/0", b'{"pulse": 70}', qos=1)
        began_s = time.monotonic()
        while answer.reason == 0x10:  # nobody has subscribed yet
            assert time.monotonic() < began_s + 120
            await asyncio.sleep(0.05)
            answer = await sensors.publish("ward/0", b'{"pulse": 70}', qos=1)
        for number in range(1, 3_000):
            pulse = 150 if number % 700 == 0 else 70 + number % 8
            await sensors.publish(f"ward/{number % 3}", json.dumps({"pulse": pulse}).encode())


class Other:
    """A paho client of MQTT 3.1.1, as in Home Assistant."""

    def __init__(self, node: Up, name: str, password: str, *topics: str) -> None:
        self.heard: list[tuple[str, bytes, bool]] = []
        self.ready = False
        self.paho = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv311, clean_session=True
        )
        self.paho.username_pw_set(name, password)
        self.paho.will_set("homeassistant/status", "offline", retain=True)
        self._topics = topics
        self.paho.on_connect = self._connected
        self.paho.on_subscribe = self._subscribed
        self.paho.on_message = lambda _client, _data, message: self.heard.append(
            (message.topic, bytes(message.payload), message.retain)
        )
        self.paho.connect("127.0.0.1", node.port)
        self.paho.loop_start()

    def _connected(self, *_: Any) -> None:
        self.paho.subscribe([(each, 0) for each in self._topics])

    def _subscribed(self, *_: Any) -> None:
        self.ready = True


async def test_home_assistant_finds_devices_keeps_them_and_says_when_it_goes(tmp_path: Path) -> None:
    text = block("yaml", "# penstock.yaml\nlisteners: [{kind: tcp")
    config = yaml.safe_load(text)
    config["listeners"] = [{"port": 0}]
    config["users"] = [{"name": user["name"], "password": cheap("pw")} for user in config["users"]]
    config["anonymous"] = "never"
    path = tmp_path / "penstock.yaml"
    path.write_text(yaml.safe_dump(config))
    assert load(path).warnings == ()
    announced = json.loads(re.findall(r"'(\{.*?\})'", PAGE)[0])
    with up(tmp_path) as node:
        async with Client(f"mqtt://127.0.0.1:{node.port}", user="sensors", password="pw") as sensor:  # noqa: S106
            where = "homeassistant/sensor/bedroom/config"
            await sensor.publish(where, json.dumps(announced).encode(), qos=1, retain=True)
            await sensor.publish(announced["state_topic"], b"21.5", qos=1, retain=True)
            home = Other(node, "homeassistant", "pw", "homeassistant/#", "home/#")
            await until(lambda: home.ready and len(home.heard) == 2)
            assert {topic: retained for topic, _, retained in home.heard} == {
                where: True,
                announced["state_topic"]: True,
            }
            home.paho.publish("homeassistant/status", "online", retain=True)
            await until(lambda: len(home.heard) == 3)
            await sensor.publish(announced["state_topic"], b"21.6", qos=1)
            await until(lambda: home.heard[-1] == (announced["state_topic"], b"21.6", False))
            watcher = Other(
                node, "homeassistant", "pw", "homeassistant/status"
            )  # the same client id: it restarts
            await until(lambda: b"offline" in [payload for _, payload, _ in watcher.heard])
            for each in (home, watcher):
                each.paho.disconnect()
                each.paho.loop_stop()


async def test_prometheus_understands_the_metrics(tmp_path: Path) -> None:
    with up(tmp_path) as node:
        where = api_address(node.about["http"]["url"], "")

        def scraped() -> str:
            connection = where.connection()
            try:
                connection.request("GET", "/metrics", headers=where.headers)
                return connection.getresponse().read().decode()
            finally:
                connection.close()

        families = list(text_string_to_metric_families(await asyncio.to_thread(scraped)))
    ours = [each for each in families if each.name.startswith("penstock_")]
    assert len(ours) > 20
    assert all(each.documentation for each in ours)


def test_the_flow_for_node_red_and_the_configurations_are_valid(tmp_path: Path) -> None:
    flow = json.loads(block("json", "["))
    assert {each["type"] for each in flow} >= {"mqtt-broker", "mqtt in", "mqtt out"}
    path = tmp_path / "penstock.yaml"
    path.write_text(block("yaml", "# penstock.yaml\nchannels:"))
    load(path)
