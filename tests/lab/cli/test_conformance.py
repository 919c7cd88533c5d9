"""`penstock conformance` as a process: against a node it starts, and a broker without manners."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.paths import ROOT

from penstock_lab.experiments.conformance.runner import DEPARTURES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

VECTORS = ROOT.parent / "shared" / "conformance" / "mqtt"

PING = {"name": "ping", "expect_disconnect": False, "msgs": [
    {"type": "send", "payload": "C0 00"}, {"type": "recv", "payload": "D0 00"}]}  # fmt: skip
BAD = {"name": "bad", "msgs": [{"type": "send", "payload": "C1 00"}, {"type": "recv", "payload": "E0 r1 81"}]}
HEARD = {"name": "heard", "expect_disconnect": False, "msgs": [
    {"type": "subscribe", "topic": "a", "qos": 0}, {"type": "external_publish", "topic": "a", "payload": "x"},
    {"type": "recv", "payload": "30 r5 s1 'a' r0 'x'"}, {"type": "connected_check"}]}  # fmt: skip
WRONG = {"name": "wrong", "expect_disconnect": False, "msgs": [{"type": "send", "payload": "C1 00"}]}


def run(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "conformance", *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def write(folder: Path, *tests: dict[str, Any]) -> None:
    group = {"group": "ours", "ver": 5, "tests": list(tests)}
    (folder / "OURS.json").write_text(json.dumps([group]))


@pytest.mark.skipif(not VECTORS.is_dir(), reason="the cases are not beside the checkout (../shared)")
def test_a_node_does_as_nearly_all_cases_say_and_the_rest_is_explained() -> None:
    code, found = run("--vectors", str(VECTORS))
    assert code == 0
    assert found["cases"] > 800
    assert found["ok"] is True
    assert found["share"] >= found["goal"] == 0.98
    assert found["closed_without_a_word"] == 0
    titles = {f"{one['file']}: {one['group']}: {one['name']}" for one in found["failures"]}
    assert titles == DEPARTURES.keys()
    page = (ROOT / "docs" / "reference" / "conformance.md").read_text()
    assert all(title in page and why in page for title, why in DEPARTURES.items())


def test_a_case_that_goes_otherwise_is_named_and_counts(tmp_path: Path) -> None:
    write(tmp_path, PING, BAD, HEARD, WRONG)
    code, found = run("--vectors", str(tmp_path))
    assert code == 1
    assert (found["cases"], found["passed"], found["ok"]) == (4, 3, False)
    (one,) = found["failures"]
    assert one["name"] == "wrong"
    assert one["problem"].startswith("e0")  # a DISCONNECT
    assert one["problem"].endswith(" came unexpectedly")
    assert found["files"] == [{"file": "OURS", "cases": 4, "passed": 3}]


def test_a_broker_without_manners_fails(tmp_path: Path) -> None:
    write(tmp_path, PING, BAD)

    def hang_up(door: socket.socket) -> None:
        for _ in range(2):
            door.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as door:
        thread = Thread(target=hang_up, args=(door,))
        thread.start()
        url = f"mqtt://127.0.0.1:{door.getsockname()[1]}"
        code, found = run("--vectors", str(tmp_path), "--url", url)
        thread.join()
    assert code == 1
    assert (found["broker"], found["passed"]) == (url, 0)
    assert {one["problem"] for one in found["failures"]} == {"the connection was closed after a CONNECT"}


def test_what_stands_in_the_way_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"mqtt://127.0.0.1:{free.getsockname()[1]}"
    write(tmp_path, PING)
    code, found = run("--vectors", str(tmp_path), "--url", nobody)
    assert code == 3
    assert "Connection refused" in found["error"]["message"]
    code, found = run("--vectors", str(tmp_path), "--url", "wss://localhost")
    assert code == 3
    assert "the address must be mqtt://" in found["error"]["message"]
    code, found = run("--vectors", str(tmp_path / "nowhere"))
    assert code == 3
    assert "no *.json files" in found["error"]["message"]
