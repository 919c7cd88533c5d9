"""A link that is behind: each class of receivers has its own queue, packed by its policy."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.cluster.backlog import Backlog, Outgoing
from penstock.core.cluster.frames import Carried, For, Told, Wants, decode_items, encode_item
from penstock.core.cluster.interest import OwnInterest, PeerInterest, ReceiverClass, canonical
from penstock.model.digest_wire import from_bytes
from penstock.model.event import Event
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from penstock.core.cluster.private import PrivateQueue

EVERY = canonical(parse("levels: [{drop: {every: 2}}, {drop: {every: 2}}]"))
LATEST = canonical(parse("levels: [{keep: {latest: 2}}]"))
URGENT = canonical(parse("attribute: $value\nurgent: {gt: 120}\nlevels: [{keep: {latest: 1}}]"))

CLASSES = {
    1: ReceiverClass(1, "a", *EVERY),
    3: ReceiverClass(3, "#", *LATEST),
    5: ReceiverClass(5, "a", *LATEST),
    7: ReceiverClass(7, "b", *URGENT),
}
PLAIN = 0


def outgoing(topic: str, seq: int, size: int = 1, *, retained: bool = False) -> Outgoing:
    event = Event(topic, b"x" * size, ts_us=seq, seq=seq)
    return Outgoing(event, encode_item(Carried(seq, topic, event.payload, seq)), retained=retained)


class Link:
    """A queue of a link, and what the classes at the other node get of it."""

    def __init__(self, *numbers: int, plain: str = "", events: int = 16, size: int = 1 << 20) -> None:
        self.own, self.interest = OwnInterest(), PeerInterest()
        self.matching = {"a": ["a", "#"], "b": ["b", "#"]}
        self.queue = self._new(events, size)
        for filter_ in plain.split():
            self.own.change(filter_, wanted=True)
        for number in numbers:
            self.own.begin(CLASSES[number])
        self.tell()
        self.got: dict[int, list[int]] = {}
        self.digested: Counter[int] = Counter()
        self.everybody: list[int] = []
        self.crossed = 0

    def _new(self, events: int, size: int) -> Backlog:
        return Backlog(
            lambda topic: [each for each in self.matching[topic] if each in self.interest.filters],
            self.interest,
            capacity_events=events,
            capacity_bytes=size,
        )

    def tell(self) -> None:
        """The interest crosses the link."""
        if self.own.pending:
            wants = self.own.told()
            _, removed = self.interest.apply(wants)
            self.queue.changed(wants, removed)

    def restart(self) -> None:
        """The other node is started anew, with the same classes under other numbers."""
        before = self.queue
        before_classes = list(self.interest.classes.values())
        self.own, self.interest = OwnInterest(), PeerInterest()
        self.queue = self._new(before._most_events, before._most_bytes)
        self.queue.inherit(before, now_us=0)
        before.abandon()
        assert before.account().balanced
        for one in before_classes:
            self.own.begin(CLASSES[one.number % 100]._replace(number=one.number + 100))

    def offer(self, topic: str, *numbers: int) -> None:
        for number in numbers:
            self.queue.offer(outgoing(topic, number), now_us=number)
            self.check()

    def take(self, most: int = 1 << 20, *, lost: bool = False) -> None:
        """A frame crosses, or the other node has not had it."""
        taken = self.queue.take(most)
        self.check()
        if lost:
            self.queue.give_back(taken, now_us=0)
            self.check()
            return
        classes: list[int] | None = None
        for item in decode_items(b"".join(taken.items)):
            match item:
                case For():
                    classes = item.classes
                case Told():
                    self.digested[item.to] += from_bytes(item.digest).count
                case Carried():
                    self.crossed += 1
                    for number in [-1] if classes is None else classes:
                        (self.everybody if number < 0 else self.got.setdefault(number, [])).append(
                            item.number
                        )
                    classes = None
                case _:
                    raise AssertionError(item)
        self.queue.landed(taken)
        self.check()

    def drain(self, most: int = 1 << 20) -> None:
        while not self.queue.empty:
            self.take(most)

    def check(self) -> None:
        """Every event, and every copy, is in one place."""
        queue = self.queue
        flying = queue.accepted - queue.account().accepted  # nothing is on its way between two calls here
        assert not flying
        for one in queue.private:
            assert one.account().balanced, one.account()
            assert sum(1 for _ in _waiting(one)) <= one.queued


def _waiting(queue: PrivateQueue) -> list[object]:
    return list(getattr(queue.waiting, "_kept", getattr(queue.waiting, "_copies", ())))


def test_a_link_that_keeps_up_sends_an_event_once_for_all_classes() -> None:
    link = Link(1, 3, 5, plain="a")
    link.offer("a", 1, 2, 3)
    link.drain()
    assert (link.everybody, link.got, link.queue.split) == ([1, 2, 3], {}, False)


def test_a_full_queue_is_packed_by_each_class_of_its_own_and_copies_of_an_event_cross_together() -> None:
    link = Link(1, 5, events=16)
    link.offer("a", *range(1, 18))
    assert link.queue.split
    assert len(link.queue) <= 16
    link.drain()
    assert link.everybody == []
    assert link.got[5] == [15, 16, 17]  # the last two, and the newest
    assert 17 in link.got[1]
    for number in (1, 5):
        assert link.got[number] == sorted(link.got[number])
        assert len(link.got[number]) + link.digested[number] == 17
    assert link.crossed == len(set(link.got[1]) | set(link.got[5])), "an event crosses once"
    assert link.queue.private.splits == 1
    link.offer("a", 18)
    link.drain()
    assert link.everybody == [18]


def test_copies_meet_also_where_digests_are_between_them() -> None:
    link = Link(1, 3, 5, plain="a", events=64)
    link.offer("a", *range(1, 120))
    link.drain(300)
    assert link.crossed == len({seq for got in (*link.got.values(), link.everybody) for seq in got})
    assert sum(map(len, link.got.values())) > link.crossed


def test_receivers_without_a_policy_lose_the_oldest_and_are_told_by_filter() -> None:
    link = Link(5, plain="a #", events=16)
    link.offer("a", *range(1, 18))
    link.drain()
    count = len(link.got[PLAIN])
    assert link.got[PLAIN] == list(range(18 - count, 18))
    assert link.digested[PLAIN] == 2 * (17 - count), "counted for both filters"
    assert link.queue.account().handed == len({*link.got[PLAIN], *link.got[5]})


def test_an_event_of_a_class_never_reaches_another() -> None:
    link = Link(3, 7, plain="a", events=8)
    for number in range(1, 40):
        link.offer("ab"[number % 2], number)
    link.drain(100)
    assert all(number % 2 == 0 for number in link.got[PLAIN]), "only topic a"
    assert all(number % 2 == 1 for number in link.got[7]), "only topic b"


def test_retained_messages_go_to_every_node_or_are_owed() -> None:
    link = Link(1, events=8)
    link.queue.offer(outgoing("b", 1, retained=True), now_us=0)
    link.offer("a", *range(2, 12))
    assert link.queue.split
    link.drain()
    assert link.got[PLAIN] == [1], "nobody wants it, and the node gets it all the same"
    for number in range(20, 60):
        link.queue.offer(outgoing("b", number, retained=True), now_us=0)
    assert link.queue.owed == {"b": None}
    link.drain()
    assert link.queue.account().balanced


def test_a_class_that_ends_is_abandoned_and_one_whose_receivers_have_moved_still_gets_what_waits() -> None:
    link = Link(1, 5, events=8)
    link.offer("a", *range(1, 12))
    link.own.end(1, moved=False)
    link.own.end(5, moved=True)
    link.own.begin(CLASSES[5]._replace(number=9))
    link.tell()
    link.offer("a", *range(12, 24))
    link.drain()
    assert 1 not in link.got
    assert max(link.got[5]) == 11
    assert len(link.got[5]) + link.digested[5] == 11, "what was split when its receivers moved"
    assert min(link.got[9]) > 11
    assert len(link.got[9]) + link.digested[9] + len(link.everybody) == 12
    assert link.queue.account().balanced


def test_a_restarted_node_gets_what_waits_for_the_classes_that_it_has_again() -> None:
    link = Link(1, 5, plain="a", events=8)
    link.offer("a", *range(1, 12))
    link.restart()
    assert link.queue.split
    taken = link.queue.take(1 << 20)
    assert (taken.private, taken.events) == ([], []), "it has not told its classes"
    link.queue.give_back(taken, now_us=0)
    link.own.change("a", wanted=True)
    link.tell()
    link.drain()
    assert sorted(link.got) == [PLAIN, 101, 105]
    for number in (101, 105):
        assert len(link.got[number]) + link.digested[number] + len(link.everybody) == 11
    assert link.queue.account().balanced
    assert link.queue.account().queued == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), st.sampled_from("ab"), st.integers(1, 12)),
        st.tuples(st.just("take"), st.integers(1, 400), st.booleans()),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=4 * settings().max_examples)
@given(STEPS, st.sets(st.sampled_from([1, 3, 5])), st.sampled_from(["", "a", "# a", "b"]), st.integers(4, 24))
def test_each_class_gets_every_event_in_order_or_counted_in_a_digest(
    steps: list[tuple[str, object, object]], numbers: set[int], plain: str, events: int
) -> None:
    link = Link(*sorted(numbers), plain=plain, events=events)
    offered: list[tuple[int, str]] = []
    for what, one, other in steps:
        if what == "offer":
            assert isinstance(one, str)
            assert isinstance(other, int)
            for _ in range(other):
                if any(each in link.interest.filters for each in link.matching[one]):
                    offered.append((len(offered) + 1, one))
                    link.offer(one, len(offered))
        elif what == "take" and not link.queue.empty:
            assert isinstance(one, int)
            link.take(one, lost=bool(other))
        elif what == "restart":
            link.restart()
            for filter_ in plain.split():
                link.own.change(filter_, wanted=True)
            link.tell()
    link.drain(200)
    account = link.queue.account()
    assert (account.queued, account.in_flight, account.abandoned) == (0, 0, 0)
    assert account.balanced
    for number in numbers:
        filter_ = CLASSES[number].filter
        wanted = [seq for seq, topic in offered if filter_ in ("#", topic)]
        names = range(number, number + 4_000, 100)
        got = sorted(
            [
                seq
                for each in (number, *range(number + 100, number + 4_000, 100))
                for seq in link.got.get(each, [])
            ]
            + [seq for seq in link.everybody if seq in wanted]
        )
        assert len(set(got)) == len(got), "nothing twice"
        assert set(got) <= set(wanted)
        digested = sum(link.digested[each] for each in names)
        assert len(got) + digested == len(wanted)
    for got in (*link.got.values(), link.everybody):
        assert got == sorted(got)


def test_the_memory_of_a_link_stays_within_its_bytes() -> None:
    link = Link(1, 3, 5, plain="a #", events=10_000, size=20_000)
    for number in range(1, 2_000):
        link.queue.offer(outgoing("a", number, size=90), now_us=number)
        assert link.queue.bytes <= 20_000
    link.drain()
    assert link.queue.account().balanced


def test_interest_of_policies_is_told_once_by_text_then_by_hash() -> None:
    own, theirs = OwnInterest(), PeerInterest()
    own.begin(CLASSES[5])
    first = own.told()
    assert first.policies == [LATEST]
    theirs.apply(first)
    own.begin(CLASSES[3])
    second = own.told()
    assert (second.policies, second.began) == ([], [(3, "#", LATEST[0])])
    assert theirs.apply(second) == (["#"], [])
    own.end(5, moved=False)
    assert theirs.apply(own.told()) == ([], ["a"])
    own.end(3, moved=True)
    assert theirs.apply(own.told()) == ([], ["#"])
    assert theirs.policies == {}, "both have forgotten it"
    own.begin(CLASSES[3])
    again = own.told()
    assert again.policies == [LATEST]
    theirs.apply(again)


def test_what_begins_and_ends_before_it_is_told_is_not_told() -> None:
    own = OwnInterest()
    own.told()
    own.begin(CLASSES[1])
    own.end(1, moved=True)
    assert not own.pending
    own.renew_plain(4)
    assert own.told() == Wants(2, False, [], moved=[0], plain=4)
