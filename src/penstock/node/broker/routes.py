"""From topics to receivers: who gets a message, found once for each topic and remembered.

A topic's `Fan` holds its receivers sorted by what they ask for: most take a run of plain QoS 0 messages
as the bytes it is; those with options that depend on the message are asked about each. Topics with the
same receivers share one fan, so a run may go on across topics. All fans are forgotten whenever a
subscription changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits
from penstock.errors import MqttError
from penstock.mqtt.codes import V4
from penstock.mqtt.fields import decode_text
from penstock.mqtt.topics import SHARE, check_topic, shared_of
from penstock.mqtt.trees import TopicTree
from penstock.node.broker.interest import Interest
from penstock.node.broker.receivers import Group, Member, Spread, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.node.broker.extensions import Peer, TopicSink
    from penstock.node.broker.receivers import Receiver
    from penstock.node.broker.session import Session
    from penstock.node.broker.subscription import Subscription


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


class Holding:
    """Collects the messages for a session that is on its way to this node."""

    __slots__ = ("_collect",)

    def __init__(self, collect: Callable[[Event, object], None]) -> None:
        """`collect` gets each message once, with its origin, however many filters match it."""
        self._collect = collect

    def deliver(self, event: Event, *, origin: object, now_us: Instant) -> bool:  # noqa: ARG002
        """Collect a message: its receiver is there soon."""
        self._collect(event, origin)
        return True


class Fan:
    """The receivers of a topic."""

    __slots__ = (
        *("all", "denied", "far", "here", "into", "local", "peers"),
        *("plain4", "plain5", "special", "wanted"),
    )

    def __init__(
        self,
        receivers: list[Target | Group | Spread | Tap | Holding | Peer],
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
        self.far: list[Peer] = []
        """Other nodes that take runs as they came."""
        self.special: list[Receiver] = []
        """Want to see each message."""
        # A message that is numbered for a shared group or a session on its way crosses by itself.
        numbered = any(isinstance(each, Spread | Holding) for each in receivers)
        for each in receivers:
            if isinstance(each, Target) and _plain(each):
                (self.plain4 if each.delivery.version == V4 else self.plain5).append(each)
            elif not numbered and not isinstance(each, Target | Group | Spread | Tap | Holding):
                self.far.append(each)
            else:
                self.special.append(each)
        self.wanted = any(not isinstance(each, Tap) for each in receivers)
        self.local: tuple[Receiver, ...] = tuple(
            each for each in receivers if isinstance(each, Target | Tap | Holding)
        )
        """Receivers of messages of other nodes: these have chosen the nodes for groups."""
        plain = {id(each) for each in (*self.plain4, *self.plain5)}
        self.here: tuple[Receiver, ...] = tuple(each for each in self.local if id(each) not in plain)
        """Those among them that want to see each message."""
        peers: dict[Peer, None] = {}
        for each in receivers:
            if isinstance(each, Spread):
                peers.update(dict.fromkeys(each.peers))
            elif not isinstance(each, Target | Group | Tap | Holding):
                peers[each] = None
        self.peers = tuple(peers)
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
        self._tree: TopicTree[Hashable, Member | Group | Tap | Holding | Peer] = TopicTree()
        self._groups: dict[str, Group] = {}
        """Shared groups by their names with filters, those included that have members elsewhere only."""
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
        self._interest = Interest(self._peers, self._subscriptions_at)

    def __len__(self) -> int:
        """Subscriptions, members of groups included."""
        members = sum(len(group.members) for group in self._groups.values())
        others = len(self._groups) + sum(map(len, self._peers.values()))
        return members + len(self._tree) - others

    def add(self, session: Session, subscription: Subscription) -> None:
        """Add a subscription."""
        if subscription.filter.startswith(SHARE):
            group = self._group(subscription.filter)
            group.members.append(Member(session, subscription))
            group.attached += session.attached
            self._tell_group(group)
        else:
            self._tree.add(subscription.filter, session, Member(session, subscription))
            self._interest.joined(subscription)
        self.forget()

    def remove(self, session: Session, subscription: Subscription) -> Group | None:
        """Remove a subscription; returns its shared group if that goes on without it."""
        name = subscription.filter
        found = None
        if name.startswith(SHARE):
            group = self._groups[name]
            group.members = [each for each in group.members if each.subscription is not subscription]
            group.attached -= session.attached
            self._tell_group(group)
            found = group if self._still(group) else None
        else:
            self._interest.left(subscription)
            self._tree.remove(name, session)
        self.forget()
        return found

    # -- shared groups ---------------------------------------------------------------------------------------

    def group(self, name: str) -> Group | None:
        """A shared group by its name with filter, as in a SUBSCRIBE; None if nobody is in it anywhere."""
        return self._groups.get(name)

    def _group(self, name: str) -> Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(name)
            self._tree.add(shared_of(name).filter, name, group)
        return group

    def _still(self, group: Group) -> bool:
        """Whether a group has members; one without any is removed."""
        if group.here or group.elsewhere:
            return True
        del self._groups[group.name]
        self._tree.remove(shared_of(group.name).filter, group.name)
        return False

    def _tell_group(self, group: Group) -> None:
        """Tell the other nodes how many members a group has here."""
        for peer in self._peers:
            peer.group_changed(group.name, group.attached, group.here)

    def attached_changed(self, session: Session) -> None:
        """A session was attached or detached: groups pass over members that are away."""
        for name in session.held if self._groups else ():
            if name.startswith(SHARE):
                group = self._groups[name]
                group.attached += 1 if session.attached else -1
                self._tell_group(group)

    def peer_shares(self, peer: Peer, name: str, *, attached: int, members: int) -> None:
        """Another node tells how many members a group has there."""
        group = self._group(name)
        before = peer in group.elsewhere
        if members:
            group.elsewhere[peer] = (attached, members)
        else:
            group.elsewhere.pop(peer, None)
        self._still(group)
        if before != bool(members):
            self.forget()

    # -- peers -----------------------------------------------------------------------------------------------

    def add_peer(self, peer: Peer) -> None:
        """Tell another node what is wanted here, now and whenever that changes."""
        self._peers[peer] = {}
        self._interest.tell(peer)
        for group in self._groups.values():
            if group.here:
                peer.group_changed(group.name, group.attached, group.here)

    def remove_peer(self, peer: Peer) -> None:
        """Remove a node that is gone, with its subscriptions; it is not notified of changes."""
        for filter_ in self._peers.pop(peer, {}):
            self._tree.remove(filter_, peer)
        for group in [each for each in self._groups.values() if peer in each.elsewhere]:
            del group.elsewhere[peer]
            self._still(group)
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

    def policy_changed(self, subscription: Subscription) -> None:
        """A subscription may have another policy, which other nodes have to know."""
        self._interest.changed(subscription)
        self.forget()

    def _subscriptions_at(self, filter_: str) -> Iterable[Subscription]:
        return (each.subscription for each in self._tree.at(filter_) if isinstance(each, Member))

    # -- sessions on their way -------------------------------------------------------------------------------

    def hold(self, filter_: str, holding: Holding) -> None:
        """Collect the messages of a filter: the subscription to it is on its way to this node."""
        self._tree.add(filter_, (holding, filter_), holding)
        self._interest.expect(filter_, 1)
        self.forget()

    def release(self, filter_: str, holding: Holding) -> None:
        """Collect no more messages of a filter."""
        self._tree.remove(filter_, (holding, filter_))
        self._interest.expect(filter_, -1)
        self.forget()

    def expect(self, name: str) -> None:
        """Hold messages of a shared group for a member on its way here, if nobody else of it is here."""
        group = self._group(name)
        group.expected += 1
        self._tell_group(group)
        self.forget()

    def expect_no_more(self, name: str, *, now_us: Instant) -> int:
        """Give out what was held for a member of a shared group: it is here, or does not come.

        Returns the messages for which there is nobody anywhere.
        """
        group = self._groups[name]
        held = group.arrived()
        self._tell_group(group)
        self.forget()
        if not self._still(group):
            return len(held)
        group.take_over(held, now_us=now_us)
        return 0

    def deliver_to(self, session: Session, event: Event, *, origin: object, now_us: Instant) -> None:
        """Give a message to the subscriptions of one session, shared ones aside."""
        found: list[Member | Group | Tap | Holding | Peer] = [
            each
            for each in self._tree.match(event.topic)
            if isinstance(each, Member) and each.session is session
        ]
        for receiver in _receivers(found, own=True):
            receiver.deliver(event, origin=origin, now_us=now_us)

    def receivers(self) -> Iterator[tuple[str, str]]:
        """All filters, each with the text of a policy of its receivers; empty: without one, or a group."""
        yield from self._interest.receivers()
        for name in self._groups:
            yield shared_of(name).filter, ""
        for peer in self._peers:
            yield from peer.receivers()

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

    def subscribed(self, filter_: str) -> list[Member]:
        """Subscriptions with exactly this filter, members of groups aside."""
        return [each for each in self._tree.at(filter_) if isinstance(each, Member)]

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
        own = topic.startswith(self.own)
        key = (own, *map(id, found))
        fan = self._fans.get(key)
        if fan is None:
            if len(self._fans) >= limits.ROUTES:
                self._fans.clear()
            fan = self._fans[key] = Fan(_receivers(found, own=own))
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


def _receivers(
    found: list[Member | Group | Tap | Holding | Peer], *, own: bool
) -> list[Target | Group | Spread | Tap | Holding | Peer]:
    """One copy for the plain subscriptions of a session that overlap, and one for each other receiver.

    A peer with several filters that match is found several times and is one receiver. Topics of the
    node's own stay here.
    """
    receivers: dict[Target | Group | Tap | Holding | Peer, None] = {}
    overlapping: dict[int, list[Member]] = {}
    spread: list[Group] = []
    for each in found:
        if isinstance(each, Group) and each.elsewhere:
            if not own:
                spread.append(each)
            elif each.here:
                receivers[each] = None
        elif not isinstance(each, Member):
            receivers[each] = None
        elif each.subscription.alone:
            receivers[each.target()] = None
        else:
            overlapping.setdefault(id(each.session), []).append(each)
    for together in overlapping.values():
        first = max(together, key=lambda one: one.subscription.options.qos)
        ids = tuple(dict.fromkeys(number for one in together for number in one.subscription.ids))
        receivers[Target(first, ids)] = None
    return [Spread(spread), *receivers] if spread else list(receivers)
