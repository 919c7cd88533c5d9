"""Which line is which: equal ones, those with other numbers, those that stand elsewhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.channels.difference.noise.slots import aligned, moved_lines


def pairs(old: list[str], new: list[str]) -> list[tuple[str, str]]:
    found = aligned(old, new, ["/p"] * len(old), ["/p"] * len(new))
    return [(old[i], new[j]) for block in found for i, j in block.pairs]


def test_a_line_that_equals_another_one_by_chance_does_not_take_its_place() -> None:
    old = ["Bob 5h", "one", "Ann 9h", "two", "Bob 4h", "three"]
    new = ["Bob 6h", "one", "Ann 10h", "two", "Bob 5h", "three"]
    assert pairs(old, new) == [("Bob 5h", "Bob 6h"), ("Ann 9h", "Ann 10h"), ("Bob 4h", "Bob 5h")]


def test_neighbours_that_become_one_another_stay_where_they_are() -> None:
    assert pairs(["Bob 22h", "Bob 21h", "end"], ["Bob 23h", "Bob 22h", "end"]) == [
        ("Bob 22h", "Bob 23h"),
        ("Bob 21h", "Bob 22h"),
    ]


def test_of_lines_with_numbers_alone_the_one_that_is_missing_is_gone() -> None:
    assert pairs(["12", "15", "17", "19"], ["15", "17", "19"]) == []


def test_lines_that_change_places_are_not_taken_for_their_neighbours() -> None:
    assert pairs(["Reds 20", "Blues 19", "City 18"], ["Blues 22", "Reds 20", "City 18"]) == []


def line(text: str) -> tuple[str, str]:
    return ("/li", text)


def test_a_line_moved_if_its_words_stand_elsewhere_and_nobody_else_has_them() -> None:
    gone = [(0, line("Reds 20")), (1, line("Ann 3")), (2, line("Ann 4")), (3, line("7"))]
    came = [(5, line("Ann 5")), (6, line("Reds 22")), (7, line("8"))]
    assert moved_lines(gone, came) == {0: 6}
    assert moved_lines([(0, line("x 1")), (1, line("x 2"))], [(3, line("x 2")), (4, line("x 9"))]) == {
        1: 3,
        0: 4,
    }


LINES = st.lists(st.sampled_from(["a", "b", "b 1", "b 2", "c 1", "c 2", "1", "2"]), max_size=12)


@given(LINES, LINES)
def test_blocks_are_in_order_cover_all_differences_and_pairs_never_cross(
    old: list[str], new: list[str]
) -> None:
    i = j = 0
    for block in aligned(old, new, ["/p"] * len(old), ["/p"] * len(new)):
        hunk = block.hunk
        assert old[i : hunk.old] == new[j : hunk.new], "what lies between blocks is equal"
        last = (hunk.old - 1, hunk.new - 1)
        for pair in block.pairs:
            assert last[0] < pair[0] < hunk.old_end
            assert last[1] < pair[1] < hunk.new_end
            last = pair
        i, j = hunk.old_end, hunk.new_end
    assert old[i:] == new[j:]
