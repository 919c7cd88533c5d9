"""The policies we ship: they parse, survive every conversion, and give no cause for warnings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator

from penstock.policy.lint import lint
from penstock.policy.schema import json_schema
from penstock.policy.text.forms import parse, to_json, to_xml, to_yaml
from penstock.policy.text.python_form import drop, keep, policy
from tests.kit.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = sorted((ROOT / "examples" / "policies").iterdir())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.name))
def test_example(path: Path) -> None:
    found = parse(path.read_bytes(), source=path.name)
    assert parse(to_yaml(parse(to_json(parse(to_xml(found)))))) == found
    Draft202012Validator(json_schema()).validate(json.loads(to_json(found)))
    assert lint(found) == []
    assert path.read_text().lstrip("<!- \n#")[0].isupper(), "a comment says when to use it"


def test_names() -> None:
    names = {path.name for path in EXAMPLES}
    assert names == {
        "conflate.yaml",
        "locator.yaml",
        "telemetry.yaml",
        "vitals.xml",
        "vitals.yaml",
        "ward.yaml",
    }


def test_the_locator_has_the_papers_six_levels() -> None:
    (path,) = (path for path in EXAMPLES if path.name == "locator.yaml")
    found = parse(path.read_text())
    assert [(step.verb.value, step.filter.name) for (step,) in found.levels] == [
        ("keep", "eq"),
        ("drop", "inset"),
        ("drop", "match"),
        ("keep", "first"),
        ("drop", "guniq"),
        ("drop", "every"),
    ]


def test_figure_2() -> None:
    (path,) = (path for path in EXAMPLES if path.suffix == ".xml")
    assert '<digester name="MEAN">\n      <digester name="COUNT">\n    </summary>' in path.read_text()
    assert parse(path.read_text()) == policy(
        drop.delta(5), drop.within(50, 100), keep.latest(10), attribute="PulseRate", digest=["mean", "count"]
    )
