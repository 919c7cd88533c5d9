"""A pubend tells what is durable, once, and claims no silence it could break after a restart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.streams.knowledge import Knowledge
from penstock.core.streams.log import MemoryLog
from penstock.core.streams.messages import (
    Ack,
    Acknowledged,
    Alert,
    ClockBehind,
    Data,
    FinalTicks,
    Message,
    Nack,
    Query,
    Silence,
)
from penstock.core.streams.options import StreamOptions
from penstock.core.streams.pubend import Pubend
from penstock.core.streams.ticks import tick_at
from penstock.errors import StreamError

START_US = 1_000_000_000
SECOND_US = 1_000_000


def hosted(
    log: MemoryLog | None = None, *, now_us: int = START_US, **options: object
) -> tuple[Pubend, MemoryLog]:
    log = MemoryLog() if log is None else log
    pubend = Pubend("p", log, StreamOptions(**options), now_us=now_us)  # type: ignore[arg-type]
    log.commit()
    return pubend, log


def commit(pubend: Pubend, log: MemoryLog, *, now_us: int) -> None:
    until, claimed = log.commit()
    pubend.committed(until, claimed=claimed, now_us=now_us)


def learn(messages: list[Message]) -> Knowledge:
    knowledge = Knowledge()
    for message in messages:
        if isinstance(message, Data):
            knowledge.learn_silence(message.since, message.tick)
            knowledge.learn_data(message.tick, message.body)
        elif isinstance(message, Silence):
            knowledge.learn_silence(message.since, message.until)
    return knowledge


def test_a_message_is_told_and_acknowledged_once_it_is_durable() -> None:
    pubend, log = hosted()
    tick = pubend.publish(b"a", now_us=START_US + 5_000)
    assert pubend.outgoing() == []
    assert pubend.events() == []
    commit(pubend, log, now_us=START_US + 9_000)
    assert pubend.outgoing() == [Data("p", tick_at(START_US), tick, b"a")]
    assert pubend.events() == [Acknowledged("p", tick)]


def test_messages_of_one_millisecond_have_ticks_of_their_own() -> None:
    pubend, log = hosted()
    found = [pubend.publish(b"", now_us=START_US) for _ in range(3_000)]
    assert found == list(range(found[0], found[0] + 3_000))
    commit(pubend, log, now_us=START_US)
    assert len(pubend.events()) == 3_000


def test_an_idle_pubend_says_so_once_its_claim_is_durable() -> None:
    pubend, log = hosted()
    pubend.on_timer(now_us=START_US + 1_000_000)
    assert not any(isinstance(one, Silence) for one in pubend.outgoing())
    commit(pubend, log, now_us=START_US + 1_003_000)
    pubend.on_timer(now_us=START_US + 2_000_000)
    silences = [one for one in pubend.outgoing() if isinstance(one, Silence)]
    assert silences == [Silence("p", tick_at(START_US), tick_at(START_US + 2_000_000))]


def test_silence_goes_on_while_the_clock_is_behind() -> None:
    log = MemoryLog()
    log.claim(tick_at(START_US))
    log.commit()
    early_us = START_US - 7_200_000_000
    pubend = Pubend("p", log, StreamOptions(), now_us=early_us)
    for second in range(3):
        pubend.on_timer(now_us=early_us + second * 1_000_000)
        commit(pubend, log, now_us=early_us)
    silences = [one for one in pubend.outgoing() if isinstance(one, Silence)]
    start = tick_at(START_US)
    assert silences == [Silence("p", start, start + 1), Silence("p", start + 1, start + 2)]
    assert log.end < start + 10


def test_a_message_that_is_not_durable_holds_silence_back() -> None:
    pubend, log = hosted()
    pubend.publish(b"a", now_us=START_US + 100)
    commit(pubend, log, now_us=START_US + 200)
    pubend.publish(b"b", now_us=START_US + 900_000)
    for second in range(1, 5):
        pubend.on_timer(now_us=START_US + second * SECOND_US)
    assert not any(isinstance(one, Silence) for one in pubend.outgoing())


@given(st.lists(st.tuples(st.sampled_from("pctx"), st.integers(0, 3 * SECOND_US)), max_size=40))
def test_no_restart_gives_out_a_tick_that_was_told_to_be_silent(steps: list[tuple[str, int]]) -> None:
    """Publish, commit, timer, crash with a clock that may be set back by two seconds."""
    pubend, log = hosted()
    now_us = START_US
    told: list[Message] = []
    durable: dict[int, bytes] = {}
    waiting: dict[int, bytes] = {}
    for kind, number in steps:
        now_us += number
        if kind == "p":
            waiting[pubend.publish(b"%d" % now_us, now_us=now_us)] = b"%d" % now_us
        elif kind == "c":
            commit(pubend, log, now_us=now_us)
            durable |= waiting
            waiting.clear()
        elif kind == "t":
            pubend.on_timer(now_us=now_us)
        else:
            log.crash()
            waiting.clear()
            now_us = max(START_US, now_us - 2 * SECOND_US)
            pubend, _ = hosted(log, now_us=now_us)
        told += pubend.outgoing()
    knowledge = learn(told)
    assert knowledge.conflicts == 0
    for since, until in knowledge.known(0, 1 << 60):
        inside = {tick: body for tick, body in durable.items() if since <= tick < until}
        assert dict(knowledge.data(since, until)) == inside


def test_a_nack_is_answered_from_the_log_with_all_the_silence_there_is() -> None:
    pubend, log = hosted()
    ticks = [pubend.publish(b"%d" % second, now_us=START_US + second * SECOND_US) for second in range(5)]
    commit(pubend, log, now_us=START_US + 5 * SECOND_US)
    pubend.outgoing()
    pubend.receive(Nack("p", ((ticks[1], ticks[1] + 1),)), now_us=START_US + 5 * SECOND_US)
    assert pubend.outgoing() == [Data("p", ticks[1], ticks[1], b"1"), Silence("p", ticks[1] + 1, ticks[2])]


def test_a_log_that_is_not_at_hand_is_waited_for() -> None:
    class Slow(MemoryLog):
        ready = False

        def read(self, since: int, until: int, most: int) -> list[tuple[int, bytes]] | None:
            return super().read(since, until, most) if self.ready else None

    log = Slow()
    pubend, _ = hosted(log)
    tick = pubend.publish(b"a", now_us=START_US)
    commit(pubend, log, now_us=START_US)
    pubend.outgoing()
    pubend.receive(Nack("p", ((tick, tick + 1),)), now_us=START_US)
    assert pubend.outgoing() == []
    log.ready = True
    pubend.resume()
    assert pubend.outgoing() == [Data("p", tick, tick, b"a")]
    pubend.resume()
    assert pubend.outgoing() == []


def test_what_all_have_processed_leaves_the_log_and_is_final() -> None:
    pubend, log = hosted(retain_us=0)
    ticks = [pubend.publish(b"x", now_us=START_US + number) for number in range(10)]
    commit(pubend, log, now_us=START_US + 10)
    pubend.receive(Ack("p", ticks[6]), now_us=START_US + 20)
    pubend.on_timer(now_us=START_US + SECOND_US)
    assert len(log) == 4
    pubend.outgoing()
    pubend.receive(Nack("p", ((ticks[0], ticks[8]),)), now_us=START_US + SECOND_US)
    assert pubend.outgoing() == [
        FinalTicks("p", ticks[6]),
        Data("p", ticks[6], ticks[6], b"x"),
        Data("p", ticks[7], ticks[7], b"x"),
    ]


def test_acknowledged_messages_are_retained_as_long_as_asked() -> None:
    pubend, log = hosted(retain_us=10 * SECOND_US)
    tick = pubend.publish(b"x", now_us=START_US)
    commit(pubend, log, now_us=START_US)
    pubend.receive(Ack("p", tick + 1), now_us=START_US)
    pubend.on_timer(now_us=START_US + 9 * SECOND_US)
    assert len(log) == 1
    pubend.on_timer(now_us=START_US + 11 * SECOND_US)
    assert len(log) == 0


def test_what_somebody_holds_stays_in_the_log_though_it_was_acknowledged() -> None:
    pubend, log = hosted()
    first, second = (pubend.publish(b"", now_us=START_US) for _ in range(2))
    commit(pubend, log, now_us=START_US)
    pubend.receive(Ack("p", second + 1), now_us=START_US)
    pubend.hold("consumer", second)
    pubend.on_timer(now_us=START_US + SECOND_US)
    assert log.trimmed == second
    assert [tick for tick, _ in log.read(0, second + 1, 9) or ()] == [second]
    pubend.hold("consumer", None)
    pubend.on_timer(now_us=START_US + 2 * SECOND_US)
    assert log.trimmed == second + 1 > first


def test_silence_is_never_gone() -> None:
    pubend, log = hosted()
    for second in range(1, 9):
        commit(pubend, log, now_us=START_US + second * SECOND_US)
        pubend.on_timer(now_us=START_US + second * SECOND_US)
        pubend.receive(Ack("p", pubend.position), now_us=START_US + second * SECOND_US)
    assert pubend.acked > tick_at(START_US)
    assert log.trimmed == 0
    tick = pubend.publish(b"", now_us=START_US + 9 * SECOND_US)
    commit(pubend, log, now_us=START_US + 9 * SECOND_US)
    pubend.receive(Ack("p", tick + 1), now_us=START_US + 9 * SECOND_US)
    pubend.on_timer(now_us=START_US + 10 * SECOND_US)
    assert log.trimmed == tick + 1


def test_who_asks_for_too_much_at_once_is_told_a_part_and_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.limits.STREAM_READ", 4)
    monkeypatch.setattr("penstock.limits.STREAM_ANSWER_BYTES", 1_000)
    pubend, log = hosted()
    ticks = [pubend.publish(bytes(100), now_us=START_US) for _ in range(100)]
    commit(pubend, log, now_us=START_US)
    pubend.outgoing()
    told: list[int] = []
    asked = 0
    while len(told) < 100:
        asked += 1
        since = told[-1] + 1 if told else ticks[0]
        pubend.receive(Nack("p", ((since, since + 10), (since + 10, pubend.position))), now_us=START_US)
        found = [one.tick for one in pubend.outgoing() if isinstance(one, Data)]
        assert 0 < len(found) <= 10 + 4
        told += found
    assert told == ticks
    assert asked <= 10


def test_acknowledgements_are_held_back_to_the_rate() -> None:
    pubend, log = hosted(no_alert_us=60 * SECOND_US)
    now_us = START_US
    acknowledged = 0
    for _ in range(300):
        now_us += 10_000
        pubend.publish(b"", now_us=now_us)
        commit(pubend, log, now_us=now_us)
        if pubend.timer() <= now_us:
            pubend.on_timer(now_us=now_us)
        acknowledged += sum(isinstance(one, Acknowledged) for one in pubend.events())
    assert acknowledged == 300
    number = next(one.number for one in reversed(pubend.outgoing()) if isinstance(one, Query))
    pubend.receive(Alert("p", number, 0.5, 1.0), now_us=now_us)
    assert pubend.control.rate == pytest.approx(50)
    acknowledged = 0
    for _ in range(400):
        now_us += 10_000
        pubend.publish(b"", now_us=now_us)
        commit(pubend, log, now_us=now_us)
        pubend.on_timer(now_us=now_us)
        acknowledged += sum(isinstance(one, Acknowledged) for one in pubend.events())
    assert acknowledged == pytest.approx(200, abs=5)
    assert pubend.held == 400 - acknowledged
    found = pubend.statistics()
    assert (found.published, found.waiting, found.held) == (700, 0, pubend.held)
    assert found.rate == pytest.approx(50)


def test_who_does_not_wait_for_acknowledgements_is_refused_in_the_end() -> None:
    pubend, log = hosted(held_most=3)
    for _ in range(3):
        pubend.publish(b"", now_us=START_US)
    with pytest.raises(StreamError, match="holds back 3"):
        pubend.publish(b"", now_us=START_US)
    commit(pubend, log, now_us=START_US)
    pubend.publish(b"", now_us=START_US)


def test_a_clock_that_is_set_back_is_told_and_ticks_go_on() -> None:
    pubend, log = hosted()
    first = pubend.publish(b"", now_us=START_US + 60 * SECOND_US)
    second = pubend.publish(b"", now_us=START_US + 30 * SECOND_US)
    assert second == first + 1
    commit(pubend, log, now_us=START_US + 30 * SECOND_US)
    events = pubend.events()
    assert [one.behind_us // SECOND_US for one in events if isinstance(one, ClockBehind)] == [30]


def test_a_clock_is_not_blamed_for_a_quick_restart() -> None:
    pubend, log = hosted()
    for second in range(1, 20):
        pubend.on_timer(now_us=START_US + second * SECOND_US)
        commit(pubend, log, now_us=START_US + second * SECOND_US)
        now_us = START_US + second * SECOND_US
        log.crash()
        pubend = Pubend("p", log, StreamOptions(), now_us=now_us)
        pubend.publish(b"", now_us=now_us)
        assert not [one for one in pubend.events() if isinstance(one, ClockBehind)]
        log.crash()
        pubend = Pubend("p", log, StreamOptions(), now_us=now_us)


def test_a_pubend_is_told_nothing_from_above() -> None:
    pubend, _ = hosted()
    with pytest.raises(StreamError, match="Silence"):
        pubend.receive(Silence("p", 0, 1), now_us=START_US)
    with pytest.raises(StreamError, match="name"):
        Pubend("", MemoryLog(), StreamOptions(), now_us=0)
