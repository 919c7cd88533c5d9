"""Predicates: questions about one event alone, such as `pulse > 120`, and which events of many they match.

A predicate is a step of a policy that keeps what its filter matches. On the command line it is written as a
comparison (`pulse > 120`, `state in [lost, late]`, `note matches ^err`), or as in a policy
(`{gt: 120, attribute: pulse}`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.errors import PolicyError
from penstock.policy import filters, paths
from penstock.policy.filters import Verb
from penstock.policy.nodes import PayloadFormat, Step, not_a_predicate
from penstock.policy.text.forms import parse
from penstock.policy.text.tree import untyped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.arrays import Mask
    from penstock.model.event import Event
    from penstock.policy.nodes import Policy

SIGNS: Final = {">": "gt", ">=": "ge", "<": "lt", "<=": "le", "=": "eq", "==": "eq", "!=": "ne"}
"""Comparisons by sign; in the other direction the first sign of a filter."""
WORDS: Final = {"in": "inset", "within": "within", "contains": "contain", "matches": "match"}
_WRITTEN: Final = {name: sign for sign, name in reversed({**SIGNS, **WORDS}.items())}
_PARTS: Final = re.compile(
    r"\s*(?P<path>.*?)\s*(?P<sign>>=|<=|!=|==|=|>|<|\b(?:in|within|contains|matches)\s)\s*(?P<value>.+?)\s*",
    re.DOTALL,
)
_EXAMPLE: Final = "for example 'pulse > 120', 'state in [lost, late]' or '{gt: 120, attribute: pulse}'"


@dataclass(frozen=True, slots=True)
class Predicate:
    """A step that asks about one event, with the attribute it reads. An event that cannot be read does not
    match."""

    filter: filters.Filter
    attribute: str
    payload: PayloadFormat = PayloadFormat.AUTO

    @property
    def text(self) -> str:
        """The predicate as a person would write it: `pulse > 120`."""
        node: Any = self.filter
        match node:
            case filters.Within():
                value: Any = [node.low, node.high]
            case filters.Inset():
                value = list(node.values)
            case filters.Match():
                value = node.pattern
            case _ if node.name in _WRITTEN:
                value = node.value
            case _:
                return str(node.says(self.attribute))
        return f"{self.attribute} {_WRITTEN[node.name]} {_shown(value)}"

    def matches(self, events: list[Event]) -> Mask:
        """Which events match."""
        from penstock.policy.columns.deciders import COMPILERS, View  # noqa: PLC0415  # needs numpy
        from penstock.policy.columns.frame import Column, Frame, raw_of  # noqa: PLC0415

        # A frame of these events would cache its own row on each of them, in the place of their policy's.
        column = Column(partial(raw_of, events, paths.parse(self.attribute), self.payload))
        nothing: Frame = None  # type: ignore[assignment]  # a predicate looks at its column only
        return COMPILERS[type(self.filter)](self.filter)(
            View(nothing, None, column, 0, careful=False)
        ).matched


def of_steps(steps: Sequence[Step], policy: Policy) -> list[Predicate]:
    """Predicates of a policy's steps."""
    return [Predicate(step.filter, policy.path_of(step).text, policy.payload) for step in steps]


def predicate(text: str, *, attribute: str | None = None) -> Predicate:
    """Parse a predicate; `attribute` is read where the text names none. PolicyError says what is wrong."""
    try:
        step = _in_words(text) if not text.lstrip().startswith("{") else _as_in_a_policy(text)
        if step.filter.name not in filters.PREDICATES:
            raise not_a_predicate(step.filter.name)
    except PolicyError as error:
        error.line = error.column = None
        raise error.of(text) from None
    name = step.attribute or attribute
    if name is None:
        raise PolicyError(f"it names no attribute, {_EXAMPLE}", source=text)
    return Predicate(step.filter, name)


def _as_in_a_policy(text: str) -> Step:
    try:
        found = parse(f"levels: [{{keep: {text}}}]")
    except PolicyError as error:
        error.path = error.path.removeprefix("levels[0].keep").lstrip(".")
        raise
    return found.levels[0][0]


def _in_words(text: str) -> Step:
    parts = _PARTS.fullmatch(text)
    if parts is None:
        allowed = " ".join((*SIGNS, *WORDS))
        raise PolicyError(f"no comparison was found, {_EXAMPLE}", allowed=allowed)
    sign = parts["sign"].strip()
    kind = filters.CATALOGUE[SIGNS.get(sign) or WORDS[sign]]
    value = _value(parts["value"])
    if kind is filters.Within:
        if not isinstance(value, list) or len(value) != 2:
            raise PolicyError(f"'within' takes two ends, as [50, 100], found {parts['value']}")
        given: dict[str, Any] = {"low": value[0], "high": value[1]}
    elif kind is filters.Inset:
        given = {"values": tuple(value) if isinstance(value, list) else (value,)}
    elif kind is filters.Match:
        given = {"pattern": parts["value"] if not isinstance(value, str) else value}
    else:
        given = {"value": value}
    return Step(Verb.KEEP, kind(**given), attribute=parts["path"] or None)


def _value(text: str) -> Any:
    """A JSON value, a list of bare words, or a bare word."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if text.startswith("[") and text.endswith("]"):
            return [untyped(word.strip().strip("'\"")) for word in text[1:-1].split(",")]
        return untyped(text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return (
        f"{value:g}"
        if isinstance(value, float)
        else str(value)
        if not isinstance(value, bool)
        else str(value).lower()
    )
