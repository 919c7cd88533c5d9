"""Variants of a proposed policy that say what is urgent and how long an event may wait, and the best of them.

What matters is what the receiver says, or else what lies outside the normal range of the part learned from.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.core.backtest.measures import FENCE, QUARTILES, normal_range
from penstock.core.backtest.settings import Candidate
from penstock.model.instant import SECOND_US, written
from penstock.pipeline.jobs.advise.levels import rounded
from penstock.pipeline.jobs.advise.profile import RANKS
from penstock.pipeline.jobs.advise.verdict import Figures
from penstock.policy.filters import Gt, Lt, Verb
from penstock.policy.nodes import Step
from penstock.policy.predicates import Predicate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.backtest.account import Account
    from penstock.core.queues import Drain
    from penstock.pipeline.jobs.advise.profile import Profile
    from penstock.policy.nodes import Policy

TIMES_S: Final = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600)
"""Times that people would write, to choose `fresh` from."""
_ITEMS: Final = 4
"""The shortest `fresh` that is tried: a queue of this many items."""
_PART: Final = 4
"""The longest `fresh` that is tried: this part of the wait behind a full queue."""
_ALIKE: Final = 1.1
"""Ages that differ by less are alike: then the variant that loses less is chosen."""
_POINT: Final = 0.01


def normal_ranges(profiles: Sequence[Profile]) -> dict[str, tuple[float, float]]:
    """Normal ranges of the numeric attributes in the part learned from."""
    low, high = (RANKS.index(rank) for rank in QUARTILES)
    return {
        one.name: normal_range(one.values[low], one.values[high])
        for one in profiles
        if one.numeric and one.values
    }


def unusual(normal: Mapping[str, tuple[float, float]]) -> tuple[Predicate, ...]:
    """Make predicates of what lies outside normal ranges, with numbers that people would write."""
    found: list[Predicate] = []
    for name, (low, high) in normal.items():
        found += [
            Predicate(Gt(value=rounded(high, 3)), name),
            Predicate(Lt(value=rounded(low, 3)), name),
        ]
    return tuple(found)


def times_us(drain: Drain, capacity: int, item_bytes: float) -> list[int]:
    """Bounds of the wait to try: between a few items and a good part of a full queue; at most three."""
    item_us = float(SECOND_US / drain.per_s) * (item_bytes if drain.in_bytes else 1)
    fitting = [
        round(time * SECOND_US)
        for time in TIMES_S
        if _ITEMS * item_us <= time * SECOND_US <= capacity * item_us / _PART
    ]
    return sorted({fitting[0], fitting[len(fitting) // 2], fitting[-1]}) if fitting else []


def variants(policy: Policy, matters: Sequence[Predicate], fresh_us: Sequence[int]) -> list[Candidate]:
    """The policy as it is, and with `urgent`, `fresh` or both."""
    steps = tuple(_step(one, policy) for one in matters)
    plain = replace(policy, matters=steps)
    found = [Candidate("levels only", plain)]
    if steps:
        found.append(Candidate("urgent", replace(plain, urgent=steps)))
    for time in fresh_us:
        found.append(Candidate(f"fresh {written(time)}", replace(plain, fresh_us=time)))
        if steps:
            both = replace(plain, urgent=steps, fresh_us=time)
            found.append(Candidate(f"urgent, fresh {written(time)}", both))
    return found


def _step(predicate: Predicate, policy: Policy) -> Step:
    attribute = None if predicate.attribute == policy.attribute else predicate.attribute
    return Step(Verb.KEEP, predicate.filter, attribute=attribute)


def best(tried: Mapping[str, Account]) -> str:
    """The variant that keeps most of what matters; of those alike, the one with the newest values; of those
    alike, the one that loses least.
    """
    figures = {name: Figures.of(account) for name, account in tried.items()}
    most = max(one.kept or 0.0 for one in figures.values())
    keeping = {name: one for name, one in figures.items() if (one.kept or 0.0) >= most - _POINT}
    newest = min(one.age_us or 0.0 for one in keeping.values())
    fresh = {name: one for name, one in keeping.items() if (one.age_us or 0.0) <= newest * _ALIKE}
    return min(fresh, key=lambda name: fresh[name].loss)


def reasons(policy: Policy, learned: Account, *, declared: bool) -> list[str]:
    """Why what is urgent is urgent, and why that `fresh` was chosen, in sentences."""
    found: list[str] = []
    whose = "you said that it matters" if declared else f"more than {FENCE:g} interquartile ranges off"
    for name, own in learned.matters.items():
        if own.kept.n:
            share = own.kept.n / learned.accepted
            role = "matters, and is urgent" if policy.urgent else "matters"
            found.append(f"{name} {role}: {100 * share:.2g} % of the events; {whose}")
    if policy.fresh_us is not None:
        found.append(
            f"fresh {written(policy.fresh_us)}: of the times tried on the part learned from it keeps most of "
            "what matters, and the newest values"
        )
    return found
