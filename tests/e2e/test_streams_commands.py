"""`penstock streams`, `read` and `write` at a real node, which is killed between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock_lab.rigs.local_node import local_node
from tests.node.access.test_gate import cheap

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from penstock_lab.rigs.local_node import LocalNode

pytestmark = pytest.mark.e2e


def penstock(*arguments: str, given: str = "", code: int = 0) -> str:
    """What a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def config(folder: Path) -> dict[str, Any]:
    """One stream, kept in a folder."""
    host = [{"name": "orders", "topics": ["orders/#"]}]
    return {"data": str(folder), "streams": {"host": host, "listen": {"enabled": True, "port": 0}}}


def door(node: LocalNode) -> str:
    """Where programs knock."""
    return f"stream://127.0.0.1:{node.streams}"


def test_lines_go_in_once_and_come_out_in_order_across_a_kill(tmp_path: Path) -> None:
    lines = [f"line {number}\n" for number in range(100)]
    with local_node(config(tmp_path)) as node:
        write = ("streams", "write", door(node), "orders", "orders/a", "--writer", "file")
        said = penstock(*write, given="".join(lines[:60]))
        assert said == "60 written\n"
        read = ("streams", "read", door(node), "orders", "--from", "earliest", "--consumer", "me")
        first = penstock(*read, "--count", "10", "--json")
        os.kill(node.pid, signal.SIGKILL)
    with local_node(config(tmp_path)) as node:
        write = ("streams", "write", door(node), "orders", "orders/a", "--writer", "file")
        assert json.loads(penstock(*write, "--json", given="".join(lines))) == {
            "stream": "orders",
            "lines": 100,
            "written": 40,
            "there": 60,
        }
        read = ("streams", "read", door(node), "orders", "--consumer", "me", "--to-end", "--json")
        second = penstock(*read)
        assert penstock(*read) == ""  # it has everything
        found = [json.loads(line) for line in (first + second).splitlines()]
        assert [one["payload"] + "\n" for one in found] == lines
        assert [one["tick"] for one in found] == sorted({one["tick"] for one in found})
        tick = found[95]["tick"]
        some = penstock("streams", "read", door(node), "orders", "--from", str(tick), "--count", "1")
        assert some.startswith(f"{tick} ")
        assert some.endswith("orders/a line 95\n")
        (row,) = json.loads(penstock("streams", "--url", node.http, "--json"))["streams"]
        assert (row["name"], row["log"]["messages"], row["consumers"][0]["name"]) == ("orders", 100, "me")
        assert "orders" in penstock("streams", "--url", node.http)


def test_what_cannot_be_is_said_in_a_sentence(tmp_path: Path) -> None:
    with local_node(config(tmp_path)) as node:
        said = penstock("streams", "read", door(node), "nothing", code=3)
        assert "has no stream 'nothing'; there are: orders" in said
        said = penstock("streams", "write", door(node), "orders", "else/x", given="x\n", code=3)
        assert "topic 'else/x' is none of stream 'orders'" in said
        said = penstock("streams", "read", door(node), "orders", "--from", "yesterday", code=2)
        assert "earliest, new or a tick" in said
        said = penstock("streams", "forget", door(node), "orders", "nobody", code=3)
        assert "has no consumer 'nobody'" in said
        said = penstock("streams", "read", "mqtt://127.0.0.1", "orders", code=3)
        assert "should be like stream://127.0.0.1:1884" in said
        said = penstock("streams", "read", "localhost:1884", "orders", "--user", "ann", code=3)
        assert "should be like stream://127.0.0.1:1884" in said
    assert "nobody listens there" in penstock("streams", "read", door(node), "orders", code=3)


def test_a_password_need_not_stand_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [{"name": "a@b", "password": cheap("p/w:1")}]
    monkeypatch.setenv("SECRET", "p/w:1")
    with local_node({**config(tmp_path), "users": users, "anonymous": "never"}) as node:
        who = ("--user", "a@b", "--password-env", "SECRET")
        write = ("streams", "write", door(node), "orders", "orders/a")
        assert penstock(*write, *who, given="1\n") == "1 written\n"
        read = ("streams", "read", door(node), "orders", "--from", "earliest", "--count", "1")
        assert penstock(*read, *who, "--consumer", "c").endswith("orders/a 1\n")
        assert penstock("streams", "forget", door(node), "orders", "c", *who) == "forgotten: c\n"
        assert "a user name and a password are required" in penstock(*read, code=3)
        assert "a password needs a user name" in penstock(*read, *who[2:], code=3)
        assert "no environment variable 'NONE'" in penstock(*read, *who[:3], "NONE", code=3)
        there = door(node).replace("//", "//x:y@")
        assert "not both" in penstock("streams", "read", there, "orders", *who, code=3)
