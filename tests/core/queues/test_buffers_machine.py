"""Shared and private queues refine a simple picture: every receiver has a FIFO of its own.

The model keeps, for each subscription, what was offered to that receiver and what reached it. With room
enough both are equal; without, what reached it tells of everything that did not.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.core.queues import PackingQueue, QueueOptions
from penstock.core.queues.buffers import LinkItem, RemoteBuffer, SharedQueue
from penstock.model import Control, Digest, Event, Item
from tests.core.queues.account import POLICIES, a_digest, an_event, assert_told, total

RECEIVERS = ["r1", "r2", "r3"]
LINKS = ["east", "west"]
SENDERS = ["s", "t"]
receivers = st.sampled_from(RECEIVERS)
senders = st.sampled_from(SENDERS)


class Account:
    """One subscription as the model sees it."""

    def __init__(self, link: str) -> None:
        self.link = link
        self.active = True
        self.offered: list[Item] = []
        self.reached: list[Item] = []


class BufferMachine(RuleBasedStateMachine):
    """Receivers come, go, move, sleep and wake while items flow."""

    capacity_events = 1000
    private_events = 1000

    def __init__(self) -> None:
        super().__init__()
        self.buffer = RemoteBuffer(QueueOptions(capacity_events=self.capacity_events))
        self.accounts: dict[tuple[str, str], Account] = {}
        self.seq = 0
        self.now_us = 0

    def tick(self) -> int:
        self.now_us += 1000
        return self.now_us

    def item(self, kind: str) -> Item:
        self.seq += 1
        if kind == "event":
            return an_event(self.seq, self.seq % 4)
        return a_digest(self.seq) if kind == "digest" else Control(kind="mark", body=b"%d" % self.seq)

    # -- rules -----------------------------------------------------------------------------------------------

    @initialize()
    def two_share_a_link(self) -> None:
        for receiver in RECEIVERS[:2]:
            self.subscribe(sender="s", receiver=receiver, link="east", policy="ladder")

    @rule(
        sender=senders,
        receiver=receivers,
        link=st.sampled_from(LINKS),
        policy=st.sampled_from(sorted(POLICIES)),
    )
    def subscribe(self, sender: str, receiver: str, link: str, policy: str) -> None:
        if (sender, receiver) in self.accounts:
            return
        queue = PackingQueue(POLICIES[policy], QueueOptions(capacity_events=self.private_events))
        self.buffer.subscribe(sender, link, receiver, queue, now_us=self.tick())
        self.accounts[sender, receiver] = Account(link)

    @rule(sender=senders, receiver=receivers)
    def release(self, sender: str, receiver: str) -> None:
        account = self.accounts.pop((sender, receiver), None)
        if account is None:
            return
        queue = self.buffer.release(sender, account.link, receiver, now_us=self.tick())
        queue.resume()
        account.reached += queue.take()
        self.check(account)

    @rule(sender=senders, receiver=receivers, link=st.sampled_from(LINKS))
    def move(self, sender: str, receiver: str, link: str) -> None:
        account = self.accounts.get((sender, receiver))
        if account is None:
            return
        self.buffer.move(sender, receiver, from_link=account.link, to_link=link, now_us=self.tick())
        account.link, account.active = link, True

    @rule(sender=senders, receiver=receivers)
    def suspend(self, sender: str, receiver: str) -> None:
        account = self.accounts.get((sender, receiver))
        if account is not None:
            self.buffer.suspend(sender, account.link, receiver, now_us=self.tick())
            account.active = False

    @rule(sender=senders, receiver=receivers)
    def resume(self, sender: str, receiver: str) -> None:
        account = self.accounts.get((sender, receiver))
        if account is not None:
            self.buffer.resume(sender, account.link, receiver, now_us=self.tick())
            account.active = True

    @rule(sender=senders, kind=st.sampled_from(["event", "event", "event", "digest", "control"]))
    def multicast(self, sender: str, kind: str) -> None:
        item = self.item(kind)
        self.buffer.offer(sender, item, now_us=self.tick())
        for (of, _), account in self.accounts.items():
            if of == sender:
                account.offered.append(item)

    @rule(sender=senders, count=st.integers(3, 12))
    def burst(self, sender: str, count: int) -> None:
        for _ in range(count):
            self.multicast(sender=sender, kind="event")

    @rule(sender=senders, receiver=receivers, kind=st.sampled_from(["event", "digest", "control"]))
    def unicast(self, sender: str, receiver: str, kind: str) -> None:
        account = self.accounts.get((sender, receiver))
        if account is not None:
            item = self.item(kind)
            self.buffer.offer_one(sender, account.link, receiver, item, now_us=self.tick())
            account.offered.append(item)

    @rule(link=st.sampled_from(LINKS), most=st.none() | st.integers(1, 6))
    def take(self, link: str, most: int | None) -> None:
        taken = self.buffer.take(link, most)
        assert most is None or len(taken) <= most
        for sender, out in taken:
            self.deliver(sender, link, out)

    def deliver(self, sender: str, link: str, out: LinkItem) -> None:
        """A node at the other end of the link hands a shared item to all its active receivers."""
        reached = [
            account
            for (of, receiver), account in self.accounts.items()
            if of == sender and account.link == link and account.active and out.receiver in (None, receiver)
        ]
        assert reached, "an item for nobody"
        for account in reached:
            account.reached.append(out.item)

    # -- what must hold --------------------------------------------------------------------------------------

    def check(self, account: Account) -> None:
        """All that was offered came out, as it was or told of."""
        assert_told(account.offered, account.reached)

    @invariant()
    def every_receiver_has_its_account(self) -> None:
        seen = set()
        for sender, link, receiver, found in self.buffer.statistics():
            account = self.accounts[sender, receiver]
            seen.add((sender, receiver))
            assert link == account.link
            assert found.conserved
            assert found.private.conserved
            assert found.suspended is not account.active
            waiting = total(account.offered) - total(account.reached)
            assert found.queued + found.queued_digested == waiting
        assert seen == set(self.accounts)

    @invariant()
    def order_holds_so_far(self) -> None:
        for account in self.accounts.values():
            numbers = [item.seq for item in account.reached if isinstance(item, Event)]
            assert numbers == sorted(set(numbers))

    def teardown(self) -> None:
        for (sender, receiver), account in self.accounts.items():
            self.buffer.resume(sender, account.link, receiver, now_us=self.tick())
            account.active = True
        for link in LINKS:
            self.take(link=link, most=None)
            assert self.buffer.take(link) == []
        for account in self.accounts.values():
            self.check(account)
            data = [item for item in account.offered if not isinstance(item, Control)]
            if data and isinstance(data[-1], Event):
                assert data[-1] in account.reached, "the last sample of a burst"


class AmpleMachine(BufferMachine):
    """With room for everything a receiver cannot tell the difference from its own FIFO."""

    def check(self, account: Account) -> None:
        super().check(account)
        data = [item for item in account.offered if not isinstance(item, Digest)]
        assert [item for item in account.reached if not isinstance(item, Digest)] == data


class TightMachine(BufferMachine):
    capacity_events = 4
    private_events = 5


class SharingMachine(RuleBasedStateMachine):
    """One link: shared items are sent once, and the link is shared again once private queues are empty."""

    def __init__(self) -> None:
        super().__init__()
        self.link = SharedQueue(QueueOptions(capacity_events=5))
        for name in RECEIVERS:
            queue = PackingQueue(POLICIES["latest"], QueueOptions(capacity_events=6))
            self.link.subscribe(name, queue, now_us=0)
        self.seq = 0

    @rule()
    def offer(self) -> None:
        self.seq += 1
        self.link.offer(an_event(self.seq), now_us=self.seq)

    @rule(most=st.integers(1, 9))
    def take(self, most: int) -> None:
        was_shared = self.link.shared
        before = len(self.link)
        taken = self.link.take(most)
        assert len(taken) == min(most, before)
        if was_shared:
            assert all(out.receiver is None for out in taken), "one copy for all"
        private_ended = False
        for out in taken:
            private_ended = private_ended or out.receiver is None
            assert not (private_ended and out.receiver is not None), "private queues drain first"

    @rule(receiver=receivers)
    def nap(self, receiver: str) -> None:
        self.link.suspend(receiver, now_us=self.seq)
        self.link.resume(receiver, now_us=self.seq)

    @precondition(lambda self: len(self.link) > 0)
    @rule()
    def drain(self) -> None:
        self.link.take()
        assert len(self.link) == 0
        assert self.link.shared
        self.offer()
        (out,) = self.link.take()
        assert out.receiver is None


TestAmple = AmpleMachine.TestCase
TestTight = TightMachine.TestCase
TestSharing = SharingMachine.TestCase
TestAmple.settings = TestTight.settings = TestSharing.settings = settings(
    max_examples=max(15, settings().max_examples // 3)
)
