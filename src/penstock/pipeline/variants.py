"""Attributes inside a `variant`, which is what Spark makes of JSON: the kind of a value differs by row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from penstock import limits
from penstock.errors import PolicyError
from penstock.pipeline.readings import Reading, first_of, of_double, of_scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

_INDEX = re.compile("[0-9]{1,9}")


def descend(root: Column, segments: Sequence[str]) -> Column:
    """The variant at the end of a path through objects (by key) and arrays (by index from 0)."""
    for segment in segments:
        ways = [sf.try_variant_get(root, _key(segment), "variant")]
        if _INDEX.fullmatch(segment):
            ways.append(sf.try_variant_get(root, f"$[{int(segment)}]", "variant"))
        root = first_of(ways, "variant")
    return root


def _key(segment: str) -> str:
    quote = '"' if '"' not in segment else "'"
    if quote in segment:
        raise PolicyError(
            f"Spark cannot look for the key {segment!r}, which holds both kinds of quotes", path="attribute"
        )
    return f"$[{quote}{segment}{quote}]"


def kind_of(leaf: Column) -> Column:
    """The kind of a variant in Spark's words: BIGINT, DECIMAL(3,1), STRING, ARRAY<…> …; null if missing."""
    return sf.schema_of_variant(leaf)


def reading(leaf: Column, kind: Column) -> Reading:
    """A variant and its kind, read."""
    members = sf.when(kind.startswith("ARRAY"), sf.try_variant_get(leaf, "$", "array<variant>"))
    elements = sf.transform(members, lambda element: scalars(element, kind_of(element)).scalar())
    kept = sf.when(sf.size(members) <= limits.LIST_VALUES, elements)
    found = scalars(leaf, kind)
    return Reading(found.whole, found.real, found.text, found.flag, kept, of_scalar)


def scalars(leaf: Column, kind: Column) -> Reading:
    """The same without lists. A number beyond all doubles is no number."""
    broken = sf.when(
        kind.startswith("DECIMAL") | kind.isin("DOUBLE", "FLOAT"), sf.try_variant_get(leaf, "$", "double")
    )
    numbers = of_double(sf.when(sf.abs(broken) < float("inf"), broken))
    assert numbers.whole is not None
    return Reading(
        whole=sf.coalesce(sf.when(kind == "BIGINT", sf.try_variant_get(leaf, "$", "bigint")), numbers.whole),
        real=numbers.real,
        text=sf.when(kind == "STRING", sf.try_variant_get(leaf, "$", "string")),
        flag=sf.when(kind == "BOOLEAN", sf.try_variant_get(leaf, "$", "boolean")),
    )
