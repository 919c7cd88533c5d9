"""The filters as values: each class is one filter, its fields are its parameters.

A filter *matches* some events of a queue; the verb of its step says whether those are dropped or kept. What
"matches" means is defined in `evaluate`; names, parameters and descriptions are here. `CATALOGUE` feeds the
parsers, the schema, `penstock filters` and the documentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeVar, dataclass_transform

from penstock.errors import PolicyError
from penstock.model.values import identity
from penstock.policy import params
from penstock.policy.params import param

if TYPE_CHECKING:
    from penstock.model.values import Scalar

C = TypeVar("C")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(param,))
def node(cls: type[C]) -> type[C]:
    """Class decorator: a frozen, slotted, keyword-only dataclass with the equality of `Filter`."""
    return dataclass(frozen=True, slots=True, kw_only=True, eq=False)(cls)


class Verb(Enum):
    """Says whether a step drops or keeps the events that its filter matches."""

    DROP = "drop"
    KEEP = "keep"


class Shape(Enum):
    """How much of the queue a filter must see to decide about one event."""

    PREDICATE = "event"
    """The event alone."""
    WINDOW = "queue"
    """Other events of the queue, kept or not."""
    SEQUENTIAL = "kept"
    """The events kept before it: decided one after the other."""


@node
class Filter:
    """Base class of all filters."""

    name: ClassVar[str]
    doc: ClassVar[str]
    """Which events match, in one line."""
    shape: ClassVar[Shape] = Shape.PREDICATE
    verb: ClassVar[Verb]
    """Verb if none is written: the paper's XML has no verbs."""
    reads: ClassVar[bool] = True
    """Whether it looks at the step's attribute."""
    in_paper: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Normalise every parameter; PolicyError names the wrong one."""
        for found in params.params_of(type(self)):
            raw = getattr(self, found.name)
            if raw is None and not found.required and found.default is None:
                continue
            try:
                object.__setattr__(self, found.name, found.kind.parse(raw))
            except PolicyError as error:
                raise error.inside(found.name) from None
        self.check()

    def _facts(self) -> tuple[object, ...]:
        """Key of equality: Python's own would take `eq: true` and `eq: 1` for equal."""
        return tuple(_exact(getattr(self, found.name)) for found in params.params_of(type(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and type(self) is type(other) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash((type(self), self._facts()))

    def says(self, attribute: str) -> str:
        """Condition under which an event matches, with this filter's parameters, as a clause for people."""
        raise AssertionError(f"{self.name} has no words for {attribute}")

    def check(self) -> None:
        """Raise PolicyError if the parameters contradict one another."""


# -- comparison ----------------------------------------------------------------------------------------------


@node
class _Order(Filter):
    verb: ClassVar[Verb] = Verb.KEEP
    words: ClassVar[str]
    value: float | str = param(params.ORDERED, "what to compare with")

    def says(self, attribute: str) -> str:
        return f"{attribute} is {self.words} {self.value!r}"


@node
class Gt(_Order):
    name: ClassVar[str] = "gt"
    doc: ClassVar[str] = "value > parameter"
    words: ClassVar[str] = "greater than"


@node
class Ge(_Order):
    name: ClassVar[str] = "ge"
    doc: ClassVar[str] = "value ≥ parameter"
    words: ClassVar[str] = "at least"


@node
class Lt(_Order):
    name: ClassVar[str] = "lt"
    doc: ClassVar[str] = "value < parameter"
    words: ClassVar[str] = "less than"


@node
class Le(_Order):
    name: ClassVar[str] = "le"
    doc: ClassVar[str] = "value ≤ parameter"
    words: ClassVar[str] = "at most"


@node
class Eq(Filter):
    name: ClassVar[str] = "eq"
    doc: ClassVar[str] = "value = parameter"
    verb: ClassVar[Verb] = Verb.KEEP
    value: Scalar = param(params.SCALAR, "what to compare with")

    def says(self, attribute: str) -> str:
        return f"{attribute} equals {self.value!r}"


@node
class Ne(Filter):
    name: ClassVar[str] = "ne"
    doc: ClassVar[str] = "value ≠ parameter"
    verb: ClassVar[Verb] = Verb.KEEP
    value: Scalar = param(params.SCALAR, "what to compare with")

    def says(self, attribute: str) -> str:
        return f"{attribute} differs from {self.value!r}"


@node
class Match(Filter):
    name: ClassVar[str] = "match"
    doc: ClassVar[str] = "the text contains a match of the pattern (RE2, linear time)"
    verb: ClassVar[Verb] = Verb.DROP
    pattern: str = param(
        params.PATTERN, "RE2 regular expression; anchor with ^ and $", aliases=("value", "regex")
    )

    def says(self, attribute: str) -> str:
        return f"{attribute} matches /{self.pattern}/"


@node
class Within(Filter):
    name: ClassVar[str] = "within"
    doc: ClassVar[str] = "low ≤ value ≤ high"
    verb: ClassVar[Verb] = Verb.DROP
    low: float | str = param(params.ORDERED, "lower end, included")
    high: float | str = param(params.ORDERED, "upper end, included")

    def says(self, attribute: str) -> str:
        return f"{attribute} is between {self.low!r} and {self.high!r}"

    def check(self) -> None:
        if isinstance(self.low, str) is not isinstance(self.high, str):
            raise PolicyError(
                f"low and high must both be numbers or both be texts: {self.low!r}, {self.high!r}"
            )
        if self.low > self.high:  # type: ignore[operator]  # both of one kind, as just checked
            raise PolicyError(f"low {self.low!r} is above high {self.high!r}: nothing can match")


# -- sets ----------------------------------------------------------------------------------------------------


@node
class Inset(Filter):
    name: ClassVar[str] = "inset"
    doc: ClassVar[str] = "value ∈ values"
    verb: ClassVar[Verb] = Verb.DROP
    values: tuple[Scalar, ...] = param(params.SCALARS, "the set", aliases=("value", "set"))

    def says(self, attribute: str) -> str:
        return f"{attribute} is one of {_listed(self.values)}"


@node
class Contain(Filter):
    name: ClassVar[str] = "contain"
    doc: ClassVar[str] = "the list holds the value"
    verb: ClassVar[Verb] = Verb.DROP
    value: Scalar = param(params.SCALAR, "the member to look for")

    def says(self, attribute: str) -> str:
        return f"the list {attribute} contains {self.value!r}"


@node
class Subset(Filter):
    name: ClassVar[str] = "subset"
    doc: ClassVar[str] = "every member of the list ∈ values"
    verb: ClassVar[Verb] = Verb.DROP
    values: tuple[Scalar, ...] = param(params.SCALARS, "the larger set", aliases=("value", "set"))

    def says(self, attribute: str) -> str:
        return f"every member of the list {attribute} is one of {_listed(self.values)}"


@node
class Supset(Filter):
    name: ClassVar[str] = "supset"
    doc: ClassVar[str] = "the list holds every one of values"
    verb: ClassVar[Verb] = Verb.DROP
    values: tuple[Scalar, ...] = param(params.SCALARS, "the smaller set", aliases=("value", "set"))

    def says(self, attribute: str) -> str:
        return f"the list {attribute} contains all of {_listed(self.values)}"


@node
class _Edge(Filter):
    shape: ClassVar[Shape] = Shape.WINDOW
    verb: ClassVar[Verb] = Verb.KEEP
    values: tuple[Scalar, ...] | None = param(
        params.SCALARS, "the values in question; any value if omitted", default=None, aliases=("value", "set")
    )

    def says(self, attribute: str) -> str:
        among = f"is one of {_listed(self.values)}" if self.values else "can be read"
        return f"it is the {self.name} in the queue whose {attribute} {among} (others are untouched)"


@node
class First(_Edge):
    name: ClassVar[str] = "first"
    doc: ClassVar[str] = "the first event whose value ∈ values; events with other values are untouched"


@node
class Last(_Edge):
    name: ClassVar[str] = "last"
    doc: ClassVar[str] = "the last event whose value ∈ values; events with other values are untouched"


# -- repetition and change -----------------------------------------------------------------------------------


@node
class Uniq(Filter):
    name: ClassVar[str] = "uniq"
    doc: ClassVar[str] = "value equal to the previous event's"
    shape: ClassVar[Shape] = Shape.WINDOW
    verb: ClassVar[Verb] = Verb.DROP

    def says(self, attribute: str) -> str:
        return f"{attribute} equals that of the event before"


@node
class Guniq(Filter):
    name: ClassVar[str] = "guniq"
    doc: ClassVar[str] = "value equal to any earlier event's in the queue"
    shape: ClassVar[Shape] = Shape.WINDOW
    verb: ClassVar[Verb] = Verb.DROP

    def says(self, attribute: str) -> str:
        return f"{attribute} already stood in an earlier event of the queue"


@node
class Delta(Filter):
    name: ClassVar[str] = "delta"
    doc: ClassVar[str] = "|value − reference| < change (dead band)"
    shape: ClassVar[Shape] = Shape.SEQUENTIAL
    verb: ClassVar[Verb] = Verb.DROP
    change: float = param(params.POSITIVE, "smallest change worth an event")
    since: Literal["kept", "event"] = param(
        params.choice("kept", "event"),
        "reference: the last value not matched, or the previous event's",
        default="kept",
    )
    max_silence: float | None = param(
        params.POSITIVE, "seconds after which even an unchanged value is not matched", default=None
    )

    def says(self, attribute: str) -> str:
        since = "the last one kept" if self.since == "kept" else "the event before"
        unless = f", unless that is {self.max_silence} s ago or more" if self.max_silence else ""
        return f"{attribute} changed by less than {self.change} since {since}{unless}"


@node
class Swing(Filter):
    name: ClassVar[str] = "swing"
    doc: ClassVar[str] = "a straight line between its neighbours kept passes within deviation (swinging door)"
    shape: ClassVar[Shape] = Shape.SEQUENTIAL
    verb: ClassVar[Verb] = Verb.DROP
    in_paper: ClassVar[bool] = False
    deviation: float = param(params.POSITIVE, "largest error of the straight line")

    def says(self, attribute: str) -> str:
        return (
            f"{attribute} lies within {self.deviation} of a straight line between the events kept around it"
        )


# -- position, lot, time -------------------------------------------------------------------------------------


@node
class Latest(Filter):
    name: ClassVar[str] = "latest"
    doc: ClassVar[str] = "the newest n events (by event time, then place in the queue)"
    shape: ClassVar[Shape] = Shape.WINDOW
    verb: ClassVar[Verb] = Verb.KEEP
    reads: ClassVar[bool] = False
    n: int = param(params.COUNT, "how many", aliases=("window",))

    def says(self, attribute: str) -> str:  # noqa: ARG002
        return f"it is among the newest {self.n} of the queue"


@node
class LatestBy(Filter):
    name: ClassVar[str] = "latest_by"
    doc: ClassVar[str] = "the newest n events of each value of another attribute (conflation)"
    shape: ClassVar[Shape] = Shape.WINDOW
    verb: ClassVar[Verb] = Verb.KEEP
    reads: ClassVar[bool] = False
    in_paper: ClassVar[bool] = False
    by: str = param(params.PATH, "the attribute that is the key; $topic: last value per topic")
    n: int = param(params.COUNT, "how many per key", default=1)

    def says(self, attribute: str) -> str:  # noqa: ARG002
        return f"it is among the newest {self.n} of its {self.by}"


@node
class Every(Filter):
    name: ClassVar[str] = "every"
    doc: ClassVar[str] = "every n-th event of the queue"
    shape: ClassVar[Shape] = Shape.WINDOW
    verb: ClassVar[Verb] = Verb.KEEP
    reads: ClassVar[bool] = False
    n: int = param(params.COUNT, "one of how many", aliases=("window",))

    def says(self, attribute: str) -> str:  # noqa: ARG002
        return f"its place in the queue is a multiple of {self.n}"


@node
class Random(Filter):
    name: ClassVar[str] = "random"
    doc: ClassVar[str] = "a fraction of the events, by a hash of (seed, sender, seq)"
    verb: ClassVar[Verb] = Verb.DROP
    reads: ClassVar[bool] = False
    fraction: float = param(
        params.FRACTION, "the share that matches; 10% may be written", aliases=("percent",)
    )
    seed: int | None = param(
        params.SEED,
        "another seed, another lot; its number among the policy's random filters if omitted",
        default=None,
    )

    def says(self, attribute: str) -> str:  # noqa: ARG002
        return f"it is among the {100 * self.fraction:.4g} % drawn by lot (seed {self.seed or 0})"


@node
class Older(Filter):
    name: ClassVar[str] = "older"
    doc: ClassVar[str] = "age at packing time > seconds"
    verb: ClassVar[Verb] = Verb.DROP
    reads: ClassVar[bool] = False
    in_paper: ClassVar[bool] = False
    seconds: float = param(params.POSITIVE, "the age limit")

    def says(self, attribute: str) -> str:  # noqa: ARG002
        return f"it is older than {self.seconds} s when the queue is packed"


@node
class Throttle(Filter):
    name: ClassVar[str] = "throttle"
    doc: ClassVar[str] = "not the newest event of its interval (and key): what exceeds one per interval"
    shape: ClassVar[Shape] = Shape.WINDOW
    verb: ClassVar[Verb] = Verb.DROP
    reads: ClassVar[bool] = False
    in_paper: ClassVar[bool] = False
    seconds: float = param(params.POSITIVE, "length of the interval; intervals begin at multiples of it")
    by: str | None = param(params.PATH, "one per interval for each value of this attribute", default=None)

    def says(self, attribute: str) -> str:  # noqa: ARG002
        key = f" and {self.by}" if self.by else ""
        return f"a newer event of the same {self.seconds} s interval{key} waits in the queue"


@node
class Top(Filter):
    name: ClassVar[str] = "top"
    doc: ClassVar[str] = "among the n largest (or smallest) by an attribute; of equals the earlier"
    shape: ClassVar[Shape] = Shape.WINDOW
    verb: ClassVar[Verb] = Verb.KEEP
    in_paper: ClassVar[bool] = False
    n: int = param(params.COUNT, "how many")
    by: str | None = param(params.PATH, "the attribute to rank by; the step's own if omitted", default=None)
    order: Literal["largest", "smallest"] = param(
        params.choice("largest", "smallest"), "which end", default="largest"
    )

    def says(self, attribute: str) -> str:
        return f"it has one of the {self.n} {self.order} values of {self.by or attribute} in the queue"


CATALOGUE: Final[dict[str, type[Filter]]] = {
    node.name: node
    for node in (
        Gt, Ge, Eq, Ne, Lt, Le, Match, Within, Inset, Contain, Subset, Supset, First, Last, Uniq, Guniq,
        Delta, Latest, Every, Random, LatestBy, Older, Throttle, Swing, Top,
    )
}  # fmt: skip
"""Every filter by name, in the order of the documentation."""

PREDICATES: Final = tuple(
    name for name, kind in CATALOGUE.items() if kind.shape is Shape.PREDICATE and kind.reads
)
"""Filters that decide by the value of one event alone, at any time: `urgent` and `matters` are made of
them."""


def _exact(found: object) -> object:
    if isinstance(found, tuple):
        return tuple(_exact(member) for member in found)
    return identity(found) if isinstance(found, bool) else found


def _listed(found: tuple[Scalar, ...]) -> str:
    shown = ", ".join(repr(member) for member in found[:8])
    return shown + (f" … ({len(found)} in all)" if len(found) > 8 else "")
