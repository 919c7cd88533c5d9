"""Attribute values: what counts as a value, and when two are equal; the same in every engine.

A value is a number, a text, a truth value, or a list of these. Null, NaN, maps, bytes and all other objects
of a payload are not values: they read as missing.

* Order and arithmetic are those of 64-bit floats (Spark's `double`).
* Identity is exact: 2⁵³ and 2⁵³+1 are two device ids, though equal as floats. `1` and `1.0` are the same
  number, `true` and `1` are not the same value.
* Text is ordered by code point, which is the byte order of UTF-8.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

from penstock import limits

Scalar: TypeAlias = bool | int | float | str
Value: TypeAlias = Scalar | tuple["Scalar | None", ...]

INT64_LEAST: Final = -(2**63)
INT64_MOST: Final = 2**63 - 1

# Keys under which truth values are compared and hashed, because Python has True == 1.
_TRUE: Final = ("true",)
_FALSE: Final = ("false",)

Identity: TypeAlias = int | float | str | tuple[str]


def scalar(raw: object) -> Scalar | None:
    """`raw` as a scalar, or None if it is not one."""
    kind = raw.__class__
    if kind is str or kind is bool:
        return raw  # type: ignore[return-value]  # the class was just compared
    if isinstance(raw, float):
        return raw if raw == raw else None  # noqa: PLR0124  # NaN is the value that differs from itself
    if isinstance(raw, int):
        return raw if INT64_LEAST <= raw <= INT64_MOST else _as_float(raw)
    if isinstance(raw, Decimal | Fraction):
        return _as_float(raw)
    return None


def value(raw: object) -> Value | None:
    """`raw` as a value (a scalar or a list), or None."""
    found = scalar(raw)
    if found is None and isinstance(raw, list | tuple | set | frozenset) and len(raw) <= limits.LIST_VALUES:
        return tuple(scalar(element) for element in raw)
    return found


def number(found: Value | None) -> float | None:
    """The value as a 64-bit float if it is a number, else None."""
    if isinstance(found, float):
        return found
    return float(found) if isinstance(found, int) and not isinstance(found, bool) else None


def text(found: Value | None) -> str | None:
    """The value if it is a text, else None."""
    return found if isinstance(found, str) else None


def order(found: float | str) -> Any:
    """Sort key of a number or text: itself, a number as a 64-bit float."""
    return found if isinstance(found, str) else float(found)


def identity(found: Scalar) -> Identity:
    """Hashable key of a scalar: two scalars are the same value exactly if their keys are equal."""
    if found is True:
        return _TRUE
    return _FALSE if found is False else found


def identities(found: tuple[Scalar | None, ...]) -> frozenset[Identity]:
    """Keys of the elements of a list; unreadable elements equal nothing and are left out."""
    return frozenset(identity(element) for element in found if element is not None)


def _as_float(raw: int | Decimal | Fraction) -> float | None:
    try:
        found = float(raw)
    except (OverflowError, ValueError):
        return None
    return found if found == found else None  # noqa: PLR0124
