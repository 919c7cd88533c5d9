"""The corpus is what it says: noise moves pages, edits change them; and a broken model is noticed."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from penstock_lab.bench.diff import alarms
from penstock_lab.bench.diff.corpus import split
from penstock_lab.bench.diff.corpus.edits import with_deadline
from penstock_lab.bench.diff.corpus.sites import KINDS, START, a_page
from penstock_lab.bench.diff.subscription import (
    ChangedetectionDefaults,
    GeneratedPage,
    Ours,
    PageHash,
    TextDiff,
    moments,
)

NOISES = {**split.SEEN_NOISES, **split.HELD_OUT_NOISES, **split.LAST_NOISES}
EDITS = {**split.SEEN_EDITS, **split.HELD_OUT_EDITS}


def test_no_kind_is_seen_and_held_out() -> None:
    assert not set(split.SEEN_NOISES) & set(split.HELD_OUT_NOISES)
    assert not set(split.LAST_NOISES) & {*split.SEEN_NOISES, *split.HELD_OUT_NOISES}
    assert {**split.FIRST_NOISES, **split.BOARD_NOISES, **split.FRESH_NOISES} == split.SEEN_NOISES
    assert not set(split.SEEN_EDITS) & set(split.HELD_OUT_EDITS)
    assert not set(split.DRAWN_NOISES) & set(split.ONCE_HELD_OUT_NOISES)
    assert {**split.DRAWN_NOISES, **split.ONCE_HELD_OUT_NOISES} == split.FIRST_NOISES
    assert split.halves(split.FIRST_NOISES)[1] == split.ONCE_HELD_OUT_NOISES
    assert split.halves(split.FIRST_NOISES, seed=18)[1] != split.ONCE_HELD_OUT_NOISES


@pytest.mark.parametrize("name", NOISES)
def test_noise_moves_a_page_that_nobody_edits(name: str) -> None:
    moved = 0
    for seed in range(len(KINDS)):
        page = GeneratedPage(a_page(seed), [NOISES[name]], seed)
        bodies = {page.body(START + timedelta(hours=11 * n, minutes=3 * n)) for n in range(6)}
        moved += len(bodies) > 1
    assert moved


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_changes_the_page(name: str) -> None:
    changed = 0
    for seed in range(len(KINDS)):
        base = with_deadline(a_page(seed))
        edited = EDITS[name](base, Random(seed))
        changed += GeneratedPage(base, [], 1).body(START) != GeneratedPage(edited, [], 1).body(START)
    assert changed >= 2


def test_pages_are_the_same_for_the_same_seed_and_differ_otherwise() -> None:
    assert a_page(3) == a_page(3)
    assert len({a_page(seed).title for seed in range(12)}) == 12


@pytest.mark.parametrize("contestant", [Ours, TextDiff, PageHash, ChangedetectionDefaults])
def test_a_page_without_noise_and_edits_raises_no_alarm(contestant: type) -> None:
    page = GeneratedPage(a_page(1), [], 1)
    watcher = contestant()
    assert [watcher.poll(page.body, at) for at in moments(4)] == [None] * 6


RANDOM = {name: noise for name, noise in split.SEEN_NOISES.items() if "visitors" in name or "banner" in name}
CASES = [(case, 12) for case in alarms.noise_cases(RANDOM, pages=3, mixes=2)]


@pytest.mark.slow
def test_a_model_that_never_fetches_twice_fails_the_rows() -> None:
    whole = alarms.false_alarms(CASES, Ours)
    broken = alarms.false_alarms(CASES, lambda: Ours(confirms=False))
    rows = next(alarms.alarm_rows(whole, {})), next(alarms.alarm_rows(broken, {}))
    assert "fails above 3" in rows[0].name
    assert [row.ok for row in rows] == [True, False], [row.value for row in rows]


def test_a_model_that_tells_nothing_fails_the_row_of_edits() -> None:
    class Mute(Ours):
        def poll(self, *_: object) -> None:
            return None

    some = dict(list(split.DRAWN_EDITS.items())[:4])
    told = alarms.edits_found(some, split.DRAWN_NOISES, 2, Ours)
    mute = alarms.edits_found(some, split.DRAWN_NOISES, 2, Mute)
    assert (told.share, mute.share) == (100.0, 0.0)
    assert next(alarms.edit_rows(told, {})).ok
    assert not next(alarms.edit_rows(mute, {})).ok


def test_the_others_raise_alarms_where_ours_does_not() -> None:
    case = [(alarms.NoiseCase("views", (split.SEEN_NOISES["views"],), 4), 12)]
    assert alarms.false_alarms(case, Ours).day == 0
    for rival in alarms.RIVALS.values():
        assert alarms.false_alarms(case, rival).day > 5
