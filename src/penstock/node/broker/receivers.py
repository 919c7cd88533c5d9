"""Receivers of a message: a subscription, several of a session that overlap, a shared group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock import limits
from penstock.model.digest import Digest
from penstock.model.event import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.node.broker.extensions import Peer
    from penstock.node.broker.session import Session
    from penstock.node.broker.subscription import Subscription


class Receiver(Protocol):
    """Something at a filter that wants to see messages."""

    def deliver(self, event: Event, *, origin: object, now_us: Instant) -> bool:
        """Take a message that `origin`, a session, published; whether somebody has subscribed to it."""
        ...


class Member:
    """A subscription and the session it belongs to."""

    __slots__ = ("session", "subscription")

    def __init__(self, session: Session, subscription: Subscription) -> None:
        self.session = session
        self.subscription = subscription

    def target(self) -> Target:
        """A copy for this subscription alone."""
        return Target(self, self.subscription.ids)


class Target:
    """One copy for one session: of one subscription, or of several that overlap."""

    __slots__ = ("delivery", "ids", "session", "subscription")

    def __init__(self, member: Member, ids: tuple[int, ...]) -> None:
        self.subscription = member.subscription
        """The one with the highest QoS."""
        self.session = member.session
        self.delivery = member.session.delivery
        self.ids = ids

    def deliver(self, event: Event, *, origin: object, now_us: Instant) -> bool:
        """Give a message to the session, unless the subscription's options say no."""
        subscription = self.subscription
        if subscription.options.no_local and origin is self.session:
            return True  # somebody has subscribed, even if it is the publisher
        if subscription.content is not None and not subscription.content.wants(event, now_us=now_us):
            return False
        self.delivery.deliver(subscription, event, ids=self.ids, now_us=now_us)
        return True


class Group:
    """Members of a shared subscription take turns; those that are behind or away are passed over.

    Other nodes of a cluster may have members, too: `elsewhere` says how many. While there are none, a group
    is only what is here.
    """

    __slots__ = ("_credit", "_held", "_turn", "attached", "elsewhere", "expected", "members", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        """The group with its filter, as in a SUBSCRIBE."""
        self.members: list[Member] = []
        """The members at this node."""
        self.attached = 0
        """Members at this node that are connected."""
        self.elsewhere: dict[Peer, tuple[int, int]] = {}
        """Connected members and all members at each other node that has some."""
        self.expected = 0
        """Members on their way to this node from another one."""
        self._held: list[Event] = []
        """Messages for them."""
        self._turn = 0
        self._credit: dict[Peer | None, int] = {}

    def deliver(self, event: Event, *, origin: object, now_us: Instant) -> bool:
        """Give a message to the member whose turn it is, or to another whose content filter wants it.

        If all are on their way here, it is held for them.
        """
        if not self.members:
            taken = self.expected > 0 and len(self._held) < limits.CLUSTER_HELD_EVENTS
            if taken:
                self._held.append(event)
            return taken
        member = self._next()
        if member.target().deliver(event, origin=origin, now_us=now_us):
            return True
        for other in self._others(member):
            if other.target().deliver(event, origin=origin, now_us=now_us):
                self._turn = self.members.index(other) + 1
                return True
        return False

    def take_over(self, items: Iterable[Item], *, now_us: Instant) -> None:
        """Give the others what a member that has left was not sent, or did not acknowledge."""
        spread = Spread((self,)) if self.elsewhere else self
        for item in items:
            if isinstance(item, Event):
                spread.deliver(item, origin=None, now_us=now_us)
            elif isinstance(item, Digest) and self.members:
                member = self._next()
                member.session.delivery.requeue(member.subscription, item, 0, now_us=now_us)
                member.session.drain(now_us=now_us)
            elif isinstance(item, Digest):
                max(self.elsewhere, key=self.elsewhere.__getitem__).share_digest(self.name, item)

    def arrived(self) -> list[Event]:
        """A member that was expected is here, or does not come; returns what was held, to be given out."""
        self.expected -= 1
        held, self._held = self._held, []
        return held

    @property
    def here(self) -> int:
        """Members at this node, and those on their way to it."""
        return len(self.members) + self.expected

    def places(self) -> list[Peer | None]:
        """The nodes with members, None for this one: the one whose turn it is comes first.

        Nodes take turns by the number of their connected members; only if nobody is connected anywhere, by
        the number of all members, whose sessions keep the message.
        """
        found: dict[Peer | None, tuple[int, int]] = {None: (self.attached, self.here)}
        found.update(self.elsewhere.items())
        kept = not any(attached for attached, _ in found.values())
        weights = {place: counts[kept] for place, counts in found.items() if counts[kept]}
        credit = self._credit = {
            place: self._credit.get(place, 0) + weight for place, weight in weights.items()
        }
        if not credit:
            return []
        first = max(credit, key=credit.__getitem__)
        credit[first] -= sum(weights.values())
        return [first, *(place for place in weights if place is not first)]

    def _next(self) -> Member:
        members = self.members
        count = len(members)
        best = None
        for step in range(count):
            member = members[(self._turn + step) % count]
            if member.session.delivery.keeping_up:
                self._turn += step + 1
                return member
            if best is None and member.session.attached:
                best = member
        self._turn += 1
        return best or members[self._turn % count]

    def _others(self, member: Member) -> list[Member]:
        """All but one: those that keep up, those that are behind, those that are away; each in turn."""
        turn = self._turn % len(self.members)
        in_turn = (*self.members[turn:], *self.members[:turn])
        return sorted(
            (each for each in in_turn if each is not member),
            key=lambda each: (not each.session.delivery.keeping_up, not each.session.attached),
        )


class Spread:
    """The groups of a topic with members at other nodes: each group's message goes to one of the nodes."""

    __slots__ = ("_groups",)

    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = groups

    @property
    def members(self) -> list[Member]:
        """Members at this node."""
        return [member for group in self._groups for member in group.members]

    @property
    def peers(self) -> list[Peer]:
        """Other nodes that may get a message."""
        return list(dict.fromkeys(peer for group in self._groups for peer in group.elsewhere))

    def deliver(self, event: Event, *, origin: object, now_us: Instant) -> bool:
        """Give a message to one node for each group; at this node, to the member whose turn it is."""
        taken = False
        meant: dict[Peer, list[str]] = {}
        for group in self._groups:
            for place in group.places():
                if place is not None:
                    meant.setdefault(place, []).append(group.name)
                elif not group.deliver(event, origin=origin, now_us=now_us):
                    continue  # no content filter here wants it
                taken = True
                break
        for peer, names in meant.items():
            peer.share(event, tuple(names))
        return taken
