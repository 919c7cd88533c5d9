"""`penstock up` as a process: ready line, signals, what stands in its way."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.kit.service import client, wait
from tests.kit.up import COMMAND, up

pytestmark = pytest.mark.e2e


def refused(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*COMMAND, "up", *arguments], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_node_at_rest_takes_little_memory(tmp_path: Path) -> None:
    with up(tmp_path) as node:
        status = Path(f"/proc/{node.process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        assert int(line.split()[1]) <= 70 * 1024
        maps = Path(f"/proc/{node.process.pid}/maps").read_text()
        assert not [name for name in ("numpy", "datasketches", "argon2", "pydantic") if f"/{name}" in maps]


def test_it_says_where_it_is_serves_and_stops_when_told(tmp_path: Path) -> None:
    with up(tmp_path) as node:
        assert node.about["ready"] is True
        assert node.about["pid"] == node.process.pid
        assert node.about["listeners"] == [
            {"kind": "tcp", "host": "127.0.0.1", "port": node.port, "url": f"mqtt://127.0.0.1:{node.port}"}
        ]
        with client(node.port) as one:
            wait(lambda: one.answers)
            one.paho.subscribe("a")
            wait(lambda: len(one.answers) == 2)
            one.paho.publish("a", b"1", qos=1)
            wait(lambda: one.heard)
            with urllib.request.urlopen(node.about["http"]["url"], timeout=120) as page:  # noqa: S310
                assert page.status == 200
            node.process.send_signal(signal.SIGTERM)
            assert node.process.wait(20) == 0
            wait(lambda: one.ended)
            assert one.ended[0].value == 0x8B
        text = node.log.read_text()
        assert f"info: listening: mqtt://127.0.0.1:{node.port}" in text
        assert text.rstrip().endswith("info: stopped")
        assert (tmp_path / "penstock-data").stat().st_mode & 0o077 == 0


def test_what_is_kept_survives_a_restart(tmp_path: Path) -> None:
    with up(tmp_path) as node:
        with client(node.port) as one:
            wait(lambda: one.answers)
            one.paho.publish("kept", b"1", qos=1, retain=True).wait_for_publish(10)
        node.process.send_signal(signal.SIGINT)
        assert node.process.wait(20) == 0
    with up(tmp_path) as node, client(node.port) as other:
        wait(lambda: other.answers)
        other.paho.subscribe("#")
        wait(lambda: other.heard)
        assert other.heard == [("kept", b"1")]


def test_sighup_reads_the_configuration_again_and_keeps_connections(tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text("acl: [{topic: a}]\n")
    with up(tmp_path) as node, client(node.port) as one:
        assert node.about["config"] == "penstock.yaml"
        wait(lambda: one.answers)
        one.paho.subscribe("b")
        wait(lambda: len(one.answers) == 2)
        assert one.answers[1].value == 0x87
        path.write_text("acl: [{topic: b, typo: 1}]\n")
        node.process.send_signal(signal.SIGHUP)
        node.logged(
            "error: configuration not reloaded, the running one stays: "
            "penstock.yaml:1:18 acl[0].typo: unknown setting"
        )
        path.write_text("acl: [{topic: b}]\n")
        node.process.send_signal(signal.SIGHUP)
        node.logged("info: configuration reloaded")
        one.paho.subscribe("b")
        wait(lambda: len(one.answers) == 3)
        assert one.answers[2].value == 0
        assert one.ended == []
        assert "takes effect when the node is started again" not in node.log.read_text()


def test_a_folder_in_use_is_refused_and_free_after_a_kill(tmp_path: Path) -> None:
    with up(tmp_path) as node:
        said = refused(tmp_path, "--port", "0", "--http-port", "0")
        assert f"data folder penstock-data: another node (process {node.process.pid}) uses it" in said
        node.process.kill()
        node.process.wait()
    with up(tmp_path):
        pass


def test_what_stands_in_the_way_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} of 127.0.0.1 is in use" in refused(tmp_path, "--port", str(port))
        said = refused(tmp_path, "--port", "0", "--http-port", str(port))
        assert str(port) in said
        assert "error: " in said
    assert "cannot be read: No such file" in refused(tmp_path, "--config", "nowhere.yaml")
    (tmp_path / "bad.yaml").write_text("bounds: {conections: 1}\nhttp: 3\n")
    said = refused(tmp_path, "--config", "bad.yaml")
    assert "bad.yaml:1:10 bounds.conections: unknown setting (did you mean 'connections'?)" in said.replace(
        "\n", ""
    )
    assert "is no address of this machine" in refused(tmp_path, "--host", "192.0.2.1", "--port", "0")
    assert "data folder /proc/x: cannot be used" in refused(tmp_path, "--data", "/proc/x", "--port", "0")


def test_a_damaged_store_is_named_and_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "penstock-data"
    folder.mkdir()
    (folder / "store.sqlite").write_bytes(b"this is no database" * 100)
    said = refused(tmp_path, "--port", "0", "--http-port", "0")
    assert "store.sqlite" in said
    assert (folder / "store.sqlite").read_bytes() == b"this is no database" * 100


def test_a_client_that_takes_nothing_does_not_hold_up_the_end(tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text("shutdown_s: 5\n")
    with up(tmp_path) as node:
        deaf = socket.create_connection(("127.0.0.1", node.port))
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.sendall(b"\x10\x10\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x03abc")
        deaf.sendall(b"\x82\x07\x00\x01\x00\x00\x01a\x00")
        made = paho.Client(CallbackAPIVersion.VERSION2, "talker", protocol=paho.MQTTv5)
        made.connect("127.0.0.1", node.port)
        made.loop_start()
        for _ in range(200):
            made.publish("a", bytes(50_000), qos=1)
        made.publish("a", b"", qos=1).wait_for_publish(20)
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(20) == 0
        made.loop_stop()
        deaf.close()


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with up(tmp_path) as node:
        os.kill(node.process.pid, signal.SIGTERM)
        os.kill(node.process.pid, signal.SIGINT)
        assert node.process.wait(20) in (0, 3)
