"""Files that commands write for editing: valid, with a schema beside them that accepts them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.errors import InputError
from penstock.node.config.read import load
from penstock.policy.text.forms import parse
from tests.kit.command import VITALS

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str) -> None:
    found = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert found.exit_code == 0, found.output


def checked(path: Path, kind: str) -> str:
    """The text of a file whose comment names a schema beside it that accepts the file."""
    text = path.read_text()
    assert text.startswith(f"# yaml-language-server: $schema={kind}.schema.json\n")
    schema = json.loads((path.parent / f"{kind}.schema.json").read_text())
    jsonschema.validate(yaml.safe_load(text), schema)
    return text


def test_a_configuration_to_start_from_is_one_that_a_node_takes(tmp_path: Path) -> None:
    run("config", "init", str(tmp_path / "penstock.yaml"))
    checked(tmp_path / "penstock.yaml", "penstock")
    assert load(tmp_path / "penstock.yaml").warnings == ()


def test_a_policy_to_start_from_is_the_example(tmp_path: Path) -> None:
    run("policy", "init", str(tmp_path / "ward.yaml"))
    found = parse(checked(tmp_path / "ward.yaml", "policy"))
    from tests.kit.command import EXAMPLES  # noqa: PLC0415

    assert found == parse((EXAMPLES / "ward.yaml").read_text())


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "ward.yaml"
    path.write_text("mine")
    found = CliRunner().invoke(app, ["policy", "init", str(path)])
    assert isinstance(found.exception, InputError)
    assert "is there already" in str(found.exception)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_converted_policy_has_the_comment_where_comments_can_be(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"policy.{form}"
    run("policy", "convert", VITALS, "--to", form, "--out", str(path))
    if form == "yaml":
        checked(path, "policy")
    else:
        json.loads(path.read_text())
