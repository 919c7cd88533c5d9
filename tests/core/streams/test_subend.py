"""A subscriber-hosting stream delivers in order and once, and asks for gaps within its windows."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.streams.messages import (
    Ack,
    Alert,
    Data,
    Delivered,
    FinalTicks,
    Message,
    Missed,
    Nack,
    Query,
    Recovering,
    Silence,
)
from penstock.core.streams.options import StreamOptions
from penstock.core.streams.subend import Subend
from penstock.core.streams.ticks import ticks_in
from penstock.errors import StreamError

SECOND = ticks_in(1_000_000)


def ended(start: int | None = 0, **options: object) -> Subend:
    return Subend("p", "end", StreamOptions(**options), start=start)  # type: ignore[arg-type]


def delivered(subend: Subend) -> list[int]:
    return [event.tick for event in subend.events() if isinstance(event, Delivered)]


def nacks(subend: Subend) -> list[tuple[int, int]]:
    return [span for message in subend.outgoing() if isinstance(message, Nack) for span in message.spans]


@st.composite
def tellings(draw: st.DrawFn) -> tuple[list[int], list[Message]]:
    """A stream of ticks and messages about it in any order, some several times, some never."""
    data = sorted(draw(st.sets(st.integers(0, 60), max_size=12)))
    messages: list[Message] = []
    at = 0
    for tick in data:
        messages.append(Data("p", at, tick, b"%d" % tick))
        at = tick + 1
    messages.append(Silence("p", at, 70))
    extra = draw(st.lists(st.sampled_from(messages), max_size=8))
    told = draw(st.permutations([*messages, *extra]))
    return data, list(told)


@given(tellings())
def test_delivery_is_the_known_prefix_in_order_and_once(told: tuple[list[int], list[Message]]) -> None:
    data, messages = told
    subend = ended()
    known: set[int] = set()
    got: list[int] = []
    for now_us, message in enumerate(messages):
        subend.receive(message, now_us=now_us)
        assert isinstance(message, Data | Silence)
        end = message.tick + 1 if isinstance(message, Data) else message.until
        known |= set(range(message.since, end))
        horizon = next(tick for tick in range(80) if tick not in known)
        got += delivered(subend)
        assert subend.horizon == horizon
        assert got == [tick for tick in data if tick < horizon]
    assert got == data
    assert subend.conflicts == 0


@given(st.sets(st.integers(0, 40), min_size=1), st.lists(st.integers(0, 3_000_000), max_size=10))
def test_with_answers_that_may_be_lost_everything_comes_in_the_end(
    missing: set[int], waits: list[int]
) -> None:
    step = ticks_in(10_000)
    subend = ended()
    stream = [Data("p", number * step, (number + 1) * step - 1, b"%d" % number) for number in range(42)]
    got: list[int] = []
    now_us = 0
    for number, message in enumerate(stream):
        now_us += 10_000
        if number not in missing:
            subend.receive(message, now_us=now_us)
        got += delivered(subend)
    subend.receive(Silence("p", stream[-1].tick + 1, stream[-1].tick + 100), now_us=now_us)
    lose = list(waits)
    for _ in range(60):
        spans = nacks(subend)
        if lose and spans:
            now_us += lose.pop()
            spans = []
        for message in stream:
            if any(since <= message.tick and message.since < until for since, until in spans):
                subend.receive(message, now_us=now_us)
        now_us = max(now_us + 1_000, subend.timer() or 0)
        subend.on_timer(now_us=now_us)
    got += delivered(subend)
    assert got == [message.tick for message in stream]


def test_a_gap_is_asked_for_once_something_behind_it_is_heard_of() -> None:
    subend = ended()
    subend.receive(Data("p", 0, 5, b""), now_us=0)
    assert nacks(subend) == []
    subend.receive(Data("p", 9, 12, b""), now_us=1)
    assert nacks(subend) == [(6, 9)]
    subend.receive(Data("p", 13, 15, b""), now_us=2)
    assert nacks(subend) == []
    subend.receive(Silence("p", 6, 9), now_us=3)
    assert delivered(subend) == [5, 12, 15]


def test_it_is_asked_again_and_less_often_each_time() -> None:
    subend = ended(retry_us=1_000_000)
    subend.receive(Data("p", 9, 12, b""), now_us=0)
    assert nacks(subend) == [(0, 9)]
    moments = []
    for _ in range(4):
        due_us = subend.timer()
        assert due_us is not None
        subend.on_timer(now_us=due_us - 1)
        assert nacks(subend) == []
        subend.on_timer(now_us=due_us)
        assert nacks(subend) == [(0, 9)]
        moments.append(due_us)
    assert moments == [1_000_000, 3_000_000, 7_000_000, 15_000_000]


def test_no_more_than_the_nack_window_is_asked_for() -> None:
    subend = ended(nack_window_us=100_000)
    subend.receive(Data("p", 5 * SECOND, 5 * SECOND, b""), now_us=0)
    assert nacks(subend) == [(0, SECOND // 10)]


def test_without_control_the_window_is_the_receive_window() -> None:
    subend = ended(subscriber_control="off", receive_window_us=3_000_000)
    subend.receive(Data("p", 5 * SECOND, 5 * SECOND, b""), now_us=0)
    assert nacks(subend) == [(0, 3 * SECOND)]


def test_ticks_beyond_the_receive_window_are_ignored_and_make_it_recover() -> None:
    subend = ended(receive_window_us=1_000_000)
    subend.receive(Data("p", SECOND // 2, SECOND // 2, b"in"), now_us=0)
    assert subend.events() == []
    assert not subend.statistics().recovering
    subend.receive(Data("p", 2 * SECOND, 2 * SECOND, b"beyond"), now_us=0)
    assert subend.events() == [Recovering("p", "end", on=True)]
    assert subend.statistics().held == 1
    subend.receive(Silence("p", 0, SECOND // 2), now_us=1)
    subend.receive(Silence("p", SECOND // 2 + 1, SECOND), now_us=2)
    assert delivered(subend) == [SECOND // 2]
    assert subend.statistics().recovering
    subend.receive(Silence("p", SECOND, 3 * SECOND // 2), now_us=3)
    subend.receive(Data("p", 3 * SECOND // 2, 2 * SECOND, b"again"), now_us=4)
    assert [type(event) for event in subend.events()] == [Delivered, Recovering]
    assert not subend.statistics().recovering


def test_what_the_log_has_let_go_is_told_as_missed_and_not_waited_for() -> None:
    subend = ended()
    subend.receive(Data("p", 4, 5, b"a"), now_us=0)
    subend.receive(Data("p", 20, 22, b"b"), now_us=0)
    subend.events()
    subend.receive(FinalTicks("p", 10), now_us=1)
    assert subend.events() == [Delivered("p", "end", 5, b"a"), Missed("p", "end", 0, 10)]
    assert subend.horizon == 10
    subend.receive(Silence("p", 10, 20), now_us=2)
    assert delivered(subend) == [22]


def test_a_new_stream_may_begin_with_what_it_hears_first() -> None:
    subend = ended(None)
    subend.receive(Query("p", 1, 100), now_us=0)
    assert subend.outgoing() == []
    subend.receive(Data("p", 40, 50, b"x"), now_us=1)
    assert delivered(subend) == [50]
    assert nacks(subend) == []


def queried(subend: Subend, number: int, position: int, now_us: int) -> Alert | None:
    subend.receive(Query("p", number, position), now_us=now_us)
    return next((one for one in subend.outgoing() if isinstance(one, Alert)), None)


def test_a_stream_that_keeps_up_answers_no_query() -> None:
    subend = ended()
    for second in range(30):
        subend.receive(Silence("p", second * SECOND, (second + 1) * SECOND), now_us=second * 1_000_000)
        assert queried(subend, second + 1, (second + 1) * SECOND, second * 1_000_000) is None


def test_a_pubend_whose_clock_stands_still_is_not_taken_for_congestion() -> None:
    subend = ended()
    subend.receive(Silence("p", 0, 100), now_us=0)
    for second in range(1, 60):
        subend.receive(Data("p", 99 + second, 99 + second, b""), now_us=second * 1_000_000)
        assert queried(subend, second, 100 + second, second * 1_000_000) is None
    assert queried(subend, 90, 5_000, 60_000_000) is None  # a few milliseconds are on the way
    assert queried(subend, 91, SECOND, 61_000_000) is not None


def test_a_stream_that_falls_behind_tells_its_smoothed_rate() -> None:
    subend = ended()
    assert queried(subend, 1, 0, 0) is None
    subend.receive(Silence("p", 0, SECOND // 2), now_us=900_000)
    assert queried(subend, 2, SECOND, 1_000_000) is None  # 0.95 is not below 1 − Δt_nonrec
    alert = queried(subend, 3, 2 * SECOND, 2_000_000)
    assert alert is not None
    assert alert.keeping == pytest.approx(0.9 * 0.95)
    assert (alert.number, alert.recovering, alert.behind) == (3, inf, 3 * SECOND // 2)


def test_a_stream_that_is_slowly_left_behind_says_so_too() -> None:
    subend = ended()
    queried(subend, 1, 0, 0)
    subend.receive(Silence("p", 0, SECOND), now_us=1_000_000)
    assert queried(subend, 2, 5 * SECOND, 1_000_000) is None
    subend.receive(Silence("p", SECOND, 2 * SECOND), now_us=2_000_000)
    alert = queried(subend, 3, 6 * SECOND + 1, 2_000_000)
    assert alert is not None
    assert alert.keeping == pytest.approx(1.0)


def test_one_that_recovers_wants_more_than_the_stream() -> None:
    subend = ended(receive_window_us=1_000_000, recovering_gain=0.5)
    subend.receive(Data("p", 60 * SECOND, 60 * SECOND, b""), now_us=0)
    for second in range(1, 40):
        subend.receive(Silence("p", subend.horizon, subend.horizon + SECOND), now_us=second * 1_000_000)
        alert = queried(subend, second, 60 * SECOND, second * 1_000_000)
        assert alert is not None
        assert alert.recovering == pytest.approx(1.0)
        assert alert.keeping == inf


def test_a_query_is_answered_once_and_with_an_acknowledgement() -> None:
    subend = ended()
    subend.receive(Silence("p", 0, 100), now_us=0)
    subend.acknowledge(60)
    subend.acknowledge(40)
    subend.receive(Query("p", 5, 100), now_us=1)
    assert subend.outgoing() == [Ack("p", 60)]
    subend.receive(Query("p", 5, 100), now_us=2)
    subend.receive(Query("p", 4, 100), now_us=2)
    assert subend.outgoing() == []
    subend.acknowledge(1_000)
    assert subend.acked == 100


def test_what_comes_from_below_is_refused() -> None:
    with pytest.raises(StreamError, match="Ack"):
        ended().receive(Ack("p", 1), now_us=0)


def test_a_stream_that_is_paused_takes_nothing_and_asks_for_nothing() -> None:
    subend = ended()
    subend.resume(50, now_us=0)
    assert nacks(subend) == [(0, 50)]
    subend.pause()
    subend.receive(Data("p", 0, 10, b"a"), now_us=1)
    subend.receive(FinalTicks("p", 20), now_us=1)
    assert (subend.horizon, subend.events(), subend.timer()) == (0, [], None)
    subend.receive(Query("p", 1, 50), now_us=2)  # whoever asks is answered all the same
    assert Ack("p", 0) in subend.outgoing()
    subend.resume(60, now_us=3)
    assert nacks(subend) == [(0, 60)]  # what was on its way was not heard
    subend.receive(Data("p", 0, 10, b"a"), now_us=4)
    subend.receive(Silence("p", 11, 60), now_us=5)
    assert delivered(subend) == [10]
    assert subend.horizon == 60


def test_a_stream_that_is_far_behind_begins_to_recover_by_itself() -> None:
    subend = ended(nack_window_us=100_000)
    subend.resume(100 * SECOND, now_us=0)
    assert subend.statistics().recovering
    assert nacks(subend) == [(0, ticks_in(100_000))]


def test_a_long_silence_is_passed_at_once_and_the_message_behind_it_is_taken() -> None:
    subend = ended()
    subend.receive(Silence("p", 0, 100 * SECOND), now_us=0)
    assert subend.horizon == 100 * SECOND
    subend.receive(Data("p", 100 * SECOND, 200 * SECOND, b"a"), now_us=1)
    assert delivered(subend) == [200 * SECOND]
    assert not subend.statistics().recovering
    subend.receive(Silence("p", 300 * SECOND, 400 * SECOND), now_us=2)  # not known what lies before
    assert subend.horizon == 200 * SECOND + 1
    assert subend.statistics().recovering
