"""Arbitrary valid policies: every filter with every parameter, every digester, every setting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import re2
from hypothesis import strategies as st

from penstock.model.values import INT64_LEAST, INT64_MOST
from penstock.policy import digesters, params
from penstock.policy.filters import CATALOGUE, PREDICATES, Filter, Verb, Within
from penstock.policy.nodes import Missing, PayloadFormat, Policy, Step
from penstock.policy.params import ParamKind, params_of

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from penstock.model.values import Scalar

TRICKY_TEXTS = (
    "", " ", "5", "-1.5", "1e3", "0x1F", "0o17", "1_000", "12:30:00", "2024-01-01", ".inf",
    "-.INF", ".nan", "NaN", "true", "False", "TRUE", "yes", "NO", "on", "off", "y", "n", "null",
    "Null", "~", "<<", "=", "- a", "a: b", "a #b", "#", "[", "{}", "a,b", ",", "'", '"', "''",
    '"a"', "\\", "\\n", "\\u0041", "%", "10%", "@a", "`", "!t", "&a", "*a", "|", ">", "?",
    "<b>", "&amp;", "]]>", "<!--", "--", "---", "...", "\n", "a\nb", "\r\n", "\t", " a", "a ",
    "  a  b  ", "\x00", "\x07", "\x1b[0m", "\x7f", "\x85", "\xa0", "\u2028", "\ufeff", "\ufffe",
    "\uffff", "Zoë", "脈拍", "é", "e\u0301", "🫀", "\U0010ffff", "$topic", "drop", "delta",
    "attribute", "{delta: 5}",
)  # fmt: skip
"""Texts that some form could take for something else."""

PATTERNS = (
    "",
    "^a",
    "b$",
    "[0-9]+",
    r"\d\.\d",
    "a|b",
    "(?i)info",
    r"^AP-\d{2}",
    "é+",
    r"\pL",
    "5",
    "true",
    " ",
)

ATTRIBUTES = (
    "pulse", "vitals.pulse", "readings.0.mv", '"a.b".c', '"say ""hi"""', "$value", "$topic",
    "$ts", "$size", "$sender", "$prop.unit", "$prop.a.b", "Zoë.脈拍", "5", "true", "null", "a b",
    " a", "x\ny", "\x01", "🫀", "-",
)  # fmt: skip


# Composites, not expressions: hypothesis prints a strategy when a test fails, and these are long.


@st.composite
def texts(draw: st.DrawFn, *, max_size: int = 12) -> str:
    """Texts of any characters, and those that some form could take for something else."""
    anything = st.text(st.characters(codec="utf-8"), max_size=max_size)
    return draw(st.sampled_from(TRICKY_TEXTS) | anything)


@st.composite
def attributes(draw: st.DrawFn) -> str:
    """Attribute paths: of the payload, quoted, and pseudo-attributes."""
    anything = texts().filter(bool).map(lambda name: '"' + name.replace('"', '""') + '"')
    return draw(st.sampled_from(ATTRIBUTES) | anything)


def numbers() -> SearchStrategy[int | float]:
    """Whole numbers of 64 bits and finite floats, small ones often."""
    return (
        st.integers(-3, 10)
        | st.sampled_from((0.0, -0.0, 0.1, 1.0, 1e16, 1e-7, 5e-324, 1.7976931348623157e308))
        | st.sampled_from((INT64_LEAST, INT64_MOST, 2**53, 2**53 + 1))
        | st.integers(INT64_LEAST, INT64_MOST)
        | st.floats(allow_nan=False, allow_infinity=False)
    )


def scalars() -> SearchStrategy[Scalar]:
    """Values that a filter may compare with."""
    return numbers() | texts() | st.booleans()


def arguments(
    kind: ParamKind, *, attribute: SearchStrategy[str], scalar: SearchStrategy[Scalar]
) -> SearchStrategy[Any]:
    """Values of one kind of parameter."""
    if "enum" in kind.schema:
        return st.sampled_from(kind.schema["enum"])
    ordered = scalar.filter(lambda found: not isinstance(found, bool))
    positive = st.integers(1, 20) | st.floats(0, 1e6, exclude_min=True) | st.sampled_from((5e-324, 1e308))
    return {
        params.POSITIVE.name: positive,
        params.COUNT.name: st.integers(1, 12) | st.just(INT64_MOST),
        params.FRACTION.name: st.floats(0, 1) | st.sampled_from((0, 1, 0.1, 0.25, 0.5)),
        params.SEED.name: st.integers(0, 3) | st.integers(INT64_LEAST, INT64_MOST),
        params.SCALAR.name: scalar,
        params.ORDERED.name: ordered,
        params.SCALARS.name: st.lists(scalar, min_size=1, max_size=5).map(tuple),
        params.PATTERN.name: st.sampled_from(PATTERNS) | texts().map(re2.escape),
        params.PATH.name: attribute,
    }[kind.name]


def filters(
    *, attribute: SearchStrategy[str] | None = None, scalar: SearchStrategy[Scalar] | None = None
) -> SearchStrategy[Filter]:
    """Any filter of the catalogue; optional parameters are there or not."""
    attribute = attributes() if attribute is None else attribute
    scalar = scalars() if scalar is None else scalar
    return st.one_of([_filter(kind, attribute=attribute, scalar=scalar) for kind in CATALOGUE.values()])


def _filter(
    kind: type[Filter], *, attribute: SearchStrategy[str], scalar: SearchStrategy[Scalar]
) -> SearchStrategy[Filter]:
    if kind is Within:
        end = arguments(params.ORDERED, attribute=attribute, scalar=scalar)
        return st.tuples(end, end).map(_within)
    declared = params_of(kind)
    made = {param.name: arguments(param.kind, attribute=attribute, scalar=scalar) for param in declared}
    required = {param.name: made[param.name] for param in declared if param.required}
    optional = {param.name: made[param.name] for param in declared if not param.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: kind(**given))


def _within(ends: tuple[Any, Any]) -> Within:
    one, other = ends
    if isinstance(one, str) is not isinstance(other, str):
        other = one
    return Within(low=min(one, other), high=max(one, other))


def steps(
    *, attribute: SearchStrategy[str] | None = None, scalar: SearchStrategy[Scalar] | None = None
) -> SearchStrategy[Step]:
    """Any filter under either verb, sometimes with its own attribute and `missing` rule."""
    chosen = attributes() if attribute is None else attribute
    return st.builds(
        _step,
        verb=st.sampled_from(Verb),
        found=filters(attribute=chosen, scalar=scalar),
        own=st.none() | chosen,
        missing=st.none() | st.sampled_from(Missing),
    )


def _step(verb: Verb, found: Filter, own: str | None, missing: Missing | None) -> Step:
    return Step(verb, found, own if found.reads else None, missing)


def policies(
    *,
    attribute: SearchStrategy[str] | None = None,
    scalar: SearchStrategy[Scalar] | None = None,
    max_levels: int = 4,
    max_chain: int = 3,
) -> SearchStrategy[Policy]:
    """Any policy; `attribute` and `scalar` narrow it to what a test's events hold."""
    chosen = attributes() if attribute is None else attribute
    chain = st.lists(steps(attribute=chosen, scalar=scalar), min_size=1, max_size=max_chain).map(tuple)
    pair = st.tuples(chosen, st.sampled_from(tuple(digesters.CATALOGUE)))
    return st.builds(
        Policy,
        levels=st.lists(chain, min_size=1, max_size=max_levels).map(tuple),
        attribute=st.just("$value") | chosen,
        digest=st.lists(pair, max_size=5).map(tuple),
        missing=st.sampled_from(Missing),
        payload=st.sampled_from(PayloadFormat),
        name=texts(),
        description=texts(max_size=40),
        fresh_us=st.none() | fresh(),
        digest_every_us=st.none() | fresh(),
        digest_share=st.none() | st.floats(0, 1, exclude_min=True),
        urgent=st.lists(predicates(attribute=chosen, scalar=scalar), max_size=3).map(tuple),
        matters=st.lists(predicates(attribute=chosen, scalar=scalar), max_size=3).map(tuple),
    )


def fresh() -> SearchStrategy[int]:
    """Bounds of waiting time in microseconds."""
    usual = st.sampled_from((1_000, 500_000, 1_000_000, 1_500_000, 90_000_000, 86_400_000_000))
    return usual | st.integers(1_000, 86_400_000_000)


def predicates(
    *, attribute: SearchStrategy[str] | None = None, scalar: SearchStrategy[Scalar] | None = None
) -> SearchStrategy[Step]:
    """Any predicate of `urgent`."""
    chosen = attributes() if attribute is None else attribute
    scalar = scalars() if scalar is None else scalar
    kinds = [_filter(CATALOGUE[name], attribute=chosen, scalar=scalar) for name in PREDICATES]
    return st.builds(Step, st.just(Verb.KEEP), st.one_of(kinds), st.none() | chosen)
