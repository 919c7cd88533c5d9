"""Two nodes over a network that drops, repeats, reorders, cuts and restarts: nothing lost, nothing twice."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.core.cluster.backlog import LinkAccount, Outgoing
from penstock.core.cluster.copies import OutgoingRun
from penstock.core.cluster.frames import About, Carried, CarriedRun, Told, Wants, data_frame, encode_item
from penstock.core.cluster.peer import PeerLink
from penstock.errors import ClusterError
from penstock.model.digest_wire import from_bytes
from penstock.model.event import Event


class End:
    """One node's end of the link: what it wants, what it got, and its account over all incarnations."""

    def __init__(self) -> None:
        self.wanted = {"a"}
        self.known: set[str] = set()
        """Filters of the other end."""
        self.got: list[int] = []
        self.digested: Counter[str] = Counter()
        self.past = LinkAccount()
        self.link = self._new()

    def _new(self) -> PeerLink:
        return PeerLink(
            sorted(self.wanted),
            lambda topic: [filter_ for filter_ in sorted(self.known) if filter_ == topic],
            capacity_events=4,
            window_bytes=150,
        )

    def reset(self) -> None:
        self.past += self.link.abandon()
        self.known = set()
        self.link = self._new()

    def handle(self, frame: bytes, now_us: int) -> list[bytes]:
        found = self.link.received(frame, now_us=now_us)
        for item in found.items:
            if isinstance(item, Carried):
                self.got.append(item.number)
            elif isinstance(item, CarriedRun):
                self.got += range(item.number, item.number + item.count)
            elif isinstance(item, Told):
                self.digested[item.filter] += from_bytes(item.digest).count
            elif isinstance(item, Wants):
                added, removed = self.link.wants(item)
                self.known = self.known.union(added).difference(removed)
        answer = [self.link.acknowledgement(self.link.taken)] if found.items else []
        return [*found.again, *answer, *self.link.frames(now_us=now_us)]


class Network(RuleBasedStateMachine):
    """Both ends live in one process; the network between them has its own mind."""

    @initialize()
    def start(self) -> None:
        self.now_us = 0
        self.number = 0
        self.ends = (End(), End())
        self.wires: tuple[list[bytes], list[bytes]] = ([], [])
        """Frames on their way to each end."""
        self.sent: tuple[list[int], list[int]] = ([], [])
        """Numbers of the events that each end has offered since the last restart."""
        self.cut = False

    def _post(self, to: int, frames: list[bytes]) -> None:
        if not self.cut:
            self.wires[to].extend(frames)

    def _flush(self, at: int) -> None:
        self._post(1 - at, self.ends[at].link.frames(now_us=self.now_us))

    @rule(at=st.integers(0, 1), topic=st.sampled_from("ab"))
    def publish(self, at: int, topic: str) -> None:
        end = self.ends[at]
        if topic in end.known:
            self.number += 1
            event = Event(topic, b"", ts_us=self.now_us, seq=self.number)
            end.link.offer(
                Outgoing(event, encode_item(Carried(self.number, topic, b"", 0))), now_us=self.now_us
            )
            self.sent[at].append(self.number)
        self._flush(at)

    @rule(at=st.integers(0, 1), topic=st.sampled_from("ab"), count=st.integers(2, 6))
    def publish_run(self, at: int, topic: str, count: int) -> None:
        end = self.ends[at]
        if topic in end.known:
            first = self.number + 1
            self.number += count
            numbers = range(first, first + count)

            def opened() -> list[Outgoing]:
                return [
                    Outgoing(Event(topic, b"", ts_us=0, seq=one), encode_item(Carried(one, topic, b"", 0)))
                    for one in numbers
                ]

            item = CarriedRun(first, count, b"", 4, 0)
            end.link.offer(OutgoingRun(count, encode_item(item), opened), now_us=self.now_us)
            self.sent[at].extend(numbers)
        self._flush(at)

    @rule(at=st.integers(0, 1), wanted=st.booleans())
    def subscribe(self, at: int, wanted: bool) -> None:
        end = self.ends[at]
        end.wanted = end.wanted | {"b"} if wanted else end.wanted - {"b"}
        end.link.interest.change("b", wanted=wanted)
        self._flush(at)

    @rule(to=st.integers(0, 1), which=st.integers(0, 9), again=st.booleans())
    def arrive(self, to: int, which: int, again: bool) -> None:
        """Some frame arrives, perhaps before an earlier one, perhaps once more later."""
        wire = self.wires[to]
        if wire:
            at = which % len(wire)
            frame = wire[at] if again else wire.pop(at)
            self._post(1 - to, self.ends[to].handle(frame, self.now_us))

    @rule(to=st.integers(0, 1), which=st.integers(0, 9))
    def lose(self, to: int, which: int) -> None:
        wire = self.wires[to]
        if wire:
            wire.pop(which % len(wire))

    @rule(ms=st.integers(1, 2_000))
    def wait(self, ms: int) -> None:
        self.now_us += ms * 1_000
        for at, end in enumerate(self.ends):
            self._post(1 - at, end.link.retry(now_us=self.now_us))

    @precondition(lambda self: not self.cut)
    @rule()
    def cut_off(self) -> None:
        self.cut = True
        for end, wire in zip(self.ends, self.wires, strict=True):
            end.link.lost()
            wire.clear()

    @precondition(lambda self: self.cut)
    @rule()
    def renew(self) -> None:
        self.cut = False
        for at, end in enumerate(self.ends):
            self._post(1 - at, end.link.renewed(now_us=self.now_us))
            self._flush(at)

    @rule()
    def restart(self) -> None:
        """A node has a new incarnation: both ends begin anew, and frames of the link before reach nobody."""
        self.cut = False
        for end, wire in zip(self.ends, self.wires, strict=True):
            wire.clear()
            end.reset()
        for at in (0, 1):
            self._flush(at)

    @invariant()
    def nothing_twice_and_in_order(self) -> None:
        for end in getattr(self, "ends", ()):
            assert end.got == sorted(set(end.got))

    @invariant()
    def accounts_are_balanced_and_windows_kept(self) -> None:
        for end in getattr(self, "ends", ()):
            assert end.link.account().balanced
            assert (end.past + end.link.account()).balanced
            assert len(end.link.backlog) <= 4

    def teardown(self) -> None:
        if not hasattr(self, "ends"):
            return
        if self.cut:
            self.renew()
        for _ in range(200):
            for at in (0, 1):
                self._flush(at)
            if not any(self.wires) and all(self._quiet(end) for end in self.ends):
                break
            for to in (0, 1):
                while self.wires[to]:
                    self._post(1 - to, self.ends[to].handle(self.wires[to].pop(0), self.now_us))
            self.wait(5_000)
        for at, end in enumerate(self.ends):
            other = self.ends[1 - at]
            account = end.past + end.link.account()
            assert account.queued == account.in_flight == 0
            assert account.accepted == len(self.sent[at])
            # What was abandoned may have arrived: its acknowledgement did not.
            assert account.handed <= len(other.got) <= account.handed + account.abandoned
            assert end.known == other.wanted
            assert end.link.told
            assert end.link.settled == end.link.backlog.accepted

    @staticmethod
    def _quiet(end: End) -> bool:
        account = end.link.account()
        return account.queued == account.in_flight == 0 and end.link.backlog.empty and end.link.told


TestNetwork = Network.TestCase
TestNetwork.settings = settings(max_examples=3 * settings().max_examples, stateful_step_count=60)


def pair() -> tuple[PeerLink, PeerLink]:
    left = PeerLink(["a"], lambda topic: [topic])
    right = PeerLink(["b"], lambda topic: [topic])
    return left, right


def carry(frames: list[bytes], to: PeerLink) -> list[bytes]:
    answers = []
    for frame in frames:
        found = to.received(frame, now_us=0)
        for item in found.items:
            if isinstance(item, Wants):
                to.wants(item)
        answers += found.again
        if found.items:
            answers.append(to.acknowledgement(to.taken))
    return answers


def offer(link: PeerLink, count: int, size: int = 10) -> None:
    for number in range(1, count + 1):
        event = Event("b", b"x" * size, ts_us=0, seq=number)
        link.offer(Outgoing(event, encode_item(Carried(number, "b", event.payload, 0))), now_us=0)


def test_interest_is_told_when_the_other_node_has_acknowledged_it() -> None:
    left, right = pair()
    answers = carry(left.frames(now_us=0), right)
    assert list(right.theirs.filters) == ["a"]
    seen = [left.told]
    assert left.received(answers[0], now_us=1).settled
    seen.append(left.told)
    left.interest.change("c", wanted=True)
    seen.append(left.told)
    assert seen == [False, True, False]


def test_interest_does_not_wait_behind_a_full_window() -> None:
    left, right = pair()
    carry(carry(left.frames(now_us=0), right), left)
    offer(left, 100, size=100_000)
    sent = left.frames(now_us=0)
    assert left.in_flight_bytes <= 2 * 256 * 1024
    assert len(left.backlog) > 90
    left.interest.change("c", wanted=True)
    carry([*sent, *left.frames(now_us=0)], right)
    assert list(right.theirs.filters) == ["a", "c"]


def test_what_was_sent_before_the_other_node_knew_this_one_is_sent_again_at_its_first_word() -> None:
    left, right = pair()
    lost = left.frames(now_us=0)
    again = left.received(right.frames(now_us=0)[0], now_us=0).again
    assert again == lost
    carry(again, right)
    assert list(right.theirs.filters) == ["a"]


def test_settled_is_what_is_acknowledged_or_in_a_digest() -> None:
    left, right = pair()
    carry(carry(left.frames(now_us=0), right), left)
    offer(left, 3)
    assert left.settled == 0
    answers = carry(left.frames(now_us=0), right)
    assert left.settled == 0
    carry(answers, left)
    assert left.settled == 3
    left.lost()
    offer(left, 2)
    assert left.frames(now_us=0) == []
    left.abandon()
    assert left.settled == 5


@pytest.mark.parametrize("sent", [False, True])
def test_events_whose_digest_never_arrived_are_abandoned(sent: bool) -> None:
    left, right = pair()
    carry(carry(right.frames(now_us=0), left), right)
    carry(carry(left.frames(now_us=0), right), left)
    left.rebound(5, 1 << 20, now_us=0)
    left.lost()
    offer(left, 20)
    assert left.account() == LinkAccount(accepted=20, digested=15, queued=5)
    if sent:
        left.renewed(now_us=0)
        assert left.frames(now_us=0)
    assert left.abandon() == LinkAccount(accepted=20, abandoned=20)


def test_a_node_that_stops_leaves_what_it_has_not_taken_to_its_next_start() -> None:
    left, right = pair()
    carry(carry(left.frames(now_us=0), right), left)
    offer(left, 2)
    carry(carry(left.frames(now_us=0), right), left)
    offer(left, 3)
    assert left.frames(now_us=0)  # they reach a node that takes nothing any more
    left.received(right.farewell(), now_us=0)
    assert left.account() == LinkAccount(accepted=5, handed=2, queued=3)
    assert not left.connected
    again, restarted = pair()
    again.inherit(left, now_us=0)
    assert left.abandon() == LinkAccount(accepted=2, handed=2)
    carry(restarted.frames(now_us=0), again)  # it says what it wants
    carry(carry(again.frames(now_us=0), restarted), again)
    assert again.account() == LinkAccount(accepted=3, handed=3)


def test_small_events_share_a_frame_and_a_snapshot_is_fetched_as_there_is_room() -> None:
    left, right = pair()
    fetched = 0

    def kept(topic: str) -> bytes:
        nonlocal fetched
        fetched += 1
        return encode_item(Carried(0, topic, b"x" * 1_000, 0, retain=True, kept_only=True))

    left.begin_snapshot(map(str, range(1_000)), kept)
    left.say(About("east", (), "", 0, ""))
    offer(left, 1_000)
    sent = left.frames(now_us=0)
    assert len(sent) < 40
    assert fetched < 1_000
    for _ in range(200):
        if not sent:
            break
        carry(carry(sent, right), left)
        sent = left.frames(now_us=0)
    assert fetched == 1_000
    assert left.account() == LinkAccount(accepted=1_000, handed=1_000)


def test_a_retained_message_that_was_dropped_is_fetched_later_as_it_is_then() -> None:
    left = PeerLink([], lambda _: [], capacity_events=1)
    right = PeerLink([], lambda _: [])
    left.begin_snapshot((), lambda topic: encode_item(Carried(0, topic, b"now", 0, kept_only=True)))
    carry(carry(left.frames(now_us=0), right), left)
    left.lost()
    for number in range(3):
        event = Event(f"t{number}", b"then", ts_us=0)
        data = encode_item(Carried(number, event.topic, event.payload, 0))
        left.offer(Outgoing(event, data, retained=True), now_us=0)
    assert not left.idle
    left.renewed(now_us=0)
    found = [item for frame in left.frames(now_us=0) for item in right.received(frame, now_us=0).items]
    seen = {item.topic: item.payload for item in found if isinstance(item, Carried)}
    assert seen == {"t0": b"now", "t1": b"now", "t2": b"then"}


def test_a_damaged_frame_is_refused_and_changes_nothing() -> None:
    left, right = pair()
    frame = left.frames(now_us=0)[0]
    with pytest.raises(ClusterError):
        right.received(frame[:-1], now_us=0)
    with pytest.raises(ClusterError):
        right.received(data_frame(1, b"\0\0\0\x01\xc1"), now_us=0)
    assert right.received(frame, now_us=0).items
