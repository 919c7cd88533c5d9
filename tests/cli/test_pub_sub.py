"""`penstock pub` and `penstock sub` as a user runs them, with a node of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from penstock import Client
from penstock.cli.app import app
from penstock.cli.lines import digest_line
from penstock.cli.options import node_login
from penstock.client import ReceivedDigest
from penstock.model.digest import AttributeSummary, Cause
from tests.kit.command import VITALS, answer, penstock
from tests.kit.imports import loaded
from tests.kit.passwords import cheap
from tests.kit.paths import ROOT
from tests.kit.up import up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.up import Up


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("node")
    (folder / "penstock.yaml").write_text(
        f"data: ''\nusers: [{{name: ann, password: '{cheap('right')}'}}]\nqueues: {{events: 20}}\n"
        "policies: {calm: {attribute: pulse, levels: [{drop: {within: [50, 100]}}]}}\n"
    )
    with up(folder) as found:
        yield found


def url(node: Up) -> str:
    found: str = node.about["listeners"][0]["url"]
    return found


class Sub:
    """A running `penstock sub` that is known to have subscribed."""

    def __init__(self, node: Up, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "sub", *arguments, "--node", url(node)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline
        asyncio.run(self._ready(url(node)))

    async def _ready(self, where: str) -> None:
        """Wait until the command prints what is published: the first line is ours."""
        async with Client(where) as client:
            for _ in range(200):
                if (await client.publish("ready", "yes", qos=1)).reason == 0:
                    break
                await asyncio.sleep(0.1)
        assert "yes" in self.line()

    def end(self) -> tuple[str, str]:
        """Interrupt it; what it had still to say."""
        self.process.send_signal(signal.SIGINT)
        rest, said = self.process.communicate(timeout=300)
        assert self.process.returncode == 0, said
        return rest, said


@pytest.mark.e2e
def test_options_are_written_as_for_mosquittos_clients(node: Up) -> None:
    port = str(node.about["listeners"][0]["port"])
    at = ("-h", "127.0.0.1", "-p", port)
    sub = Sub(node, "-t", "ready", "-t", "ward/#", "-q", "1", "-C", "4")
    penstock("pub", *at, "-t", "ward/1", "-m", "both", "-q", "1", "-i", "me")
    penstock("pub", *at, "-t", "ward/2", "the text behind")
    penstock("pub", *at, "-u", "ann", "-P", "right", "-t", "ward/3", "-l", stdin="a line\n")
    assert [sub.line().split(" ", 1)[1] for _ in range(3)] == [
        "ward/1 both\n",
        "ward/2 the text behind\n",
        "ward/3 a line\n",
    ]
    assert sub.process.wait(300) == 0
    _, said = sub.process.communicate()
    assert said.startswith(f"subscribed to ready, ward/# at {url(node)}\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["pub"], "give a topic: penstock pub TOPIC MESSAGE, or -t TOPIC -m MESSAGE"),
        (["pub", "a", "b", "-m", "c"], "MESSAGE and --message: give one of them"),
        (["pub", "a", "b", "-t", "c"], "TOPIC and --topic: give one of them"),
        (["sub"], "give a topic filter: penstock sub FILTER, or -t FILTER"),
        (["sub", "a", "-h", "mqtt://b"], "--host mqtt://b: write a name or an address; a URL goes to --node"),
        (["sub", "a", "-p", "1", "--node", "mqtt://b"], "--host and --port: give --node, or these"),
        (["sub", "a", "-P", "x", "--password-stdin"], "give one of them"),
        (["sub", "a", "-P", "x"], "a password without --user"),
    ],
)
def test_what_does_not_go_together_is_said(arguments: list[str], problem: str) -> None:
    assert problem in run(arguments)


def run(arguments: list[str]) -> str:
    """The error message of a command that is refused."""
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 2
    return " ".join(found.output.replace("│", " ").split())


def test_a_host_is_an_address() -> None:
    assert where(host="2001:db8::1") == "mqtt://[2001:db8::1]:1883"
    assert where(port=9) == "mqtt://127.0.0.1:9"
    assert where(host="a.example", ca=Path("ca.pem")) == "mqtts://a.example:8883"


def where(*, ca: Path | None = None, **given: Any) -> str:
    login = node_login(
        node="", user=None, password_env=None, password_stdin=False, ca=ca, client_id=None, **given
    )
    return login.url


@pytest.mark.e2e
def test_the_readmes_quick_start_shows_a_digest(tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text()
    block = page.partition("<!-- quick start -->\n```sh\n")[2].partition("```")[0]
    script = tmp_path / "penstock"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m penstock "$@"\n')
    script.chmod(0o755)
    with up(tmp_path) as node:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=tmp_path,
            env={**os.environ, "PENSTOCK_URL": url(node), "PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    _, published, *shown = done.stdout.splitlines()
    assert published == "3000 published, 3000 acknowledged"
    assert all(line.endswith('ward/1 {"pulse": 150}') for line in shown[:4])
    assert "events dropped at level" in shown[4]
    assert done.stderr.splitlines()[-1].endswith("more: 3,000 accounted for")


@pytest.mark.e2e
def test_messages_files_and_lines_are_published_and_shown(node: Up, tmp_path: Path) -> None:
    sub = Sub(node, "ready", "ward/#", "--qos", "1")
    done = penstock(
        "pub", "ward/1", '{"pulse": 70}', "--qos", "1", "--property", "unit=bpm", "--node", url(node)
    )
    assert done.stdout == "1 published, 1 acknowledged\n"
    assert sub.line().endswith(' ward/1 {"pulse": 70}\n')
    found = answer("pub", "ward/2", "--lines", "--qos", "2", "--node", url(node), stdin="a\nb\r\n\nd")
    assert (found["published"], found["acknowledged"], found["unrouted"]) == (4, 4, 0)
    assert [sub.line().rstrip("\n").partition("ward/2 ")[2] for _ in range(4)] == ["a", "b", "", "d"]
    (tmp_path / "body").write_bytes(b"\xff\x00")
    penstock("pub", "ward/3", "--file", str(tmp_path / "body"), "--node", url(node))
    assert sub.line().endswith(" ward/3 (2 bytes) ff 00\n")
    penstock("pub", "ward/4", "\x1b[31mred", "--node", url(node))
    assert sub.line().endswith(" ward/4 \\x1b[31mred\n")
    rest, said = sub.end()
    assert rest == ""
    assert "8 events, no digests" in said


@pytest.mark.e2e
def test_nothing_heavy_is_loaded_for_a_message(node: Up) -> None:
    where = ("--node", url(node))
    assert loaded("pub", "quick", "72", "--qos", "1", "--retain", *where) == []
    assert loaded("sub", "quick", "--count", "1", *where) == []


@pytest.mark.e2e
def test_json_lines_can_be_tried_with_a_policy(node: Up) -> None:
    sub = Sub(node, "ready", "ward/#", "--json", "--count", "4")
    asyncio.run(_publish(url(node)))
    lines = [sub.line() for _ in range(3)]
    rest, said = sub.process.communicate(timeout=300)
    assert rest == ""
    assert "4 events" in said
    first, second, third = map(json.loads, lines)
    assert first.keys() == {"topic", "ts", "payload", "properties", "content_type"}
    assert (first["topic"], first["payload"]) == ("ward/1", {"pulse": 60})
    assert first["properties"] == {"unit": "bpm"}
    assert second["payload"] == "text"
    assert third["payload_base64"] == "/w=="
    tried = answer("policy", "try", VITALS, "--events", "-", stdin=lines[0])
    assert tried["kept"] + tried["digested"] == 1


async def _publish(where: str) -> None:
    async with Client(where) as client:
        await client.publish("ward/1", '{"pulse": 60}', properties={"unit": "bpm"}, qos=1)
        await client.publish("ward/1", "text", qos=1)
        await client.publish("ward/1", b"\xff", qos=1)


@pytest.mark.e2e
@pytest.mark.parametrize("policy", [VITALS, "calm"])
def test_a_slow_reader_sees_digests(node: Up, policy: str) -> None:
    sub = Sub(node, "ready", "flood", "--policy", policy)
    asyncio.run(_flood(url(node)))  # nobody reads meanwhile: the pipe is full soon
    total = digests = 0
    while total < 3_000:
        line = sub.line()
        if line.startswith("    … flood: "):
            digests += 1
            total += int(line.removeprefix("    … flood: ").partition(" ")[0].replace(",", ""))
            assert "dropped at level" in line or "dropped by no level" in line
        else:
            total += 1
    assert total == 3_000
    assert digests
    _, said = sub.end()
    assert "3,001 accounted for" in said


async def _flood(where: str) -> None:
    async with Client(where) as client:
        for number in range(3_000):
            await client.publish("flood", b'{"pulse": %d}' % (60 + number % 30) + b" " * 1_000)


@pytest.mark.e2e
def test_what_is_wrong_is_said(node: Up, tmp_path: Path) -> None:
    where = ["--node", url(node)]
    assert "give exactly one of MESSAGE" in penstock("pub", "a", *where, ok=2).stderr
    assert "should be like unit=bpm" in penstock("pub", "a", "x", "--property", "unit", ok=2).stderr
    assert "is not a valid address" in penstock("pub", "a", "x", "--node", "mqtt://h:port", ok=3).stderr
    assert "wildcard in 'a/#'" in penstock("pub", "a/#", "x", *where, ok=3).stderr
    found = answer("pub", "a", "x", "--node", "mqtt://127.0.0.1:1", ok=3)
    assert "Connection refused; is the node up?" in found["error"]["message"]
    assert "no policy 'storm' is registered" in penstock("sub", "a", "--policy", "storm", *where, ok=3).stderr
    bad = tmp_path / "bad.yaml"
    bad.write_text("levels:\n  - drop: {detla: 5}\n")
    assert f"{bad}:2:12 levels[0].drop: unknown filter 'detla'" in (
        penstock("sub", "a", "--policy", str(bad), *where, ok=3).stderr
    )


@pytest.mark.e2e
def test_passwords_come_from_the_environment_or_standard_input(node: Up) -> None:
    who = ["--user", "ann", "--node", url(node)]
    assert (
        penstock("pub", "a", "x", *who, "--password-stdin", stdin="right\n").stdout
        == "1 published (QoS 0: no answer; -q 1 waits for one)\n"
    )
    refused = penstock("pub", "a", "x", *who, "--password-stdin", stdin="wrong\n", ok=3).stderr
    assert "0x86 bad user name or password" in refused
    assert (
        "no environment variable 'NOT_THERE'"
        in penstock("pub", "a", "x", *who, "--password-env", "NOT_THERE", ok=3).stderr
    )
    with_it = subprocess.run(
        [sys.executable, "-m", "penstock", "pub", "a", "x", *who, "--password-env", "SECRET"],
        env=os.environ | {"SECRET": "right"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert with_it.stdout == "1 published (QoS 0: no answer; -q 1 waits for one)\n"


def test_a_digest_in_a_line() -> None:
    causes = ((Cause(1, 1, "delta"), 6), (Cause(2, 1, "within"), 31))
    attributes = (("pulse", AttributeSummary(37, 37 * 71.25, None, 66.0, 75.0)),)
    facts: dict[str, Any] = {"count": 37, "from_us": 0, "to_us": 8_500_000, "seq_first": 1, "seq_last": 37}
    told = {"attributes": {"pulse": {"mean": 71.25, "min": 66.0, "max": 75.0, "quantiles": {"0.5": 70.0}}}}
    digest = ReceivedDigest(**facts, causes=causes, attributes=attributes, topic="ward/1", told=told)
    line = digest_line(digest, "ward/#")
    assert line.startswith(
        "    … ward/1: 37 events dropped at level 2 (delta 6, within 31), "
        "pulse mean 71.25 min 66 max 75 median 70, "
    )
    assert line.endswith(":08.500")
