"""Warnings about a policy that is valid but surely not what its author intended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.model.instant import HOUR_US, duration
from penstock.policy import digesters, filters, paths
from penstock.policy.explain import looks
from penstock.policy.filters import Shape, Verb
from penstock.policy.paths import Source

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from penstock.policy.nodes import Placed, Policy, Step

_SURPRISING: Final[dict[tuple[Verb, type[filters.Filter]], str]] = {
    (Verb.KEEP, filters.Uniq): "keeps only events that repeat the one before",
    (Verb.KEEP, filters.Guniq): "keeps only events that repeat an earlier one",
    (Verb.KEEP, filters.Delta): "keeps only events whose value hardly changed",
    (Verb.KEEP, filters.Swing): "keeps only events that lie on a straight line between others",
    (Verb.KEEP, filters.Older): "keeps only events that are too old",
    (Verb.KEEP, filters.Throttle): "keeps only what exceeds one event per interval",
    (Verb.DROP, filters.Latest): "drops the newest events and keeps the older ones",
    (Verb.DROP, filters.LatestBy): "drops the newest event of each key and keeps the older ones",
}

_LASTING: Final = {
    (Verb.DROP, filters.Guniq),
    (Verb.DROP, filters.Throttle),
    (Verb.KEEP, filters.First),
    (Verb.KEEP, filters.Last),
    (Verb.KEEP, filters.Latest),
    (Verb.KEEP, filters.LatestBy),
    (Verb.KEEP, filters.Top),
}
"""Filters, besides those that see one event alone, whose second run drops nothing: what they let through
once they let through again, even if other filters dropped events meanwhile.
"""

_WIDENING: Final[dict[tuple[Verb, type[filters.Filter]], str]] = {
    (Verb.KEEP, filters.Latest): "n",
    (Verb.KEEP, filters.LatestBy): "n",
    (Verb.KEEP, filters.Top): "n",
    (Verb.DROP, filters.Older): "seconds",
    (Verb.KEEP, filters.Random): "fraction",
}
"""The parameter whose larger value drops less: `latest: 20` has nothing to do after `latest: 10`."""

_NUMBERS: Final = (Source.TS, Source.SIZE)
_TEXTS: Final = (Source.TOPIC, Source.SENDER, Source.PROPERTY)
_LITTLE: Final = 0.01
"""A share of digests below it is a mistake: one digest for some 10 KB of events."""
_LATE_US: Final = HOUR_US
_WANT_NUMBERS: Final = (filters.Delta, filters.Swing, filters.Top)
_WANT_LISTS: Final = (filters.Contain, filters.Subset, filters.Supset)


def lint(policy: Policy, *, ordered: Collection[str] = ()) -> list[str]:
    """Look for mistakes in a valid policy.

    `ordered` are topics, or topic filters, that the policy is for and that are declared ordered: their
    events must not overtake one another.

        lint(parse("levels: [{drop: {latest: 10}}]"))  # it drops the newest events

    Returns warnings, each with its level; none is about style.
    """
    placed = list(policy.steps(policy.highest))
    found: list[str] = []
    for number, each in enumerate(placed):
        earlier = placed[:number]
        found += [f"{_place(policy, each)}: {warning}" for warning in _about(policy, each.step, earlier)]
    return [*found, *_about_urgent(policy, ordered), *_about_digest(policy)]


def unpaced(policy: Policy, *, reason: str, instead: str) -> str | None:
    """Warning that `fresh` has no effect where no receiver or drain has a pace; None without `fresh`."""
    if policy.fresh_us is None:
        return None
    return f"fresh: {duration(policy.fresh_us)} has no effect: {reason}; {instead}"


def _place(policy: Policy, placed: Placed) -> str:
    cause = placed.cause
    alone = len(policy.levels[cause.level - 1]) == 1
    return f"level {cause.level}" if alone else f"level {cause.level}, filter {cause.position}"


def _about(policy: Policy, step: Step, earlier: list[Placed]) -> Iterator[str]:
    yield from _surprising(step)
    yield from _constant(step)
    yield from _idle_missing(step)
    unreadable = list(_unreadable(policy, step))
    yield from unreadable
    if not unreadable:
        yield from _pointless(policy, step, earlier)


def _surprising(step: Step) -> Iterator[str]:
    says = _SURPRISING.get((step.verb, type(step.filter)))
    if says:
        other = Verb.DROP if step.verb is Verb.KEEP else Verb.KEEP
        yield f"`{step.verb.value}: {step.filter.name}` {says}; did you mean `{other.value}`?"


def _constant(step: Step) -> Iterator[str]:
    """Warn about a filter that matches every event it can read, or none."""
    match step.filter:
        case filters.Every(n=1) | filters.Random(fraction=1) | filters.Match(pattern=""):
            matches = "every"
        case filters.Random(fraction=0):
            matches = "no"
        case _:
            return
    fate = "all" if (matches == "every") is (step.verb is Verb.DROP) else "none"
    yield f"`{step.filter.name}` matches {matches} event it can read: the step drops {fate} of them"


def _idle_missing(step: Step) -> Iterator[str]:
    if step.missing is not None and not looks(step):
        yield f"`missing` has no meaning for `{step.filter.name}`, which looks at no attribute"


# -- attributes whose kind is known --------------------------------------------------------------------------


def _unreadable(policy: Policy, step: Step) -> Iterator[str]:
    """Warn about a filter that needs another kind of value than its attribute ever has."""
    found = step.filter
    by = found.by if isinstance(found, filters.Top) else None
    path = paths.parse(by) if by else policy.path_of(step)
    if not found.reads or path.source is Source.PAYLOAD:
        return
    is_number = path.source in _NUMBERS
    kind = "a number" if is_number else "a text"
    wanted = _wanted(found)
    if wanted and wanted != kind:
        yield f"{path} is always {kind}, `{found.name}` here reads only {wanted}: it decides about no event"


def _wanted(found: filters.Filter) -> str:
    """Kind of value a filter reads; empty if several."""
    if isinstance(found, _WANT_NUMBERS):
        return "a number"
    if isinstance(found, _WANT_LISTS):
        return "a list"
    if isinstance(found, filters.Match):
        return "a text"
    if isinstance(found, filters.Gt | filters.Ge | filters.Lt | filters.Le):
        return "a text" if isinstance(found.value, str) else "a number"
    if isinstance(found, filters.Within):
        return "a text" if isinstance(found.low, str) else "a number"
    return ""


def _about_urgent(policy: Policy, ordered: Collection[str]) -> Iterator[str]:
    if policy.urgent and ordered:
        topics = ", ".join(sorted(ordered))
        yield f"urgent: its events overtake others of the same topic, but the order of {topics} is declared"
    for number, step in enumerate(policy.urgent, start=1):
        place = "urgent" if len(policy.urgent) == 1 else f"urgent, predicate {number}"
        for warning in (*_constant_urgent(step), *_unreadable(policy, step)):
            yield f"{place}: {warning}"
    for number, step in enumerate(policy.matters, start=1):
        place = "matters" if len(policy.matters) == 1 else f"matters, predicate {number}"
        for warning in _unreadable(policy, step):
            yield f"{place}: {warning}"


def _constant_urgent(step: Step) -> Iterator[str]:
    if isinstance(step.filter, filters.Match) and not step.filter.pattern:
        yield "`match` matches every event it can read: none goes ahead of the others"


def _about_digest(policy: Policy) -> Iterator[str]:
    if policy.digest_share is not None and policy.digest_share < _LITTLE:
        yield (
            f"digest: a share of {policy.digest_share:g} leaves hardly any digest while events wait: one for "
            f"every {round(100 / policy.digest_share):,} bytes"
        )
    if policy.digest_every_us is not None and policy.digest_every_us > _LATE_US:
        yield f"digest: gathered for {duration(policy.digest_every_us)}, a digest tells of losses long ago"
    for attribute, names in policy.asked().items():
        if paths.parse(attribute).source in _TEXTS:
            for name in names:
                if digesters.CATALOGUE[name].numeric:
                    yield f"digest: {attribute} is always a text, `{name}` is about numbers only"


# -- steps that an earlier one leaves nothing to do ----------------------------------------------------------


def _pointless(policy: Policy, step: Step, earlier: list[Placed]) -> Iterator[str]:
    for before in earlier:
        if _covers(policy, before.step, step):
            place = _place(policy, before)
            yield f"`{step.filter.name}` finds nothing left to drop: {place} has dropped it already"
            return


def _covers(policy: Policy, before: Step, step: Step) -> bool:
    """Whether `step` lets through everything that `before` let through."""
    if before.verb is not step.verb or type(before.filter) is not type(step.filter):
        return False
    if looks(step) and not _alike(policy, before, step):
        return False
    use = (step.verb, type(step.filter))
    lasting = step.filter.shape is Shape.PREDICATE or use in _LASTING
    widened = _WIDENING.get(use)
    if widened is None:
        return lasting and before.filter == step.filter
    ours, theirs = getattr(step.filter, widened), getattr(before.filter, widened)
    levelled: dict[str, Any] = {widened: theirs}
    return bool(ours >= theirs) and before.filter == replace(step.filter, **levelled)


def _alike(policy: Policy, before: Step, step: Step) -> bool:
    """Whether both read the same attribute and treat unreadable events alike."""
    same_attribute = not step.filter.reads or policy.path_of(before) == policy.path_of(step)
    return same_attribute and policy.missing_of(before) is policy.missing_of(step)
