"""Tells other nodes what is wanted at this one: filters, and the policies of the receivers behind them.

Receivers with the same filter and policy are a class with an odd number; all receivers without a policy are
one class with an even number. Groups of shared subscriptions are told elsewhere, with their members. Other
nodes may keep a queue for each class. So a receiver whose policy changes still belongs to its class of before
for what waits there, and nobody else of the new class gets what it got: the classes that it leaves and enters
go on under new numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from penstock import limits
from penstock.core.cluster.interest import ReceiverClass, canonical
from penstock.mqtt.topics import shared_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.node.broker.extensions import Peer
    from penstock.node.broker.subscription import Subscription
    from penstock.policy.columns import Plan

PAST = 8
"""Earlier classes of a receiver that are remembered."""


class Interest:
    """Counts the receivers of this node by filter and class, and tells the other nodes what changes."""

    def __init__(self, peers: Iterable[Peer], members: Callable[[str], Iterable[Subscription]]) -> None:
        """`peers` are the other nodes at any time, `members` finds the subscriptions with a filter."""
        self._peers = peers
        self._members = members
        self._plain: dict[str, int] = {}
        """Receivers without a policy by filter."""
        self._classes: dict[tuple[str, str], ReceiverClass] = {}
        """By filter and hash of the policy."""
        self._counts: dict[int, int] = {}
        self._bytes = 0
        """Text of the policies of all classes."""
        self._last = 0
        self._plain_number = 0
        self._known: WeakKeyDictionary[Plan, tuple[str, str]] = WeakKeyDictionary()

    def tell(self, peer: Peer) -> None:
        """Tell another node everything that is wanted here."""
        peer.plain_renewed(self._plain_number)
        for filter_ in self._plain:
            peer.interest_changed(filter_, wanted=True)
        for receivers in self._classes.values():
            peer.class_began(receivers)

    def receivers(self) -> Iterator[tuple[str, str]]:
        """The filters of this node, each with the text of a policy behind it; empty: without one."""
        for filter_ in self._plain:
            yield filter_, ""
        for each in self._classes.values():
            yield each.filter, each.text

    def joined(self, subscription: Subscription) -> None:
        """A subscription was made."""
        key = self._key(subscription)
        if key is None:
            subscription.link_class = 0
            self._count_plain(subscription.filter, 1)
        else:
            found = self._classes.get(key) or self._begin(key, subscription)
            subscription.link_class = found.number
            self._counts[found.number] += 1

    def left(self, subscription: Subscription) -> None:
        """A subscription has ended."""
        if not subscription.link_class:
            self._count_plain(subscription.filter, -1)
            return
        self._counts[subscription.link_class] -= 1
        if not self._counts[subscription.link_class]:
            self._end(subscription, moved=False)

    def expect(self, filter_: str, change: int) -> None:
        """Count a filter of a session that is on its way to this node: +1, and −1 when that ends."""
        self._count_plain(filter_, change)

    def changed(self, subscription: Subscription) -> None:
        """A subscription may have another policy."""
        key = self._key(subscription)
        before = self._found(subscription)
        if key == (None if before is None else (before.filter, before.policy)):
            return
        past = self._plain_number if before is None else before.number
        if before is None:
            self._renew_plain()
            self._count_plain(subscription.filter, -1)
        else:
            self._counts[before.number] -= 1
            if self._counts[before.number]:
                subscription.link_class = 0
                self._renew(before)
            else:
                self._end(subscription, moved=True)
        subscription.link_past = (*subscription.link_past, past)[-PAST:]
        if key is None:
            if before is not None:
                self._renew_plain()
            subscription.link_since = self._plain_number
        elif key in self._classes:
            self._renew(self._classes[key])
        self.joined(subscription)

    def _key(self, subscription: Subscription) -> tuple[str, str] | None:
        """Filter and hash of the policy; None for receivers that count as those without a policy."""
        plan = subscription.chosen.plan
        group, filter_ = shared_of(subscription.filter)
        if plan is None or plan.policy is None or group or filter_.startswith("$"):
            return None
        known = self._known.get(plan)
        if known is None:
            known = self._known[plan] = canonical(plan.policy)
        key = (filter_, known[0])
        if key not in self._classes and (
            len(self._classes) >= limits.CLUSTER_CLASSES
            or self._bytes + len(known[1]) > limits.CLUSTER_POLICIES_BYTES
        ):
            return None
        return key

    def _found(self, subscription: Subscription) -> ReceiverClass | None:
        for one in self._classes.values() if subscription.link_class else ():
            if one.number == subscription.link_class:
                return one
        return None

    def _begin(self, key: tuple[str, str], subscription: Subscription) -> ReceiverClass:
        plan = subscription.chosen.plan
        assert plan is not None
        return self._add(ReceiverClass(self._next(odd=True), *key, self._known[plan][1]))

    def _add(self, receivers: ReceiverClass) -> ReceiverClass:
        self._classes[receivers.filter, receivers.policy] = receivers
        self._counts[receivers.number] = 0
        self._bytes += len(receivers.text)
        for peer in list(self._peers):
            peer.class_began(receivers)
        return receivers

    def _end(self, subscription: Subscription, *, moved: bool) -> None:
        before = self._found(subscription)
        assert before is not None
        self._remove(before, moved=moved)

    def _remove(self, receivers: ReceiverClass, *, moved: bool) -> None:
        del self._classes[receivers.filter, receivers.policy]
        del self._counts[receivers.number]
        self._bytes -= len(receivers.text)
        for peer in list(self._peers):
            peer.class_ended(receivers.number, moved=moved)

    def _renew(self, before: ReceiverClass) -> None:
        """Go on with the receivers of a class under another number."""
        after = before._replace(number=self._next(odd=True))
        count = self._counts[before.number]
        self._remove(before, moved=True)
        self._add(after)
        self._counts[after.number] = count
        for one in self._members(before.filter):
            if one.link_class == before.number:
                one.link_class = after.number
                one.link_past = (*one.link_past, before.number)[-PAST:]

    def _renew_plain(self) -> None:
        self._plain_number = self._next(odd=False)
        for peer in list(self._peers):
            peer.plain_renewed(self._plain_number)

    def _next(self, *, odd: bool) -> int:
        """A number that is higher than all before it."""
        self._last += 1
        self._last += (self._last % 2 == 1) is not odd
        return self._last

    def _count_plain(self, filter_: str, change: int) -> None:
        before = self._plain.get(filter_, 0)
        after = before + change
        if after:
            self._plain[filter_] = after
        else:
            self._plain.pop(filter_, None)
        if not (before and after):
            for peer in list(self._peers):
                peer.interest_changed(filter_, wanted=after > 0)


def concerns(subscription: Subscription, number: int) -> bool:
    """Whether a subscription is in the class of receivers with this number, or was when it had it."""
    if number in subscription.link_past:
        return True
    if is_plain(number):
        return not subscription.link_class and subscription.link_since <= number
    return subscription.link_class == number


def is_plain(number: int) -> bool:
    """Whether a class is one of receivers without a policy."""
    return number % 2 == 0
