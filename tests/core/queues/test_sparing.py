"""Which events a late queue spares: those whose sources the receiver has heard of longest ago."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.queues.sparing import Sparing
from penstock.model import Event


def an_event(source: str, ts_us: int) -> Event:
    return Event(source, b"x", ts_us, sender="s")


def spared(sparing: Sparing, events: list[Event], *, room: int, gone: list[int] | None = None) -> list[int]:
    places = list(range(len(events))) if gone is None else gone
    return sparing.spared(events, places, [1] * len(places), room=room)


def test_the_source_that_was_sent_longest_ago_comes_first() -> None:
    sparing = Sparing()
    for source, ts_us in (("a", 30), ("b", 10), ("c", 20)):
        sparing.left(an_event(source, ts_us))
    waiting = [an_event(source, 100) for source in "abc"]
    assert spared(sparing, waiting, room=3) == [0, 1, 2]
    assert spared(sparing, waiting, room=2) == [1, 2]
    assert spared(sparing, waiting, room=1) == [1]
    assert spared(sparing, waiting, room=0) == []


def test_a_source_that_nothing_is_known_of_comes_before_all() -> None:
    sparing = Sparing()
    sparing.left(an_event("a", 0))
    assert spared(sparing, [an_event("a", 10**15), an_event("new", 10**15)], room=1) == [1]


def test_one_source_is_thinned_evenly() -> None:
    waiting = [an_event("a", 10 * number) for number in range(8)]
    assert spared(Sparing(), waiting, room=4) == [0, 2, 4, 6]


def test_an_event_that_stays_counts_as_sent() -> None:
    waiting = [an_event("a", 10), an_event("a", 12), an_event("b", 12)]
    sparing = Sparing()
    sparing.left(an_event("b", 0))
    assert spared(sparing, waiting, gone=[1, 2], room=1) == [2]


def test_an_older_event_than_the_receiver_has_goes_first() -> None:
    sparing = Sparing()
    sparing.left(an_event("a", 100))
    sparing.left(an_event("a", 50))  # it was overtaken: what counts is the newest
    sparing.left(an_event("b", 99))
    assert spared(sparing, [an_event("b", 110), an_event("a", 90)], room=1) == [0]


def test_what_is_remembered_is_bounded_and_can_be_continued() -> None:
    sparing = Sparing()
    for number in range(limits.SOURCES + 5):
        sparing.left(an_event(str(number), number))
    state = sparing.state()
    assert len(state) == limits.SOURCES
    assert state[0] == ("5", "s", 5)
    other = Sparing()
    other.restore(state)
    assert other.state() == state


def naive(sent: dict[str, int], events: list[Event], gone: list[int], room: int) -> list[int]:
    """The rule of the module, word by word."""
    left = set(range(len(events)))
    may_go = set(gone)

    def gap(place: int) -> int:
        event = events[place]
        before = [other for other in left if other < place and events[other].topic == event.topic]
        before_us = events[max(before)].ts_us if before else sent.get(event.topic)
        return 1 << 63 if before_us is None else event.ts_us - before_us

    while len(may_go) > room:
        next_one = min(may_go, key=lambda place: (gap(place), place))
        may_go.remove(next_one)
        left.remove(next_one)
    return sorted(may_go)


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 50)),
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 60), st.booleans()), max_size=14),
    st.integers(0, 14),
)
def test_the_rule(sent: dict[str, int], queue: list[tuple[str, int, bool]], room: int) -> None:
    sparing = Sparing()
    for source, ts_us in sent.items():
        sparing.left(an_event(source, ts_us))
    events = [an_event(source, ts_us) for source, ts_us, _ in queue]
    gone = [place for place, (_, _, may_go) in enumerate(queue) if may_go]
    assert spared(sparing, events, gone=gone, room=room) == naive(sent, events, gone, room)
