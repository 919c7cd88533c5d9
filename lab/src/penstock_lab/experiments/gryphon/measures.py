"""Measures of a Gryphon run: rates over time, recovery, fairness."""

from __future__ import annotations

from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Final

from penstock.core.streams.messages import Data
from penstock.core.streams.wire import wire_bytes
from penstock_lab.experiments.result import Claim
from penstock_lab.sim.streams.gryphon import HEADER, KB, PAYLOAD, PUBENDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock_lab.experiments.result import Progress
    from penstock_lab.sim.streams.gryphon import Played, Sample

MESSAGE_BYTES: Final = HEADER + wire_bytes(Data(PUBENDS[0], 0, 0, bytes(PAYLOAD)))
"""Bytes of one message on a link."""

CAUGHT_UP_S: Final = 1.0
"""A leaf less than this many seconds behind has recovered."""


def mean_published(samples: Sequence[Sample]) -> float:
    """Return the mean messages per second published by all pubends."""
    return fmean(sum(sample.published) for sample in samples)


def mean_delivered(samples: Sequence[Sample], leaf: str) -> float:
    """Return the mean messages per second delivered at a leaf."""
    return fmean(sample.delivered[leaf] for sample in samples)


def variation(values: Sequence[float]) -> float:
    """Return the standard deviation as a share of the mean."""
    return pstdev(values) / fmean(values)


def goodput(samples: Sequence[Sample], leaf: str, kb_per_s: int) -> float:
    """Return what a leaf received as a share of its link's capacity."""
    return mean_delivered(samples, leaf) * MESSAGE_BYTES / (kb_per_s * KB)


def caught_up(played: Played, leaf: str, *, since: int) -> int | None:
    """Return the seconds until a leaf had recovered all pubends; None if it never did."""
    for sample in played.samples:
        if sample.second > since and recovered(sample, leaf):
            return sample.second - since
    return None


def recovered(sample: Sample, leaf: str) -> bool:
    """Return whether a leaf has reached the end of all streams."""
    return not sample.recovering[leaf] and max(sample.lag[leaf]) < CAUGHT_UP_S


def jain(values: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 if all have the same, 1/n if one has everything."""
    squares = len(values) * sum(value * value for value in values)
    return sum(values) ** 2 / squares if squares else 1.0


def checked(played: Sequence[Played], *, collapsed: bool = False) -> Claim:
    """Return the last row of every experiment: the history broke no rule of reliable streams.

    With `collapsed`, streams come to a halt on purpose: what they have not reached is counted, not judged.
    """
    found = [problem for one in played for problem in one.problems]
    waiting, undelivered = (
        sum(getattr(one, name) for one in played) for name in ("on_the_way", "undelivered")
    )
    if collapsed:
        what = "what subscribers got came once, in order, none passed over; silence hid nothing"
        note = f"fails if a stream goes on past a message; {undelivered:,} wait where streams have stopped"
    else:
        what = "each subscriber got each message once, in order; silence hid nothing"
        note = (
            "fails if one acknowledged message never comes, comes twice, late or as silence; "
            f"{waiting:,} were on the way when publication ended and are counted after it"
        )
    return Claim(
        what,
        "–",
        f"no, {len(found):,} times: {found[0]}" if found else "yes",
        ok=not found,
        note=note,
    )


def steps(progress: Progress, done: int, total: int, what: str) -> Callable[[int], None]:
    """Return a callback that reports simulated seconds as progress, after `done` seconds of other runs."""

    def told(second: int) -> None:
        if second % 5 == 0:
            progress(done + second, total, what)

    return told
