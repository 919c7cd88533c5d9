"""The comparison of a proposal with its rivals: by hand, and what is said about it."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from penstock.core.backtest.account import Account
from penstock.core.backtest.histogram import Histogram, Slices, histogram
from penstock.core.backtest.measures import Kept, Mattering
from penstock.pipeline.jobs.advise.verdict import Figures, beats, time_of, verdict

SECOND = 1_000_000
USUAL = Figures(kept=0.6, half_us=60 * SECOND, age_us=50 * SECOND, loss=0.4)


def account(*, matters: int = 100, kept: int, delay_s: int, age_s: int, lost: int) -> Account:
    """A thousand events, some of which matter."""
    delays = np.full(kept, delay_s * SECOND)
    return Account(
        queues=1,
        accepted=1_000,
        delivered=1_000 - lost,
        digested=lost,
        digests=0,
        conserved=1,
        latency=Histogram(),
        intervals=Histogram(),
        levels={},
        filters={},
        errors={},
        unusual={},
        extremes={},
        matters={"pulse > 120": Mattering(Kept(matters, kept), histogram(delays)), "pulse < 40": Mattering()},
        age=histogram(np.array([age_s * SECOND])),
        slices=Slices([], [], []),
        worst=[],
    )


def test_what_is_lost_never_arrived() -> None:
    slow = Figures.of(account(kept=60, delay_s=10, age_s=5, lost=300))
    assert (slow.kept, slow.loss) == (0.6, 0.3)
    assert slow.half_us == pytest.approx(10 * SECOND, rel=0.011)
    assert Figures.of(account(kept=49, delay_s=10, age_s=5, lost=300)).half_us == inf
    none = Figures.of(account(matters=0, kept=0, delay_s=10, age_s=5, lost=300))
    assert (none.kept, none.half_us) == (None, None)
    assert (time_of(None), time_of(inf), time_of(2e6)) == ("–", "never", "2 s")


@pytest.mark.parametrize(
    ("ours", "better"),
    [
        (Figures(0.61, 60e6, 50e6, 0.9), True),  # a point more
        (Figures(0.605, 60e6, 50e6, 0.4), False),  # half a point more is chance
        (Figures(0.6, 54e6, 50e6, 0.4), True),  # a tenth sooner
        (Figures(0.6, 55e6, 50e6, 0.4), False),
        (Figures(0.6, 60e6, 45e6, 0.4), True),  # newer
        (Figures(0.59, 6e6, 5e6, 0.4), False),  # soon, but less of what matters
        (Figures(0.99, 66e6, 50e6, 0.4), False),  # more, but later
        (Figures(0.99, 6e6, 53e6, 0.4), False),  # more and soon, but older values
        (Figures(None, None, 45e6, 0.4), True),
        (USUAL, False),
    ],
)
def test_beating(ours: Figures, better: bool) -> None:
    assert beats(ours, USUAL) is better


def test_never_is_not_sooner_than_never() -> None:
    assert not beats(Figures(0.3, inf, 50e6, 0.4), Figures(0.3, inf, 50e6, 0.4))
    assert beats(Figures(0.6, 60e6, 50e6, 0.4), Figures(0.3, inf, 50e6, 0.4))


def test_a_good_proposal() -> None:
    found = verdict(
        account(kept=99, delay_s=2, age_s=5, lost=520),
        {
            "drop-newest": account(kept=40, delay_s=30, age_s=30, lost=450),
            "drop-oldest": account(kept=61, delay_s=20, age_s=10, lost=400),
        },
    )
    assert found.good
    assert found.beaten == ("drop-newest", "drop-oldest")
    assert found.sentence == (
        "keeps 99.0 % of the events with pulse > 120 instead of 61 %, shortens the time until half of "
        "them have arrived (1.99 s instead of 19.8 s) and halves the age of the newest value (4.96 s "
        "instead of 9.91 s); costs: 52 % of all events are lost as such instead of 40 %"
    )


def test_an_equal_share_is_not_told_as_a_gain() -> None:
    others = {
        "drop-newest": account(kept=40, delay_s=30, age_s=30, lost=450),
        "drop-oldest": account(kept=100, delay_s=20, age_s=10, lost=400),
    }
    sentence = verdict(account(kept=100, delay_s=2, age_s=5, lost=520), others).sentence
    assert sentence.startswith("keeps 100 % of the events with pulse > 120 as drop-oldest does, shortens")


def test_a_proposal_that_is_not_worth_it() -> None:
    found = verdict(
        account(kept=99, delay_s=2, age_s=11, lost=520),
        {
            "drop-newest": account(kept=40, delay_s=30, age_s=30, lost=450),
            "drop-oldest": account(kept=61, delay_s=20, age_s=10, lost=400),
        },
    )
    assert not found.good
    assert (found.beaten, found.unbeaten) == (("drop-newest",), ("drop-oldest",))
    assert found.sentence == (
        "does not beat drop-oldest: of the events with pulse > 120 it keeps 99.0 %, drop-oldest 61 %; half "
        "of them have arrived after 1.99 s against 19.8 s; the median age of the newest value is 10.9 s "
        "against 9.91 s"
    )


def test_a_link_that_carries_everything_needs_no_policy() -> None:
    same = account(kept=100, delay_s=1, age_s=1, lost=0)
    found = verdict(same, {"drop-newest": same, "drop-oldest": same})
    assert found.unbeaten == ("drop-newest", "drop-oldest")
    assert found.sentence.endswith("nothing is lost with either: this link needs no policy")
