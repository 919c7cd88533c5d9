"""Takes what other nodes send: messages for subscribers here, digests of what was dropped, interest."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.cluster.seen import below, missed
from penstock.core.cluster.stamps import Stamp
from penstock.errors import ClusterError, MqttError
from penstock.mqtt.topics import check_filter, check_topic
from penstock.node.broker.connection import IDLE_US
from penstock.node.broker.interest import concerns
from penstock.node.broker.message import Message
from penstock.node.broker.receivers import Target
from penstock.node.broker.runs import QOS1, AcknowledgedRun, Run, scan, split_qos1
from penstock.node.cluster.records import event_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.core.cluster.frames import Carried, CarriedRun, Told, Wants
    from penstock.core.cluster.seen import Seen
    from penstock.model.digest import Digest
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.receivers import Receiver
    from penstock.node.broker.routes import Fan
    from penstock.node.cluster.peer import ClusterPeer
    from penstock.node.cluster.retained import SharedRetained


class Incoming:
    """Gives the broker what other nodes send."""

    def __init__(self, broker: Broker, retained: SharedRetained) -> None:
        self._broker = broker
        self._retained = retained
        self._fans: dict[str, Fan] = {}
        """Receivers by topic, as long as the router's version is this one."""
        self._version = -1
        self.sieves: dict[str, Seen] = {}
        """Clients whose sessions have come from other nodes, and what they had seen there; it may still come
        here."""
        self.missed = 0
        """Events that were left out because they are too late for a session, and may not have come to it."""
        self.recognise: Callable[[Event, Sequence[Receiver], Instant], Event] | None = None
        """Gives a message its flow and lane at a node with slots, for these receivers."""
        self.late: Callable[[ClusterPeer, str, int, Sequence[Receiver]], None] | None = None
        """Counts the events, by topic, number and receivers here, that come for sessions that have left."""

    def want(self, peer: ClusterPeer, wants: Wants) -> None:
        """Another node tells what its subscribers want."""
        for filter_ in (*wants.added, *(filter_ for _, filter_, _ in wants.began)):
            check_filter(filter_, where="interest")
        self.wanted(peer, *peer.link.wants(wants))

    def wanted(self, peer: ClusterPeer, added: Iterable[str], removed: Iterable[str]) -> None:
        """Have messages for filters that another node wants go there, and no others."""
        peer.wants(added, removed)
        for filter_ in added:
            self._broker.router.peer_wants(peer, filter_, wanted=True)
        for filter_ in removed:
            self._broker.router.peer_wants(peer, filter_, wanted=False)

    def deliver(
        self,
        peer: ClusterPeer,
        item: Carried,
        now_us: Instant,
        classes: frozenset[int] | None = None,
        *,
        ahead: bool = False,
    ) -> None:
        """Give a message of another node to the subscribers here, or to those of some classes only.

        One that went `ahead` says nothing of those before it, which may still come.
        Shared groups get theirs by `sharing.py`: the other node has chosen one node for each.
        """
        broker = self._broker
        fan = self._fan(item.topic)
        event = event_from(item, broker.properties)
        seen = item.number <= peer.newest
        if not item.kept_only:
            peer.received += 1
            if not seen:
                peer.newest = peer.newest if ahead else item.number
                if self.late is not None:
                    self.late(peer, item.topic, item.number, fan.local)
        if fan.into is not None:
            broker.count_refused("stream topic of another node")
            return
        if item.stamp is not None and type(event) is Message and event.retain:
            self._retained.keep(event, Stamp(*item.stamp), through=peer.seen.name)
        if item.kept_only:
            return
        receivers: Sequence[Receiver] = fan.local
        if self.sieves:
            receivers = self._sieved(receivers, peer, item.number)
        peer.number = item.number
        if self.recognise is not None:
            event = self.recognise(event, receivers, now_us)
        for receiver in receivers:
            if classes is None or _addressed(receiver, classes, seen=seen):
                receiver.deliver(event, origin=peer, now_us=now_us)

    def deliver_run(self, peer: ClusterPeer, item: CarriedRun, now_us: Instant) -> None:
        """Give messages of another node to the subscribers here, as the bytes they are where that can be."""
        router = self._broker.router
        taken = 0

        def handed(fan: Fan, data: bytes, count: int, first: int) -> None:
            nonlocal taken
            kind = AcknowledgedRun if first == QOS1 else Run
            seq = item.seq + taken
            run = kind(data, count, version=item.version, sender=item.sender, seq=seq, now_us=item.ts_us)
            number = item.number + taken
            taken += count
            self._hand_run(peer, fan, run, number, now_us)

        end = scan(
            item.data,
            version=item.version,
            most=self._broker.terms.maximum_packet_bytes,
            routes=router.known,
            miss=partial(router.look_up_plain, into=router.known, denied=None),
            handed=handed,
        )
        if end != len(item.data) or taken != item.count:
            raise ClusterError(f"a run of {item.count} messages of which {taken} can be read")

    def _hand_run(self, peer: ClusterPeer, fan: Fan, run: Run, number: int, now_us: Instant) -> None:
        """Give messages to the same receivers."""
        last = number + run.count - 1
        peer.received += run.count
        if self.late is not None:
            for at, event in enumerate(run.events(), start=number):
                if at > peer.newest:
                    self.late(peer, event.topic, at, fan.local)
        peer.newest = max(peer.newest, last)
        if fan.into is not None or fan.denied:
            why = "topic of this node's own" if fan.denied else "stream topic"
            self._broker.count_refused(f"{why} of another node", run.count)
            return
        one_by_one: Sequence[Receiver] = fan.here
        if self.sieves or self.recognise is not None:
            one_by_one = fan.local
        elif isinstance(run, AcknowledgedRun):
            one_by_one = (*one_by_one, *self._acknowledged(fan, run))
        else:
            broker = self._broker
            alone = run.count == 1 and now_us - broker.flushed_us > IDLE_US
            for target in (*fan.plain5, *fan.plain4):
                target.delivery.deliver_run(target.subscription, run, alone=alone)
            if alone:
                broker.flushed_us = now_us
        if one_by_one:
            for at, event in enumerate(run.events(), start=number):
                wanting = self._sieved(one_by_one, peer, at) if self.sieves else one_by_one
                peer.number = at
                known = event if self.recognise is None else self.recognise(event, wanting, now_us)
                for receiver in wanting:
                    receiver.deliver(known, origin=peer, now_us=now_us)

    @staticmethod
    def _acknowledged(fan: Fan, run: Run) -> list[Target]:
        """Send messages with QoS 1 as they came to those who take them so; returns the others."""
        others: list[Target] = []
        parts = None
        for target in (*fan.plain5, *fan.plain4):
            delivery, subscription = target.delivery, target.subscription
            if delivery.version != run.version or not delivery.takes_qos1(subscription, run.count):
                others.append(target)
                continue
            if parts is None:
                parts = split_qos1(run.data)
            delivery.deliver_qos1(subscription, parts[0], parts[2])
        return others

    def _fan(self, topic: str) -> Fan:
        """The receivers of a topic, remembered until a subscription changes; ClusterError if it is none."""
        router = self._broker.router
        if self._version != router.version or len(self._fans) > limits.ROUTES:
            self._version = router.version
            self._fans.clear()
        found = self._fans.get(topic)
        if found is None:
            try:
                check_topic(topic, where="topic")
            except MqttError as error:
                raise ClusterError(f"a message that MQTT does not allow: {error}") from None
            if topic.startswith(router.own):
                raise ClusterError(f"topic '{topic}' is each node's own")
            found = self._fans[topic] = router.find(topic)
        return found

    def gets(self, client: str, receivers: Iterable[Receiver], peer: ClusterPeer, number: int) -> bool:
        """Whether a client is among the receivers of an event here: it gets the event, or misses it and is
        counted."""
        if not any(isinstance(each, Target) and each.session.client_id == client for each in receivers):
            return False
        seen, origin = self.sieves.get(client), peer.seen
        return (
            seen is None
            or not below(seen.marks, origin.name, origin.incarnation, number)
            or missed(seen.marks, seen.gaps, origin.name, origin.incarnation, number)
        )

    def _sieved(self, receivers: Sequence[Receiver], peer: ClusterPeer, number: int) -> list[Receiver]:
        """Leave out the sessions that have brought this event with them."""
        name, incarnation = peer.seen.name, peer.seen.incarnation
        found = []
        for each in receivers:
            seen = self.sieves.get(each.session.client_id) if isinstance(each, Target) else None
            if seen is None or not below(seen.marks, name, incarnation, number):
                found.append(each)
            else:
                self.missed += missed(seen.marks, seen.gaps, name, incarnation, number)
        return found

    def tell(self, peer: ClusterPeer, told: Told, digest: Digest, now_us: Instant) -> None:
        """Tell the subscriptions of a class to a filter, or a shared group, what was dropped on the way."""
        group = self._broker.router.group(told.filter)
        if group is not None:
            group.take_over([digest], now_us=now_us)
        for each in self._broker.router.subscribed(told.filter):
            if concerns(each.subscription, told.to) and not self._brought(
                each.session.client_id, peer, told, digest
            ):
                each.session.delivery.take_digest(each.subscription, digest, now_us=now_us)
                each.session.drain(now_us=now_us)

    def _brought(self, client: str, peer: ClusterPeer, told: Told, digest: Digest) -> bool:
        """Whether a session has come here with everything that a digest tells of."""
        seen = self.sieves.get(client) if told.upto else None
        name, incarnation = peer.seen.name, peer.seen.incarnation
        if seen is None or not below(seen.marks, name, incarnation, told.upto):
            return False
        self.missed += digest.count * missed(seen.marks, seen.gaps, name, incarnation, told.upto)
        return True


def _addressed(receiver: Receiver, classes: frozenset[int], *, seen: bool) -> bool:
    """Whether an event for some classes is for a receiver; taps see it when it first comes."""
    if isinstance(receiver, Target):
        return any(concerns(receiver.subscription, number) for number in classes)
    return not seen
