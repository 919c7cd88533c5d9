"""From topics to receivers: who gets a message, found once for each topic and remembered.

A topic's `Fan` holds its receivers sorted by what they ask for: most take a run of plain QoS 0 messages
as the bytes it is; those with options that depend on the message are asked about each. Topics with the
same receivers share one fan, so a run may go on across topics. All fans are forgotten whenever a
subscription changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock import limits
from penstock.errors import MqttError
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.mqtt.codes import V4
from penstock.mqtt.fields import decode_text
from penstock.mqtt.topics import check_topic, shared_of
from penstock.mqtt.trees import TopicTree

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.node.broker.extensions import Peer, TopicSink
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
    """Members of a shared subscription take turns; those that are behind or away are passed over."""

    __slots__ = ("_turn", "members")

    def __init__(self) -> None:
        self.members: list[Member] = []
        self._turn = 0

    def deliver(self, event: Event, *, origin: object, now_us: Instant) -> bool:
        """Give a message to the member whose turn it is, or to another whose content filter wants it."""
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
        for item in items:
            if isinstance(item, Event):
                self.deliver(item, origin=None, now_us=now_us)
            elif isinstance(item, Digest):
                member = self._next()
                member.session.delivery.requeue(member.subscription, item, 0, now_us=now_us)
                member.session.drain(now_us=now_us)

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


class Tap:
    """Shows messages to another part of the node; no subscription."""

    __slots__ = ("_close", "_seen", "filter")

    def __init__(self, filter_: str, seen: Callable[[Event], None], close: Callable[[Tap], None]) -> None:
        self.filter = filter_
        self._seen = seen
        self._close = close

    def deliver(self, event: Event, *, origin: object, now_us: Instant) -> bool:  # noqa: ARG002
        """Show the message; it does not count as delivered."""
        self._seen(event)
        return False

    def close(self) -> None:
        """Stop showing messages."""
        self._close(self)


class Fan:
    """The receivers of a topic."""

    __slots__ = ("all", "denied", "into", "peers", "plain4", "plain5", "special", "wanted")

    def __init__(
        self,
        receivers: list[Target | Group | Tap | Peer],
        *,
        denied: bool = False,
        into: TopicSink | None = None,
    ) -> None:
        self.all: Sequence[Receiver] = receivers
        self.denied = denied
        """The publisher may not publish on this topic."""
        self.into = into
        """Takes the messages of this topic in the place of receivers."""
        self.plain4: list[Target] = []
        """Take runs as MQTT 3.1.1 frames."""
        self.plain5: list[Target] = []
        self.special: list[Receiver] = []
        """Want to see each message."""
        for each in receivers:
            if isinstance(each, Target) and _plain(each):
                (self.plain4 if each.delivery.version == V4 else self.plain5).append(each)
            else:
                self.special.append(each)
        self.wanted = any(not isinstance(each, Tap) for each in receivers)
        self.peers: tuple[Peer, ...] = tuple(
            each for each in receivers if not isinstance(each, Target | Group | Tap)
        )
        """Other nodes among the receivers: a message is acknowledged when they have it."""


def _plain(target: Target) -> bool:
    subscription = target.subscription
    return not (
        target.ids
        or subscription.options.no_local
        or subscription.content is not None
        or target.delivery.particular
    )


NOBODY = Fan([])
DENIED = Fan([], denied=True)


class Router:
    """All subscriptions, and what was found out about topics since they last changed."""

    def __init__(self) -> None:
        self._tree: TopicTree[Hashable, Member | Group | Tap | Peer] = TopicTree()
        self._groups: dict[tuple[str, str], Group] = {}
        self.tapped: dict[Tap, None] = {}
        """All open taps."""
        self._fans: dict[tuple[int, ...], Fan] = {}
        self.known: dict[bytes, Fan] = {}
        """Fans by topic; emptied, not replaced, when subscriptions change."""
        self.version = 0
        """Counts changes, for publishers that keep fans of their own."""
        self.own: tuple[str, ...] = ("$",)
        """Prefixes of topics that only the node publishes on."""
        self.sinks: list[Callable[[str], TopicSink | None]] = []
        """Each finds the sink of a topic, if it has one for it; the first that has one counts."""
        self._sunk: dict[TopicSink, Fan] = {}
        self.on_tapped: list[Callable[[], None]] = []
        """Called after a tap was opened or closed."""
        self._peers: dict[Peer, dict[str, None]] = {}
        """The filters that each peer wants messages of."""
        self._interest: dict[str, int] = {}
        """Subscriptions to each filter, those of groups included."""

    def __len__(self) -> int:
        """Subscriptions, members of groups included."""
        members = sum(len(group.members) for group in self._groups.values())
        others = len(self._groups) + sum(map(len, self._peers.values()))
        return members + len(self._tree) - others

    def add(self, session: Session, subscription: Subscription) -> None:
        """Add a subscription."""
        group_name, filter_ = shared_of(subscription.filter)
        if group_name:
            key = (group_name, filter_)
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = Group()
                self._tree.add(filter_, key, group)
            group.members.append(Member(session, subscription))
        else:
            self._tree.add(filter_, session, Member(session, subscription))
        self._count_interest(filter_, 1)
        self.forget()

    def remove(self, session: Session, subscription: Subscription) -> Group | None:
        """Remove a subscription; returns its shared group if that goes on without it."""
        group_name, filter_ = shared_of(subscription.filter)
        self._count_interest(filter_, -1)
        if group_name:
            key = (group_name, filter_)
            group = self._groups[key]
            group.members = [each for each in group.members if each.subscription is not subscription]
            self.forget()
            if group.members:
                return group
            del self._groups[key]
            self._tree.remove(filter_, key)
        else:
            self._tree.remove(filter_, session)
        self.forget()
        return None

    # -- peers -----------------------------------------------------------------------------------------------

    def add_peer(self, peer: Peer) -> None:
        """Tell another node what is wanted here, now and whenever that changes."""
        self._peers[peer] = {}
        for filter_ in self._interest:
            peer.interest_changed(filter_, wanted=True)

    def remove_peer(self, peer: Peer) -> None:
        """Remove a node that is gone, with its subscriptions; it is not notified of changes."""
        for filter_ in self._peers.pop(peer, {}):
            self._tree.remove(filter_, peer)
        self.forget()

    def peer_wants(self, peer: Peer, filter_: str, *, wanted: bool) -> None:
        """Add or remove the interest of another node in a filter."""
        filters = self._peers[peer]
        if wanted and filter_ not in filters:
            filters[filter_] = None
            self._tree.add(filter_, peer, peer)
        elif not wanted and filter_ in filters:
            del filters[filter_]
            self._tree.remove(filter_, peer)
        self.forget()

    def _count_interest(self, filter_: str, change: int) -> None:
        before = self._interest.get(filter_, 0)
        after = before + change
        if after:
            self._interest[filter_] = after
        else:
            self._interest.pop(filter_, None)
        if not (before and after):
            for peer in list(self._peers):
                peer.interest_changed(filter_, wanted=after > 0)

    # -- taps ------------------------------------------------------------------------------------------------

    def tap(self, filter_: str, seen: Callable[[Event], None]) -> Tap:
        """Show every message that matches, until the tap is closed."""
        tap = Tap(filter_, seen, self._untap)
        self._tree.add(filter_, tap, tap)
        self._tapped(tap, on=True)
        return tap

    # -- finding ---------------------------------------------------------------------------------------------

    def subscriptions(self, topic: str) -> list[Member]:
        """Subscriptions to a topic with their sessions, members of groups aside."""
        return [each for each in self._tree.match(topic) if isinstance(each, Member)]

    def subscribed(self, filter_: str) -> list[Member | Group]:
        """Subscriptions and groups with exactly this filter, without `$share` and the group's name."""
        return [each for each in self._tree.at(filter_) if isinstance(each, Member | Group)]

    def taps(self, topic: str) -> list[Tap]:
        """Taps that see the messages of a topic."""
        return [each for each in self._tree.match(topic) if isinstance(each, Tap)]

    def _untap(self, tap: Tap) -> None:
        self._tree.remove(tap.filter, tap)
        self._tapped(tap, on=False)

    def _tapped(self, tap: Tap, *, on: bool) -> None:
        if on:
            self.tapped[tap] = None
        else:
            self.tapped.pop(tap, None)
        self.forget()
        for changed in self.on_tapped:
            changed()

    def forget(self) -> None:
        """Forget the fans of all topics: something that a fan depends on has changed."""
        self.known.clear()
        self._fans.clear()
        self._sunk.clear()
        self.version += 1

    def find(self, topic: str) -> Fan:
        """The receivers of a topic."""
        for find_sink in self.sinks:
            sink = find_sink(topic)
            if sink is not None:
                return self._fan_into(sink)
        found = self._tree.match(topic)
        if not found:
            return NOBODY
        key = tuple(map(id, found))
        fan = self._fans.get(key)
        if fan is None:
            if len(self._fans) >= limits.ROUTES:
                self._fans.clear()
            fan = self._fans[key] = Fan(_receivers(found))
        return fan

    def _fan_into(self, sink: TopicSink) -> Fan:
        fan = self._sunk.get(sink)
        if fan is None:
            fan = self._sunk[sink] = Fan([], into=sink)
        return fan

    def look_up(self, topic: bytes, into: dict[bytes, Fan], *, denied: Callable[[str], bool] | None) -> Fan:
        """The receivers of a topic as it came, remembered; MqttError if it is none."""
        name = decode_text(topic, where="PUBLISH topic")
        check_topic(name)
        refused = name.startswith(self.own) or (denied is not None and denied(name))
        fan = DENIED if refused else self.find(name)
        if len(into) >= limits.ROUTES:
            into.clear()
        into[topic] = fan
        return fan

    def look_up_plain(
        self, topic: bytes, into: dict[bytes, Fan], *, denied: Callable[[str], bool] | None
    ) -> Fan | None:
        """`look_up` for a run; None if the topic is invalid, which reading the frame alone will report."""
        try:
            return self.look_up(topic, into, denied=denied)
        except MqttError:
            return None


def _receivers(found: list[Member | Group | Tap | Peer]) -> list[Target | Group | Tap | Peer]:
    """One copy for the plain subscriptions of a session that overlap, and one for each other receiver.

    A peer with several filters that match is found several times and is one receiver.
    """
    receivers: dict[Target | Group | Tap | Peer, None] = {}
    overlapping: dict[int, list[Member]] = {}
    for each in found:
        if not isinstance(each, Member):
            receivers[each] = None
        elif each.subscription.alone:
            receivers[each.target()] = None
        else:
            overlapping.setdefault(id(each.session), []).append(each)
    for together in overlapping.values():
        first = max(together, key=lambda one: one.subscription.options.qos)
        ids = tuple(dict.fromkeys(number for one in together for number in one.subscription.ids))
        receivers[Target(first, ids)] = None
    return list(receivers)
