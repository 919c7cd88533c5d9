"""`penstock context`: what it writes, and what it refuses."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.cli.context import store
from penstock.cli.context.store import Context
from penstock.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PENSTOCK_CONTEXT", raising=False)
    return tmp_path / "penstock"


def run(*arguments: str) -> str:
    found = CliRunner().invoke(app, ["context", *arguments], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout


def refused(*arguments: str) -> str:
    found = CliRunner().invoke(app, ["context", *arguments])
    return str(found.exception) if isinstance(found.exception, InputError) else found.output


def test_contexts_are_added_used_shown_and_removed(folder: Path) -> None:
    assert "no contexts yet" in run("list")
    run("add", "home", "nas.local", "-u", "ann", "--password-file", "pw", "--use")
    run("add", "work", "mqtts://office.example", "--token-env", "T")
    file = folder / "contexts.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(each.name for each in folder.iterdir()) == ["contexts.json", "contexts.lock"]
    assert run("list") == "* home  nas.local  user ann\n  work  mqtts://office.example\n"
    shown = json.loads(run("show", "--json"))
    assert (shown["name"], shown["mqtt"], shown["http"]) == (
        "home",
        "mqtt://nas.local:1883",
        "http://nas.local:8080",
    )
    assert shown["password_file"].startswith("/"), "commands run in other folders"
    assert run("use", "work") == "in use: work\n"
    assert "https://office.example:443" in run("show")
    run("remove", "work")
    assert store.load().current == ""
    run("use", "home")
    run("use", "--none")
    assert store.load() == store.Contexts(contexts={"home": store.load().contexts["home"]})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "a.b", "nas"], "cannot be the name of a context"),
        (["add", "a", "nas:x"], "write a context, a host, HOST:PORT or a URL"),
        (["add", "a", "mqtt://ann:pw@nas"], "the password with --password-file"),
        (["add", "a", "nas", "--http", "mqtt://nas"], "should begin with http:// or https://"),
        (["add", "a", "nas", "--password-env", "X"], "a password without --user"),
        (["add", "there", "nas"], "--replace replaces it"),
        (["use", "nowhere"], "there is no context 'nowhere'; there are: there"),
        (["use"], "give the name of a context, or --none"),
        (["remove", "nowhere"], "there is no context 'nowhere'"),
        (["show"], "no context is in use"),
    ],
)
def test_a_refusal_says_what_is_allowed(arguments: list[str], said: str) -> None:
    run("add", "there", "nas")
    before = store.load()
    assert said in " ".join(refused(*arguments).replace("│", " ").split())
    assert store.load() == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{", "is not a file of contexts"),
        (b"\xff", "is not a file of contexts"),
        (b'{"version": 2}', "has version 2 of the format"),
        (b'{"version": 1, "contexts": {"a": {"node": "x", "pass": "y"}}}', "unknown field `pass`"),
    ],
)
def test_a_broken_file_is_named_and_left_alone(folder: Path, text: bytes, said: str) -> None:
    folder.mkdir()
    file = folder / "contexts.json"
    file.write_bytes(text)
    for arguments in (["list"], ["add", "a", "nas"]):
        problem = refused(*arguments)
        assert str(file) in problem
        assert said in problem
    assert file.read_bytes() == text


def test_two_programs_at_once_lose_no_context() -> None:
    def add(name: str) -> None:
        with store.changing() as held:
            held[0] = store.Contexts(contexts=held[0].contexts | {name: Context("nas")})

    threads = [threading.Thread(target=add, args=(f"c{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.load().contexts) == 8
