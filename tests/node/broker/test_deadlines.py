"""Deadlines: everybody is looked at in time, and who is forgotten is not kept in memory."""

from __future__ import annotations

import weakref

from hypothesis import given
from hypothesis import strategies as st

from penstock.node.broker.deadlines import Deadlines


class One:
    """Something with a moment."""

    def __init__(self, when_us: int | None) -> None:
        self.when_us = when_us

    def timer(self) -> int | None:
        return self.when_us


def test_who_is_forgotten_is_not_kept_in_memory() -> None:
    deadlines: Deadlines[One] = Deadlines(horizon_us=1_000)
    one = One(500)
    gone = weakref.ref(one)
    deadlines.watch(one, now_us=0)
    deadlines.forget(one)
    del one
    assert gone() is None
    assert list(deadlines.due(now_us=10_000)) == []


def test_forgetting_many_leaves_no_heap_behind() -> None:
    deadlines: Deadlines[One] = Deadlines(horizon_us=10**9)
    kept = One(10**8)
    deadlines.watch(kept, now_us=0)
    for number in range(10_000):
        one = One(10**8 + number)
        deadlines.watch(one, now_us=0)
        deadlines.forget(one)
    assert len(deadlines._heap) < 1_100
    assert list(deadlines.due(now_us=10**8)) == [kept]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["watch", "move", "forget", "look"]), st.integers(0, 4), st.integers(0, 300)
        ),
        max_size=60,
    )
)
def test_everybody_is_due_when_the_moment_has_come_and_nobody_before(
    steps: list[tuple[str, int, int]],
) -> None:
    deadlines: Deadlines[One] = Deadlines(horizon_us=100)
    everybody = [One(None) for _ in range(5)]
    watched: set[One] = set()
    now_us = 0
    for what, which, number in steps:
        one = everybody[which]
        if what == "watch":
            one.when_us = now_us + number
            deadlines.watch(one, now_us=now_us)
            watched.add(one)
        elif what == "move" and one.when_us is not None:
            one.when_us += number  # later: nobody has to be told
        elif what == "forget":
            deadlines.forget(one)
            watched.discard(one)
        else:
            now_us += number
            expected = {each for each in watched if each.when_us is not None and each.when_us <= now_us}
            assert set(deadlines.due(now_us=now_us)) == expected
            watched -= expected
    assert (deadlines.next_us() is None) <= (not watched)
