"""A node put together: real clients through every kind of door, reload, an orderly end."""

from __future__ import annotations

import asyncio
import logging
import re
import resource
import threading
from typing import TYPE_CHECKING, Any, cast

import aiohttp
import paho.mqtt.client as paho
import pytest
from aiohttp.http_exceptions import HttpProcessingError
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from penstock.core.slots.lanes import Lane
from penstock.errors import NodeError
from penstock.node import service
from penstock.node.config.read import LoadedConfig, load
from penstock.node.config.reload import Files, applicable
from penstock.node.observe import logs
from penstock.node.service import Node, about
from penstock.node.slots.links import capacity_of
from penstock.node.store.database import DataFolder
from tests.kit import certificates
from tests.kit.passwords import cheap
from tests.kit.service import client, wait
from tests.kit.websocket import raw_websocket

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LEAST = "listeners: [{port: 0}]\nhttp: {enabled: false}\ndata: ''\nsys_interval_s: 0\n"
"""A node with nothing on disk."""

_CONNECT = b"\x10\x11\x00\x04MQTT\x05\x02\x00\x00\x00\x00"
"""Of MQTT 5, up to a client id of four letters."""


def with_node(loaded: LoadedConfig, scenario: Callable[[Node], None], **given: Any) -> None:
    """Run a scenario that waits, beside a node in this process."""

    async def main() -> None:
        async with Node(loaded, **given) as node:
            await asyncio.to_thread(scenario, node)

    asyncio.run(main())


@pytest.mark.parametrize("transport", ["tcp", "websockets"])
def test_messages_go_through_every_kind_of_door(transport: str) -> None:
    kind = "websocket" if transport == "websockets" else "tcp"

    def scenario(node: Node) -> None:
        with client(node.listeners[0].port, transport=transport) as one:
            wait(lambda: one.answers)
            one.paho.subscribe("a/#", qos=1)
            wait(lambda: len(one.answers) == 2)
            for size in (0, 10, 200, 70_000):
                one.paho.publish(f"a/{size}", bytes(size), qos=1)
            wait(lambda: len(one.heard) == 4)
            assert one.heard == [(f"a/{size}", bytes(size)) for size in (0, 10, 200, 70_000)]

    with_node(load(LEAST.replace("port: 0", f"port: 0, kind: {kind}")), scenario)


@pytest.mark.parametrize(("kind", "transport"), [("tls", "tcp"), ("websockets", "websockets")])
def test_messages_go_through_tls(kind: str, transport: str, tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    listener = f"port: 0, kind: {kind}, certificate: {made.server}, key: {made.server_key}"

    def scenario(node: Node) -> None:
        with client(node.listeners[0].port, transport=transport, ca=made.ca) as one:
            wait(lambda: one.answers)
            one.paho.subscribe("a")
            wait(lambda: len(one.answers) == 2)
            one.paho.publish("a", bytes(50_000), qos=1)
            wait(lambda: one.heard)
            assert one.heard == [("a", bytes(50_000))]

    with_node(load(LEAST.replace("port: 0", listener)), scenario)


@pytest.mark.slow
def test_users_and_the_access_list_are_asked() -> None:
    users = f"users: [{{name: ann, password: '{cheap('right')}'}}]\n"
    rules = f"{users}acl: [{{user: ann, topic: own/%u/#}}]\nanonymous: never\n"

    def scenario(node: Node) -> None:
        port = node.listeners[0].port
        with client(port, name="nobody") as nobody:
            wait(lambda: nobody.answers)
            assert nobody.answers[0].value == 0x87
        with client(port, name="wrong", user=("ann", "wrong")) as wrong:
            wait(lambda: wrong.answers)
            assert wrong.answers[0].value == 0x86
        with client(port, user=("ann", "right")) as ann:
            wait(lambda: ann.answers)
            assert ann.answers[0].value == 0
            ann.paho.subscribe("other/#")
            wait(lambda: len(ann.answers) == 2)
            assert ann.answers[1].value == 0x87
            ann.paho.subscribe("own/ann/#")
            wait(lambda: len(ann.answers) == 3)
            ann.paho.publish("other/x", b"1", qos=1)
            ann.paho.publish("own/ann/x", b"2", qos=1)
            wait(lambda: ann.heard)
            assert ann.heard == [("own/ann/x", b"2")]

    with_node(load(LEAST + rules), scenario)


def test_a_reload_keeps_connections_and_takes_rules_and_policies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text(LEAST + "acl: [{topic: a}]\n")

    def scenario(node: Node) -> None:
        reload = asyncio.run_coroutine_threadsafe
        loop = node.loop

        async def again() -> bool:
            return node.reload()

        with client(node.listeners[0].port) as one:
            wait(lambda: one.answers)
            one.paho.subscribe("b")
            wait(lambda: len(one.answers) == 2)
            assert one.answers[1].value == 0x87
            path.write_text(
                LEAST + "acl: [{topic: '#'}]\npolicies: {p: {levels: [drop: uniq]}}\nlog: debug\n"
            )
            assert reload(again(), loop).result(10)
            properties = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
            properties.UserProperty = [("policy", "p")]
            one.paho.subscribe("b", properties=properties)
            wait(lambda: len(one.answers) == 3)
            assert one.answers[2].value == 0
            one.paho.publish("b", b"1", qos=1)
            wait(lambda: one.heard)
            path.write_text(LEAST + "acl: [{topic: a/#/b}]\ninstall: [{policy: q}]\n")
            caplog.clear()
            assert not reload(again(), loop).result(10)
            assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
            path.write_text(LEAST.replace("port: 0", "port: 0, host: '::1'"))
            caplog.clear()
            assert reload(again(), loop).result(10)
            assert "listeners: the change takes effect when the node is started again" in caplog.text
            one.paho.publish("b", b"2", qos=1)
            wait(lambda: len(one.heard) == 2)
            assert one.ended == []

    with caplog.at_level(logging.INFO, "penstock"):
        with_node(load(path), scenario, again=lambda: load(path))


def test_links_and_decisions_of_slots_are_reloaded_and_filters_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "penstock.yaml"
    slots = LEAST.replace("port: 0", "port: 0, slots: true")
    path.write_text(slots)

    def scenario(node: Node) -> None:
        async def again() -> bool:
            return node.reload()

        def reload(section: str) -> bool:
            path.write_text(slots + section)
            caplog.clear()
            return asyncio.run_coroutine_threadsafe(again(), node.loop).result(60)

        flows = node.flows
        assert flows is not None
        assert reload(
            "slots: {links: [{clients: a*, capacity: 4}], decisions: {outside_slot: best_effort}}\n"
        )
        assert "takes effect" not in caplog.text
        assert capacity_of(flows.settings, "abc") == 4
        assert capacity_of(flows.settings, "b") == 100
        assert flows.control._decisions.outside_slot is Lane.BEST_EFFORT
        assert reload("slots: {filter: {groups: 8}, links: [{clients: '*', capacity: 9}]}\n")
        assert "slots: the change takes effect when the node is started again" in caplog.text
        assert capacity_of(flows.settings, "abc") == 9
        assert node.config.slots.filter.groups == 1
        assert not reload("slots: {decisions: {outside_slot: latest}}\n")
        assert "slots.decisions.outside_slot" in caplog.text
        assert reload("slots: {links: [{clients: '*', capacity: 9}, {clients: a, capacity: 8}]}\n")
        assert "slots.links[1]: never used" in caplog.text

    with caplog.at_level(logging.INFO, "penstock"):
        with_node(load(path), scenario, again=lambda: load(path))


def test_changed_files_are_noticed_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text(LEAST + "watch_s: 0.02\nacl: [{topic: a}]\n")

    def write(text: str) -> None:
        """At once: on a busy machine the time between emptying a file and writing it may be long."""
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").replace(path)

    def scenario(node: Node) -> None:
        write(LEAST + "watch_s: 0.02\n# longer\nacl: [{topic: b}]\n")
        wait(lambda: node.config.acl[0].topic == "b")
        write("bounds: 3")
        write(LEAST + "watch_s: 0.02\nacl: [{topic: c}]\n")
        wait(lambda: node.config.acl[0].topic == "c")

    with_node(load(path), scenario, again=lambda: load(path))


def test_clients_are_told_that_the_node_stops() -> None:
    ended: list[Any] = []

    def scenario(node: Node) -> None:
        made = paho.Client(CallbackAPIVersion.VERSION2, "c", protocol=paho.MQTTv5)
        connected = threading.Event()
        made.on_connect = lambda *_: connected.set()
        made.on_disconnect = lambda _c, _u, _f, reason, _p: ended.append(reason)
        made.reconnect_delay_set(60, 60)
        made.connect("127.0.0.1", node.listeners[0].port)
        made.loop_start()
        assert connected.wait(10)
        asyncio.run_coroutine_threadsafe(node.close(), node.loop).result(10)
        wait(lambda: ended)
        made.disconnect()
        made.loop_stop()

    with_node(load(LEAST), scenario)
    assert ended[0].value == 0x8B


def test_sys_topics_reach_their_readers() -> None:
    def scenario(node: Node) -> None:
        with client(node.listeners[0].port) as one:
            wait(lambda: one.answers)
            one.paho.subscribe("$SYS/broker/+")
            one.paho.subscribe("$SYS/broker/clients/#")
            wait(lambda: ("$SYS/broker/clients/connected", b"1") in one.heard)
            heard = dict(one.heard)
            assert heard["$SYS/broker/version"].startswith(b"penstock ")

    with_node(load(LEAST.replace("sys_interval_s: 0", "sys_interval_s: 0.1")), scenario)


async def test_a_page_that_stops_reading_is_served_by_its_queue() -> None:
    """As over TCP: at most 2,500 events of 100 bytes are under way when the queue takes over."""
    doors = "port: 0, kind: websocket}, {port: 0"
    async with Node(load(LEAST.replace("port: 0", doors))) as node:
        _, page = await raw_websocket(node.listeners[0].port)
        cast("asyncio.Transport", page.transport).pause_reading()
        for packet in (_CONNECT + b"\x04page", b"\x82\x07\x00\x01\x00\x00\x01a\x00"):
            page.write(bytes((0x82, 0x80 | len(packet), 0, 0, 0, 0)) + packet)
        async with asyncio.timeout(120):
            while not node.broker.status().subscriptions:
                await asyncio.sleep(0.01)
        _, sensor = await asyncio.open_connection("127.0.0.1", node.listeners[1].port)
        sensor.write(_CONNECT + b"\x04ward")
        for _ in range(200):
            sensor.write((b"\x30\x68\x00\x01a\x00" + bytes(100)) * 50)
            await asyncio.sleep(0.001)
        async with asyncio.timeout(120):
            while node.broker.status().account.accepted < 10_000:
                await asyncio.sleep(0.01)
        account = node.broker.status().account
        assert account.balanced
        assert account.queued > 0
        assert account.delivered <= 2_500
        page.transport.abort()
        sensor.transport.abort()


async def test_the_window_is_where_it_is_said_to_be() -> None:
    async with (
        Node(load(LEAST.replace("enabled: false", "port: 0"))) as node,
        aiohttp.ClientSession() as web,
    ):
        found = about(node)
        assert found["listeners"][0]["url"] == f"mqtt://127.0.0.1:{node.listeners[0].port}"
        async with web.get(found["http"]["url"]) as answer:
            assert answer.status == 200


async def test_two_nodes_do_not_share_a_folder(tmp_path: Path) -> None:
    loaded = load(LEAST.replace("data: ''", f"data: {tmp_path / 'data'}"))
    async with Node(loaded):
        with pytest.raises(NodeError, match=r"another node \(process \d+\) uses it; stop that one, or"):
            await Node(loaded).start()
    async with Node(loaded):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NodeError, match="file/data: cannot be used: Not a directory"):
        DataFolder(f"{tmp_path}/file/data")


async def test_a_start_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    async with Node(load(LEAST)) as other:
        taken = other.listeners[0].port
        text = f"listeners: [{{port: 0}}, {{port: {taken}}}]\nhttp: {{enabled: false}}\ndata: {tmp_path}\n"
        with pytest.raises(NodeError, match=f"port {taken} of 127.0.0.1 is in use"):
            await Node(load(text)).start()
    async with Node(load(text)):  # the folder and the port are free again
        pass


def test_what_needs_a_restart_is_kept_until_then() -> None:
    running = load("listeners: [{port: 1}]\ndata: a\nhttp: {token: 0123456789abcdef}").config
    wanted = load(
        "listeners: [{port: 2}]\ndata: b\nhttp: {token: fedcba9876543210, port: 81}\nacl: [{}]"
    ).config
    config, waiting = applicable(running, wanted)
    assert waiting == ["data", "listeners", "http"]
    assert config.listeners == running.listeners
    assert config.data == "a"
    assert (config.http.token, config.http.port) == ("fedcba9876543210", 8080)
    assert config.acl == wanted.acl
    assert applicable(running, running) == (running, [])


def test_files_are_compared_with_the_last_look(tmp_path: Path) -> None:
    path = tmp_path / "a"
    files = Files([path, tmp_path / "b"])
    assert not files.changed()
    path.write_text("1")
    assert not files.changed()  # it may be in the middle of being written
    path.write_text("12")
    assert not files.changed()
    assert files.changed()
    assert not files.changed()
    path.unlink()
    assert [files.changed() for _ in range(3)] == [False, True, False]


# -- the process around it -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("soft", "hard", "given", "warned"),
    [
        (1_024, 2_048, 2_048, True),
        (1_024, resource.RLIM_INFINITY, 10_256, False),
        (20_000, 20_000, None, False),
    ],
)
def test_open_files_are_allowed_for_as_many_connections_as_may_come(
    soft: int,
    hard: int,
    given: int | None,
    warned: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    service.allow_files(10_000)
    assert asked == ([] if given is None else [(given, hard)])
    assert ("the system allows 2048 open files" in caplog.text) == warned


@pytest.mark.parametrize(("second", "said"), [(False, "within 0.05 s"), (True, "at the second signal")])
async def test_an_end_that_takes_too_long_is_given_up(
    second: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = LEAST + ("" if second else "shutdown_s: 0.05\n")
    node = Node(load(text))
    await node.start()
    whole = node.close
    monkeypatch.setattr(node, "close", lambda: asyncio.sleep(60))
    hurry = asyncio.Event()
    if second:
        hurry.set()
    with pytest.raises(NodeError, match=f"not everything was closed {said}; the rest was given up"):
        await service._close(node, hurry)
    await whole()


def test_the_log_is_plain_lines_without_strangers_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    root, own = logging.getLogger(), logging.getLogger("penstock")
    before = (root.handlers[:], root.level, own.level)
    try:
        logs.to_stderr(load("log: warning").config)
        own.info("not said")
        own.warning("client %s", "a\x1b[31m\nb")
        bad = HttpProcessingError(message="bad")
        logging.getLogger("aiohttp.server").error("Error handling request", exc_info=bad)
    finally:
        root.handlers[:], root.level = before[:2]
        own.setLevel(before[2])
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning: client a\\x1b\[31m\\nb", line)
