"""A policy as values: an attribute, digesters, and an ordered list of levels of filter steps.

Level n means every step of levels 1 … n, lowest first; each step runs over the whole queue before the next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from penstock import limits
from penstock.errors import PolicyError
from penstock.model.digest import Cause
from penstock.policy import digesters, params, paths
from penstock.policy.filters import PREDICATES, Random, Verb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.policy.filters import Filter


class Missing(Enum):
    """Says whether a filter keeps or drops an event whose attribute it cannot read."""

    KEEP = "keep"
    """The default: a policy never drops an event it cannot read."""
    DROP = "drop"


class PayloadFormat(Enum):
    """Encoding of payloads, for events whose content type does not name it."""

    AUTO = "auto"
    JSON = "json"
    MSGPACK = "msgpack"
    CBOR = "cbor"
    TEXT = "text"
    """A plain number, else text."""


@dataclass(frozen=True, slots=True)
class Step:
    """A filter with its verb: drop the events it matches, or keep only those."""

    verb: Verb
    filter: Filter
    attribute: str | None = None
    """Overrides the policy's attribute."""
    missing: Missing | None = None
    """Overrides the policy's rule for unreadable events."""

    def __post_init__(self) -> None:
        if self.attribute is not None:
            if not self.filter.reads:
                raise PolicyError(f"'{self.filter.name}' looks at no attribute", path="attribute")
            _checked_path(self.attribute)


Level: TypeAlias = tuple[Step, ...]
"""A chain of one or more steps."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A step with its place in the policy."""

    cause: Cause
    step: Step


@dataclass(frozen=True, slots=True)
class Policy:
    """A receiver's order of what may be lost: levels, the least valuable events first.

    `parse` reads a policy from a text, `penstock.policy.policy` builds one:

        from penstock.policy import drop, keep, policy

        ward = policy(drop.delta(5), keep.latest(10), attribute="pulse", digest=["mean"])

    Raises PolicyError if a level or a digester is wrong.
    """

    levels: tuple[Level, ...]
    attribute: str = paths.Source.PAYLOAD.value
    """Attribute of the steps that name none."""
    digest: tuple[tuple[str, str], ...] = ()
    """(attribute, digester) pairs; count and time span are always in a digest."""
    missing: Missing = Missing.KEEP
    payload: PayloadFormat = PayloadFormat.AUTO
    name: str = ""
    description: str = ""
    fresh_us: int | None = None
    """Time that no event should wait longer; None: a queue is bounded by its capacity only."""
    urgent: tuple[Step, ...] = ()
    """Predicates, as steps that keep: an event that one of them matches goes ahead of what waits, and is
    dropped last. An event that a predicate cannot read does not match it."""
    matters: tuple[Step, ...] = ()
    """Predicates of what matters to the receiver: `backtest` and `advise` measure how much of it arrives, and
    how late. They change nothing in a queue."""
    digest_every_us: int | None = None
    """How long digests are gathered before one is sent; None: a digest is sent in its place."""
    digest_share: float | None = None
    """Share of what the link carries that may go into digests; None: DIGEST_SHARE."""

    def __post_init__(self) -> None:
        _checked_path(self.attribute)
        _check_text("name", self.name)
        _check_text("description", self.description)
        _check_levels(self.levels)
        _check_fresh(self.fresh_us)
        _check_predicates(self.urgent, "urgent")
        _check_predicates(self.matters, "matters")
        _check_sending(self)
        object.__setattr__(self, "digest", _checked_digest(self.digest))
        object.__setattr__(self, "levels", _with_seeds(self.levels))

    @property
    def highest(self) -> int:
        """Number of the highest level."""
        return len(self.levels)

    def steps(self, level: int) -> Iterator[Placed]:
        """The steps that level `level` applies, in order."""
        for number, chain in enumerate(self.levels[:level], start=1):
            for position, step in enumerate(chain, start=1):
                yield Placed(Cause(level=number, position=position, filter=step.filter.name), step)

    def path_of(self, step: Step) -> paths.Path:
        """The attribute a step reads."""
        return paths.parse(step.attribute or self.attribute)

    def missing_of(self, step: Step) -> Missing:
        """Return whether a step keeps or drops events that it cannot read."""
        return step.missing or self.missing

    def asked(self) -> dict[str, tuple[str, ...]]:
        """Digesters by attribute, without COUNT."""
        found: dict[str, tuple[str, ...]] = {}
        for attribute, digester in self.digest:
            if digester != "count":
                found[attribute] = (*found.get(attribute, ()), digester)
        return found


def _checked_path(text: str) -> None:
    try:
        params.PATH.parse(text)
    except PolicyError as error:
        raise error.inside("attribute") from None


def _check_text(name: str, text: str) -> None:
    if len(text) > limits.TEXT_PARAMETER:
        raise PolicyError(f"expected a text of at most {limits.TEXT_PARAMETER} characters", path=name)
    try:
        params.check_characters(text)
    except PolicyError as error:
        raise error.inside(name) from None


def _check_levels(levels: tuple[Level, ...]) -> None:
    if not levels:
        raise PolicyError(
            "a policy needs at least one level, for example `- keep: {latest: 10}`", path="levels"
        )
    if len(levels) > limits.POLICY_LEVELS:
        raise PolicyError(f"{len(levels)} levels; at most {limits.POLICY_LEVELS}", path="levels")
    if not all(levels):
        raise PolicyError("a level needs at least one filter", path=f"levels[{levels.index(())}]")
    steps = sum(map(len, levels))
    if steps > limits.POLICY_FILTERS:
        raise PolicyError(f"{steps} filters; at most {limits.POLICY_FILTERS}", path="levels")


def _check_fresh(fresh_us: int | None) -> None:
    if fresh_us is not None:
        try:
            params.check_duration(fresh_us, shown=str(fresh_us))
        except PolicyError as error:
            raise error.inside("fresh") from None


def _check_sending(policy: Policy) -> None:
    """Check what `digest` says of when digests are sent."""
    settings = {EVERY: policy.digest_every_us, SHARE: policy.digest_share}
    try:
        if policy.digest_every_us is not None:
            params.check_duration(policy.digest_every_us, shown=str(policy.digest_every_us))
    except PolicyError as error:
        raise error.inside(EVERY).inside("digest") from None
    try:
        if policy.digest_share is not None:
            params.SHARE.parse(policy.digest_share)
    except PolicyError as error:
        raise error.inside(SHARE).inside("digest") from None
    for attribute, _ in policy.digest:
        if settings.get(attribute) is not None:
            raise PolicyError(
                f"'{attribute}' cannot be both a setting and an attribute with digesters", path="digest"
            )


EVERY, SHARE = "every", "share"
"""Keys of `digest` that are no attributes, unless a list of digesters follows them."""


def _check_predicates(steps: tuple[Step, ...], key: str) -> None:
    if len(steps) > limits.URGENT_PREDICATES:
        raise PolicyError(f"{len(steps)} predicates; at most {limits.URGENT_PREDICATES}", path=key)
    for place, step in enumerate(steps):
        name = step.filter.name
        if name not in PREDICATES:
            raise not_a_predicate(name).inside(f"{key}[{place}]")
        if step.verb is not Verb.KEEP or step.missing is not None:
            raise PolicyError(
                "a predicate has neither a verb nor `missing`",
                path=f"{key}[{place}]",
                allowed=f"when.{name}(…)",
            )


def not_a_predicate(name: str) -> PolicyError:
    """The error about a filter that cannot say of one event by its value whether it matches."""
    return PolicyError(
        f"'{name}' does not look at the value of one event alone: it is no predicate",
        allowed=", ".join(PREDICATES),
    )


def _checked_digest(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The pairs without repetition, grouped by attribute, else in the order written."""
    if len(pairs) > limits.DIGESTERS:
        raise PolicyError(f"{len(pairs)} digesters; at most {limits.DIGESTERS}", path="digest")
    for attribute, digester in pairs:
        if digester not in digesters.CATALOGUE:
            raise PolicyError(
                f"unknown digester '{digester}'", path="digest", allowed=", ".join(digesters.CATALOGUE)
            )
        try:
            params.PATH.parse(attribute)
        except PolicyError as error:
            raise error.inside("digest") from None
    first = {attribute: place for place, (attribute, _) in reversed(list(enumerate(pairs)))}
    return tuple(sorted(dict.fromkeys(pairs), key=lambda pair: first[pair[0]]))


def _with_seeds(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """Give each `random` without a seed its number among the policy's random filters as seed.

    With one seed for all, RANDOM 25 % would drop what RANDOM 10 % dropped already and a little more.
    Different seeds give the paper's 0.1 + 0.9 · 0.25.
    """
    numbers = count()

    def seeded(step: Step) -> Step:
        if not isinstance(step.filter, Random):
            return step
        number = next(numbers)
        return (
            step if step.filter.seed is not None else replace(step, filter=replace(step.filter, seed=number))
        )

    return tuple(tuple(seeded(step) for step in chain) for chain in levels)


def read_by(policy: Policy, steps: Iterable[Placed] | None = None) -> Iterator[str]:
    """Attributes that some steps of a policy, or all and what is urgent, and its digesters read."""
    if steps is None:
        yield from (policy.path_of(step).text for step in policy.urgent)
    for placed in policy.steps(policy.highest) if steps is None else steps:
        step = placed.step
        by = getattr(step.filter, "by", None)
        if by is not None:
            yield by
        elif step.filter.reads:
            yield policy.path_of(step).text
    yield from policy.asked()
