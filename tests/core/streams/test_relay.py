"""A relay asks once for many, filters to silence, answers from its cache, folds what goes up."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.streams.knowledge import Knowledge, TickState
from penstock.core.streams.messages import Ack, Alert, Data, FinalTicks, Message, Nack, Query, Silence
from penstock.core.streams.options import StreamOptions
from penstock.core.streams.relay import Relay
from penstock.errors import StreamError

if TYPE_CHECKING:
    from penstock.core.streams.messages import Matches


def even(body: bytes) -> bool:
    return body[0] % 2 == 0


def odd(body: bytes) -> bool:
    return body[0] % 2 == 1


def relayed(
    children: dict[str, Matches | None], *, cache_us: int = 30_000_000, interests: bool = False
) -> Relay:
    named = {name: matches for name, matches in children.items() if interests and matches is not None}
    relay = Relay("p", StreamOptions(cache_us=cache_us), interests=named)
    for name, matches in children.items():
        relay.attach(name, matches, interest=name if name in named else "")
    return relay


def body(number: int) -> bytes:
    return bytes([number])


def test_new_ticks_go_to_everybody_unasked() -> None:
    relay = relayed({"a": None, "b": None})
    message = Data("p", 0, 5, body(1))
    relay.receive(message, child=None, now_us=0)
    assert relay.downward() == [("a", message), ("b", message)]
    relay.receive(message, child=None, now_us=1)
    assert relay.downward() == []


def test_many_ask_below_and_one_nack_goes_up() -> None:
    relay = relayed(dict.fromkeys("abcdefgh"), cache_us=0)
    for name in "abcdefgh":
        relay.receive(Nack("p", ((10, 20),)), child=name, now_us=1_000)
    assert relay.upward() == [Nack("p", ((10, 20),))]
    relay.receive(Silence("p", 0, 30), child=None, now_us=2_000)
    relay.downward()
    relay.receive(Nack("p", ((10, 20), (25, 28))), child="a", now_us=3_000)
    relay.receive(Nack("p", ((15, 27),)), child="b", now_us=3_500)
    assert relay.upward() == [Nack("p", ((10, 20), (25, 28))), Nack("p", ((20, 25),))]
    relay.receive(Data("p", 10, 19, body(1)), child=None, now_us=4_000)
    assert {child for child, _ in relay.downward()} == {"a", "b"}
    assert (relay.statistics().nacks, relay.statistics().nacks_up) == (10, 3)


def test_a_nack_that_nobody_answers_goes_up_again_after_a_while() -> None:
    relay = relayed({"a": None}, cache_us=0)
    sent = []
    for step in range(40):
        relay.receive(Nack("p", ((10, 20),)), child="a", now_us=step * 100_000)
        sent += [step for _ in relay.upward()]
    assert sent[0] == 0
    assert all(5 <= later - earlier <= 10 for earlier, later in pairwise(sent))


def test_old_ticks_go_to_the_curious_only() -> None:
    relay = relayed({"a": None, "b": None}, cache_us=0)
    relay.receive(Silence("p", 0, 100), child=None, now_us=0)
    relay.downward()
    relay.receive(Nack("p", ((10, 20),)), child="a", now_us=0)
    relay.receive(Data("p", 10, 15, body(1)), child=None, now_us=1)
    assert relay.downward() == [("a", Data("p", 10, 15, body(1)))]
    relay.receive(Silence("p", 16, 20), child=None, now_us=2)
    assert relay.downward() == [("a", Silence("p", 16, 20))]
    relay.receive(Silence("p", 16, 20), child=None, now_us=3)
    assert relay.downward() == []


def test_the_cache_answers_and_only_the_rest_goes_up() -> None:
    relay = relayed({"a": None})
    relay.receive(Data("p", 10, 15, body(1)), child=None, now_us=0)
    relay.downward()
    relay.receive(Nack("p", ((5, 20),)), child="a", now_us=1)
    assert relay.downward() == [("a", Data("p", 10, 15, body(1)))]
    assert relay.upward() == [Nack("p", ((5, 10), (16, 20)))]


def test_the_cache_is_bounded_in_ticks_and_bytes() -> None:
    relay = Relay("p", StreamOptions(cache_us=1_000_000, cache_bytes=10_000))
    relay.attach("a")
    for number in range(5_000):
        relay.receive(Data("p", number * 1_024, number * 1_024 + 9, bytes(100)), child=None, now_us=0)
    assert 0 < relay.statistics().cached_bytes <= 10_000
    for number in range(6_000, 9_000):
        relay.receive(Data("p", number * 1_024, number * 1_024 + 9, b"x"), child=None, now_us=0)
    assert relay.statistics().cached_bytes <= 1_125


def test_what_does_not_match_becomes_silence_with_the_next_that_does() -> None:
    relay = relayed({"a": even})
    for number in range(1, 5):
        relay.receive(Data("p", 10 * number, 10 * number + 9, body(number)), child=None, now_us=number)
    assert relay.downward() == [
        ("a", Data("p", 10, 29, body(2))),
        ("a", Data("p", 30, 49, body(4))),
    ]
    relay.receive(Data("p", 50, 59, body(5)), child=None, now_us=100)
    assert relay.timer() == 200_100
    relay.on_timer(now_us=200_100)
    assert relay.downward() == [("a", Silence("p", 50, 60))]
    assert relay.timer() is None


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 255)), min_size=1, max_size=30),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 90), st.integers(1, 40)), max_size=12),
    st.sampled_from([0, 1_000_000]),
    st.booleans(),
)
def test_silence_never_hides_data(  # noqa: C901
    stream: list[tuple[int, int]], asked: list[tuple[str, int, int]], cache_us: int, interests: bool
) -> None:
    """A relay between a root that knows everything and two filtered children, which lose and ask again."""
    filters: dict[str, Matches | None] = {"a": even, "b": odd}
    relay = relayed(filters, cache_us=cache_us, interests=interests)
    truth: dict[int, bytes] = {}
    known = {name: Knowledge() for name in filters}
    at = 0

    def take(messages: list[tuple[str, Message]]) -> None:
        for child, message in messages:
            if isinstance(message, Data):
                known[child].learn_silence(message.since, message.tick)
                known[child].learn_data(message.tick, message.body)
            elif isinstance(message, Silence):
                known[child].learn_silence(message.since, message.until)

    def answer(nack: Nack) -> None:
        matches = filters.get(nack.interest)
        for since, until in nack.spans:
            start = since
            for tick in sorted(truth):
                if since <= tick < min(until, at) and (matches is None or matches(truth[tick])):
                    message = Data("p", start, tick, truth[tick], nack.interest)
                    relay.receive(message, child=None, now_us=0)
                    start = tick + 1
            if start < min(until, at):
                end = Silence("p", start, min(until, at), nack.interest)
                relay.receive(end, child=None, now_us=0)

    for gap, number in stream:
        tick = at + gap
        truth[tick] = body(number)
        relay.receive(Data("p", at, tick, body(number)), child=None, now_us=0)
        at = tick + 1
        if number % 3:  # else what went down is lost
            take(relay.downward())
        relay.downward()
    for child, since, length in asked:
        span = (since, since + length)
        relay.receive(Nack("p", (span,), child if interests else ""), child=child, now_us=10**9)
        take(relay.downward())
        for message in relay.upward():
            assert isinstance(message, Nack)
            answer(message)
        take(relay.downward())
        for start, end in known[child].unknown(since, min(since + length, at)):
            raise AssertionError(f"{child} is not told {start} to {end}")
    for name, knowledge in known.items():
        assert knowledge.conflicts == 0
        matches = filters[name]
        assert matches is not None
        for tick, published in truth.items():
            if matches(published):
                assert knowledge.state(tick) is not TickState.SILENCE


def test_an_answer_for_one_interest_is_nobody_elses_silence() -> None:
    relay = relayed({"a": even, "b": odd}, interests=True)
    relay.receive(Silence("p", 90, 100), child=None, now_us=0)
    relay.downward()
    relay.receive(Nack("p", ((0, 50),), "a"), child="a", now_us=0)
    assert relay.upward() == [Nack("p", ((0, 50),), "a")]
    relay.receive(Data("p", 0, 40, body(2), "a"), child=None, now_us=1)
    assert relay.downward() == [("a", Data("p", 0, 40, body(2)))]
    relay.receive(Nack("p", ((0, 50),), "b"), child="b", now_us=2)
    assert relay.downward() == [("b", Silence("p", 40, 41))]
    [nack] = relay.upward()
    assert isinstance(nack, Nack)
    assert nack.spans[0] == (0, 40)


def test_two_interests_in_one_span_are_asked_for_together() -> None:
    relay = relayed({"a": even, "b": odd}, cache_us=0, interests=True)
    relay.receive(Nack("p", ((0, 50),), "a"), child="a", now_us=0)
    relay.receive(Nack("p", ((0, 50),), "b"), child="b", now_us=0)
    assert relay.upward() == [Nack("p", ((0, 50),), "a"), Nack("p", ((0, 50),), "")]


def test_what_is_final_is_told_to_who_asked_for_it() -> None:
    relay = relayed({"a": None, "b": None})
    relay.receive(Nack("p", ((0, 50),)), child="a", now_us=0)
    relay.receive(FinalTicks("p", 30), child=None, now_us=1)
    assert relay.downward() == [("a", FinalTicks("p", 30))]


def test_the_acknowledgement_that_goes_up_is_the_least_of_all() -> None:
    relay = relayed({"a": None, "b": None})
    query = Query("p", 1, 100)
    relay.receive(Ack("p", 70), child="a", now_us=0)
    relay.receive(query, child=None, now_us=0)
    assert relay.downward() == [("a", query), ("b", query)]
    assert relay.upward() == []
    relay.receive(Ack("p", 50), child="b", now_us=0)
    relay.receive(Ack("p", 20), child="b", now_us=0)
    relay.receive(Query("p", 2, 100), child=None, now_us=0)
    assert relay.upward() == [Ack("p", 50)]


def test_alerts_are_folded_as_in_figure_5() -> None:
    relay = relayed({"a": None, "b": None})
    relay.receive(Query("p", 9, 100), child=None, now_us=0)
    relay.receive(Alert("p", 7, 0.9, inf, 5, 60), child="a", now_us=0)
    assert relay.upward() == [Alert("p", 7, 0.9, inf, 5, 60)]
    relay.receive(Alert("p", 7, 0.5, 1.2, 9, 40), child="b", now_us=0)
    relay.receive(Alert("p", 6, 0.4, inf, 1), child="b", now_us=0)
    assert relay.upward() == []
    relay.receive(Alert("p", 8, 0.8, inf, 2, 70), child="a", now_us=0)
    assert relay.upward() == [Alert("p", 8, 0.4, 1.2, 9, 40)]
    relay.receive(Alert("p", 9, 0.8, inf), child="a", now_us=0)
    assert relay.upward() == [Alert("p", 9, 0.8, inf)]


def test_an_answer_to_no_query_does_not_hide_those_of_others() -> None:
    relay = relayed({"a": None, "b": None})
    relay.receive(Query("p", 7, 100), child=None, now_us=0)
    relay.receive(Alert("p", 1 << 62, 0.1, inf, 5, 60), child="a", now_us=0)
    assert relay.upward() == []
    relay.receive(Alert("p", 7, 0.5, inf, 9, 40), child="b", now_us=0)
    assert relay.upward() == [Alert("p", 7, 0.5, inf, 9, 40)]


def test_what_a_link_may_have_asked_for_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STREAM_CURIOUS", 3)
    relay = relayed({"a": None, "b": None})
    relay.receive(Nack("p", ((0, 1), (2, 3), (4, 5))), child="a", now_us=0)
    assert relay.upward() == [Nack("p", ((0, 1), (2, 3), (4, 5)))]
    relay.receive(Nack("p", ((6, 7),)), child="a", now_us=0)
    assert relay.upward() == []
    relay.receive(Nack("p", ((6, 7),)), child="b", now_us=0)
    assert relay.upward() == [Nack("p", ((6, 7),))]
    relay.receive(Silence("p", 0, 3), child=None, now_us=0)
    relay.receive(Nack("p", ((8, 9),)), child="a", now_us=0)
    assert relay.upward() == [Nack("p", ((8, 9),))]


def test_a_message_from_the_wrong_side_is_refused() -> None:
    relay = relayed({"a": None})
    with pytest.raises(StreamError, match="not a message from above"):
        relay.receive(Ack("p", 1), child=None, now_us=0)
    with pytest.raises(StreamError, match="not a message from below"):
        relay.receive(FinalTicks("p", 1), child="a", now_us=0)
    with pytest.raises(StreamError, match="no link to 'b'"):
        relay.receive(Ack("p", 1), child="b", now_us=0)


def test_what_somebody_holds_is_not_acknowledged() -> None:
    relay = Relay("p", StreamOptions())
    assert relay.acked() is None
    relay.attach("below")
    relay.hold("away", 5)
    assert relay.acked() is None
    relay.receive(Ack("p", 9), child="below", now_us=0)
    assert relay.acked() == 5
    relay.hold("away", None)
    assert relay.acked() == 9
