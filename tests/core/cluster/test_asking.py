"""Questions to another node, and their answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.cluster.asking import Asking
from penstock.core.cluster.frames import Answer, Ask, decode_frame, decode_items
from penstock.core.cluster.peer import PeerLink
from penstock.errors import ClusterError


def test_an_answer_finds_the_one_who_has_asked() -> None:
    asking = Asking()
    found: list[tuple[str, Answer]] = []
    one = asking.ask("where", b"a", lambda answer: found.append(("one", answer)), until_us=10)
    two = asking.ask("where", b"b", lambda answer: found.append(("two", answer)), until_us=10)
    assert (one.number, two.number) == (1, 2)
    asking.answered(Answer(2, b"here"))
    asking.answered(Answer(2, b"again"))
    asking.answered(Answer(99, b"to nothing"))
    assert found == [("two", Answer(2, b"here"))]
    asking.expire(now_us=9)
    assert len(asking) == 1
    asking.expire(now_us=10)
    assert found[1] == ("one", Answer(1, problem="no answer to where in time"))
    assert not len(asking)


def test_questions_are_bounded() -> None:
    asking = Asking(most=1)
    asking.ask("where", b"", lambda _: None, until_us=1)
    with pytest.raises(ClusterError, match="1 questions wait"):
        asking.ask("where", b"", lambda _: None, until_us=1)
    link = PeerLink([], lambda _: [])
    for number in range(limits.CLUSTER_ASKS):
        link.post(Ask(number, "where"))
    with pytest.raises(ClusterError, match="wait for the link"):
        link.post(Ask(0, "where"))


@given(st.lists(st.tuples(st.sampled_from(["ask", "answer", "expire", "away"]), st.integers(1, 8))))
def test_everyone_who_asks_is_told_once(steps: list[tuple[str, int]]) -> None:
    asking, told, asked = Asking(), dict[int, int](), 0

    def note(answer: Answer) -> None:
        told[answer.number] = told.get(answer.number, 0) + 1

    for what, number in steps:
        if what == "ask":
            asked = asking.ask("k", b"", note, until_us=number).number
        elif what == "answer":
            asking.answered(Answer(number))
        elif what == "expire":
            asking.expire(now_us=number)
        else:
            asking.give_up("away")
    assert set(told.values()) <= {1}
    assert len(told) + len(asking) == asked
    asking.give_up("the end")
    assert sorted(told) == list(range(1, asked + 1))


def test_words_go_in_order_and_within_the_window() -> None:
    link = PeerLink([], lambda _: [], window_bytes=1_000)
    for number in range(1, 11):
        link.post(Ask(number, "where", bytes(300)))
    frames = link.frames(now_us=0)
    assert not link.idle
    assert link.in_flight_bytes <= 1_500
    numbers = []
    while frames:
        for frame in frames:
            data = decode_frame(frame)
            numbers += [item.number for item in decode_items(data.body) if isinstance(item, Ask)]  # type: ignore[union-attr]
        other = PeerLink([], lambda _: [])
        link.received(other.acknowledgement(data.number), now_us=1)  # type: ignore[union-attr]
        frames = link.frames(now_us=1)
    assert numbers == list(range(1, 11))
    assert link.idle
