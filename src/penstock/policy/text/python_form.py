"""Policies in Python: the builder, in the shape of the YAML form, and a policy as Python source.

    policy(
        drop.delta(5),
        [drop.uniq(), drop(attribute="spo2").within(95, 100)],
        keep.latest(10),
        attribute="pulse",
        digest=["count", "mean"],
        fresh="1s",
        urgent=when.gt(120),
    )

Each positional argument is a level: a step, or a list of steps. `when` makes predicates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from penstock.errors import PolicyError
from penstock.policy import filters
from penstock.policy.filters import Verb
from penstock.policy.nodes import Missing, PayloadFormat, Policy, Step
from penstock.policy.params import DURATION, params_of, shown
from penstock.policy.paths import Source
from penstock.policy.text.from_tree import SETTINGS
from penstock.policy.text.short_form import said_of, short_form, spoken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from enum import Enum

    from penstock.model.values import Scalar

E = TypeVar("E", bound="Enum")

DigesterName: TypeAlias = Literal[
    "count", "sum", "mean", "min", "max", "first", "last", "stddev", "distinct", "quantiles"
]
MissingName: TypeAlias = Literal["keep", "drop"]
PayloadName: TypeAlias = Literal["auto", "json", "msgpack", "cbor", "text"]


def policy(  # noqa: PLR0913  # the keys of the language
    *levels: Step | Sequence[Step],
    attribute: str = Source.PAYLOAD.value,
    digest: Sequence[DigesterName] | Mapping[str, Sequence[DigesterName] | str | float] = (),
    missing: MissingName = "keep",
    payload: PayloadName = "auto",
    name: str = "",
    description: str = "",
    fresh: str | float | None = None,
    urgent: Step | Sequence[Step] = (),
    matters: Step | Sequence[Step] = (),
) -> Policy:
    """Build a policy of these levels.

    `digest` lists digesters of the policy's attribute, or by attribute; in a mapping `every` and `share` say
    how digests are sent: {"pulse": ["mean"], "every": "1s", "share": 0.1}. `fresh` is the time that no event
    should wait longer, as a text like 1s or in seconds. `urgent` is a predicate, as `when.gt(120)`, or
    several, and so is `matters`.
    """
    given = dict(digest) if isinstance(digest, Mapping) else {attribute: digest}
    settings = {
        word: given.pop(word) for word in SETTINGS if isinstance(given.get(word, ()), str | int | float)
    }
    return Policy(
        levels=tuple((level,) if isinstance(level, Step) else tuple(level) for level in levels),
        attribute=attribute,
        digest=tuple((about, digester) for about, names in given.items() for digester in _digesters(names)),
        missing=_choice(Missing, "missing", missing),
        payload=_choice(PayloadFormat, "payload", payload),
        name=name,
        description=description,
        fresh_us=None if fresh is None else _fresh(fresh),
        urgent=_predicates(urgent, "urgent"),
        matters=_predicates(matters, "matters"),
        **dict(_setting(word, value) for word, value in settings.items()),
    )


def _setting(word: str, value: object) -> tuple[str, Any]:
    field, kind = SETTINGS[word]
    try:
        return field, kind.parse(value)
    except PolicyError as error:
        raise error.inside(word).inside("digest") from None


def _digesters(names: object) -> tuple[DigesterName, ...]:
    if not isinstance(names, list | tuple):
        raise PolicyError(f"expected a list of digesters, found {shown(names)}", path="digest")
    return tuple(names)


def _fresh(written: str | float) -> int:
    try:
        found: int = DURATION.parse(written)
    except PolicyError as error:
        raise error.inside("fresh") from None
    return found


def _predicates(given: object, key: str) -> tuple[Step, ...]:
    if isinstance(given, Step):
        return (given,)
    if not isinstance(given, list | tuple):
        raise PolicyError(
            f"expected a predicate like when.gt(120), or several, found {shown(given)}", path=key
        )
    for place, step in enumerate(given):
        if not isinstance(step, Step):
            raise PolicyError(
                f"expected a predicate like when.gt(120), found {shown(step)}", path=f"{key}[{place}]"
            )
    return tuple(given)


def _choice(options: type[E], path: str, word: str) -> E:
    try:
        return options(word)
    except ValueError:
        allowed = ", ".join(option.value for option in options)
        raise PolicyError(f"found {shown(word)}", path=path, allowed=allowed) from None


@dataclass(frozen=True, slots=True)
class Steps:
    """Makes steps with one verb: a method for each filter, whose docstring says which events match."""

    verb: Verb
    attribute: str | None = None
    missing: Missing | None = None

    def __call__(self, *, attribute: str | None = None, missing: MissingName | None = None) -> Steps:
        """Steps with the same verb but another attribute or `missing` rule than the policy's."""
        return Steps(
            self.verb,
            self.attribute if attribute is None else attribute,
            self.missing if missing is None else _choice(Missing, "missing", missing),
        )

    def _step(self, kind: type[filters.Filter], **given: Any) -> Step:
        try:
            return Step(self.verb, kind(**given), attribute=self.attribute, missing=self.missing)
        except PolicyError as error:
            raise error.inside(kind.name).inside(self.verb.value) from None

    def gt(self, value: float | str) -> Step:
        """value > parameter."""
        return self._step(filters.Gt, value=value)

    def ge(self, value: float | str) -> Step:
        """value ≥ parameter."""
        return self._step(filters.Ge, value=value)

    def eq(self, value: Scalar) -> Step:
        """value = parameter."""
        return self._step(filters.Eq, value=value)

    def ne(self, value: Scalar) -> Step:
        """value ≠ parameter."""
        return self._step(filters.Ne, value=value)

    def lt(self, value: float | str) -> Step:
        """value < parameter."""
        return self._step(filters.Lt, value=value)

    def le(self, value: float | str) -> Step:
        """value ≤ parameter."""
        return self._step(filters.Le, value=value)

    def match(self, pattern: str) -> Step:
        """the text contains a match of the pattern (RE2, linear time)."""
        return self._step(filters.Match, pattern=pattern)

    def within(self, low: float | str, high: float | str) -> Step:
        """low ≤ value ≤ high."""
        return self._step(filters.Within, low=low, high=high)

    def inset(self, *values: Scalar) -> Step:
        """value ∈ values."""
        return self._step(filters.Inset, values=values)

    def contain(self, value: Scalar) -> Step:
        """the list holds the value."""
        return self._step(filters.Contain, value=value)

    def subset(self, *values: Scalar) -> Step:
        """every member of the list ∈ values."""
        return self._step(filters.Subset, values=values)

    def supset(self, *values: Scalar) -> Step:
        """the list holds every one of values."""
        return self._step(filters.Supset, values=values)

    def first(self, *values: Scalar) -> Step:
        """the first event whose value ∈ values; events with other values are untouched."""
        return self._step(filters.First, values=values or None)

    def last(self, *values: Scalar) -> Step:
        """the last event whose value ∈ values; events with other values are untouched."""
        return self._step(filters.Last, values=values or None)

    def uniq(self) -> Step:
        """value equal to the previous event's."""
        return self._step(filters.Uniq)

    def guniq(self) -> Step:
        """value equal to any earlier event's in the queue."""
        return self._step(filters.Guniq)

    def delta(
        self,
        change: float,
        *,
        since: Literal["kept", "event"] = "kept",
        max_silence: float | None = None,
    ) -> Step:
        """|value − reference| < change (dead band)."""
        return self._step(filters.Delta, change=change, since=since, max_silence=max_silence)

    def latest(self, n: int) -> Step:
        """the newest n events (by event time, then place in the queue)."""
        return self._step(filters.Latest, n=n)

    def every(self, n: int) -> Step:
        """every n-th event of the queue."""
        return self._step(filters.Every, n=n)

    def random(self, fraction: float, *, seed: int | None = None) -> Step:
        """a fraction of the events, by a hash of (seed, sender, seq)."""
        return self._step(filters.Random, fraction=fraction, seed=seed)

    def latest_by(self, by: str, *, n: int = 1) -> Step:
        """the newest n events of each value of another attribute (conflation)."""
        return self._step(filters.LatestBy, by=by, n=n)

    def older(self, seconds: float) -> Step:
        """age at packing time > seconds."""
        return self._step(filters.Older, seconds=seconds)

    def throttle(self, seconds: float, *, by: str | None = None) -> Step:
        """not the newest event of its interval (and key): what exceeds one per interval."""
        return self._step(filters.Throttle, seconds=seconds, by=by)

    def swing(self, deviation: float) -> Step:
        """a straight line between its neighbours kept passes within deviation (swinging door)."""
        return self._step(filters.Swing, deviation=deviation)

    def top(
        self, n: int, *, by: str | None = None, order: Literal["largest", "smallest"] = "largest"
    ) -> Step:
        """among the n largest (or smallest) by an attribute; of equals the earlier."""
        return self._step(filters.Top, n=n, by=by, order=order)


drop: Final = Steps(Verb.DROP)
"""Steps that drop the events their filter matches."""

keep: Final = Steps(Verb.KEEP)
"""Steps that keep only the events their filter matches."""


when: Final = Steps(Verb.KEEP)
"""Predicates for `urgent` and `matters`: `when.gt(120)`, `when(attribute="spo2").lt(90)`."""


def text_of(policy: Policy) -> str:
    """Python expression that builds the policy with `policy`, `drop`, `keep` and `when`."""
    said = {
        key: _literal(part)
        for key, part in short_form(policy).items()
        if key not in ("levels", "urgent", "matters")
    }
    for key, steps in (("urgent", policy.urgent), ("matters", policy.matters)):
        if steps:
            said[key] = _said_predicates(steps)
    arguments = [*_levels(policy), *(f"{key}={part}" for key, part in said.items())]
    return "policy(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")\n"


def _levels(policy: Policy) -> Iterator[str]:
    steps = spoken(policy)
    for chain in policy.levels:
        calls = [_call(*next(steps)) for _ in chain]
        yield calls[0] if len(calls) == 1 else f"[{', '.join(calls)}]"


def _said_predicates(steps: Sequence[Step]) -> str:
    calls = [_call(step, said_of(step.filter), maker="when") for step in steps]
    return calls[0] if len(calls) == 1 else f"[{', '.join(calls)}]"


def _call(step: Step, given: dict[str, Any], maker: str = "") -> str:
    beside = {"attribute": step.attribute, "missing": step.missing and step.missing.value}
    settings = [f"{word}={_literal(text)}" for word, text in beside.items() if text is not None]
    maker = (maker or step.verb.value) + (f"({', '.join(settings)})" if settings else "")
    written = (
        _argument(name, given[name], is_list=param.kind.is_list, required=param.required)
        for param in params_of(type(step.filter))
        if (name := param.name) in given
    )
    return f"{maker}.{step.filter.name}({', '.join(written)})"


def _argument(name: str, value: Any, *, is_list: bool, required: bool) -> str:
    if is_list:
        return ", ".join(map(_literal, value))
    return _literal(value) if required else f"{name}={_literal(value)}"


def _literal(part: Any) -> str:
    if isinstance(part, dict):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(each)}" for key, each in part.items()) + "}"
    if isinstance(part, list):
        return f"[{', '.join(map(_literal, part))}]"
    if isinstance(part, str) and not {'"', "'"} & set(part):
        return f'"{repr(part)[1:-1]}"'
    return repr(part)
