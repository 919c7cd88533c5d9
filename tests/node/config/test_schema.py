"""The settings and their documentation."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import inspect

from penstock.cli.config import as_markdown
from penstock.node.config import schema
from penstock.node.config.amounts import quantity
from penstock.node.config.schema import Config
from penstock.node.config.write import settings
from tests.kit.paths import ROOT

PAGE = ROOT / "docs" / "reference" / "configuration.md"


def test_the_reference_of_settings_is_what_the_code_says() -> None:
    assert PAGE.read_text() == as_markdown(), (
        "repeat: penstock config settings --markdown > docs/reference/configuration.md"
    )


def test_every_setting_has_a_sentence_that_ends() -> None:
    assert [one.path for one in settings() if not one.doc.endswith(".")] == []


def test_the_defaults_are_within_their_own_bounds() -> None:
    assert msgspec.convert(msgspec.to_builtins(Config()), Config) == Config()


def test_every_amount_of_time_or_bytes_knows_its_unit() -> None:
    for one in settings():
        last = one.path.rpartition(".")[2]
        if last.endswith("_per_s"):
            assert one.unit == "", one.path
        elif last.endswith("_s"):
            assert one.unit == "s", one.path
        elif last.endswith("bytes"):
            assert one.unit == "bytes", one.path
        else:
            assert one.unit == "", one.path


def test_every_class_refuses_what_it_does_not_know() -> None:
    kinds = [
        found
        for found in vars(schema).values()
        if isinstance(found, type) and issubclass(found, msgspec.Struct)
    ]
    assert len(kinds) == 14
    for kind in kinds:
        found = inspect.type_info(kind)
        assert isinstance(found, inspect.StructType)
        assert found.forbid_unknown_fields


@pytest.mark.parametrize(
    ("text", "unit", "amount"),
    [
        ("10s", "s", 10),
        ("1.5 min", "s", 90),
        ("250ms", "s", 0.25),
        ("1MiB", "bytes", 1_048_576),
        ("1MB", "bytes", 1_000_000),
        ("10", "s", None),
        ("10 parsecs", "s", None),
        ("10s", "bytes", None),
        ("-1s", "s", None),
        ("1e3s", "s", None),
        ("10  s", "s", None),
    ],
)
def test_quantities(text: str, unit: str, amount: float | None) -> None:
    assert quantity(text, unit) == amount
