"""Numbers at paths into JSON payloads, read by one pass of Spark's JSON parser.

A `variant` of the whole payload costs twice the time, and is made only where a policy asks for more than
numbers. The payload is read as the first of two elements of a list, with a marker behind it: Spark's parser
ignores anything after the first value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.pipeline.compile.typed_columns import INDEX, TypedColumns, readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column

_END: Final = "\u2063penstock end of payload\u2063"
_STRICT: Final = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
"""What a node refuses, too."""


def tree_of(paths: Iterable[Sequence[str]]) -> dict[str, Any] | None:
    """Keys of all paths, one within the other; None if one of them needs the payload parsed as a whole."""
    tree: dict[str, Any] = {}
    for path in paths:
        if not path or any(INDEX.fullmatch(segment) or segment == _END for segment in path):
            return None  # the payload itself, or perhaps an element of a list
        node = tree
        for segment in path[:-1]:
            node = node.setdefault(segment, {})
            if node is None:
                return None  # a number inside of a number
        if path[-1] in node:
            return None
        node[path[-1]] = None
    return tree if _distinct(tree) else None


def _distinct(tree: dict[str, Any]) -> bool:
    """Whether no two keys differ in upper and lower case only, which Spark would take for one."""
    return len({key.lower() for key in tree}) == len(tree) and all(
        map(_distinct, filter(None, tree.values()))
    )


def parsed(text: Column, form: Column, tree: dict[str, Any]) -> Column:
    """The numbers in a text; null if it is not JSON."""
    kind = st.ArrayType(_kind(tree).add(_END, st.BooleanType()))
    listed = sf.concat(sf.lit("["), text, sf.lit(f',{{"{_END}":true}}]'))
    return sf.when(readable(text, form), sf.from_json(listed, kind, _STRICT))


def _kind(tree: dict[str, Any]) -> st.StructType:
    kinds = {key: st.DoubleType() if below is None else _kind(below) for key, below in tree.items()}
    return st.StructType([st.StructField(key, kind) for key, kind in kinds.items()])


def number_at(found: Column, path: Sequence[str]) -> TypedColumns:
    """The number at a path into what `parsed` gave; one beyond the range of doubles is none."""
    value = sf.get(found, 0)
    for segment in path:
        value = value.getField(segment)
    whole = (sf.size(found) == 2) & sf.get(found, 1).getField(_END)
    # + 0.0 makes −0.0 and 0.0 one value.
    return TypedColumns(numeric=sf.when(whole & (sf.abs(value) < float("inf")), value + sf.lit(0.0)))
