"""The file of users and rules that a node writes: what is written is read back, what is wrong is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigError, NodeError
from penstock.node.config.access_file import (
    AccessEntries,
    merged,
    read_entries,
    without,
    write_entries,
)
from penstock.node.config.read import load
from penstock.node.config.schema import Config, Rule, User

if TYPE_CHECKING:
    from pathlib import Path

HASH = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$aWxsIG5vdCBmaXQgYW55dGhpbmcgYXQgYWxsIHRoZXJl"
names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
rules = st.builds(
    Rule,
    allow=st.booleans(),
    user=st.one_of(st.just("*"), names),
    action=st.sampled_from(["both", "publish", "subscribe"]),
    topic=st.sampled_from(["#", "home/%u/#", "a/+/b", "on", "123", "null"]),
)


@given(st.lists(names, max_size=4, unique=True), st.lists(rules, max_size=4))
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, users: list[str], acl: list[Rule]
) -> None:
    path = tmp_path_factory.mktemp("access") / "access.yaml"
    entries = AccessEntries(tuple(User(name, HASH) for name in users), tuple(acl))
    write_entries(path, entries)
    assert read_entries(path) == entries
    own = Config(users=(User("first", HASH),), acl=(Rule(user="first"),))
    both = merged(own, entries)
    if "first" not in users:
        assert without(both, entries) == own


def test_a_file_that_is_missing_is_empty_and_one_that_is_wrong_is_named(tmp_path: Path) -> None:
    path = tmp_path / "access.yaml"
    assert read_entries(path) == AccessEntries()
    for text, said in (("data: x", "other settings"), ("users: 1", "users"), ("{", "not YAML")):
        path.write_text(text)
        with pytest.raises(ConfigError, match=said):
            read_entries(path)
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_entries(path)


def test_the_configuration_has_both_files(tmp_path: Path) -> None:
    main = tmp_path / "penstock.yaml"
    main.write_text(
        f"access_file: more.yaml\nusers: [{{name: ann, password: '{HASH}'}}]\nacl: [{{topic: a}}]\n"
    )
    assert load(main).files == (main, tmp_path / "more.yaml")
    (tmp_path / "more.yaml").write_text(f"users: [{{name: bob, password: '{HASH}'}}]\nacl: [{{topic: b}}]\n")
    found = load(main).config
    assert [user.name for user in found.users] == ["ann", "bob"]
    assert [rule.topic for rule in found.acl] == ["a", "b"]
    (tmp_path / "more.yaml").write_text(f"users: [{{name: ann, password: '{HASH}'}}]\n")
    with pytest.raises(ConfigError, match="ann"):
        load(main)


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="cannot be written: No such file"):
        write_entries(tmp_path / "no" / "access.yaml", AccessEntries())
