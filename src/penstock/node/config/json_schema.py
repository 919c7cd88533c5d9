"""The JSON Schema of configuration files, for editors: from the classes of the configuration.

It allows what the reader allows, as far as JSON Schema can say it: units behind numbers, sections without
content, policies written out. What settings mean together only `penstock config check` knows.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import inspect

from penstock.node.config import schema
from penstock.node.config.amounts import UNITS
from penstock.node.config.decode import bare
from penstock.node.config.write import docs_of
from penstock.policy.schema import DIALECT
from penstock.policy.schema import json_schema as policy_schema

_NULL: Final = {"type": "null"}
"""`users:` with nothing behind it is the same as no users."""


def json_schema() -> dict[str, Any]:
    """Return the schema of a configuration file."""
    found = msgspec.json.schema(schema.Config)
    known: dict[str, type] = {}
    _gather(inspect.type_info(schema.Config), known)
    for name, kind in known.items():
        docs, fields = docs_of(kind), found["$defs"][name]["properties"]
        for one in _struct(kind).fields:
            _, unit = bare(one.type)
            fields[one.name] = _field(fields[one.name], unit) | {"description": docs[one.name]}
    written = {"anyOf": [{"type": "string"}, policy_schema() | {"$id": "penstock-policy"}]}
    policies = found["$defs"]["Config"]["properties"]["policies"]
    policies["anyOf"][0]["additionalProperties"] = written
    return {"$schema": DIALECT, "title": "penstock.yaml", **found}


def _struct(kind: type) -> inspect.StructType:
    found = inspect.type_info(kind)
    assert isinstance(found, inspect.StructType)
    return found


def _gather(kind: inspect.Type, known: dict[str, type]) -> None:
    """Collect the classes of all sections by name."""
    type_, _ = bare(kind)
    if isinstance(type_, inspect.VarTupleType):
        _gather(type_.item_type, known)
    elif isinstance(type_, inspect.StructType) and type_.cls.__name__ not in known:
        known[type_.cls.__name__] = type_.cls
        for one in type_.fields:
            _gather(one.type, known)


def _field(found: dict[str, Any], unit: str) -> dict[str, Any]:
    """Return the schema of one setting as a person may write it."""
    bare_ = {name: value for name, value in found.items() if name != "default"}
    value = found.get("default")
    default = {} if value is None or isinstance(value, dict | list) else {"default": value}
    if unit:
        words = "|".join(sorted(UNITS[unit], key=len, reverse=True))
        text = {"type": "string", "pattern": f"^[0-9]{{1,15}}(\\.[0-9]{{1,9}})? ?({words})$"}
        return {"anyOf": [bare_, text], **default}
    if "$ref" in bare_ or bare_.get("type") in ("array", "object"):
        return {"anyOf": [bare_, _NULL]}
    return bare_ | default
