"""Users and access rules over HTTP: shown without secrets, tried, made into entries of the configuration."""

from __future__ import annotations

from typing import Any

import argon2
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.node.config.schema import Rule, User
from penstock.node.http.access import AccessQuestion, _allowed, _deciding
from tests.kit.http_node import running

HASH = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("secret")
RULES = (
    Rule(allow=False, topic="secret/#"),
    Rule(user="ann", topic="home/#"),
    Rule(action="subscribe", topic="public/#"),
)


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


@settings(max_examples=200)
@given(LISTS, st.sampled_from(["a", "a/b", "b/b/a", "$x/a", "$x"]))
def test_the_deciding_rule_is_the_first_that_applies(rules: tuple[Rule, ...], topic: str) -> None:
    asked = AccessQuestion(action="publish", topic=topic)
    alone = [
        number for number, rule in enumerate(rules, 1) if _allowed((Rule(True, topic=rule.topic),), asked)
    ]
    allowed = _allowed(rules, asked)
    expected = alone[0] if alone else 0
    if rules:
        assert _deciding(rules, asked, allowed=allowed) == expected
