"""Whether a proposed policy is worth having: what the receiver gets with it and with the two baselines.

A proposal *beats* a baseline if none of three figures is worse and at least one is better:

    share kept of what matters              worse: by more than half a point   better: by a point or more
    time until half of it has arrived       worse: by more than 5 %            better: by 10 % or more
    median age of the newest value          worse: by more than 5 %            better: by 10 % or more

Differences below that come and go with the part of the stream that was held out. The time counts what is lost
as never arrived; otherwise a queue that drops what waits long would look fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import inf
from typing import TYPE_CHECKING, Final

from penstock.core.backtest.measures import Mattering
from penstock.model.instant import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.backtest.account import Account

_WORSE_POINTS: Final = 0.005
_BETTER_POINTS: Final = 0.01
_WORSE: Final = 1.05
_BETTER: Final = 0.9
_HALF: Final = (0.45, 0.55)


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a candidate by which it is judged: how much of what matters arrives, and how soon."""

    kept: float | None
    """Share kept of what matters, of all predicates together; None: nothing of it occurred."""
    half_us: float | None
    """Delay within which half of what matters has arrived; infinite if less than half arrives."""
    age_us: float | None
    """Median age of the newest value."""
    loss: float
    """Share of all events that are not delivered as such."""

    @classmethod
    def of(cls, account: Account) -> Figures:
        """The figures of an account."""
        together = reduce(Mattering.merge, account.matters.values(), Mattering())
        share = together.kept.share
        half = None if share is None else inf if share < 0.5 else together.delay.quantile(0.5 / share)
        return cls(share, half, account.age.quantile(0.5), account.loss)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of a proposal with its rivals."""

    beaten: tuple[str, ...]
    """Rivals that the proposal beats."""
    unbeaten: tuple[str, ...]
    """Rivals that it does not beat."""
    sentence: str

    @property
    def good(self) -> bool:
        """Whether the proposal beats every rival."""
        return not self.unbeaten


def beats(ours: Figures, theirs: Figures) -> bool:
    """Whether nothing is worse, and something is better."""
    better = False
    if ours.kept is not None and theirs.kept is not None:
        if ours.kept < theirs.kept - _WORSE_POINTS:
            return False
        better = ours.kept >= theirs.kept + _BETTER_POINTS
    for own, other in ((ours.half_us, theirs.half_us), (ours.age_us, theirs.age_us)):
        if own is None or other is None:
            continue  # nothing of it occurred
        if own > other * _WORSE:
            return False
        better = better or _sooner_than(own, other)
    return better


def _sooner_than(own: float, other: float) -> bool:
    return own < inf and own <= other * _BETTER


def verdict(ours: Account, rivals: Mapping[str, Account]) -> Verdict:
    """Compare a proposal with its rivals."""
    own, others = Figures.of(ours), {name: Figures.of(account) for name, account in rivals.items()}
    beaten = tuple(name for name, other in others.items() if beats(own, other))
    unbeaten = tuple(name for name in others if name not in beaten)
    what = " or ".join(name for name, found in ours.matters.items() if found.kept.n) or "what matters"
    if unbeaten:
        against = others[unbeaten[0]]
        said = "; ".join(_figures(own, against, what, unbeaten[0]))
        return Verdict(beaten, unbeaten, f"does not beat {' and '.join(unbeaten)}: {said}")
    gains = [*_kept(own, others, what), *_sooner(own, others)]
    best = min(other.loss for other in others.values())
    lost = f"{_share(own.loss)} of all events are lost as such instead of {_share(best)}"
    cost = f"costs: {lost}" if own.loss > best + _WORSE_POINTS else f"and it costs nothing: {lost}"
    return Verdict(beaten, unbeaten, f"{_joined(gains)}; {cost}")


def _joined(parts: Sequence[str]) -> str:
    *rest, last = parts
    return f"{', '.join(rest)} and {last}" if rest else last


def _kept(own: Figures, others: Mapping[str, Figures], what: str) -> list[str]:
    shares = {name: other.kept for name, other in others.items() if other.kept is not None}
    if own.kept is None or not shares:
        return []
    best = max(shares, key=lambda name: shares[name])
    ours, theirs = _share(own.kept), _share(shares[best])
    compared = f"as {best} does" if ours == theirs else f"instead of {theirs}"
    return [f"keeps {ours} of the events with {what} {compared}"]


def _sooner(own: Figures, others: Mapping[str, Figures]) -> list[str]:
    """Say what comes sooner than with any rival."""
    halves = [other.half_us for other in others.values() if other.half_us is not None]
    ages = [other.age_us for other in others.values() if other.age_us is not None]
    found: list[str] = []
    for name, mine, rivals in (
        ("the time until half of them have arrived", own.half_us, halves),
        ("the age of the newest value", own.age_us, ages),
    ):
        if mine is not None and rivals and _sooner_than(mine, min(rivals)):
            half = _HALF[0] <= mine / min(rivals) <= _HALF[1]
            times = f"{time_of(mine)} instead of {time_of(min(rivals))}"
            found.append(f"{'halves' if half else 'shortens'} {name} ({times})")
    return found


def _figures(own: Figures, other: Figures, what: str, name: str) -> Sequence[str]:
    told: list[str] = []
    if own.kept is not None and other.kept is not None:
        told.append(f"of the events with {what} it keeps {_share(own.kept)}, {name} {_share(other.kept)}")
    for about, mine, theirs in (
        ("half of them have arrived after", own.half_us, other.half_us),
        ("the median age of the newest value is", own.age_us, other.age_us),
    ):
        if mine is not None and theirs is not None:
            told.append(f"{about} {time_of(mine)} against {time_of(theirs)}")
    if not own.loss and not other.loss:
        told.append("nothing is lost with either: this link needs no policy")
    return told or ["there is nothing to compare"]


def time_of(found_us: float | None) -> str:
    """A time with its unit; – if there is none, "never" if it is infinite."""
    return "–" if found_us is None else "never" if found_us == inf else duration(round(found_us))


def _share(found: float) -> str:
    return f"{100 * found:.0f} %" if 0.1 <= found < 0.99 or found in (0, 1) else f"{100 * found:.1f} %"
