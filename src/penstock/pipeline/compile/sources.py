"""Finds a policy's attributes in a frame: in typed columns first, else inside the payload column.

    vitals.pulse    a column of that very name, else the field `pulse` of a column `vitals`, else the column
                    `payload`: inside it if that is a struct, a map or a variant, parsed if it is text
    $value          the column `payload` itself
    $topic, $sender the columns `topic`, `sender`
    $ts             the column `ts`: whole microseconds, or a timestamp
    $size           bytes of `payload` and characters of `topic`
    $prop.unit      the column `properties`: map<string, string>, or an array of (name, value) structs

`attributes` of a transform names other columns: `{"pulse": "heart_rate", "$ts": "event_time"}`; `$seq`
there names the column of sequence numbers, `$payload` and `$content_type` those of payloads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock import limits
from penstock.errors import InputError
from penstock.pipeline.compile import typed_columns
from penstock.pipeline.compile.typed_columns import INDEX, TypedColumns
from penstock.pipeline.compile.verdicts import column
from penstock.pipeline.tables.schemas import DIGEST

if TYPE_CHECKING:
    from pyspark.sql import Column

    from penstock.policy.nodes import PayloadFormat
    from penstock.policy.paths import Path

Attributes: TypeAlias = Mapping[str, str]
"""Columns by attribute, where they are not found by name."""

ENVELOPE: Final = ("topic", "ts", "seq", "sender", "properties", "payload", "content_type", "digest")
"""Columns about the event itself rather than its payload."""


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column, or something inside one, with its type."""

    make: Callable[[], Column]
    """Makes the column; a classic Spark cannot before a session is there."""
    kind: st.DataType
    name: str
    """Name for error messages."""

    @property
    def column(self) -> Column:
        """The column."""
        return self.make()


@dataclass(frozen=True, slots=True)
class Sources:
    """The columns of one frame by their meaning for a policy."""

    schema: st.StructType
    attributes: Attributes
    payload: PayloadFormat

    def find(self, name: str) -> FoundColumn | None:
        """A column by its exact name."""
        for field in self.schema:
            if field.name == name:
                return FoundColumn(partial(column, name), field.dataType, name)
        return None

    def envelope(self, pseudo: str) -> FoundColumn | None:
        """Column of a pseudo-attribute, by its given or usual name."""
        name = self.attributes.get(pseudo)
        found = self.find(name or pseudo.removeprefix("$"))
        if name is not None and found is None:
            raise self.missing(pseudo, name)
        return found

    def needed(self, pseudo: str) -> FoundColumn:
        """`envelope`, or InputError if there is no such column."""
        found = self.envelope(pseudo)
        if found is None:
            raise self.missing(pseudo, pseudo.removeprefix("$"))
        return found

    def missing(self, attribute: str, name: str) -> InputError:
        """Error for a missing column."""
        there = ", ".join(field.name for field in self.schema)
        return InputError(f"attribute '{attribute}': there is no column '{name}'; the columns are: {there}")

    def ts(self) -> Column:
        """Event time in microseconds."""
        found = self.needed("$ts")
        if isinstance(found.kind, st.TimestampType):
            return sf.unix_micros(found.column)
        if isinstance(found.kind, st.IntegralType):
            return found.column.cast("bigint")
        raise wrong("$ts", found, "whole microseconds or a timestamp")

    def seq(self) -> Column:
        """Sequence number; 0 if there is none, as on a node."""
        found = self.envelope("$seq")
        if found is None:
            return sf.lit(0).cast("bigint")
        if not isinstance(found.kind, st.IntegralType):
            raise wrong("$seq", found, "whole numbers")
        return sf.coalesce(found.column.cast("bigint"), sf.lit(0))

    def sender(self) -> Column:
        """Client id of the publisher; empty if there is none, as on a node."""
        found = self.envelope("$sender")
        return sf.lit("") if found is None else sf.coalesce(texts("$sender", found), sf.lit(""))

    def digest(self) -> Column | None:
        """Column of digests already in the frame, if any."""
        found = self.found_digest()
        return None if found is None else found.column

    def found_digest(self) -> FoundColumn | None:
        """`digest`, checked but not made yet."""
        found = self.envelope("$digest")
        if found is not None and _shape(found.kind) != _shape(DIGEST):
            raise wrong("$digest", found, "digests as `penstock.pipeline` makes them (schema DIGEST)")
        return found

    def typed(self, path: Path) -> FoundColumn | None:
        """The typed column of a path into the payload, if there is one."""
        given = self.attributes.get(path.text)
        if given is not None:
            found = self.find(given)
            if found is None:
                raise self.missing(path.text, given)
            return found
        whole = self.find(path.text)
        if whole is not None and (path.text not in ENVELOPE or self.envelope("$payload") is None):
            return whole
        top = self.find(path.segments[0]) if path.segments else self.envelope("$payload")
        if top is None:
            return self._in_payload(path)
        if path.segments and top.name in ENVELOPE and self.envelope("$payload") is not None:
            return None
        return None if not path.segments and is_text(top.kind) else inside(path.text, top, path.segments[1:])

    def _in_payload(self, path: Path) -> FoundColumn | None:
        """A path into a payload column that is a struct, a map or a variant."""
        found = self.envelope("$payload")
        if found is None or not isinstance(found.kind, st.StructType | st.MapType | st.VariantType):
            return None
        return inside(path.text, found, path.segments)

    def payload_text(self) -> FoundColumn:
        """The payload column, to be parsed."""
        found = self.needed("$payload")
        if not is_text(found.kind):
            raise wrong("$payload", found, "a string, binary, or a typed column for each attribute")
        return found


def inside(attribute: str, top: FoundColumn, segments: tuple[str, ...]) -> FoundColumn:
    """The column at the end of a path through structs, maps and arrays."""
    make, kind, name = top.make, top.kind, top.name
    for place, segment in enumerate(segments):
        if isinstance(kind, st.StructType):
            if segment not in kind.names:
                fields = ", ".join(kind.names)
                raise InputError(
                    f"attribute '{attribute}': column '{name}' has no field '{segment}'; it has: {fields}"
                )
            make, kind = partial(_field, make, segment), kind[segment].dataType
        elif isinstance(kind, st.MapType) and isinstance(kind.keyType, st.StringType):
            make, kind = partial(_value_of, make, segment), kind.valueType
        elif isinstance(kind, st.ArrayType) and INDEX.fullmatch(segment):
            make, kind = partial(_element, make, int(segment)), kind.elementType
        elif isinstance(kind, st.VariantType):
            return FoundColumn(partial(_inside_variant, make, segments[place:]), kind, name)
        else:
            raise wrong(attribute, FoundColumn(make, kind, name), f"something with '{segment}' inside")
        name = f"{name}.{segment}"
    return FoundColumn(make, kind, name)


def _field(make: Callable[[], Column], name: str) -> Column:
    return make().getField(name)


def _value_of(make: Callable[[], Column], key: str) -> Column:
    return sf.try_element_at(make(), sf.lit(key))


def _element(make: Callable[[], Column], place: int) -> Column:
    return sf.get(make(), place)


def _inside_variant(make: Callable[[], Column], segments: tuple[str, ...]) -> Column:
    return typed_columns.descend(make(), segments)


def wrong(attribute: str, found: FoundColumn, wanted: str) -> InputError:
    """Error for a column of the wrong type."""
    return InputError(
        f"attribute '{attribute}': column '{found.name}' is {found.kind.simpleString()}, expected {wanted}"
    )


def texts(attribute: str, found: FoundColumn) -> Column:
    """A column of texts."""
    if not isinstance(found.kind, st.StringType):
        raise wrong(attribute, found, "a string")
    return found.column


def typed_reading(attribute: str, found: FoundColumn) -> TypedColumns:
    """Typed columns of a column."""
    column, kind = found.column, found.kind
    if isinstance(kind, st.ArrayType):
        element, named = kind.elementType, f"{found.name}[]"

        def of_element(member: Column) -> TypedColumns:
            return _scalars(FoundColumn(lambda: member, element, named)) or TypedColumns()

        return TypedColumns(
            members=sf.when(sf.size(column) <= limits.LIST_VALUES, column), element=of_element
        )
    read = _scalars(found)
    if read is None:
        raise wrong(attribute, found, "a number, a string, a boolean, an array of these, or a variant")
    return read


def _scalars(found: FoundColumn) -> TypedColumns | None:
    """Typed columns of a column of scalars, else None."""
    column, kind = found.column, found.kind
    if isinstance(kind, st.IntegralType):
        return TypedColumns(whole=column.cast("bigint"))
    if isinstance(kind, st.DecimalType):
        return TypedColumns(real=column.cast("double") + sf.lit(0.0))
    if isinstance(kind, st.FractionalType):  # + 0.0 makes −0.0 and 0.0 equal for hashes too
        return TypedColumns(real=sf.when(~sf.isnan(column), column.cast("double") + sf.lit(0.0)))
    if isinstance(kind, st.StringType):
        return TypedColumns(text=column)
    if isinstance(kind, st.BooleanType):
        return TypedColumns(flag=column)
    if isinstance(kind, st.VariantType):
        return typed_columns.scalars_of(column)
    return TypedColumns() if isinstance(kind, st.NullType) else None


def is_plain_text(kind: st.DataType) -> bool:
    """Texts and bytes that are equal only if all their bytes are: no collation, no padding."""
    return isinstance(kind, st.BinaryType) or kind.simpleString() == "string"


def is_text(kind: st.DataType) -> bool:
    """Whether a payload of this type is to be parsed."""
    return isinstance(kind, st.StringType | st.BinaryType)


def _shape(kind: st.DataType) -> str:
    """A type without its nullability."""
    return kind.simpleString()


def property_of(sources: Sources, path: Path) -> Column:
    """Text of a user property: the first of its name, or its own column."""
    given = sources.attributes.get(path.text)
    if given is not None:
        found = sources.find(given)
        if found is None:
            raise sources.missing(path.text, given)
        return texts(path.text, found)
    found = sources.needed("$properties")
    kind, name = found.kind, path.segments[0]
    if isinstance(kind, st.MapType) and isinstance(kind.keyType, st.StringType):
        return sf.try_element_at(found.column, sf.lit(name)).cast("string")
    if isinstance(kind, st.ArrayType) and isinstance(kind.elementType, st.StructType):
        first, second = kind.elementType.names[:2]
        own = sf.filter(found.column, lambda pair: pair.getField(first) == name)
        return sf.get(own, 0).getField(second).cast("string")
    raise wrong(path.text, found, "map<string,string> or an array of (name, value) structs")
