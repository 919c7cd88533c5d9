"""Gryphon without congestion control: the rows of a collapse fail for runs that do not collapse."""

from __future__ import annotations

from dataclasses import replace

from penstock_lab.experiments.gryphon import collapse
from penstock_lab.sim.streams.gryphon import KB, Played, Sample

FOUR = (0.0,) * 4
ZERO, FULL, FAR, NEVER = range(4)


def sample(second: int, *, sb1: int, sb2: int, lag: float, refused: int) -> Sample:
    return Sample(
        second,
        (125,) * 4,
        {"SB1": sb1, "SB2": sb2},
        {"SB1": (0,) * 4, "SB2": (0,) * 4},
        {"SB1": 5_000 * KB},
        {"SB1": FOUR, "SB2": FOUR},
        {"SB1": FOUR, "SB2": (lag,) * 4},
        {"SB1": 0, "SB2": 0},
        {"SB1": FOUR, "SB2": FOUR},
        refused,
    )


A = [sample(second, sb1=0, sb2=500, lag=0.0, refused=second) for second in range(40)]
B = [sample(second, sb1=30, sb2=1, lag=second, refused=second) for second in range(40)]


def verdicts(first: list[Sample], second: list[Sample]) -> list[int]:
    rows = collapse._rows(Played(first, [], {}, []), Played(second, [], {}, []))
    return [number for number, row in enumerate(rows) if not row.ok]


def test_a_collapse_is_one() -> None:
    assert verdicts(A, B) == []


def test_a_network_that_does_not_collapse_fails_the_rows() -> None:
    assert verdicts([replace(each, delivered={"SB1": 150, "SB2": 500}) for each in A], B) == [ZERO]
    assert verdicts([replace(each, refused=0) for each in A], B) == [FULL]
    assert verdicts(A, [replace(each, delivered={"SB1": 300, "SB2": 1}) for each in B]) == [FAR]
    near = [replace(each, lag={"SB1": FOUR, "SB2": (60.0 - each.second,) * 4}) for each in B]
    assert verdicts(A, near) == [NEVER]
