"""`penstock streams`, `read` and `write` at a real node, which is killed between."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from penstock_lab.rigs.local_node import local_node
from tests.kit.command import penstock
from tests.kit.passwords import cheap

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from penstock_lab.rigs.local_node import LocalNode

pytestmark = pytest.mark.e2e


def printed(*arguments: str, stdin: str = "", ok: int = 0) -> str:
    """The output of a command: its answer, or its error."""
    done = penstock(*arguments, stdin=stdin, ok=ok)
    return done.stdout if ok == 0 else done.stderr


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
        write = ("streams", "write", "--node", door(node), "orders", "orders/a", "--writer", "file")
        said = printed(*write, stdin="".join(lines[:60]))
        assert said == "60 written\n"
        read = ("streams", "read", "--node", door(node), "orders", "--from", "earliest", "--consumer", "me")
        first = printed(*read, "--count", "10", "--json")
        os.kill(node.pid, signal.SIGKILL)
    with local_node(config(tmp_path)) as node:
        write = ("streams", "write", "--node", door(node), "orders", "orders/a", "--writer", "file")
        assert json.loads(printed(*write, "--json", stdin="".join(lines))) == {
            "stream": "orders",
            "lines": 100,
            "written": 40,
            "there": 60,
        }
        read = ("streams", "read", "--node", door(node), "orders", "--consumer", "me", "--to-end", "--json")
        second = printed(*read)
        assert printed(*read) == ""  # it has everything
        found = [json.loads(line) for line in (first + second).splitlines()]
        assert [one["payload"] + "\n" for one in found] == lines
        assert [one["tick"] for one in found] == sorted({one["tick"] for one in found})
        tick = found[95]["tick"]
        some = printed("streams", "read", "--node", door(node), "orders", "--from", str(tick), "--count", "1")
        assert some.startswith(f"{tick} ")
        assert some.endswith("orders/a line 95\n")
        (row,) = json.loads(printed("streams", "--node", node.http, "--json"))["streams"]
        assert (row["name"], row["log"]["messages"], row["consumers"][0]["name"]) == ("orders", 100, "me")
        assert "orders" in printed("streams", "--node", node.http)


def test_what_cannot_be_is_said_in_a_sentence(tmp_path: Path) -> None:
    with local_node(config(tmp_path)) as node:
        said = printed("streams", "read", "--node", door(node), "nothing", ok=3)
        assert "has no stream 'nothing'; there are: orders" in said
        said = printed("streams", "write", "--node", door(node), "orders", "else/x", stdin="x\n", ok=3)
        assert "topic 'else/x' does not belong to stream 'orders'" in said
        said = printed("streams", "read", "--node", door(node), "orders", "--from", "yesterday", ok=2)
        assert "earliest, new or a tick" in said
        said = printed("streams", "forget", "--node", door(node), "orders", "nobody", ok=3)
        assert "has no consumer 'nobody'" in said
        said = printed("streams", "read", "--node", "ftp://127.0.0.1", "orders", ok=3)
        assert "--node: 'ftp://127.0.0.1': write a context, a host, HOST:PORT, or a URL with mqtt" in said
        assert "line 1" not in printed(
            "streams", "read", "--node", f"127.0.0.1:{node.streams}", "orders", "--to-end"
        )
    assert "connection refused" in printed("streams", "read", "--node", door(node), "orders", ok=3)


def test_a_password_need_not_stand_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [{"name": "a@b", "password": cheap("p/w:1")}]
    monkeypatch.setenv("SECRET", "p/w:1")
    with local_node({**config(tmp_path), "users": users, "anonymous": "never"}) as node:
        who = ("--user", "a@b", "--password-env", "SECRET")
        write = ("streams", "write", "--node", door(node), "orders", "orders/a")
        assert printed(*write, *who, stdin="1\n") == "1 written\n"
        read = ("streams", "read", "--node", door(node), "orders", "--from", "earliest", "--count", "1")
        assert printed(*read, *who, "--consumer", "c").endswith("orders/a 1\n")
        assert printed("streams", "forget", "--node", door(node), "orders", "c", *who) == "forgotten: c\n"
        assert "a user name and a password are required" in printed(*read, ok=3)
        assert "a password without --user" in printed(*read, *who[2:], ok=2)
        assert "no environment variable 'NONE'" in printed(*read, *who[:3], "NONE", ok=3)
        there = door(node).replace("//", "//x:y@")
        assert "not both" in printed("streams", "read", "--node", there, "orders", *who, ok=3)
