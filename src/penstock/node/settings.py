"""Every setting as a row: what it is called, what it may be, its default, its unit, what it means.

Made from the classes of the configuration, the sentences from below their fields.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from inspect import cleandoc, getsource
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from penstock.node import config
from penstock.node.config_reading import allowed_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting."""

    path: str
    """`bounds.packet_bytes`; in lists `users[].name`."""
    kind: str
    unit: str
    """`s` or `bytes`, where it has one."""
    default: Any
    required: bool
    doc: str


def settings() -> list[Setting]:
    """All settings, in the order of the file."""
    found = inspect.type_info(config.Config)
    assert isinstance(found, inspect.StructType)
    return list(_settings(found, ""))


def _settings(kind: inspect.StructType, prefix: str) -> Iterator[Setting]:
    docs = _docs(kind.cls)
    for one in kind.fields:
        path = f"{prefix}{one.name}"
        type_, unit = one.type, ""
        if isinstance(type_, inspect.Metadata):
            unit = str((type_.extra or {}).get("unit", ""))
            type_ = type_.type
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
        case inspect.VarTupleType():
            return "list of texts"
        case inspect.DictType():
            return "policies by name"
        case _:
            return "text"


def _docs(kind: type) -> dict[str, str]:
    """The sentences below the fields of a class, by field; the compiler does not keep them."""
    found: dict[str, str] = {}
    (node,) = ast.parse(getsource(kind)).body
    assert isinstance(node, ast.ClassDef)
    for field, below in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            assert isinstance(below, ast.Expr), f"{node.name}.{field.target.id} has no sentence below it"
            assert isinstance(below.value, ast.Constant)
            found[field.target.id] = " ".join(cleandoc(str(below.value.value)).split())
    return found
