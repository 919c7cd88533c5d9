"""The JSON Schema of configuration files: what the reader takes it takes, and plain mistakes it finds."""

from __future__ import annotations

from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from penstock.errors import ConfigError
from penstock.node.config.schema import Config
from penstock.node.config.write import as_yaml, json_schema
from tests.kit.configuration import read_config
from tests.kit.paths import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def complaints(text: str) -> list[Any]:
    return list(VALIDATOR.iter_errors(yaml.safe_load(text)))


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_fit(path: Any) -> None:
    assert complaints(path.read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        as_yaml(Config()),
        "{users: , acl: , bounds: , policies: }",
        "{bounds: {packet_bytes: 2MiB, session_expiry_s: 7d, connect_s: 500 ms}, watch_s: 60}",
        "policies: {a: {levels: [{drop: {delta: 5, attribute: pulse}}]}, b: 'levels: [{keep: {latest: 1}}]'}",
    ],
)
def test_what_the_reader_takes_fits(text: str) -> None:
    read_config(text)
    assert complaints(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "{lisstners: []}",
        "{http: {port: 70000}}",
        "{http: {port: eighty}}",
        "{bounds: {session_expiry_s: 7 fortnights}}",
        "{users: [{name: a}]}",
        "{anonymous: sometimes}",
        "{policies: {a: {levels: [{drop: {no_such_filter: 1}}]}}}",
        "{data: 5}",
    ],
)
def test_a_mistake_is_found_by_both(text: str) -> None:
    with pytest.raises(ConfigError):
        read_config(text)
    assert complaints(text)


def test_every_setting_is_explained() -> None:
    defs = msgspec.to_builtins(json_schema()["$defs"])
    fields = [one for section in defs.values() for one in section.get("properties", {}).values()]
    assert len(fields) > 100
    assert all(one["description"] for one in fields)
