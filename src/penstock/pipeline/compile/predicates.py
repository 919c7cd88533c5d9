"""Filters that need one event only, each compiled to a boolean column."""

from __future__ import annotations

from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as sf

from penstock.model.instant import to_us
from penstock.model.values import order
from penstock.pipeline.compile.java_regex import to_java
from penstock.pipeline.compile.typed_columns import either
from penstock.pipeline.compile.verdicts import Ground, Origin, by_columns
from penstock.policy import filters

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    from penstock.model.values import Scalar
    from penstock.pipeline.compile.typed_columns import TypedColumns

_COMPARE: Final[dict[type[filters.Filter], Callable[[Any, Any], Any]]] = {
    filters.Gt: gt,
    filters.Ge: ge,
    filters.Lt: lt,
    filters.Le: le,
}


def _ordered(ground: Ground, like: float | str) -> Column:
    """The attribute, null unless of the type of `like` (number or text)."""
    return ground.reading().texts() if isinstance(like, str) else ground.reading().number()


@by_columns(*_COMPARE)
def order_verdict(node: Any, ground: Ground) -> Column:
    found: Column = _COMPARE[type(node)](_ordered(ground, node.value), sf.lit(order(node.value)))
    return found


@by_columns(filters.Within)
def within_verdict(node: filters.Within, ground: Ground) -> Column:
    value = _ordered(ground, node.low)
    return (value >= sf.lit(order(node.low))) & (value <= sf.lit(order(node.high)))


def among(reading: TypedColumns, values: tuple[Scalar, ...]) -> Column:
    """Whether the value is one of `values`; null without a value."""
    return sf.when(reading.identity().isNotNull(), reading.one_of(values))


@by_columns(filters.Eq)
def eq_verdict(node: filters.Eq, ground: Ground) -> Column:
    return among(ground.reading(), (node.value,))


@by_columns(filters.Ne)
def ne_verdict(node: filters.Ne, ground: Ground) -> Column:
    return ~among(ground.reading(), (node.value,))


@by_columns(filters.Inset)
def inset_verdict(node: filters.Inset, ground: Ground) -> Column:
    return among(ground.reading(), node.values)


@by_columns(filters.Match)
def match_verdict(node: filters.Match, ground: Ground) -> Column:
    return ground.reading().texts().rlike(to_java(node.pattern))


def _lists(ground: Ground, test: Callable[[Column, Callable[[Column], TypedColumns]], Column]) -> Column:
    """A verdict about the elements of a list; null if the value is not a list."""
    reading = ground.reading()
    if reading.members is None or reading.element is None:
        return sf.lit(None).cast("boolean")
    return sf.when(reading.members.isNotNull(), test(reading.members, reading.element))


def _holds(members: Column, element: Callable[[Column], TypedColumns], value: Scalar) -> Column:
    return sf.exists(members, lambda member: element(member).one_of((value,)))


@by_columns(filters.Contain)
def contain_verdict(node: filters.Contain, ground: Ground) -> Column:
    return _lists(ground, lambda members, element: _holds(members, element, node.value))


@by_columns(filters.Subset)
def subset_verdict(node: filters.Subset, ground: Ground) -> Column:
    """Elements that are not scalars are left out, as on a node."""
    return _lists(
        ground,
        lambda members, element: sf.forall(
            members,
            lambda member: element(member).identity().isNull() | element(member).one_of(node.values),
        ),
    )


@by_columns(filters.Supset)
def supset_verdict(node: filters.Supset, ground: Ground) -> Column:
    return _lists(
        ground,
        lambda members, element: ~either(~_holds(members, element, value) for value in node.values),
    )


@by_columns(filters.Random)
def random_verdict(node: filters.Random, ground: Ground) -> Column:
    return lot(node.seed or 0, ground.queue.origin) < sf.lit(float(node.fraction))


def lot(seed: int, origin: Origin) -> Column:
    """The event's lot in [0, 1), equal to that on every node: decision 0003."""
    text = sf.concat_ws("|", sf.lit(str(seed)), origin.sender, origin.seq.cast("string"))
    return sf.shiftrightunsigned(sf.xxhash64(text), 11) / sf.lit(float(1 << 53))


@by_columns(filters.Older)
def older_verdict(node: filters.Older, ground: Ground) -> Column:
    return (ground.now_us - ground.queue.origin.ts) > sf.lit(to_us(node.seconds))
