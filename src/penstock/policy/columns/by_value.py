"""Deciders of filters that compare an event's value, or search its list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.model.values import identities, identity, order
from penstock.policy import filters
from penstock.policy.columns.deciders import Verdicts, View, bools, compiles, listed, ordered, step_column
from penstock.policy.params import regex

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.values import Identity, Scalar
    from penstock.policy.columns.deciders import Decider


@compiles(filters.Gt)
def _gt(node: filters.Gt) -> Decider:
    limit: Any = order(node.value)
    return ordered(limit, lambda numbers: numbers > limit, lambda text: text > limit)


@compiles(filters.Ge)
def _ge(node: filters.Ge) -> Decider:
    limit: Any = order(node.value)
    return ordered(limit, lambda numbers: numbers >= limit, lambda text: text >= limit)


@compiles(filters.Lt)
def _lt(node: filters.Lt) -> Decider:
    limit: Any = order(node.value)
    return ordered(limit, lambda numbers: numbers < limit, lambda text: text < limit)


@compiles(filters.Le)
def _le(node: filters.Le) -> Decider:
    limit: Any = order(node.value)
    return ordered(limit, lambda numbers: numbers <= limit, lambda text: text <= limit)


@compiles(filters.Within)
def _within(node: filters.Within) -> Decider:
    low: Any = order(node.low)
    high: Any = order(node.high)
    return ordered(
        low,
        lambda numbers: (numbers >= low) & (numbers <= high),
        lambda text: low <= text <= high,
    )


def _member(members: frozenset[Identity]) -> Decider:
    """Whether the value is one of `members`."""
    numbers = [member for member in members if isinstance(member, int | float)]
    in_array = all(abs(member) < 2**53 for member in numbers) and len(numbers) <= 8

    def decide(view: View) -> Verdicts:
        column = step_column(view)
        if in_array and column.plain_numbers():
            found = view.numbers(column)
            matched = np.zeros(len(found), dtype=np.bool_)
            for member in numbers:
                matched |= found == member
            return Verdicts(matched)
        return listed(view.listed(column.ids()), members.__contains__)

    return decide


@compiles(filters.Eq)
def _eq(node: filters.Eq) -> Decider:
    return _member(frozenset([identity(node.value)]))


@compiles(filters.Ne)
def _ne(node: filters.Ne) -> Decider:
    equal = _member(frozenset([identity(node.value)]))

    def decide(view: View) -> Verdicts:
        matched, readable, _ = equal(view)
        return Verdicts(~matched if readable is None else ~matched & readable, readable)

    return decide


@compiles(filters.Inset)
def _inset(node: filters.Inset) -> Decider:
    return _member(identities(node.values))


@compiles(filters.Match)
def _match(node: filters.Match) -> Decider:
    search = regex(node.pattern).search
    return lambda view: listed(view.listed(step_column(view).texts()), lambda text: search(text) is not None)


def _sets(test: Callable[[frozenset[Identity]], bool]) -> Decider:
    def decide(view: View) -> Verdicts:
        found = view.listed(step_column(view).values())
        return listed([identities(one) if isinstance(one, tuple) else None for one in found], test)

    return decide


@compiles(filters.Contain)
def _contain(node: filters.Contain) -> Decider:
    wanted = identity(node.value)
    return _sets(lambda members: wanted in members)


@compiles(filters.Subset)
def _subset(node: filters.Subset) -> Decider:
    return _sets(identities(node.values).issuperset)


@compiles(filters.Supset)
def _supset(node: filters.Supset) -> Decider:
    return _sets(identities(node.values).issubset)


def _edge(values: tuple[Scalar, ...] | None, end: int) -> Decider:
    members = None if values is None else identities(values)

    def decide(view: View) -> Verdicts:
        ids = view.listed(step_column(view).ids())
        scope = bools([one is not None and (members is None or one in members) for one in ids])
        matched = np.zeros(len(ids), dtype=np.bool_)
        places = np.flatnonzero(scope)
        if len(places):
            matched[places[end]] = True
        return Verdicts(matched, bools([one is not None for one in ids]) if None in ids else None, scope)

    return decide


@compiles(filters.First)
def _first(node: filters.First) -> Decider:
    return _edge(node.values, 0)


@compiles(filters.Last)
def _last(node: filters.Last) -> Decider:
    return _edge(node.values, -1)
