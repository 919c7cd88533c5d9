"""Who is there: joins, restarts, absences, strangers, two nodes of one name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.cluster.frames import VERSION
from penstock.core.cluster.view import Change, Sighting, View

OWN = Sighting("ward", "n1", 100)


def view() -> View:
    return View(OWN, forget_us=1_000)


def seen(name: str = "n2", incarnation: int = 200) -> Sighting:
    return Sighting("ward", name, incarnation)


def test_a_node_joins_once_goes_away_and_comes_back() -> None:
    found = view()
    assert found.appeared(seen(), now_us=0) is Change.JOINED
    assert found.appeared(seen(), now_us=1) is Change.NOTHING
    assert found.vanished(seen(), now_us=2) is Change.AWAY
    assert found.vanished(seen(), now_us=3) is Change.NOTHING
    assert found.overdue(now_us=1_001) == []
    assert found.appeared(seen(), now_us=4) is Change.BACK


def test_a_node_that_is_away_for_too_long_is_given_up() -> None:
    found = view()
    found.appeared(seen(), now_us=0)
    found.vanished(seen(), now_us=10)
    assert [one.name for one in found.overdue(now_us=1_010)] == ["n2"]
    assert found.members == {}
    assert found.appeared(seen(), now_us=2_000) is Change.JOINED


def test_a_restarted_node_replaces_the_one_before_whichever_is_told_first() -> None:
    found = view()
    found.appeared(seen(incarnation=200), now_us=0)
    assert found.appeared(seen(incarnation=300), now_us=1) is Change.RESTARTED
    assert found.vanished(seen(incarnation=200), now_us=2) is Change.NOTHING
    assert not found.members["n2"].away
    assert found.appeared(seen(incarnation=200), now_us=3) is Change.NOTHING


def test_a_restarted_node_whose_clock_went_back_is_taken_when_the_one_before_is_gone() -> None:
    found = view()
    found.appeared(seen(incarnation=200), now_us=0)
    found.vanished(seen(incarnation=200), now_us=1)
    assert found.appeared(seen(incarnation=150), now_us=2) is Change.RESTARTED


def test_of_two_nodes_with_one_name_the_later_stays() -> None:
    assert view().appeared(Sighting("ward", "n1", 101), now_us=0) is Change.OUSTED
    assert view().appeared(Sighting("ward", "n1", 99), now_us=0) is Change.RIVAL
    assert view().appeared(OWN, now_us=0) is Change.NOTHING


def test_strangers_stay_out_and_are_news_once() -> None:
    found = view()
    other = Sighting("lab", "n2", 200)
    assert found.appeared(other, now_us=0) is Change.STRANGER
    assert found.appeared(other, now_us=1) is Change.NOTHING
    assert "cluster 'lab'" in found.why_strange(other)
    newer = Sighting("ward", "n2", 200, version=VERSION + 1)
    assert found.appeared(newer, now_us=0) is Change.STRANGER
    assert f"version {VERSION + 1}" in found.why_strange(newer)
    assert found.members == {}
    assert found.vanished(other, now_us=2) is Change.NOTHING


def test_strangers_and_members_are_bounded() -> None:
    found = view()
    for number in range(limits.CLUSTER_REFUSED + 5):
        found.appeared(Sighting("lab", f"x{number}", 1), now_us=0)
    assert found.appeared(Sighting("lab", "one more", 1), now_us=0) is Change.NOTHING
    for number in range(limits.CLUSTER_MEMBERS):
        found.appeared(seen(f"m{number}"), now_us=0)
    found.vanished(Sighting("lab", "x0", 1), now_us=0)
    assert found.appeared(seen("too many"), now_us=0) is Change.STRANGER
    assert len(found.members) == limits.CLUSTER_MEMBERS


STEPS = st.lists(st.tuples(st.booleans(), st.sampled_from(["n2", "n3"]), st.integers(1, 3)), max_size=40)


@given(STEPS)
def test_a_name_has_one_incarnation_and_a_join_is_told_before_anything_else(
    steps: list[tuple[bool, str, int]],
) -> None:
    found = view()
    linked: dict[str, int] = {}
    for now_us, (comes, name, incarnation) in enumerate(steps):
        one = seen(name, incarnation)
        change = (found.appeared if comes else found.vanished)(one, now_us=now_us)
        if change is Change.JOINED:
            assert name not in linked
            linked[name] = incarnation
        elif change is Change.RESTARTED:
            assert linked[name] != incarnation
            linked[name] = incarnation
        elif change is not Change.NOTHING:
            assert linked[name] == incarnation
    assert {name: one.incarnation for name, one in found.members.items()} == linked
