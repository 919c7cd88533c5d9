"""Ticks as runs mean what a table of ticks means, and knowledge only grows."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.streams.knowledge import Knowledge, TickState
from penstock.core.streams.ticks import Spans

TICKS = 24
RANK = {TickState.UNKNOWN: 0, TickState.SILENCE: 1, TickState.DATA: 1, TickState.FINAL: 2}

spans = st.tuples(st.integers(0, TICKS), st.integers(0, TICKS))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("silence"), spans),
        st.tuples(st.just("data"), st.integers(0, TICKS - 1)),
        st.tuples(st.just("final"), st.integers(0, TICKS)),
    ),
    max_size=15,
)


class Naive:
    """A dictionary of ticks."""

    def __init__(self) -> None:
        self.states = dict.fromkeys(range(TICKS), TickState.UNKNOWN)

    def apply(self, kind: str, where: tuple[int, int] | int) -> None:
        if kind == "data":
            assert isinstance(where, int)
            if self.states[where] is TickState.UNKNOWN:
                self.states[where] = TickState.DATA
            return
        since, until = (0, where) if isinstance(where, int) else where
        for tick in range(since, until):
            if kind == "final":
                self.states[tick] = TickState.FINAL
            elif self.states[tick] is TickState.UNKNOWN:
                self.states[tick] = TickState.SILENCE

    @property
    def horizon(self) -> int:
        return next((tick for tick, state in self.states.items() if state is TickState.UNKNOWN), TICKS)


def apply(knowledge: Knowledge, kind: str, where: tuple[int, int] | int) -> None:
    if kind == "silence":
        assert isinstance(where, tuple)
        knowledge.learn_silence(*where)
    elif kind == "data":
        assert isinstance(where, int)
        knowledge.learn_data(where, bytes([where]))
    else:
        assert isinstance(where, int)
        knowledge.finalise(where)


@given(steps)
def test_runs_mean_what_a_table_means(found: list[tuple[str, tuple[int, int] | int]]) -> None:
    knowledge, naive = Knowledge(), Naive()
    for kind, where in found:
        apply(knowledge, kind, where)
        naive.apply(kind, where)
        assert [knowledge.state(tick) for tick in range(TICKS)] == list(naive.states.values())
        assert knowledge.horizon == naive.horizon
        data = [tick for tick, state in naive.states.items() if state is TickState.DATA]
        assert [tick for tick, _ in knowledge.data(0, TICKS)] == data
        assert knowledge.size == knowledge.messages == len(data)


@given(steps, spans)
def test_runs_cover_a_span_in_order(
    found: list[tuple[str, tuple[int, int] | int]], span: tuple[int, int]
) -> None:
    knowledge = Knowledge()
    for kind, where in found:
        apply(knowledge, kind, where)
    since, until = span
    told = [(tick, state) for start, end, state in knowledge.runs(since, until) for tick in range(start, end)]
    assert told == [(tick, knowledge.state(tick)) for tick in range(since, until)]
    unknown = [tick for start, end in knowledge.unknown(since, until) for tick in range(start, end)]
    assert unknown == [tick for tick, state in told if state is TickState.UNKNOWN]
    known = [tick for start, end in knowledge.known(since, until) for tick in range(start, end)]
    assert known == [tick for tick, state in told if state in {TickState.DATA, TickState.SILENCE}]


@given(steps)
def test_nothing_is_unlearned(found: list[tuple[str, tuple[int, int] | int]]) -> None:
    knowledge = Knowledge()
    before = [TickState.UNKNOWN] * TICKS
    for kind, where in found:
        apply(knowledge, kind, where)
        after = [knowledge.state(tick) for tick in range(TICKS)]
        for old, new in zip(before, after, strict=True):
            assert RANK[new] > RANK[old] or new is old
        before = after


def test_data_where_silence_is_known_is_counted_and_not_believed() -> None:
    knowledge = Knowledge()
    knowledge.learn_silence(0, 10)
    assert not knowledge.learn_data(5, b"late")
    assert knowledge.state(5) is TickState.SILENCE
    assert knowledge.conflicts == 1
    knowledge.learn_data(12, b"a")
    knowledge.learn_data(12, b"a")
    assert knowledge.conflicts == 1
    knowledge.learn_data(12, b"b")
    assert knowledge.conflicts == 2


def test_an_idle_hour_is_one_run() -> None:
    knowledge = Knowledge()
    for second in range(3_600):
        knowledge.learn_silence(second * 1_024_000, (second + 1) * 1_024_000)
    assert knowledge.runs_held == 1
    assert knowledge.horizon == 3_600 * 1_024_000


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(0, 600))
def test_the_oldest_messages_go_first(sizes: list[int], keep: int) -> None:
    knowledge = Knowledge()
    for tick, size in enumerate(sizes):
        knowledge.learn_data(tick, bytes(size))
    knowledge.finalise(knowledge.oldest(keep))
    assert knowledge.size <= keep
    kept = sizes[len(sizes) - knowledge.messages :]
    more = sizes[max(0, len(sizes) - knowledge.messages - 1) :]
    assert knowledge.size == sum(kept)
    assert more == kept or sum(more) > keep


changes = st.lists(st.tuples(st.booleans(), spans), max_size=15)


@given(changes, spans)
def test_spans_mean_what_a_set_means(
    found: list[tuple[bool, tuple[int, int]]], asked: tuple[int, int]
) -> None:
    runs, naive = Spans(), set[int]()
    for put, (since, until) in found:
        if put:
            runs.add(since, until)
            naive |= set(range(since, until))
        else:
            runs.remove(since, until)
            naive -= set(range(since, until))
        listed = list(runs)
        assert {tick for start, end in listed for tick in range(start, end)} == naive
        assert all(start < end for start, end in listed)
        assert all(one[1] < other[0] for one, other in pairwise(listed))
        assert runs.end == (max(naive) + 1 if naive else None)
    since, until = asked
    inside = {tick for start, end in runs.within(since, until) for tick in range(start, end)}
    assert inside == naive & set(range(since, until))
    outside = {tick for start, end in runs.gaps(since, until) for tick in range(start, end)}
    assert outside == set(range(since, until)) - naive
    assert runs.run_end(since) == next(tick for tick in range(since, TICKS + 2) if tick not in naive)
    assert all((tick in runs) == (tick in naive) for tick in range(TICKS))
