"""How a session comes from one node to another: the questions, and what is held meanwhile."""

# ruff: noqa: ARG002  # the node of these tests needs little of what it is told

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.cluster.handover import (
    About,
    Attach,
    Attached,
    Filters,
    Given,
    Held,
    Outcome,
    Take,
    arrive,
    body_of,
    read_body,
)
from penstock.core.cluster.sessions import Record
from penstock.errors import ClusterError
from penstock.model.event import Event

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from penstock.core.cluster.seen import Marks


def run(work: Coroutine[None, None, Outcome]) -> Outcome:
    """Nothing here waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


class Node:
    """A node whose others answer at once, or not at all."""

    name = "n1"
    incarnation = 1

    def __init__(self, session: bytes | None, *, silent: tuple[str, ...] = (), facts: bytes = b"f") -> None:
        self.session = session
        self.silent = silent
        self.facts = facts
        self.filters = [["a"]]
        """Filters of the session, one list after the other."""
        self.log: list[str] = []
        self.taken_in: bytes | None = None

    owners: tuple[str, ...] = ("root of phone", "next of phone")

    def owners_of(self, client: str) -> tuple[str, ...]:
        return self.owners

    elsewhere = ""
    """Where the session has gone from the node that the root knows."""

    async def ask(self, node: str, kind: str, body: bytes) -> bytes:
        self.log.append(f"{kind} {node}")
        if kind in self.silent or node in self.silent:
            raise ClusterError("no answer")
        match kind:
            case "attach":
                assert read_body(body, Attach).client == "phone"
                before = Record("phone", 7, "n2", 1, self.facts) if self.session is not None else None
                return body_of(Attached(9, before))
            case "read":
                assert read_body(body, About).epoch == 9
                return body_of(Filters(bool(self.session), self.filters[0], self.elsewhere))
            case "take":
                assert self.session is not None
                said = read_body(body, Take)
                at = said.position
                if said.filters is not None and len(self.filters) > 1:
                    self.filters.pop(0)  # the client has subscribed to more
                    return body_of(Given(0, changed=True))
                return body_of(Given(len(self.session), self.session[at : at + 3], {"n3": (1, 4)}))
            case _:
                return b""

    async def fences(self, node: str) -> list[str]:
        self.log.append(f"fence {node}")
        return [self.name]

    def placed(self, client: str, epoch: int) -> None:
        self.log.append(f"epoch {epoch}")

    def hold(self, client: str, filters: list[str]) -> None:
        self.log.append(f"hold {filters}")

    def let_go(self, client: str) -> None:
        self.log.append("let go")

    async def take_in(self, client: str, data: bytes, given: Given, *, fenced: list[str]) -> None:
        self.taken_in = data

    restarted = False
    """Whether the holder was started anew since it told of the session."""

    def is_member(self, node: str, incarnation: int) -> bool:
        return not self.restarted

    def taken(self, client: str, holder: str, about: bytes) -> None:
        self.log.append(f"took {holder}")

    def recall(self, record: Record) -> bool:
        self.log.append("recall")
        return True


def test_filters_that_are_new_meanwhile_are_held_and_fenced_too() -> None:
    node = Node(b"01")
    node.filters = [["a"], ["a", "b"]]
    assert run(arrive(node, "phone", clean=False)) is Outcome.MOVED
    assert [each for each in node.log if "hold" in each] == ["hold ['a']", "hold ['a', 'b']"]
    again = node.log.index("hold ['a', 'b']")
    assert node.log[again - 2 : again + 3] == ["take n2", "read n2", "hold ['a', 'b']", "fence n2", "take n2"]


def test_a_client_that_subscribes_all_the_time_moves_all_the_same() -> None:
    node = Node(b"01")
    node.filters = [["a"], ["b"], ["c"], ["d"]]
    assert run(arrive(node, "phone", clean=False)) is Outcome.MOVED
    assert [each for each in node.log if "hold" in each] == ["hold ['a']", "hold ['b']", "hold ['c']"]


def test_a_session_comes_from_the_node_that_has_taken_it_from_its_holder() -> None:
    node = Node(b"0123456789")
    node.elsewhere = "n4"
    assert run(arrive(node, "phone", clean=False)) is Outcome.MOVED
    assert node.log[2:5] == ["read n2", "hold ['a']", "fence n4"]
    assert [each for each in node.log if "take" in each or "took" in each][::4] == ["take n4", "took n4"]


def test_a_session_comes_whole_after_the_fence() -> None:
    node = Node(b"0123456789")
    assert run(arrive(node, "phone", clean=False)) is Outcome.MOVED
    assert node.taken_in == b"0123456789"
    assert node.log == [
        "attach root of phone",
        "epoch 9",
        "read n2",
        "hold ['a']",
        "fence n2",
        *["take n2"] * 4,
        "let go",
        "took n2",
    ]


def test_no_session_one_that_has_ended_and_a_clean_start() -> None:
    assert run(arrive(Node(None), "phone", clean=False)) is Outcome.NEW
    assert run(arrive(Node(b""), "phone", clean=False)) is Outcome.NEW
    node = Node(b"x")
    assert run(arrive(node, "phone", clean=True)) is Outcome.ENDED
    assert node.log[-1] == "end n2"


def test_a_session_in_the_memory_of_a_node_that_was_started_anew_is_recalled() -> None:
    node = Node(b"")
    node.restarted = True
    assert run(arrive(node, "phone", clean=False)) is Outcome.RECALLED
    assert node.log[-2:] == ["let go", "recall"]
    node = Node(b"", facts=b"")
    node.restarted = True
    assert run(arrive(node, "phone", clean=False)) is Outcome.NEW


@pytest.mark.parametrize("silent", ["read", "take"])
def test_without_the_holder_the_root_s_record_serves(silent: str) -> None:
    node = Node(b"x", silent=(silent,))
    assert run(arrive(node, "phone", clean=False)) is Outcome.RECALLED
    assert node.log[-1] == "recall"
    assert ("hold ['a']" in node.log) is (silent == "take")
    assert run(arrive(Node(b"x", silent=(silent,), facts=b""), "phone", clean=False)) is Outcome.ALONE
    node = Node(b"x", silent=("attach",))
    assert run(arrive(node, "phone", clean=False)) is Outcome.ALONE
    assert node.log == ["attach root of phone", "attach next of phone"]


def test_without_the_root_the_next_owner_knows() -> None:
    node = Node(b"x", silent=("root of phone",))
    assert run(arrive(node, "phone", clean=False)) is Outcome.MOVED
    assert node.log[:3] == ["attach root of phone", "attach next of phone", "epoch 9"]


def test_a_root_that_is_lost_meanwhile_is_asked_no_more_and_owners_are_asked_a_few_times() -> None:
    class Losing(Node):
        async def ask(self, node: str, kind: str, body: bytes) -> bytes:
            self.owners = tuple(f"n{len(self.log) + 4 + at}" for at in range(2))
            return await super().ask(node, kind, body)

    node = Losing(b"x", silent=("root of phone", "n4"))
    assert run(arrive(node, "phone", clean=False)) is Outcome.MOVED
    assert node.log[:3] == ["attach root of phone", "attach n4", "attach n5"]
    node = Losing(b"x", silent=("attach",))
    assert run(arrive(node, "phone", clean=False)) is Outcome.ALONE
    assert len(node.log) == 3


def test_damaged_bodies_are_refused() -> None:
    with pytest.raises(ClusterError, match="damaged"):
        read_body(b"\xc1", About)
    with pytest.raises(ClusterError, match="damaged"):
        read_body(body_of([1, 2]), About)


origins = st.sampled_from(["n1", "n2", "n3"])


@given(st.lists(origins, max_size=60), st.dictionaries(origins, st.integers(0, 30)), st.data())
def test_what_the_holder_has_seen_and_what_is_held_make_each_event_once(
    published: list[str], cut: dict[str, int], data: st.DataObject
) -> None:
    """Each origin's events go to both nodes in order; the holder is asked after it has seen some of them."""
    numbers: dict[str, int] = {}
    events: list[tuple[str, int]] = []
    for origin in published:
        numbers[origin] = numbers.get(origin, 0) + 1
        events.append((origin, numbers[origin]))
    first = {origin: data.draw(st.integers(0, count)) for origin, count in numbers.items()}
    marks: Marks = {
        origin: (1, max(first[origin], min(cut.get(origin, 0), count))) for origin, count in numbers.items()
    }
    seen = [each for each in events if each[1] <= marks[each[0]][1]]
    held = Held()
    for origin, number in events:
        if number > first[origin]:  # before that its origin did not know of the new interest
            held.add(origin, 1, number, Event(f"{origin}/{number}", b"", 0))
    after = [(each.origin, each.number) for each in held.above(marks)]
    assert sorted(seen + after) == sorted(events)
    for origin in numbers:
        mine = [number for name, number in seen + after if name == origin]
        assert mine == sorted(mine)


def test_what_two_have_held_for_a_session_is_there_once_and_in_order() -> None:
    earlier, held = Held(most=2), Held()
    for number in (1, 2, 3):
        earlier.add("n3", 1, number, Event("a", b"", 0))
    for number in (3, 4):
        held.add("n3", 1, number, Event("a", b"", 0))
    held.follow(earlier)
    assert [one.number for one in held.above({})] == [2, 3, 4]
    assert held.dropped == 1


def test_what_is_held_of_an_earlier_incarnation_than_the_holder_knows_is_not_sent_but_counted() -> None:
    held = Held()
    for incarnation, number in [(1, 8), (2, 1), (2, 2)]:
        held.add("n3", incarnation, number, Event("a", b"", 0))
    assert [(one.incarnation, one.number) for one in held.above({"n3": (2, 1)})] == [(2, 2)]
    assert held.missed({"n3": (2, 1)}, {}) == 1


def test_a_restarted_origin_counts_anew_and_what_is_held_is_bounded() -> None:
    held = Held(most=2)
    for incarnation, number in [(1, 8), (1, 9), (2, 1)]:
        held.add("n3", incarnation, number, Event("a", b"", 0))
    assert held.dropped == 1
    assert [(one.incarnation, one.number) for one in held.above({"n3": (1, 9)})] == [(2, 1)]
