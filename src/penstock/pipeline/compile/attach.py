"""Adds the attributes that a policy reads to a frame, each as typed columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.pipeline.compile import json_numbers, typed_columns
from penstock.pipeline.compile.sources import is_text, property_of, texts, typed_reading, wrong
from penstock.pipeline.compile.typed_columns import TypedColumns
from penstock.pipeline.compile.verdicts import column
from penstock.policy import paths
from penstock.policy.paths import Source

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.compile.sources import Sources
    from penstock.policy.paths import Path


def attach(
    frame: DataFrame,
    sources: Sources,
    kept: list[str],
    wanted: list[str],
    *,
    numbers: Collection[str] = (),
    in_place: bool = False,
) -> tuple[DataFrame, dict[str, TypedColumns], tuple[str, ...]]:
    """The frame with the columns of these attributes, the readings based on them, and the names of all its
    columns.

    Each stage is a projection of its own, so that a payload is parsed once for any number of attributes.
    Of those in `numbers` only the number is read: a fold gathers every column there is. If that is all that
    is wanted of payloads, they are not made into variants.
    `in_place`: attributes that are columns already are read there; these must be among those kept.
    """
    parsed = [path for path in map(paths.parse, wanted) if _in_payload(sources, path)]
    only_numbers = all(path.text in numbers for path in parsed)
    tree = json_numbers.tree_of(path.segments for path in parsed) if only_numbers else None
    if tree:
        inside = json_numbers.parsed(sf.col("__text"), sf.col("__format"), tree)
        frame = _with_text(frame, sources).select("*", inside.alias("__numbers"))
    elif parsed:
        frame = with_payload(frame, sources)
    leaves: dict[str, Column] = {}
    for place, text in enumerate(wanted):
        path = paths.parse(text)
        leaf = None if tree and _in_payload(sources, path) else _variant(sources, path)
        if leaf is not None:
            leaves[f"__leaf{place}"] = leaf
    if leaves:
        frame = frame.select("*", *(leaf.alias(name) for name, leaf in leaves.items()))
        frame = frame.select(
            "*", *(typed_columns.kind_of(sf.col(name)).alias(f"{name}_kind") for name in leaves)
        )
        frame = frame.select("*", *(_double(name).alias(f"{name}_double") for name in leaves))
    columns: dict[str, Column] = {}
    readings: dict[str, TypedColumns] = {}
    for place, text in enumerate(wanted):
        path = paths.parse(text)
        if tree and _in_payload(sources, path):
            found = json_numbers.number_at(sf.col("__numbers"), path.segments)
        else:
            found = _reading(sources, path, f"__leaf{place}")
        if in_place and not _in_payload(sources, path) and f"__leaf{place}" not in leaves:
            readings[text] = found
            continue
        if text in numbers and found.numeric is not None:
            found = TypedColumns(numeric=found.numeric)
        names = {kind: f"__r{place}_{kind}" for kind in found.parts()}
        columns |= {names[kind]: column for kind, column in found.parts().items()}
        readings[text] = found.at(names)
    read = frame.select(*map(column, kept), *(found.alias(name) for name, found in columns.items()))
    return read, readings, (*kept, *columns)


def _double(leaf: str) -> Column:
    return typed_columns.double_of(sf.col(leaf), sf.col(f"{leaf}_kind"))


def _in_payload(sources: Sources, path: Path) -> bool:
    """Whether a path is inside a payload that must be parsed."""
    return path.source is Source.PAYLOAD and sources.typed(path) is None


def with_payload(frame: DataFrame, sources: Sources) -> DataFrame:
    """The frame with its payload parsed: columns `__text`, `__format` and `__json` (for `in_wrapped`)."""
    json = typed_columns.wrapped(sf.col("__text"), sf.col("__format"))
    return _with_text(frame, sources).select("*", json.alias("__json"))


def _with_text(frame: DataFrame, sources: Sources) -> DataFrame:
    """The frame with its payload as `__text`, and how it is to be read, as `__format`."""
    payload, content_type = sources.payload_text(), sources.envelope("$content_type")
    given = None if content_type is None else texts("$content_type", content_type)
    return frame.select(
        "*",
        typed_columns.as_text(payload.column).alias("__text"),
        typed_columns.format_of(given, sources.payload).alias("__format"),
    )


def _variant(sources: Sources, path: Path) -> Column | None:
    """The variant at the end of a path, if there is one."""
    if path.source is not Source.PAYLOAD:
        return None
    found = sources.typed(path)
    if found is None:
        return typed_columns.in_wrapped(sf.col("__json"), path.segments)
    return found.column if isinstance(found.kind, st.VariantType) else None


def _reading(sources: Sources, path: Path, leaf: str) -> TypedColumns:
    match path.source:
        case Source.TS:
            return TypedColumns(whole=sources.ts())
        case Source.TOPIC | Source.SENDER:
            return TypedColumns(text=texts(path.text, sources.needed(path.text)))
        case Source.SIZE:
            return TypedColumns(whole=_size(sources))
        case Source.PROPERTY:
            return TypedColumns(text=property_of(sources, path))
        case Source.PAYLOAD:
            return _payload_reading(sources, path, leaf)


def _payload_reading(sources: Sources, path: Path, leaf: str) -> TypedColumns:
    found = sources.typed(path)
    if found is not None and not isinstance(found.kind, st.VariantType):
        return typed_reading(path.text, found)
    read = typed_columns.reading(sf.col(leaf), sf.col(f"{leaf}_kind"), sf.col(f"{leaf}_double"))
    if found is not None or path.segments:
        return read
    plain = typed_columns.as_plain(sf.col("__text"), sf.col("__format"), sf.col(leaf))
    merged = {kind: sf.coalesce(column, read.parts()[kind]) for kind, column in plain.parts().items()}
    return TypedColumns(**(read.parts() | merged), element=read.element)


def _size(sources: Sources) -> Column:
    given = sources.attributes.get("$size")
    if given is not None:
        return sources.needed("$size").column.cast("bigint")
    payload, topic = sources.needed("$payload"), sources.needed("$topic")
    if not is_text(payload.kind):
        raise wrong("$size", payload, "a string or binary")
    return (sf.octet_length(payload.column) + sf.char_length(texts("$size", topic))).cast("bigint")
