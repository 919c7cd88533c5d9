"""Users and access rules over HTTP: shown without secrets, tried, made into entries, changed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import argon2
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.main import get_command
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.node.config.read import load
from penstock.node.config.schema import Rule, User
from penstock.node.http import access
from penstock.node.http.verdicts import AccessQuestion, deciding, is_allowed
from penstock.node.service import Node
from tests.kit.http_node import check_answer, running
from tests.kit.passwords import cheap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HASH = cheap("secret")
RULES = (
    Rule(allow=False, topic="secret/#"),
    Rule(user="ann", topic="home/#"),
    Rule(action="subscribe", topic="public/#"),
)


@pytest.fixture(autouse=True)
def _cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs of hashes are tested where they are made, in tests/node/access."""
    monkeypatch.setattr(access, "hashed", cheap)


async def test_users_and_rules_in_force_are_shown_without_passwords() -> None:
    async with running(users=(User("ann", HASH),), acl=RULES, anonymous="never") as node:
        found = await node.get("/access")
        assert found["users"] == ["ann"]
        assert found["anonymous"] == "never"
        assert [rule["topic"] for rule in found["rules"]] == ["secret/#", "home/#", "public/#"]
        assert "argon2" not in str(found)


@pytest.mark.parametrize(
    ("asked", "allowed", "rule"),
    [
        ({"action": "publish", "topic": "home/door", "user": "ann"}, True, 2),
        ({"action": "publish", "topic": "home/door"}, False, 0),
        ({"action": "publish", "topic": "secret/x", "user": "ann"}, False, 1),
        ({"action": "subscribe", "topic": "#", "user": "ann"}, False, 1),
        ({"action": "subscribe", "topic": "public/+"}, True, 3),
        ({"action": "subscribe", "topic": "$share/g/public/+"}, True, 3),
        ({"action": "subscribe", "topic": "$SYS/#"}, False, 0),
        ({"action": "publish", "topic": "x", "rules": []}, True, 0),
        ({"action": "publish", "topic": "x", "rules": [{"topic": "x"}]}, True, 1),
    ],
)
async def test_a_question_is_answered_with_the_rule_that_decides(
    asked: dict[str, Any], allowed: bool, rule: int
) -> None:
    async with running(acl=RULES) as node:
        status, found = await node.post("/access/check", asked)
        assert (status, found["allowed"], found["rule"]) == (200, allowed, rule)


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ({"action": "publish", "topic": "a/#"}, "topic"),
        ({"action": "subscribe", "topic": "a#"}, "topic"),
        ({"action": "read", "topic": "a"}, "action"),
        ({"action": "publish", "topic": "a", "rules": [{"topic": "#/a"}]}, "rules[0].topic"),
        ({"action": "publish", "topic": "a", "rules": [{"topics": "a"}]}, "rules[0]"),
    ],
)
async def test_a_wrong_question_is_refused(asked: dict[str, Any], where: str) -> None:
    async with running() as node:
        status, found = await node.post("/access/check", asked)
        assert (status, found["where"]) == (422, where)


async def test_an_entry_holds_a_hash_that_fits() -> None:
    async with running() as node:
        status, found = await node.post("/access/user", {"name": "ann", "password": "correct horse"})
        assert (status, found["warning"]) == (200, "")
        (entry,) = yaml.safe_load(found["entry"])
        assert entry["name"] == "ann"
        assert argon2.PasswordHasher().verify(entry["password"], "correct horse")
        _, found = await node.post("/access/user", {"name": "ann", "password": "short"})
        assert "fewer than 8" in found["warning"]


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ({"name": "*", "password": "x"}, "name"),
        ({"name": "a/b", "password": "x"}, "name"),
        ({"name": "ann", "password": ""}, "password"),
        ({"name": "ann", "password": "ü" * 40_000}, "password"),
    ],
)
async def test_what_the_command_line_refuses_is_refused(asked: dict[str, Any], where: str) -> None:
    async with running() as node:
        status, found = await node.post("/access/user", asked)
        assert (status, found["where"]) == (422, where)


LEVELS = st.sampled_from(["a", "b", "+", "$x"])
FILTERS = st.lists(LEVELS, min_size=1, max_size=3).map("/".join) | st.sampled_from(["#", "a/#", "$x/#"])
LISTS = st.lists(st.builds(Rule, allow=st.booleans(), topic=FILTERS), max_size=6).map(tuple)


@settings(max_examples=4 * settings().max_examples)
@given(LISTS, st.sampled_from(["a", "a/b", "b/b/a", "$x/a", "$x"]))
def test_the_deciding_rule_is_the_first_that_applies(rules: tuple[Rule, ...], topic: str) -> None:
    asked = AccessQuestion(action="publish", topic=topic)
    alone = [
        number for number, rule in enumerate(rules, 1) if is_allowed((Rule(True, topic=rule.topic),), asked)
    ]
    allowed = is_allowed(rules, asked)
    expected = alone[0] if alone else 0
    if rules:
        assert deciding(rules, asked, allowed=allowed) == expected


TOKEN = "a-token-of-some-length"  # noqa: S105
CONFIG = f"""
listeners: [{{port: 0}}]
data: ""
sys_interval_s: 0
http: {{port: 0, token: {TOKEN}}}
anonymous: never
users: [{{name: root, password: "{HASH}"}}]
acl: [{{user: root}}]
access_file: access.yaml
"""


class Edited:
    """A running node whose users and rules can be changed, and its file."""

    def __init__(self, node: Node, session: aiohttp.ClientSession, file: Path) -> None:
        self.node = node
        self.file = file
        self._session = session

    @property
    def url(self) -> str:
        """Where its API is."""
        return f"http://127.0.0.1:{self.node.http_port}"

    async def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and answer, which keep what the document promises."""
        method = "GET" if body is None else "POST"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        where = f"{self.url}/api/v1{path}"
        async with self._session.request(method, where, json=body, headers=headers) as answer:
            found = await answer.json(content_type=None)
            check_answer(method, f"/api/v1{path}", answer.status, answer.content_type, found)
            return answer.status, found

    async def connects(self, user: str, password: str) -> bool:
        """Whether a client may connect."""
        client = Client(
            f"mqtt://127.0.0.1:{self.node.listeners[0].port}", user=user, password=password, reconnect=False
        )
        try:
            async with client:
                return True
        except PenstockError:
            return False


@asynccontextmanager
async def edited(folder: Path, text: str = CONFIG) -> AsyncIterator[Edited]:
    """A node with a configuration of its own."""
    path = folder / "penstock.yaml"
    path.write_text(text)
    async with (
        Node(load(path), again=lambda: load(path)) as node,
        aiohttp.ClientSession() as session,
    ):
        yield Edited(node, session, folder / "access.yaml")


async def test_users_are_added_changed_and_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with edited(tmp_path) as node:
        assert not await node.connects("ann", "first secret")
        status, said = await node.ask("/access/users/set", {"name": "ann", "password": "first secret"})
        assert (status, said["done"]) == (200, "ann may connect.")
        assert await node.connects("ann", "first secret")
        found = (await node.ask("/access"))[1]
        assert (found["users"], found["own_users"], found["editable"]) == (["root", "ann"], ["ann"], True)
        status, said = await node.ask("/access/users/set", {"name": "ann", "password": "other"})
        assert (status, "fewer than 8" in said["done"]) == (200, True)
        assert not await node.connects("ann", "first secret")
        assert await node.connects("ann", "other")
        text = node.file.read_text()
        assert "$argon2id$" in text
        assert "first secret" not in text + caplog.text
        assert node.file.stat().st_mode & 0o777 == 0o600
        assert (await node.ask("/access/users/remove", {"name": "ann"}))[0] == 200
        assert not await node.connects("ann", "other")
        assert await node.connects("root", "secret")


async def test_rules_are_compared_saved_and_survive_a_restart(tmp_path: Path) -> None:
    rules = [{"user": "ann", "topic": "home/%u/#"}, {"allow": False, "topic": "home/#"}]
    async with edited(tmp_path) as node:
        await node.ask("/access/users/set", {"name": "ann", "password": "long enough"})
        status, found = await node.ask("/access/rules/try", {"rules": rules})
        assert (status, found["total"]) == (200, 2)
        assert found["differences"] == [
            {"user": "ann", "action": "publish", "topic": "home/ann/x", "allowed": True},
            {"user": "ann", "action": "subscribe", "topic": "home/ann/#", "allowed": True},
        ]
        assert (await node.ask("/access"))[1]["own_rules"] == 0
        assert (await node.ask("/access/rules/set", {"rules": rules}))[0] == 200
        question = {"action": "publish", "topic": "home/ann/light", "user": "ann"}
        assert (await node.ask("/access/check", question))[1]["rule"] == 2
        assert (await node.ask("/access/rules/try", {"rules": rules}))[1]["total"] == 0
    async with edited(tmp_path) as node:
        found = (await node.ask("/access"))[1]
        assert (len(found["rules"]), found["own_rules"]) == (3, 2)
        assert (await node.ask("/access/check", question))[1]["allowed"] is True


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("users/set", {"name": "root", "password": "long enough"}, 409, "user of the configuration"),
        ("users/set", {"name": "", "password": "long enough"}, 422, "name"),
        ("users/set", {"name": "ann", "password": ""}, 422, "empty"),
        ("users/remove", {"name": "nobody"}, 422, "no user 'nobody'"),
        ("users/remove", {"name": "root"}, 409, "change it there"),
        ("rules/set", {"rules": [{"topic": "a#"}]}, 422, ""),
        ("rules/try", {"rules": [{"topic": "a#"}]}, 422, ""),
        ("rules/set", {"rules": [{"odd": 1}]}, 422, "odd"),
    ],
)
async def test_a_change_that_is_wrong_changes_nothing(
    tmp_path: Path, path: str, body: dict[str, Any], status: int, said: str
) -> None:
    async with edited(tmp_path) as node:
        found = await node.ask(f"/access/{path}", body)
        assert (found[0], said in found[1]["detail"]) == (status, True), found
        assert not node.file.exists()


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        (CONFIG.replace("access_file", "#"), 409, "access_file: access.yaml"),
        (CONFIG.replace(f", token: {TOKEN}", ""), 403, "http.token"),
    ],
)
async def test_nothing_is_changed_without_a_file_and_a_token(
    tmp_path: Path, text: str, status: int, said: str
) -> None:
    async with edited(tmp_path, text) as node:
        for path, body in (
            ("users/set", {"name": "ann", "password": "long enough"}),
            ("users/remove", {"name": "ann"}),
            ("rules/set", {"rules": []}),
        ):
            found = await node.ask(f"/access/{path}", body)
            assert (found[0], said in found[1]["detail"]) == (status, True), found
        assert (await node.ask("/access"))[1]["editable"] is False


async def test_the_file_is_as_before_if_the_node_does_not_take_its_configuration(tmp_path: Path) -> None:
    async with edited(tmp_path) as node:
        await node.ask("/access/users/set", {"name": "ann", "password": "long enough"})
        before = node.file.read_text()
        (tmp_path / "penstock.yaml").write_text(CONFIG + "odd: 1\n")
        status, said = await node.ask("/access/users/remove", {"name": "ann"})
        assert (status, "nothing changed" in said["detail"]) == (409, True)
        assert node.file.read_text() == before
        assert await node.connects("ann", "long enough")


async def test_the_first_rule_is_shown_to_refuse_everything_else(tmp_path: Path) -> None:
    async with edited(tmp_path, CONFIG.replace("acl: ", "# ")) as node:
        _, found = await node.ask("/access/rules/try", {"rules": [{"user": "root", "topic": "home/#"}]})
        assert found["differences"] == [
            {"user": "root", "action": "publish", "topic": "x", "allowed": False},
            {"user": "root", "action": "subscribe", "topic": "#", "allowed": False},
        ]


async def test_a_node_without_notifications_says_so(tmp_path: Path) -> None:
    async with edited(tmp_path) as node:
        for path, body in (("/notify", None), ("/notify/test", {"who": "webhook:https://example.org/"})):
            status, said = await node.ask(path, body)
            assert (status, "section `notify`" in said["detail"]) == (409, True)


async def test_commands_change_users_and_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = get_command(app)
    monkeypatch.setattr("typer.testing._get_command", lambda _: command)  # takes longer than what it does
    async with edited(tmp_path) as node:

        async def run(*words: str, given: str = "", code: int = 0) -> str:
            arguments = ["users", *words, "--node", node.url, "--token", TOKEN]
            result = await asyncio.to_thread(CliRunner().invoke, app, arguments, input=given)
            assert result.exit_code == code, result.output
            return result.output

        assert "ann may connect" in await run("set", "ann", "--stdin", given="long enough\n")
        assert await node.connects("ann", "long enough")
        assert "access_file" in await run("list")
        assert '"own_users"' in await run("list", "--json")
        rules = tmp_path / "rules.yaml"
        rules.write_text("# mine\n- {user: ann, topic: home/#}\n")
        assert "allowed" in await run("rules", str(rules))
        assert (await node.ask("/access"))[1]["own_rules"] == 0
        assert "1 rule in force" in await run("rules", str(rules), "--save")
        rules.write_text("acl: [{user: ann, odd: 1}]")
        await run("rules", str(rules), code=1)
        assert "may not connect any more" in await run("remove", "ann")
        await run("remove", "ann", code=1)
