"""Chooses the levels of a policy from the profile of a stream, each with its reason; no Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor, isfinite, log10
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.model.event import Event
from penstock.pipeline.jobs.advise.profile import RANKS
from penstock.policy.nodes import Policy
from penstock.policy.text.python_form import drop, keep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.values import Scalar
    from penstock.pipeline.jobs.advise.profile import AdviceRequest, Profile, StreamShape
    from penstock.policy.nodes import Step
    from penstock.policy.predicates import Predicate

REPEATS: Final = 0.1
"""Share of repeated values from which on they get a level of their own: dropping them costs nothing."""
BANDS: Final = 10
"""Number of dead bands tried."""
MARGIN: Final = 0.93
"""Share of the budget aimed at on the part learned from: the rest may differ a little."""
OUTSIDE: Final = 0.2
"""Share of events outside the normal range, unless the budget asks for less."""
LEAST: Final = 0.01
"""A level must drop this share of what the levels below leave, otherwise it is left out."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A filter, and its reason."""

    step: Step
    reason: str


def rounded(value: float, digits: int = 2) -> float:
    """The value with few digits, as a person would write it."""
    if not value or not isfinite(value):
        return value
    return round(value, digits - 1 - floor(log10(abs(value))))


def bands(profile: Profile) -> list[float]:
    """Dead bands to try: quantiles of the value's own changes, rising.

    None is wider than the middle 70 % of the values: two standard deviations, were they normal.
    """
    if not profile.numeric or not profile.changes:
        return []
    widest = profile.values[RANKS.index(0.85)] - profile.values[RANKS.index(0.15)]
    found = sorted({rounded(change) for change in profile.changes if 0 < change <= widest})
    if not found:
        return []
    wider = (rounded(found[-1] * factor) for factor in (1.5, 2.25, 3.4))
    found += [one for one in wider if one <= widest]
    step = -(-len(found) // BANDS)
    return found[::-1][::step][::-1]


def is_mixed(shape: StreamShape) -> bool:
    """Whether a queue holds events of several sources."""
    return shape.sources > 1.5


def unchanged(profile: Profile, shape: StreamShape) -> Choice | None:
    """Drop adjacent repeats, if they are common."""
    if is_mixed(shape) or profile.repeats < REPEATS:
        return None
    return Choice(
        drop(attribute=profile.name).uniq(),
        f"{_share(profile.repeats)} of the events repeat the {profile.name} before them: "
        "dropping those loses nothing",
    )


def band(profile: Profile, tried: Sequence[tuple[float, float]], target: float) -> Choice | None:
    """The smallest of the bands tried that keeps no more than the target; else the widest.

    `tried` are (band, share kept), rising in band.
    """
    if not tried:
        return None
    width, kept = next(((width, kept) for width, kept in tried if kept <= target), tried[-1])
    below = sum(change < width for change in profile.changes)
    share = RANKS[min(below, len(RANKS)) - 1] if below else 0.0
    return Choice(
        drop(attribute=profile.name).delta(width),
        f"{_share(share)} of the changes of {profile.name} are smaller than {width:g}; "
        f"this dead band keeps {_share(kept)} of the events",
    )


def normal(profile: Profile, low: float, high: float, share: float) -> Choice:
    """Drop the normal range: the middle of the events left."""
    return Choice(
        drop(attribute=profile.name).within(rounded(low, 3), rounded(high, 3)),
        f"{_share(share)} of what is left lies between {rounded(low, 3):g} and {rounded(high, 3):g}: "
        f"the normal range of {profile.name}",
    )


def usual(profile: Profile, target: float, matters: Sequence[Predicate] = ()) -> Choice | None:
    """Drop the most common values of a text, as long as rarer ones remain; none that matters."""
    taken: list[bool | int | float | str] = []
    covered = 0.0
    common = _indifferent(profile, matters)
    if len(common) == len(profile.common) < 3:
        common = common[:-1]
    for value, share in common:
        if covered >= 1 - target or covered + share > 0.995:
            break
        taken.append(value)
        covered += share
    if not taken or covered < REPEATS:
        return None
    shown = ", ".join(repr(value) for value in taken[:4]) + (" …" if len(taken) > 4 else "")
    return Choice(
        drop(attribute=profile.name).inset(*taken),
        f"{_share(covered)} of the events have one of the usual values of {profile.name}: {shown}",
    )


def _indifferent(profile: Profile, matters: Sequence[Predicate]) -> list[tuple[Scalar, float]]:
    """The most frequent values that no predicate about this attribute matches, with their shares."""
    own = [replace(one, attribute="value") for one in matters if one.attribute == profile.name]
    if not own:
        return list(profile.common)
    events = [Event("", msgspec.json.encode({"value": value}), ts_us=0) for value, _ in profile.common]
    masks = [one.matches(events) for one in own]
    return [each for place, each in enumerate(profile.common) if not any(mask[place] for mask in masks)]


def conflation(shape: StreamShape, asked: AdviceRequest, target: float) -> Choice | None:
    """Keep the newest events of each source, if a queue holds several."""
    if not is_mixed(shape):
        return None
    several = {name: distinct for name, distinct in shape.by.items() if distinct > 1.5}
    if not several:
        return None
    fitting = [name for name, distinct in several.items() if distinct <= target * shape.block]
    by = fitting[0] if fitting else min(several, key=lambda name: several[name])
    n = max(1, int(target * shape.block / several[by]))
    newest = "the newest event" if n == 1 else f"the newest {n} events"
    return Choice(
        keep.latest_by(by, n=n),
        f"a queue of {asked.capacity:,} holds about {several[by]:,.0f} different {by}: "
        f"{newest} of each {'is' if n == 1 else 'are'} what a receiver would look at",
    )


def last_resort(asked: AdviceRequest) -> Choice | None:
    """Keep the newest events regardless of content: meets any budget of at least one event."""
    n = int(asked.budget * asked.capacity)
    if n < 1:
        return None
    return Choice(
        keep.latest(n),
        f"when all else keeps more than {_share(asked.budget)}: the newest {n:,} of {asked.capacity:,}",
    )


def policy(levels: Sequence[Sequence[Choice]], asked: AdviceRequest, numeric: Sequence[str]) -> Policy:
    """The policy of these levels."""
    digest = [
        (name, digester)
        for name in asked.attributes
        for digester in (("mean", "min", "max", "stddev") if name in numeric else ("last", "distinct"))
    ]
    return Policy(
        levels=tuple(tuple(_plain(choice.step, asked) for choice in level) for level in levels),
        attribute=asked.attributes[0],
        digest=tuple(digest),
        name="advised",
        description=f"Proposed for a budget of {_share(asked.budget)} of the events.",
    )


def _plain(step: Step, asked: AdviceRequest) -> Step:
    """The step without an attribute that equals the policy's."""
    return replace(step, attribute=None) if step.attribute == asked.attributes[0] else step


def _share(found: float) -> str:
    return f"{100 * found:.0f} %" if found >= 0.1 else f"{100 * found:.1f} %"
