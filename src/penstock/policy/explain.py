"""Explains a policy in plain words, level by level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import counted
from penstock.model.instant import duration
from penstock.policy import params
from penstock.policy.filters import Verb
from penstock.policy.nodes import Missing, PayloadFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.policy.nodes import Policy, Step


def explain(policy: Policy) -> list[str]:
    """Describe a policy in plain words.

        for sentence in explain(parse("levels: [{keep: {latest: 10}}]")):
            print(sentence)

    Returns sentences, one for each line: the levels, what is digested, the worst case.
    """
    return [
        *_opening(policy),
        *_fresh(policy),
        *_urgent(policy),
        *_matters(policy),
        *_levels(policy),
        *_unreadable(policy),
        _digests(policy),
        *_sending(policy),
        _worst_case(policy),
    ]


def looks(step: Step) -> bool:
    """Whether a step reads an attribute, which may then be unreadable."""
    found = step.filter
    keys = (param.name for param in params.params_of(type(found)) if param.kind is params.PATH)
    return found.reads or any(getattr(found, key) is not None for key in keys)


def _opening(policy: Policy) -> Iterator[str]:
    name = f"Policy {policy.name!r}" if policy.name else "This policy"
    yield f"{name} has {counted(policy.highest, 'level')}; a level applies all levels below it first."
    if policy.description:
        yield policy.description
    if policy.payload is not PayloadFormat.AUTO:
        yield f"Payloads are read as {policy.payload.value}, unless an event says otherwise."


def _fresh(policy: Policy) -> Iterator[str]:
    if policy.fresh_us is not None:
        yield (
            f"No event should wait longer than {duration(policy.fresh_us)}: before one would, the queue is "
            "packed at the lowest level that suffices. How long events wait follows from the pace of the "
            "receiver, or from a `drain`; where neither is known, `fresh` has no effect."
        )


def _urgent(policy: Policy) -> Iterator[str]:
    if policy.urgent:
        ways = " or ".join(step.filter.says(policy.path_of(step).text) for step in policy.urgent)
        yield (
            f"An event is urgent if {ways}: it goes ahead of what waits, and no level drops it. The order "
            "among urgent events, and among all others, stays."
        )


def _matters(policy: Policy) -> Iterator[str]:
    if policy.matters:
        ways = " or ".join(step.filter.says(policy.path_of(step).text) for step in policy.matters)
        yield f"An event matters if {ways}: a backtest shows how many of these arrive, and how late."


def _levels(policy: Policy) -> Iterator[str]:
    for number, chain in enumerate(policy.levels, start=1):
        also = "also " if number > 1 else ""
        steps = [_step(policy, step) for step in chain]
        yield f"Level {number} {also}drops an event {', and then an event '.join(steps)}."


def _step(policy: Policy, step: Step) -> str:
    condition = "if" if step.verb is Verb.DROP else "unless"
    unlike = looks(step) and policy.missing_of(step) is not policy.missing
    unread = f" ({_fate(policy.missing_of(step))} if that cannot be read)" if unlike else ""
    return f"{condition} {step.filter.says(policy.path_of(step).text)}{unread}"


def _fate(missing: Missing) -> str:
    return "kept" if missing is Missing.KEEP else "dropped"


def _unreadable(policy: Policy) -> Iterator[str]:
    if any(looks(placed.step) for placed in policy.steps(policy.highest)):
        yield f"An event whose attribute a filter cannot read is {_fate(policy.missing)} by that filter."


def _digests(policy: Policy) -> str:
    told = "how many they were and from when to when"
    asked = (f"; of {attribute} also {_listed(names)}" for attribute, names in policy.asked().items())
    return f"A digest replaces dropped events and states {told}{''.join(asked)}."


def _sending(policy: Policy) -> Iterator[str]:
    if policy.digest_every_us is not None:
        yield (
            f"Digests are gathered for {duration(policy.digest_every_us)} and sent as one, which may come "
            "behind later events."
        )
    if policy.digest_share is not None:
        yield (
            f"Digests take at most {policy.digest_share:.3g} of what the link carries; beyond that they are "
            "gathered, too."
            if policy.digest_share < 1
            else "Digests may take all that the link carries."
        )


def _worst_case(policy: Policy) -> str:
    what = "all waiting events"
    if policy.urgent:
        what = "all waiting events, the urgent ones last,"
    return f"If even level {policy.highest} frees too little, {what} are dropped into one digest."


def _listed(words: Iterable[str]) -> str:
    *rest, last = words
    return f"{', '.join(rest)} and {last}" if rest else last
