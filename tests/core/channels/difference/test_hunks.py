"""Differences of two lists: exact, shortest, and bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.channels.difference.hunks import Hunk, hunks

if TYPE_CHECKING:
    import pytest

lists = st.lists(st.sampled_from("abcd"), max_size=12)


@given(lists, lists)
def test_replacing_the_hunks_gives_the_new_list(old: list[str], new: list[str]) -> None:
    made: list[str] = []
    done = 0
    for hunk in hunks(old, new):
        assert hunk.old >= done
        assert hunk.old < hunk.old_end or hunk.new < hunk.new_end
        made += old[done : hunk.old] + new[hunk.new : hunk.new_end]
        done = hunk.old_end
    assert made + old[done:] == new


@given(lists, lists)
def test_as_much_as_possible_stays(old: list[str], new: list[str]) -> None:
    stays = len(old) - sum(hunk.old_end - hunk.old for hunk in hunks(old, new))
    assert stays == longest_common(old, new)


def longest_common(a: list[str], b: list[str]) -> int:
    row = [0] * (len(b) + 1)
    for one in a:
        above = row[:]
        for place, other in enumerate(b):
            row[place + 1] = above[place] + 1 if one == other else max(above[place + 1], row[place])
    return row[-1]


def test_beyond_the_bound_all_between_counts_as_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DIFF_CELLS", 8)
    assert hunks("xabcdy", "xbcday") == [Hunk(1, 5, 1, 5)]
    assert hunks("xaby", "xbay") != [Hunk(1, 3, 1, 3)]
