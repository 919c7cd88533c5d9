"""`penstock config` and `penstock passwd` as a user runs them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import argon2
import pytest

from tests.kit.command import answer, answer_here, here, penstock
from tests.kit.configuration import read_config
from tests.kit.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = str(ROOT / "examples" / "penstock.yaml")

pytestmark = pytest.mark.e2e


def test_check_says_what_is_wrong_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text("http: {prt: 1}\nbounds: {connections: 0}\n")
    done = here("config", "check", str(path), ok=3)
    assert f"{path}:1:8 http.prt: unknown setting (did you mean 'port'?)" in done.stderr
    assert f"{path}:2:23 bounds.connections: found 0; allowed: 1 or more" in done.stderr
    found = answer_here("config", "check", str(path), ok=3)
    assert found["ok"] is False
    assert [(one["line"], one["path"], one["near"]) for one in found["problems"]] == [
        (1, "http.prt", "port"),
        (2, "bounds.connections", ""),
    ]


def test_check_of_the_example() -> None:
    assert penstock("config", "check", EXAMPLE, "--strict").stdout == f"{EXAMPLE}: fine\n"
    assert answer("config", "check", EXAMPLE) == {
        "file": EXAMPLE,
        "ok": True,
        "problems": [],
        "warnings": [],
    }


def test_warnings_count_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text("http: {token: short}\n")
    assert "http.token: fewer than 16 characters" in here("config", "check", str(path)).stderr
    assert answer_here("config", "check", str(path), "--strict", ok=1)["ok"] is False


def test_show_prints_what_a_node_would_run_with() -> None:
    done = penstock("config", "show", EXAMPLE)
    assert "argon2" not in done.stdout
    assert "session_expiry_s: 172800" in done.stdout
    assert answer("config", "show", EXAMPLE)["bounds"]["session_expiry_s"] == 172_800


def test_settings_are_listed() -> None:
    found = answer("config", "settings")["settings"]
    assert {"path", "kind", "unit", "required", "default", "doc"} == found[0].keys()
    assert len(penstock("config", "settings").stdout.splitlines()) > len(found)


def test_passwd_prints_an_entry_that_can_be_used() -> None:
    done = penstock("passwd", "ann", "--stdin", stdin="right password\n")
    entry = "".join(f"  {line}\n" for line in done.stdout.splitlines() if line)
    (user,) = read_config(f"users:\n{entry}").users
    assert user.name == "ann"
    assert argon2.PasswordHasher().verify(user.password, b"right password")
    alone = penstock("passwd", "--stdin", stdin="right password").stdout.strip()
    assert argon2.PasswordHasher().verify(alone, b"right password")
    assert alone != user.password


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "said"),
    [
        (["--stdin"], "", 3, "the password is empty"),
        ([], "x\n", 3, "standard input is no terminal"),
        (["a/b", "--stdin"], "x\n", 2, "is not a valid user name"),
        (["anonymous", "--stdin"], "x\n", 2, "is not a valid user name"),
        (["--stdin"], "x" * 70_000, 3, "longer than 65535 bytes"),
    ],
)
def test_passwd_refuses(arguments: list[str], stdin: str, code: int, said: str) -> None:
    assert said in " ".join(here("passwd", *arguments, stdin=stdin, ok=code).stderr.split())


def test_a_short_password_is_warned_of() -> None:
    done = here("passwd", "--stdin", stdin="short\n")
    assert "fewer than 8 characters" in done.stderr
    assert done.stdout.startswith("$argon2id$")


def test_json_of_a_problem_is_one_object(tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text("a: 1\n")
    done = penstock("up", "--config", str(path), "--json", ok=3)
    assert json.loads(done.stdout)["error"]["path"] == "a"
