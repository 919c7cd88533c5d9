"""The corpus is what it says: noise moves pages, edits change what they say, and answers are judged."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock_lab.bench.diff import alarms, feeds, web_pages
from penstock_lab.bench.diff.web_pages import START, Visit

CASES = list(alarms.cases(2))


def test_every_kind_is_in_the_corpus() -> None:
    groups = Counter(case.group for case in CASES)
    assert groups.keys() == {
        "noise",
        "held out",
        "edits",
        "edits amid held-out noise",
        "traps",
        "traps, with a rule",
    }
    assert groups["held out"] == 2 * len(web_pages.HELD_OUT)
    assert groups["edits"] == 2 * (len(web_pages.EDITS) + len(feeds.FORMS) * len(feeds.EDITS))
    assert not set(web_pages.NOISE) & set(web_pages.HELD_OUT)


@pytest.mark.parametrize("name", [*web_pages.NOISE, *web_pages.HELD_OUT])
def test_noise_moves_the_bytes_of_some_page_and_nothing_else(name: str) -> None:
    noise = {**web_pages.NOISE, **web_pages.HELD_OUT}[name]
    page = web_pages.a_page(1)
    moved = []
    for number in range(6):
        visits = alarms.visits(number)
        moved.append(len({web_pages.rendered(page, visit, noise) for visit in visits}) > 1)
    assert any(moved)
    quiet = {web_pages.rendered(page, visit, web_pages.none) for visit in alarms.visits(0)}
    assert len(quiet) == 1


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.edited], ids=lambda case: f"{case.group}: {case.name}"
)
def test_an_edit_shows_on_the_page(case: alarms.PageCase) -> None:
    visits = [Visit(START, alarms._dice(0, 1)) for _ in range(2)]
    assert case.body(False, visits[0]) != case.body(True, visits[1])


def test_answers_are_judged() -> None:
    quiet = next(case for case in CASES if case.group == "noise")
    edit = next(case for case in CASES if case.name == "a price" and case.group == "edits")
    assert [alarms.judged(quiet, 0, shown) for shown in (None, "x", "\x00")] == [False, True, True]
    price = web_pages.a_page(0).goods[0][1]
    assert [alarms.judged(edit, 0, shown) for shown in (None, "nothing of it", "\x00", f"EUR {price}")] == [
        True,
        True,
        False,
        False,
    ]


def test_rivals_answer_as_they_must() -> None:
    white = next(case for case in CASES if case.name == "white space")
    assert alarms.page_hash(white, 0) == "\x00"
    assert alarms.text_diff(white, 0) is None
    edit = next(case for case in CASES if case.name == "the headline")
    assert alarms.text_diff(edit, 0) is not None
    assert alarms.ours(edit, 0) is not None


def test_a_tally_counts_what_is_wrong() -> None:
    found = [case for case in CASES if case.group in ("noise", "edits")][:20]
    always = alarms.tally(found, lambda _, __: "\x00")
    never = alarms.tally(found, lambda _, __: None)
    assert always.wrong == Counter(case.group for case in found if not case.edited)
    assert never.wrong == Counter(case.group for case in found if case.edited)


def test_learning_quietens_what_two_visitors_see_differently() -> None:
    case = next(case for case in CASES if case.name == "a saying on each request")
    assert alarms.ours(case, 0) is not None
    assert alarms.ours(case, 0, learning=True) is None
