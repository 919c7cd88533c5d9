"""Settings of web channels, and the errors of wrong ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from penstock.errors import ConfigError, MissingTool
from penstock.node.access.gate import Gate
from penstock.node.broker.broker import Broker
from penstock.node.channels import engine
from penstock.node.config.read import load
from penstock.node.config.reload import applicable
from penstock.node.config.schema import Config
from tests.kit.configuration import read_config

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "channels: {allow_hosts: ['https://example.org/']}",
            "channels.allow_hosts[0]: found 'https://example.org/'",
        ),
        ("channels: {deny_hosts: ['a.*.org']}", "channels.deny_hosts[0]: found 'a.*.org'"),
        ("channels: {scheme: fairest}", "channels.scheme: found 'fairest'"),
        ("channels: {interval_s: 0}", "channels.interval_s: found 0"),
        (
            "channels: {polling: {least_s: 2h, most_s: 1h}}",
            "channels.polling.most_s: 3600 is less than least_s",
        ),
        ("channels: {polling: {networks: [10.0.0.1/8]}}", "channels.polling.networks[0]:"),
        ("http: {contact: 'grüße@example.org'}", "http.contact: has characters"),
        ("channels: {log: true}\ndata: ''", "channels.log: there is no data folder"),
        ("channels: {polling: {robots: never}}", "channels.polling.robots: found 'never'"),
        ("channels: {enable: true}", "did you mean 'enabled'?"),
    ],
)
def test_what_cannot_be_is_named(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        read_config(text)


def test_a_change_waits_for_the_next_start() -> None:
    running, wanted = Config(), read_config("channels: {enabled: true, history: 3}")
    config, waiting = applicable(running, wanted)
    assert config.channels == running.channels
    assert waiting == ["channels"]


def test_the_table_is_found_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text("channels: {table: tables/allocation}\n")
    assert load(path).config.channels.table == str(tmp_path / "tables/allocation")


def test_a_missing_library_is_said_when_the_node_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LIBRARIES", ("no_such_library",))
    config = Config(data="")
    with pytest.raises(MissingTool, match=r"no_such_library.*penstock\[channels\]"):
        engine.ChannelEngine(Broker(config, gate=Gate(config)), config)
