"""The settings and their documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import inspect

from penstock.cli.config import as_markdown
from penstock.node.config.schema import Config
from penstock.node.config.write import settings
from tests.kit.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def structs(kind: inspect.Type) -> Iterator[inspect.StructType]:
    """All classes of settings."""
    if isinstance(kind, inspect.Metadata):
        yield from structs(kind.type)
    elif isinstance(kind, inspect.VarTupleType):
        yield from structs(kind.item_type)
    elif isinstance(kind, inspect.StructType):
        yield kind
        for one in kind.fields:
            yield from structs(one.type)


def test_every_class_refuses_what_it_does_not_know() -> None:
    kinds = {kind.cls: kind for kind in structs(inspect.type_info(Config))}
    assert len(kinds) == 30
    assert all(kind.forbid_unknown_fields for kind in kinds.values())
