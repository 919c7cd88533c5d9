"""Rows of an Arrow table as events, by the rules of `pipeline.compile.sources` and `events`, without Spark.

    vitals.pulse    a column of that very name, else the field `pulse` of a column `vitals`, else inside the
                    column `payload`

Attributes in columns become the event's decoded payload. An event without a payload column has one of its
attributes, as Spark's `to_json` writes them. Maps in the place of structs, attributes half in columns and
half in payloads, and columns of unusual kinds raise `NeedsSpark`.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import compute

from penstock.errors import InputError
from penstock.model.event import Event
from penstock.pipeline.tables.files import NeedsSpark
from penstock.policy import paths
from penstock.policy.attributes import UNDECODABLE
from penstock.policy.columns.frame import numbers_of, raw_of
from penstock.policy.nodes import PayloadFormat
from penstock.policy.paths import Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.model.arrays import Floats, Ints
    from penstock.policy.paths import Path

ENVELOPE: Final = ("topic", "ts", "seq", "sender", "properties", "payload", "content_type", "digest")
"""Columns about the event itself rather than its payload."""
_PLAIN: Final = (1e-3, 1e7)
"""Numbers in this range are written without an exponent by Java and by msgspec alike."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A table with a column `ts` of microseconds, and the columns of its attributes."""

    table: pa.Table
    columns: Mapping[str, str]
    """Columns by attribute, where they are not found by name."""
    payload: PayloadFormat

    def find(self, name: str) -> pa.ChunkedArray | None:
        """A column by its exact name."""
        return self.table.column(name) if name in self.table.column_names else None

    def envelope(self, pseudo: str) -> pa.ChunkedArray | None:
        """Column of a pseudo-attribute, by its given or usual name."""
        name = self.columns.get(pseudo)
        found = self.find(name or pseudo.removeprefix("$"))
        if name is not None and found is None:
            raise self.missing(pseudo, name)
        return found

    def missing(self, attribute: str, name: str) -> InputError:
        """Error for a missing column."""
        return InputError(
            f"attribute '{attribute}': there is no column '{name}'; the columns are: {self.there()}"
        )

    def there(self) -> str:
        """Names of all columns."""
        return ", ".join(self.table.column_names)

    def texts(self, pseudo: str) -> list[str]:
        """A column of texts, empty where there is none, as on a node."""
        found = self.envelope(pseudo)
        if found is None:
            return [""] * self.table.num_rows
        if not _is_text(found.type):
            raise _wrong(pseudo, self.columns.get(pseudo, pseudo[1:]), found.type, "a string")
        return _shared(found, "")

    def numbered(self) -> bool:
        """Whether events have sequence numbers."""
        return self.envelope("$seq") is not None

    def seq(self) -> Ints:
        """Sequence numbers; 0 where there is none."""
        found = self.envelope("$seq")
        if found is None:
            return np.zeros(self.table.num_rows, dtype=np.int64)
        if not pa.types.is_integer(found.type):
            raise _wrong("$seq", self.columns.get("$seq", "seq"), found.type, "whole numbers")
        own: Ints = filled(found.cast(pa.int64()), 0)
        return own

    def typed(self, path: Path) -> pa.ChunkedArray | None:
        """The column of a path into the payload; None if it is to be read from a payload text."""
        given = self.columns.get(path.text)
        if given is not None:
            found = self.find(given)
            if found is None:
                raise self.missing(path.text, given)
            return found
        payload = self.envelope("$payload")
        whole = self.find(path.text)
        if whole is not None and (path.text not in ENVELOPE or payload is None):
            return whole
        top = self.find(path.segments[0]) if path.segments else payload
        if top is None:
            structured = payload is not None and not _is_bytes(payload.type)
            return _inside(path.text, "payload", payload, path.segments) if structured else None
        if path.segments and path.segments[0] in ENVELOPE and payload is not None:
            return None
        if not path.segments and _is_bytes(top.type):
            return None
        return _inside(path.text, path.segments[0] if path.segments else "payload", top, path.segments[1:])

    def known(self, wanted: Sequence[str]) -> None:
        """Refuse an attribute that is neither a column nor in a payload, with a near match."""
        for path in map(paths.parse, wanted):
            if path.source is Source.PAYLOAD:
                if self.envelope("$payload") is None and self.typed(path) is None:
                    near = get_close_matches(path.text, self.table.column_names, n=1)
                    hint = f" (did you mean '{near[0]}'?)" if near else ""
                    raise InputError(
                        f"attribute '{path.text}': there is no such column{hint}, and no column 'payload' to "
                        f"search; the columns are: {self.there()}"
                    )
            elif path.source in (Source.TOPIC, Source.SENDER) and self.envelope(path.text) is None:
                raise self.missing(path.text, path.text.removeprefix("$"))
            elif path.text in self.columns:
                raise NeedsSpark(f"attribute '{path.text}' in a column of its own is read by Spark only")

    def events(self, wanted: Sequence[str]) -> list[Event]:
        """All rows as events for policies that read `wanted`."""
        self.known(wanted)
        inside = [path for path in map(paths.parse, wanted) if path.source is Source.PAYLOAD]
        roots = self._roots(inside)
        plain = roots is not None and all(_is_plain_column(self.typed(path)) for path in inside)
        rows = zip(
            self.texts("$topic"),
            self._payloads(roots, plain=plain),
            self.table.column("ts").to_pylist(),
            self.texts("$sender"),
            self.seq().tolist(),
            self._properties(),
            self._content_types(typed=roots is not None),
            [None] * self.table.num_rows if roots is None else roots,
            strict=True,
        )
        return [Event(*row) for row in rows]

    def numbers(self, name: str, events: list[Event], wanted: Sequence[str]) -> Floats:
        """The numbers of an attribute, NaN for other values; `events` were made for `wanted`."""
        self.known([name])
        path = paths.parse(name)
        column = self.typed(path) if path.source is Source.PAYLOAD else None
        if column is None:
            others = [one for one in map(paths.parse, wanted) if one.source is Source.PAYLOAD]
            if path.source is Source.PAYLOAD and any(self.typed(one) is not None for one in others):
                raise NeedsSpark(f"attribute '{name}' in payloads beside columns is read by Spark only")
            return numbers_of(raw_of(events, path, self.payload))
        if _is_number(column.type):
            own: Floats = filled(column.cast(pa.float64()), np.nan)
            return own
        return np.full(len(events), np.nan)

    # -- the payload -----------------------------------------------------------------------------------------

    def _roots(self, wanted: list[Path]) -> list[Any] | None:
        """The attributes of each row as a decoded payload; None if the payloads hold all of them."""
        columns = {path: self.typed(path) for path in wanted}
        if all(column is None for column in columns.values()):
            return None
        for path, column in columns.items():
            inner = [
                one
                for one in wanted
                if one is not path and one.segments[: len(path.segments)] == path.segments
            ]
            if column is None or inner:
                raise NeedsSpark(f"attribute '{path.text}' beside others is read by Spark only")
        (first, *_), leaves = columns, {path: _plain(path.text, columns[path]) for path in wanted}
        if not first.segments:
            return [UNDECODABLE if one is None else one for one in leaves[first]]
        if all(len(path.segments) == 1 for path in wanted):
            return _flat([path.segments[0] for path in wanted], list(leaves.values()))
        return [_nested(wanted, row) for row in zip(*leaves.values(), strict=True)]

    def _payloads(self, roots: list[Any] | None, *, plain: bool) -> list[bytes]:
        found = self.envelope("$payload")
        if found is None:
            return [b""] * self.table.num_rows if roots is None else _encoded(roots, plain=plain)
        if _is_bytes(found.type):
            return [one or b"" for one in found.cast(pa.binary()).to_pylist()]
        if pa.types.is_struct(found.type):
            return _encoded([_written(one) for one in found.to_pylist()])
        raise NeedsSpark(f"payloads of the kind {found.type} are read by Spark only")

    def _content_types(self, *, typed: bool) -> list[str]:
        """The row's content type; that of JSON for attributes beside the payload, unless `auto`."""
        if not typed:
            return self.texts("$content_type")
        return ["" if self.payload is PayloadFormat.AUTO else "application/json"] * self.table.num_rows

    def _properties(self) -> list[tuple[tuple[str, str], ...]]:
        found = self.envelope("$properties")
        if found is None or found.null_count == len(found) or pa.types.is_null(found.type):
            return [()] * self.table.num_rows
        if not pa.types.is_map(found.type):
            raise NeedsSpark(f"properties of the kind {found.type} are read by Spark only")
        if not sum(len(chunk.keys) for chunk in found.chunks):
            return [()] * self.table.num_rows
        return [tuple(one) if one else () for one in found.to_pylist()]


# -- columns -------------------------------------------------------------------------------------------------


def _inside(attribute: str, name: str, column: pa.ChunkedArray, segments: tuple[str, ...]) -> pa.ChunkedArray:
    """The column at the end of a path through structs."""
    for segment in segments:
        if not pa.types.is_struct(column.type):
            if pa.types.is_map(column.type) or pa.types.is_list(column.type):
                raise NeedsSpark(f"attribute '{attribute}' in a column of the kind {column.type} needs Spark")
            raise _wrong(attribute, name, column.type, f"something with '{segment}' inside")
        fields = [field.name for field in column.type]
        if segment not in fields:
            there = ", ".join(fields)
            raise InputError(
                f"attribute '{attribute}': column '{name}' has no field '{segment}'; it has: {there}"
            )
        column, name = compute.struct_field(column, fields.index(segment)), f"{name}.{segment}"
    return column


def _wrong(attribute: str, name: str, kind: pa.DataType, wanted: str) -> InputError:
    return InputError(f"attribute '{attribute}': column '{name}' is {kind}, expected {wanted}")


def _is_text(kind: pa.DataType) -> bool:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(plain) or pa.types.is_large_string(plain))


def _is_bytes(kind: pa.DataType) -> bool:
    return _is_text(kind) or bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _shared(column: pa.ChunkedArray, empty: str) -> list[str]:
    """Texts of a column; equal ones are one object."""
    whole = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    whole = whole.unify_dictionaries().combine_chunks()
    chunks = whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole]
    found: list[str] = []
    for chunk in chunks:
        names = [*chunk.dictionary.to_pylist(), empty]
        found += [names[place] for place in filled(chunk.indices, len(names) - 1).tolist()]
    return found


def filled(column: pa.Array | pa.ChunkedArray, empty: float) -> Any:
    """Numbers as an array, with something in the place of nulls.

    Not by `to_numpy`, which imports pandas: that takes a third of a second.
    """
    whole = compute.fill_null(column, empty) if column.null_count else column
    parts = [
        np.from_dlpack(part) for part in (whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole])
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def indices(places: Ints) -> pa.Array:
    """Places of rows to take; not by `pa.array`, which imports pandas."""
    own = np.ascontiguousarray(places, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(own), [None, pa.py_buffer(own)])


def _plain(attribute: str, column: pa.ChunkedArray | None) -> list[Any]:
    """A column's values as a decoded payload would hold them."""
    assert column is not None
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        own = filled(column.cast(pa.float64()), np.nan) + 0.0  # −0.0 becomes 0.0
        missing = np.isnan(own)
        listed: list[Any] = own.tolist()
        for place in np.flatnonzero(missing).tolist():
            listed[place] = None
        return listed
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return list(column.to_pylist())
    if _is_text(kind):
        return list(column.to_pylist())
    if pa.types.is_list(kind) and (_is_text(kind.value_type) or pa.types.is_integer(kind.value_type)):
        return list(column.to_pylist())
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_struct(kind):
        raise _wrong(attribute, attribute, kind, "a number, a string, a boolean or an array of these")
    raise NeedsSpark(f"attribute '{attribute}': a column of the kind {kind} is read by Spark only")


def _flat(names: list[str], leaves: list[list[Any]]) -> list[Any]:
    """Rows of columns without what is missing."""
    if any(None in leaf for leaf in leaves):
        return [
            {name: one for name, one in zip(names, row, strict=True) if one is not None}
            for row in zip(*leaves, strict=True)
        ]
    if len(names) == 1:
        name = names[0]
        return [{name: one} for one in leaves[0]]
    return [dict(zip(names, row, strict=True)) for row in zip(*leaves, strict=True)]


def _nested(wanted: list[Path], row: tuple[Any, ...]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path, value in zip(wanted, row, strict=True):
        node = root
        for segment in path.segments[:-1]:
            node = node.setdefault(segment, {})
        if value is not None:
            node[path.segments[-1]] = value
    return root


# -- texts as Spark writes them ------------------------------------------------------------------------------


def _written(found: Any) -> Any:
    """A struct without its nulls, which `to_json` leaves out."""
    if isinstance(found, dict):
        return {name: _written(one) for name, one in found.items() if one is not None}
    return [_written(one) for one in found] if isinstance(found, list) else found


def _encoded(roots: list[Any], *, plain: bool = False) -> list[bytes]:
    """Roots as JSON; `plain`: no number in them is written differently by Java."""
    encode = msgspec.json.Encoder().encode
    if plain or all(map(_is_plain, roots)):
        return [encode(root) for root in roots]
    return [encode(root) if _is_plain(root) else encode(_java(root)) for root in roots]


def _is_plain_column(column: pa.ChunkedArray | None) -> bool:
    """Whether `_is_plain` holds for all its values, found out at once; False where that is not known."""
    if column is None:
        return False
    kind = column.type
    if pa.types.is_floating(kind):
        sizes = np.abs(filled(column.cast(pa.float64()), 0.0))
        return bool(np.all((sizes == 0) | np.isnan(sizes) | ((sizes >= _PLAIN[0]) & (sizes < _PLAIN[1]))))
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind) or _is_text(kind))


def _is_plain(found: Any) -> bool:
    """Whether no number in it is written differently by Java."""
    if found.__class__ is float:
        return found == 0 or _PLAIN[0] <= abs(found) < _PLAIN[1]
    if found.__class__ is dict:
        return all(map(_is_plain, found.values()))
    return all(map(_is_plain, found)) if found.__class__ is list else True


def _java(found: Any) -> Any:
    """Values with floats in the notation of Java, for the encoder."""
    if isinstance(found, dict):
        return {name: _java(one) for name, one in found.items()}
    if isinstance(found, list):
        return [_java(one) for one in found]
    if not isinstance(found, float) or _is_plain(found):
        return found
    return msgspec.Raw(java_number(found).encode())


def java_number(found: float) -> str:
    """A number outside the plain range as Java prints it: 1.0E7, 1.5E-5."""
    if not isfinite(found):
        raise NeedsSpark("events with infinite numbers and without a payload are read by Spark only")
    sign, digits, exponent = Decimal(repr(found)).as_tuple()
    written = "".join(map(str, digits)).rstrip("0")
    assert isinstance(exponent, int)
    return f"{'-' * sign}{written[0]}.{written[1:] or '0'}E{len(digits) + exponent - 1}"
