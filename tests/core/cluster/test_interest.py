"""The filters of a node, as the others are told of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.cluster.frames import Wants
from penstock.core.cluster.interest import OwnInterest, PeerInterest
from penstock.errors import ClusterError


def test_the_first_word_has_all_filters_and_the_next_what_has_changed() -> None:
    own = OwnInterest(["a", "b"])
    assert own.told() == Wants(1, True, ["a", "b"])
    assert not own.pending
    own.change("c", wanted=True)
    own.change("a", wanted=False)
    assert own.told() == Wants(2, False, ["c"], ["a"])


def test_what_begins_and_ends_before_it_is_told_is_not_told() -> None:
    own = OwnInterest()
    own.told()
    own.change("a", wanted=True)
    own.change("a", wanted=False)
    own.change("a", wanted=False)
    assert not own.pending


def test_a_change_that_does_not_follow_is_refused_and_changes_nothing() -> None:
    theirs = PeerInterest()
    theirs.apply(Wants(1, True, ["a"]))
    for wrong in (Wants(3, False, ["b"]), Wants(1, False, ["b"]), Wants(1, True, ["b"])):
        with pytest.raises(ClusterError, match="version"):
            theirs.apply(wrong)
    assert list(theirs.filters) == ["a"]


CHANGES = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.booleans()), max_size=40)


@given(CHANGES)
def test_the_other_node_has_exactly_these_filters_after_each_word(
    changes: list[tuple[str, bool, bool]],
) -> None:
    own, theirs = OwnInterest(["a"]), PeerInterest()
    wanted = {"a"}
    known: set[str] = set()
    for filter_, is_wanted, tell in changes:
        own.change(filter_, wanted=is_wanted)
        wanted = wanted | {filter_} if is_wanted else wanted - {filter_}
        if tell and own.pending:
            added, removed = theirs.apply(own.told())
            assert known.isdisjoint(added)
            known = known.union(added).difference(removed)
            assert known == wanted == set(theirs.filters)
    if own.pending:
        theirs.apply(own.told())
    assert set(theirs.filters) == wanted
