"""A configuration as text: rows of the reference, all values as YAML, and the JSON Schema for editors.

A row has the name of a setting, its type and bounds, its default, its unit and its meaning, taken from the
classes of the configuration and the sentences below their fields. The YAML includes defaults and hides
secrets. The schema allows what the reader allows, as far as JSON Schema can say it: units behind numbers,
sections without content, policies written out. `penstock config check` knows what settings mean together.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from inspect import cleandoc, getsource
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml
from msgspec import inspect

from penstock.node.config import schema
from penstock.node.config.amounts import UNITS
from penstock.node.config.decode import allowed_of, bare
from penstock.policy.schema import DIALECT
from penstock.policy.schema import json_schema as policy_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.node.config.schema import Config


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting."""

    path: str
    """`bounds.packet_bytes`; in lists `users[].name`."""
    kind: str
    unit: str
    """`s`, `bytes` or empty."""
    default: Any
    required: bool
    doc: str


def settings() -> list[Setting]:
    """Return all settings, in the order of the classes."""
    found = inspect.type_info(schema.Config)
    assert isinstance(found, inspect.StructType)
    return list(_settings(found, ""))


def _settings(kind: inspect.StructType, prefix: str) -> Iterator[Setting]:
    docs = docs_of(kind.cls)
    for one in kind.fields:
        path = f"{prefix}{one.name}"
        type_, unit = bare(one.type)
        if isinstance(type_, inspect.StructType):
            yield from _settings(type_, f"{path}.")
        elif isinstance(type_, inspect.VarTupleType) and isinstance(type_.item_type, inspect.StructType):
            yield from _settings(type_.item_type, f"{path}[].")
        else:
            yield Setting(
                path=path,
                kind=_kind(type_),
                unit=unit,
                default=_default(one),
                required=one.required,
                doc=docs[one.name],
            )


def _default(one: inspect.Field) -> Any:
    if one.required:
        return None
    return {} if one.default_factory is dict else msgspec.to_builtins(one.default)


def _kind(type_: inspect.Type) -> str:
    match type_:
        case inspect.LiteralType():
            return " or ".join(str(value) for value in type_.values)
        case inspect.IntType():
            return f"whole number, {allowed_of(type_)}"
        case inspect.FloatType():
            return f"number, {allowed_of(type_)}"
        case inspect.BoolType():
            return "true or false"
        case inspect.VarTupleType(item_type=inspect.IntType() as item):
            return f"list of whole numbers, {allowed_of(item)}"
        case inspect.VarTupleType():
            return "list of texts"
        case inspect.DictType():
            return "policies by name"
        case _:
            return "text"


def docs_of(kind: type) -> dict[str, str]:
    """Return the sentences below the fields of a class, by field, from its source: they are not kept at run
    time."""
    found: dict[str, str] = {}
    (node,) = ast.parse(getsource(kind)).body
    assert isinstance(node, ast.ClassDef)
    for field, below in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            assert isinstance(below, ast.Expr), f"{node.name}.{field.target.id} has no sentence below it"
            assert isinstance(below.value, ast.Constant)
            found[field.target.id] = " ".join(cleandoc(str(below.value.value)).split())
    return found


HIDDEN: Final = "(hidden)"


def shown(config: Config) -> dict[str, Any]:
    """Return the configuration as plain values, with secrets hidden."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(config))
    if found["http"]["token_file"]:
        found["http"]["token"] = ""  # it is in that file
    elif found["http"]["token"]:
        found["http"]["token"] = HIDDEN
    for user in found["users"]:
        user["password"] = HIDDEN
    if found["notify"]["xmpp"]["password"]:
        found["notify"]["xmpp"]["password"] = HIDDEN
    for target in found["notify"]["apprise"]["targets"]:
        target["url"] = HIDDEN  # contains passwords and keys
    return found


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def as_yaml(config: Config) -> str:
    """Return the configuration as YAML, with secrets hidden."""
    text: str = yaml.dump(
        shown(config),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        default_flow_style=False,
    )
    return text


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
