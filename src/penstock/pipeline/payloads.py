"""Payload columns: JSON becomes a `variant`, anything else a plain number or text, as on a node.

MessagePack and CBOR cannot be read by Spark without a Python worker: such payloads have no attributes here,
and a policy keeps what it cannot read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from penstock import limits
from penstock.pipeline.readings import Reading, of_double
from penstock.policy.nodes import PayloadFormat
from penstock.policy.payload import CONTENT_TYPES

if TYPE_CHECKING:
    from pyspark.sql import Column

_END: Final = "\u2063penstock end of payload\u2063"
"""Spark's JSON parser ignores what follows the first value, so an element behind it must be found again."""

_NUMBER: Final = (
    r"\A[ \t\n\x0B\f\r]*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t\n\x0B\f\r]*\z"
)


def format_of(content_type: Column | None, given: PayloadFormat) -> Column:
    """The name of each row's payload format: what its content type names, else the policy's."""
    if content_type is None:
        return sf.lit(given.value)
    plain = sf.lower(sf.trim(sf.substring_index(content_type, ";", 1)))
    found = sf.when(plain.endswith("+json"), sf.lit(PayloadFormat.JSON.value))
    for name, known in CONTENT_TYPES.items():
        found = found.when(plain == name, sf.lit(known.value))
    return found.otherwise(sf.lit(given.value))


def as_text(payload: Column) -> Column:
    """A payload as text; null if it is none, or too long to be read."""
    text = sf.try_validate_utf8(payload.cast("string"))
    return sf.when(sf.octet_length(payload) <= limits.DECODE_BYTES, text)


def as_json(text: Column, form: Column) -> Column:
    """The text as a variant; null if it is no JSON, or should not be read as such."""
    wrapped = sf.try_parse_json(sf.concat(sf.lit("["), text, sf.lit(f',"{_END}"]')))
    whole = sf.try_variant_get(wrapped, "$[1]", "string") == _END
    readable = (form == PayloadFormat.JSON.value) | ((form == PayloadFormat.AUTO.value) & _maybe_json(text))
    return sf.when(readable & whole, sf.try_variant_get(wrapped, "$[0]", "variant"))


def as_plain(text: Column, form: Column, json: Column) -> Reading:
    """What is no JSON: a number, else a text."""
    plain = (form == PayloadFormat.TEXT.value) | (
        (form == PayloadFormat.AUTO.value) & json.isNull() & _maybe_json(text)
    )
    is_number = text.rlike(_NUMBER)
    number = of_double(sf.when(plain & is_number, text.try_cast("double")))
    return Reading(number.whole, number.real, sf.when(plain & ~is_number, text))


def _maybe_json(text: Column) -> Column:
    """Not a text that begins like a MessagePack map."""
    return ~sf.substring(sf.hex(sf.substring(text, 1, 1)), 1, 2).isin("DE", "DF")
