"""An attribute as typed columns: one column per kind of value, read from columns, variants or payloads.

At most one of the columns is set in a row; none set means unreadable. A kind that a source cannot hold has no
column, so no plan pays for it. A JSON payload becomes a `variant`, any other a plain number or text, as on a
node. Spark cannot read MessagePack and CBOR without a Python worker: such payloads have no attributes here,
and a policy keeps events it cannot read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as sf

from penstock import limits
from penstock.errors import PolicyError
from penstock.model.values import INT64_LEAST, INT64_MOST
from penstock.pipeline.tables.schemas import SCALAR
from penstock.policy.attributes import CONTENT_TYPES
from penstock.policy.nodes import PayloadFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import Column

    from penstock.model.values import Scalar

_TWO_63 = float(2**63)


@dataclass(frozen=True, slots=True)
class TypedColumns:
    """The columns of one attribute."""

    whole: Column | None = None
    """Whole numbers (bigint)."""
    real: Column | None = None
    """Other numbers (double), never NaN."""
    text: Column | None = None
    flag: Column | None = None
    """Truth values."""
    members: Column | None = None
    """Elements of a list; null if the value is not a list."""
    element: Callable[[Column], TypedColumns] | None = None
    """How to read one of `members`."""
    numeric: Column | None = None
    """`whole` or `real` as one double, where a source has it at once: most filters ask for nothing else."""

    def parts(self) -> dict[str, Column]:
        """The existing columns, by kind."""
        found = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "element"}
        return {name: column for name, column in found.items() if column is not None}

    def at(self, names: dict[str, str]) -> TypedColumns:
        """These columns once a frame holds them under `names`."""
        placed: dict[str, Any] = {kind: sf.col(name) for kind, name in names.items()}
        return replace(self, **placed)

    def number(self) -> Column:
        """The value as a double, if it is a number."""
        if self.numeric is not None:
            return self.numeric
        found = [] if self.whole is None else [self.whole.cast("double")]
        return first_of(found if self.real is None else [*found, self.real], "double")

    def texts(self) -> Column:
        """The value, if it is a text."""
        return nothing("string") if self.text is None else self.text

    def scalars(self) -> dict[str, Column]:
        """The columns of the kinds of scalars."""
        return {kind: column for kind, column in self.parts().items() if kind in SCALAR.names}

    def identity(self) -> Column:
        """Key to compare and group by; null without a scalar."""
        found = list(self.scalars().values())
        return first_of(found, "string") if len(found) < 2 else self.scalar()

    def scalar(self) -> Column:
        """The value as a SCALAR struct; null without a scalar."""
        found = self.scalars()
        whole = sf.struct(
            *(found.get(f.name, nothing(f.dataType.simpleString())).alias(f.name) for f in SCALAR)
        )
        return sf.when(either(column.isNotNull() for column in found.values()), whole)

    def one_of(self, values: Sequence[Scalar]) -> Column:
        """Whether the value is one of `values`; never null."""
        wanted: dict[str, list[Scalar]] = {}
        for value in values:
            for kind, literal in literals(value).items():
                wanted.setdefault(kind, []).append(literal)
        columns = self.scalars()
        return either(
            sf.coalesce(columns[kind].isin(members), sf.lit(False))
            for kind, members in wanted.items()
            if kind in columns
        )

    def hash64(self) -> Column:
        """Hash under which a distinct count counts the value."""
        hashes = {kind: sf.xxhash64(column) for kind, column in self.scalars().items()}
        if self.real is not None:
            hashes["real"] = sf.when(
                is_whole(self.real), sf.xxhash64(sf.when(is_whole(self.real), self.real.cast("bigint")))
            ).otherwise(hashes["real"])
        return first_of(
            [sf.when(column.isNotNull(), hashes[kind]) for kind, column in self.scalars().items()], "bigint"
        )

    def tie(self) -> Column:
        """Text that breaks ties between two values of equal time and number in a digest.

        The order is that of Python's `repr`. It holds for texts, truth values, whole numbers, and reals
        written without an exponent.
        """
        shown: dict[str, Callable[[Column], Column]] = {
            "whole": lambda column: column.cast("string"),
            "real": lambda column: column.cast("string"),
            "text": _quoted,
            "flag": lambda column: sf.when(column, sf.lit("('true',)")).when(~column, sf.lit("('false',)")),
        }
        return first_of([shown[kind](column) for kind, column in self.scalars().items()], "string")


def _quoted(text: Column) -> Column:
    """A text as Python's `repr` shows it, except for unprintable characters."""
    escaped = sf.substring(text, 1, limits.MARK_CHARACTERS)
    for sign, shown in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        escaped = sf.replace(escaped, sf.lit(sign), sf.lit(shown))
    double = sf.contains(text, sf.lit("'")) & ~sf.contains(text, sf.lit('"'))
    single = sf.concat(sf.lit("'"), sf.replace(escaped, sf.lit("'"), sf.lit("\\'")), sf.lit("'"))
    return sf.when(double, sf.concat(sf.lit('"'), escaped, sf.lit('"'))).otherwise(single)


def literals(value: Scalar) -> dict[str, Scalar]:
    """A value as each kind of column holds it, for the kinds that can hold it exactly."""
    if isinstance(value, bool):
        return {"flag": value}
    if isinstance(value, str):
        return {"text": value}
    found: dict[str, Scalar] = {}
    if value == int(value) and INT64_LEAST <= value <= INT64_MOST:
        found["whole"] = int(value)
    if float(value) == value:
        found["real"] = float(value)
    return found


def is_whole(real: Column) -> Column:
    """Whether a double is a whole number within 64 bits."""
    return (sf.rint(real) == real) & (real >= -_TWO_63) & (real < _TWO_63)


def of_double(number: Column) -> TypedColumns:
    """Columns of doubles that may also be whole numbers: 5.0 is 5."""
    whole = is_whole(number)
    return TypedColumns(
        whole=sf.when(whole, sf.when(whole, number).cast("bigint")),
        real=sf.when(~whole & ~sf.isnan(number), number),
    )


def of_scalar(struct: Column) -> TypedColumns:
    """Columns of a SCALAR struct."""
    kinds: dict[str, Any] = {field.name: struct.getField(field.name) for field in SCALAR}
    return TypedColumns(**kinds)


def nothing(kind: str) -> Column:
    """A null of a type."""
    return sf.lit(None).cast(kind)


def first_of(columns: Sequence[Column], kind: str) -> Column:
    """The first value that is not null."""
    if not columns:
        return nothing(kind)
    return columns[0] if len(columns) == 1 else sf.coalesce(*columns)


def either(conditions: Iterable[Column]) -> Column:
    """Whether at least one condition holds; false for none."""
    found = list(conditions)
    return reduce(lambda a, b: a | b, found) if found else sf.lit(False)


INDEX = re.compile("[0-9]{1,9}")


def descend(root: Column, segments: Sequence[str]) -> Column:
    """The variant at the end of a path through objects (by key) and arrays (by index from 0).

    Keys that are no index are one path: with each step Spark writes the variant anew.
    """
    if segments and not any(map(INDEX.fullmatch, segments)):
        return sf.try_variant_get(root, "$" + "".join(_key(segment)[1:] for segment in segments), "variant")
    for segment in segments:
        ways = [sf.try_variant_get(root, _key(segment), "variant")]
        if INDEX.fullmatch(segment):
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
    """Type of a variant in Spark's words: BIGINT, DECIMAL(3,1), STRING, ARRAY<…> …; null if missing."""
    return sf.schema_of_variant(leaf)


def double_of(leaf: Column, kind: Column) -> Column:
    """A variant's number as a double, perhaps infinite; null for other kinds."""
    numeric = (kind == "BIGINT") | kind.startswith("DECIMAL") | kind.isin("DOUBLE", "FLOAT")
    return sf.when(numeric, sf.try_variant_get(leaf, "$", "double"))


def reading(leaf: Column, kind: Column, double: Column) -> TypedColumns:
    """Typed columns of a variant, its kind and its number, which are columns of their own.

    Spark computes anew what an expression names twice, unless it is a column.
    """
    members = sf.when(kind.startswith("ARRAY"), sf.try_variant_get(leaf, "$", "array<variant>"))
    elements = sf.transform(members, lambda element: scalars_of(element).scalar())
    kept = sf.when(sf.size(members) <= limits.LIST_VALUES, elements)
    found = scalars(leaf, kind, double)
    # + 0.0 makes −0.0 and 0.0 one value, as `whole` does.
    numeric = sf.when(sf.abs(double) < float("inf"), double + sf.lit(0.0))
    return replace(found, members=kept, element=of_scalar, numeric=numeric)


def scalars(leaf: Column, kind: Column, double: Column) -> TypedColumns:
    """`reading` without lists. A number beyond the range of doubles is not a number."""
    broken = sf.when((kind != "BIGINT") & (sf.abs(double) < float("inf")), double)
    numbers = of_double(broken)
    assert numbers.whole is not None
    return TypedColumns(
        whole=sf.coalesce(sf.when(kind == "BIGINT", sf.try_variant_get(leaf, "$", "bigint")), numbers.whole),
        real=numbers.real,
        text=sf.when(kind == "STRING", sf.try_variant_get(leaf, "$", "string")),
        flag=sf.when(kind == "BOOLEAN", sf.try_variant_get(leaf, "$", "boolean")),
    )


def scalars_of(leaf: Column) -> TypedColumns:
    """`scalars` of a variant that is no column, as a list's element."""
    kind = kind_of(leaf)
    return scalars(leaf, kind, double_of(leaf, kind))


_END: Final = "\u2063penstock end of payload\u2063"
"""Marker element behind a payload: Spark's JSON parser ignores anything after the first value."""

_NUMBER: Final = (
    r"\A[ \t\n\x0B\f\r]*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t\n\x0B\f\r]*\z"
)


def format_of(content_type: Column | None, given: PayloadFormat) -> Column:
    """Payload format of each row: that of its content type, else the policy's."""
    if content_type is None:
        return sf.lit(given.value)
    plain = sf.lower(sf.trim(sf.substring_index(content_type, ";", 1)))
    # Nearly all rows end with the first three: names as they are usually written, and none.
    found = sf.when(content_type.isNull() | (content_type == ""), sf.lit(given.value))
    for name, known in CONTENT_TYPES.items():
        found = found.when(content_type == name, sf.lit(known.value))
    found = found.when(plain.endswith("+json"), sf.lit(PayloadFormat.JSON.value))
    for name, known in CONTENT_TYPES.items():
        found = found.when(plain == name, sf.lit(known.value))
    return found.otherwise(sf.lit(given.value))


def as_text(payload: Column) -> Column:
    """Payload as text; null if it is not text, or too long."""
    text = sf.try_validate_utf8(payload.cast("string"))
    return sf.when(sf.octet_length(payload) <= limits.DECODE_BYTES, text)


def readable(text: Column, form: Column) -> Column:
    """Whether a payload is to be read as JSON."""
    return (form == PayloadFormat.JSON.value) | ((form == PayloadFormat.AUTO.value) & _maybe_json(text))


def wrapped(text: Column, form: Column) -> Column:
    """The text as a variant, in a list with a marker; null if it is not to be read as JSON."""
    return sf.when(
        readable(text, form), sf.try_parse_json(sf.concat(sf.lit("["), text, sf.lit(f',"{_END}"]')))
    )


def in_wrapped(json: Column, segments: Sequence[str] = ()) -> Column:
    """The variant at the end of a path into `wrapped`; null if the text was not JSON to its end.

    Not by way of the whole payload: Spark would write all of it anew to take one number from it.
    """
    whole = sf.try_variant_get(json, "$[1]", "string") == _END
    if any(map(INDEX.fullmatch, segments)):
        return descend(sf.when(whole, sf.try_variant_get(json, "$[0]", "variant")), segments)
    path = "$[0]" + "".join(_key(segment)[1:] for segment in segments)
    return sf.when(whole, sf.try_variant_get(json, path, "variant"))


def as_plain(text: Column, form: Column, json: Column) -> TypedColumns:
    """A payload that is not JSON: a number, else a text."""
    plain = (form == PayloadFormat.TEXT.value) | (
        (form == PayloadFormat.AUTO.value) & json.isNull() & _maybe_json(text)
    )
    is_number = text.rlike(_NUMBER)
    double = sf.when(plain & is_number, text.try_cast("double"))
    number = of_double(double)
    own = sf.when(plain & ~is_number, text)
    return TypedColumns(number.whole, number.real, own, numeric=double + sf.lit(0.0))


def _maybe_json(text: Column) -> Column:
    """False for texts that begin like a MessagePack map."""
    return ~sf.substring(sf.hex(sf.substring(text, 1, 1)), 1, 2).isin("DE", "DF")
