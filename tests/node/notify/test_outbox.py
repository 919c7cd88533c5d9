"""Queues of subscribers: nothing is lost without a count, and a restart changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.core.channels.subscriptions import ChannelSubscription
from penstock.errors import DigestError, StoreError
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.node.notify import subscriber_queue as sql
from penstock.node.notify.status import OutboxStatistics
from penstock.node.notify.subscriber_queue import delta_of
from penstock.node.notify.transport import PAUSED, message_of
from penstock.node.store.database import Database
from tests.kit.channel_api import START_US, made
from tests.kit.outbox import ADDED, outbox, put, told

if TYPE_CHECKING:
    from pathlib import Path


def test_a_full_queue_packs_and_its_digest_says_how_many() -> None:
    box = outbox(capacity=4)
    for version in range(1, 11):
        put(box, version)
    found = told(box)
    digests = [one for one in found if isinstance(one, Digest)]
    kept = [one.version for one in found if not isinstance(one, Digest)]
    assert kept[-1] == 10
    assert kept == sorted(kept)
    assert sum(one.count for one in digests) == 10 - len(kept) > 0
    said = message_of(digests[0])
    assert said.startswith(f"{digests[0].count} changes between 2023-11-14 22:13:") or " at " in said
    assert "too many waited" in said
    assert box.statistics() == OutboxStatistics(10, len(kept), 10 - len(kept), 0, 0, 0)


def test_each_subscriber_has_its_own_queue_and_policy() -> None:
    box = outbox(capacity=4)
    for version in range(1, 11):
        put(box, version, who="xmpp:ann", policy=ADDED)
    put(box, 1, who="xmpp:bob")
    assert [one.version for one in told(box, "xmpp:bob")] == [1]
    found = told(box, "xmpp:ann")
    causes = [str(cause) for one in found if isinstance(one, Digest) for cause, _ in one.causes]
    assert "1.1 lt" in causes  # one line was added each time: the policy reads what changed


def test_what_comes_while_paused_is_one_digest_afterwards() -> None:
    box = outbox()
    for version in range(1, 4):
        put(box, version, paused=True)
    assert box.next("xmpp:ann") is None
    assert box.statistics().waiting == 3
    put(box, 4)
    digest, delta = told(box)
    assert digest.causes == ((PAUSED, 3),)
    assert message_of(digest).startswith("3 changes between 2023-11-14 22:13:")
    assert "while you had paused" in message_of(digest)
    assert delta.version == 4


def test_what_is_being_sent_stays_first_and_is_sent_again_after_a_failure() -> None:
    box = outbox()
    put(box, 1)
    first = box.next("xmpp:ann")
    for version in range(2, 12):
        put(box, version)
    assert box.next("xmpp:ann") is first


def test_what_waits_is_known_by_its_content_while_it_is_sent_as_well() -> None:
    box = outbox()
    put(box, 1)
    put(box, 2)
    assert box.next("xmpp:ann") is not None
    one, two, three = (made("http://a.example/", version) for version in (1, 2, 3))
    assert [box.holds("xmpp:ann", each) for each in (one, two, three)] == [True, True, False]
    assert not box.holds("xmpp:bob", one)


def test_what_was_counted_while_paused_is_known_too() -> None:
    box = outbox()
    for version in (1, 2):
        put(box, version, paused=True)
    one, two, three = (made("http://a.example/", version) for version in (1, 2, 3))
    assert [box.holds("xmpp:ann", each) for each in (one, two, three)] == [True, True, False]
    assert not box.holds("xmpp:ann", made("http://b.example/", 1))


def test_what_is_forgotten_while_it_is_sent_is_not_told_twice() -> None:
    box = outbox()
    put(box, 1)
    item = box.next("xmpp:ann")
    assert item is not None
    box.forget("xmpp:ann", "http://a.example/")
    box.settled("xmpp:ann", item)
    assert box.statistics() == OutboxStatistics(1, 0, 0, 0, 1, 0)
    assert box.statistics().conserved


def test_rows_that_could_not_be_written_are_written_with_the_next(tmp_path: Path) -> None:
    store = Database(tmp_path / "t.sqlite", sql.TABLES, schema=1)
    box = outbox()
    put(box, 1)
    put(box, 2, who="xmpp:bob", paused=True)
    box.take_rows()  # lost
    box.unwritten()
    put(box, 3)
    store.write(box.take_rows())
    again = outbox()
    again.restore(store.rows(sql.LOAD), store.rows(sql.LOAD_HELD))
    assert [one.version for one in told(again)] == [1, 3]
    assert again.statistics().waiting == 1
    store.close()


def test_a_damaged_row_is_said() -> None:
    with pytest.raises((DigestError, StoreError)):
        outbox().restore([(1, "xmpp:ann", "", "", 0, 0, b"nonsense")], [])


def test_a_smaller_bound_after_a_restart_packs_what_was_kept() -> None:
    box = outbox(capacity=50)
    for version in range(1, 31):
        put(box, version)
    store = Database(None, sql.TABLES, schema=1)
    store.write(box.take_rows())
    small = outbox(capacity=4)
    small.restore(store.rows(sql.LOAD), store.rows(sql.LOAD_HELD))
    assert small.statistics() == OutboxStatistics(30, 0, 0, 30, 0, 1)
    store.write(small.take_rows())
    assert len(store.rows(sql.LOAD)) <= 4
    assert len(told(small)) <= 4
    assert small.statistics().conserved
    store.close()


PEOPLE = st.sampled_from(["xmpp:ann", "webhook:http://b/"])
URLS = st.sampled_from(["http://a.example/", "http://b.example/x?y=1"])
POLICIES = st.sampled_from(["", ADDED])


class OutboxMachine(RuleBasedStateMachine):
    """Against a count of what was put in; the store holds at any moment what a restart needs."""

    def __init__(self) -> None:
        super().__init__()
        self.box = outbox()
        self.store = Database(None, sql.TABLES, schema=1)
        self.version = 0
        self.sent: list[tuple[str, Any]] = []
        self.before = (0, 0, 0)
        """Told, digested and forgotten in earlier runs."""
        self.puts = 0

    @rule(who=PEOPLE, url=URLS, policy=POLICIES, paused=st.booleans(), count=st.integers(1, 8))
    def put(self, who: str, url: str, policy: str, paused: bool, count: int) -> None:
        for _ in range(count):
            self.version += 1
            delta = made(url, self.version, *["line"] * (self.version % 4))
            self.box.put(
                ChannelSubscription(who, url, policy=policy, paused=paused), delta, now_us=delta.at_us
            )
            self.puts += 1

    @rule(who=PEOPLE, reached=st.booleans())
    def send(self, who: str, reached: bool) -> None:
        item = self.box.next(who)
        assert (item is None) == (who not in set(self.box.waiting()))
        if item is not None and reached:
            self.box.settled(who, item)
            self.sent.append((who, delta_of(item)))

    @rule()
    def come_back(self) -> None:
        if self.sent:
            who, what = self.sent.pop()
            self.box.returned(who, what, now_us=START_US)

    @rule(who=PEOPLE, url=URLS)
    def release(self, who: str, url: str) -> None:
        self.box.release(who, url, now_us=START_US)

    @rule(who=PEOPLE, url=URLS)
    def forget(self, who: str, url: str) -> None:
        self.box.forget(who, url)
        while (item := self.box.next(who)) is not None:
            assert not (isinstance(item, Event) and item.sender == url)
            self.box.settled(who, item)

    @rule(who=PEOPLE)
    def drop(self, who: str) -> None:
        self.box.drop(who)
        assert self.box.next(who) is None
        assert self.box.count(who) == 0

    @rule()
    def restart(self) -> None:
        stats = self.box.statistics()
        self.store.write(self.box.take_rows())
        self.box = outbox()
        self.sent.clear()
        self.box.restore(self.store.rows(sql.LOAD), self.store.rows(sql.LOAD_HELD))
        now = self.box.statistics()
        assert now.waiting == stats.waiting == now.taken
        told_, digested, forgotten = self.before
        self.before = (told_ + stats.sent, digested + stats.digested, forgotten + stats.forgotten)

    @rule()
    def lose_rows(self) -> None:
        self.box.take_rows()
        self.box.unwritten()

    @invariant()
    def nothing_is_lost(self) -> None:
        stats = self.box.statistics()
        assert stats.conserved
        assert stats.waiting == sum(map(self.box.count, ["xmpp:ann", "webhook:http://b/"]))
        assert self.puts == sum(self.before) + stats.sent + stats.digested + stats.forgotten + stats.waiting

    def teardown(self) -> None:
        self.store.close()


TestOutbox = OutboxMachine.TestCase
TestOutbox.settings = settings(stateful_step_count=30)
