"""How far a moving session has seen each origin."""

from __future__ import annotations

from penstock.core.cluster.seen import Seen, below, missed


def test_an_event_is_below_a_mark_of_the_same_or_of_a_later_incarnation() -> None:
    marks = {"n1": (7, 20)}
    assert below(marks, "n1", 7, 20)
    assert not below(marks, "n1", 7, 21)
    assert below(marks, "n1", 6, 21)
    assert not below(marks, "n1", 8, 5)
    assert not below(marks, "n2", 7, 5)


def test_a_gap_is_above_its_first_number_and_ends_with_its_last() -> None:
    marks, gaps = {"n1": (7, 9)}, {"n1": (7, 3, 5)}
    assert [number for number in range(8) if missed(marks, gaps, "n1", 7, number)] == [4, 5]
    assert not missed(marks, gaps, "n1", 8, 4)
    assert not missed(marks, gaps, "n2", 7, 4)


def test_an_event_of_an_earlier_incarnation_may_have_been_missed() -> None:
    marks = {"n1": (7, 0)}
    assert missed(marks, {}, "n1", 6, 4)
    assert not missed(marks, {}, "n1", 7, 4)
    assert not missed(marks, {}, "n2", 6, 4)


def test_a_fenced_origin_is_seen_as_far_as_the_node_has_seen_it() -> None:
    seen = Seen({"n1": (7, 20)}, {}, since={"n1": (7, 10)}, fenced=["n1"])
    assert seen.at_leaving({"n1": (7, 31), "n2": (1, 4)}) == ({"n1": (7, 31), "n2": (1, 4)}, {})
    assert seen.at_leaving({"n1": (7, 12)}) == ({"n1": (7, 20)}, {}), "what came along counts"
    assert seen.at_leaving({}) == ({"n1": (7, 20)}, {})


def test_a_fenced_origin_that_this_node_has_seen_further_than_the_session_leaves_a_gap() -> None:
    seen = Seen({"n1": (7, 0)}, {}, since={"n1": (7, 30)}, fenced=["n1"])
    assert seen.at_leaving({"n1": (7, 30)}) == ({"n1": (7, 0)}, {})
    assert seen.at_leaving({"n1": (7, 31)}) == ({"n1": (7, 31)}, {"n1": (7, 0, 31)})


def test_what_the_node_saw_before_the_session_came_is_not_seen() -> None:
    seen = Seen({"n1": (7, 20)}, {}, since={"n1": (7, 30)}, fenced=[])
    assert seen.at_leaving({"n1": (7, 30)}) == ({"n1": (7, 20)}, {})


def test_events_before_those_that_have_come_since_are_a_gap() -> None:
    seen = Seen({"n1": (7, 20)}, {}, since={"n1": (7, 25)}, fenced=[])
    assert seen.at_leaving({"n1": (7, 40)}) == ({"n1": (7, 40)}, {"n1": (7, 20, 40)})
    seen.whole("n1", 28)
    seen.whole("n1", 35)
    assert seen.at_leaving({"n1": (7, 40)}) == ({"n1": (7, 40)}, {"n1": (7, 20, 28)})
    later = Seen({"n1": (7, 40)}, {"n1": (7, 20, 28)}, since={"n1": (7, 0)}, fenced=[])
    assert later.at_leaving({"n1": (7, 50)})[1] == {"n1": (7, 20, 50)}, "two gaps are one"


def test_what_the_marks_of_the_node_say_as_well_is_forgotten() -> None:
    marks = {"n1": (7, 20), "n2": (1, 9), "n3": (2, 5)}
    newest = {"n1": (7, 20), "n2": (1, 8), "n3": (2, 6)}
    seen = Seen(dict(marks), {}, since={"n3": (2, 5)}, fenced=[])
    before = seen.at_leaving(newest)
    assert seen.trim(newest)
    assert sorted(seen.marks) == ["n2", "n3"]
    assert seen.at_leaving(newest) == before
    assert not Seen(dict(marks), {}, since={}, fenced=[]).trim(marks)
    assert Seen({}, {"n1": (7, 1, 2)}, since={}, fenced=[]).trim(marks)


def test_a_later_incarnation_has_neither_the_marks_nor_the_gaps_of_the_one_before() -> None:
    seen = Seen({"n1": (7, 20)}, {"n1": (7, 3, 5)}, since={"n1": (7, 0)}, fenced=[])
    assert seen.at_leaving({"n1": (9, 2)}) == ({"n1": (9, 2)}, {})
