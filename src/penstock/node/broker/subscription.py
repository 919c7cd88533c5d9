"""One subscription of one session: its options, its policy, its queue and its account."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from penstock.core.queues import PackingQueue
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.mqtt.topics import shared_of
from penstock.node.broker.link import Latency
from penstock.node.broker.runs import RunQueue
from penstock.node.broker.status import Account, FilterStatus, SubscriptionStatus
from penstock.policy.evaluate import digest_of

if TYPE_CHECKING:
    from penstock.core.queues import BoundedQueue, QueueStatistics
    from penstock.model.digest import Cause
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.subscribe import Subscription as Options
    from penstock.node.broker.pacing import Measured, Pacing
    from penstock.node.broker.policies import Chosen, Queueing
    from penstock.node.broker.runs import Run
    from penstock.policy.content import ContentFilter
    from penstock.policy.nodes import Policy


SEVERAL: Final = "*"
"""Stands for a wildcard in the topic of a digest: a legal topic that the filter still matches."""


_NOTHING: Final = Account()
_NO_PACKS: Final[dict[int, int]] = {}
"""Shared by the figures of subscriptions through which nothing came: there may be thousands."""


class DigestForm(Enum):
    """Whether digests come in the stream of a subscription, and in which form."""

    ANY = ""
    """The client says nothing: the node's setting decides, and digests are compact."""
    ON = "on"
    """Digests come, in the compact form."""
    OFF = "off"
    COMPACT = "compact"
    JSON = "json"


class Subscription:
    """One filter of a session: counts what the session gets through it, and holds the queue of what waits."""

    __slots__ = (
        "__weakref__",
        "_pacing",
        "_past",
        "_queueing",
        "abandoned",
        "beside_us",
        "chosen",
        "client_id",
        "content",
        "counted",
        "digests",
        "direct",
        "dropped_before",
        "filter",
        "form",
        "fresh_us",
        "ids",
        "laned",
        "latency",
        "link_class",
        "link_past",
        "link_since",
        "numbered",
        "options",
        "oversized",
        "packs_before",
        "places",
        "queue",
        "receiver",
        "withheld",
    )

    def __init__(
        self,
        client_id: str,
        options: Options,
        *,
        subscription_id: int,
        chosen: Chosen,
        content: ContentFilter | None,
        queueing: Queueing,
        form: DigestForm = DigestForm.ANY,
        fresh_us: int | None = None,
    ) -> None:
        self.client_id = client_id
        self.filter = options.filter
        self.options = options
        self.ids: tuple[int, ...] = (subscription_id,) if subscription_id else ()
        self.chosen = chosen
        """Policy of the subscription."""
        self.content = content
        """Content filter of the subscription."""
        self.form = form
        """Whether the client asked for digests, and in which form."""
        self.fresh_us = fresh_us
        """Time that no event should wait longer, as the client asked; None: as policy or node say."""
        self.receiver: Measured | None = None
        """Where the client's pace is measured, once it is a session's."""
        self._pacing: Pacing | None = None
        self._queueing = queueing
        self.queue: BoundedQueue | None = None
        """Made when something has to wait for the first time."""
        self.direct = 0
        """Events that did not have to wait."""
        self.laned = 0
        """Events that wait in a lane of their session, and not in the queue."""
        self.beside_us: Instant = 0
        """When one that would wait in a lane was last put into the queue."""
        self.withheld = 0
        """Events taken from the queue that were not sent because they had expired."""
        self.oversized = 0
        """Events that were not sent because the client takes no packet that large; a digest has each."""
        self.counted = 0
        """Events in digests that did not come in the stream."""
        self.abandoned = 0
        self.digests = 0
        """Digests sent."""
        self.latency = Latency()
        self.places: dict[int, int] = {}
        """Where items of the queue are in the journal, by identity."""
        self.numbered = False
        """Whether all QoS 1 and 2 messages that wait here have their packet identifiers."""
        self.dropped_before = 0
        """Events the queue had dropped when the journal last looked."""
        self.packs_before = 0
        """Packs of the queue until then."""
        self.link_class = 0
        """Number of its class of receivers, by which other nodes know it; 0: without a policy."""
        self.link_past: tuple[int, ...] = ()
        """Classes it was in before its policy changed: what waits for them at other nodes is for it, too."""
        self.link_since = 0
        """The first number of the class without a policy that it is in."""
        self._past = _NOTHING
        """Account of earlier queues of this subscription, which were replaced."""

    def begin(self, receiver: Measured) -> None:
        """Belong to a session, which measures its client's pace if events must not wait long."""
        self.receiver = receiver
        if self._fresh_us() is not None:
            receiver.paced()

    def _fresh_us(self) -> int | None:
        """Time that no event should wait longer: as the client, the policy or the node says."""
        plan = self.chosen.plan
        return None if plan is None else self.fresh_us or plan.fresh_us or self._queueing.fresh_us

    @property
    def alone(self) -> bool:
        """Whether it gets its own copy of what other subscriptions of its session get, too."""
        return self.chosen.plan is not None or self.content is not None or self.options.no_local

    @property
    def digests_in_stream(self) -> bool:
        """Whether digests come in the stream: as the client asked, else as the node's setting says."""
        if self.form is not DigestForm.ANY:
            return self.form is not DigestForm.OFF
        default = self._queueing.digests
        return default == "all" or (default == "policy" and self.chosen.plan is not None)

    # -- waiting ---------------------------------------------------------------------------------------------

    def offer(self, item: Item, *, now_us: Instant) -> None:
        """Queue an event or a digest."""
        queue = self.queue
        if queue is None:
            queue = self.queue = self._new_queue()
        if self._pacing is not None:
            self._pacing.glance(now_us)
        queue.offer(item, now_us=now_us)

    def offer_run(self, run: Run) -> None:
        """Queue plain messages."""
        queue = self.queue
        if queue is None:
            queue = self.queue = self._new_queue()
        if isinstance(queue, RunQueue):
            queue.offer_run(run)
        else:
            if self._pacing is not None:
                self._pacing.glance(run.now_us)
            for event in run.events():
                queue.offer(event, now_us=run.now_us)

    def _new_queue(self) -> BoundedQueue:
        chosen = self.chosen
        self._pacing = None
        if chosen.plan is not None:
            made = self._queueing
            queue = PackingQueue(
                chosen.plan, made.options, made.controller(), asked_us=self.fresh_us, fresh_us=made.fresh_us
            )
            if queue.fresh_us is not None and self.receiver is not None:
                self._pacing = self.receiver.paced()
                queue.follow(self._pacing.pace)
            return queue
        # QoS 1 and 2 lose nothing by policy: their bound is where the node protects itself.
        return RunQueue(self._queueing.firm if self.options.qos else self._queueing.options)

    def install(self, chosen: Chosen, *, now_us: Instant) -> None:
        """Change the policy; waiting items stay, and are packed by it if they do not fit."""
        self.chosen = chosen
        before = self.queue
        if before is None:
            return
        items = before.items()
        self._past = self._settled(before.statistics())
        self.dropped_before = self.packs_before = 0
        after = self.queue = self._new_queue()
        if isinstance(after, PackingQueue):
            after.absorb(items, now_us=now_us)
        else:
            for item in items:
                after.offer(item, now_us=now_us)

    def change(self, to: Subscription, *, now_us: Instant) -> None:
        """The client subscribed once more: other options and policy, the same queue."""
        other_queue = bool(self.options.qos) is not bool(to.options.qos)
        other_policy = _policy_of(self.chosen) != _policy_of(to.chosen) or self.fresh_us != to.fresh_us
        self.options, self.ids, self.content, self.form = to.options, to.ids, to.content, to.form
        self.fresh_us = to.fresh_us
        if other_queue or other_policy:
            self.install(to.chosen, now_us=now_us)
        else:
            self.chosen = to.chosen

    def reconfigure(self, queueing: Queueing) -> None:
        """Change the bounds of queues made from now on."""
        self._queueing = queueing

    def digest_topic(self) -> str:
        """Where its digests are published: the filter, with something in the place of wildcards."""
        levels = shared_of(self.filter).filter.split("/")
        return "/".join(SEVERAL if level in ("+", "#") else level for level in levels)

    def digest_of(self, event: Event, cause: Cause) -> Digest:
        """Return the digest of one event that is not sent, with what its policy asks about it."""
        return digest_of(_policy_of(self.chosen), event, cause)

    def abandon(self) -> None:
        """End the subscription: count what waits as abandoned."""
        waiting = self.account().queued
        self._past = self._settled(self._statistics()) + Account(accepted=waiting, abandoned=waiting)
        self.queue = None

    def hand_over(self, in_flight: int) -> None:
        """The session goes on at another node, which accounts for what waits and for what is in flight."""
        self._past = self._settled(self._statistics()) + Account(accepted=-in_flight, delivered=-in_flight)
        self.queue = None
        self.places.clear()

    # -- what can be known -----------------------------------------------------------------------------------

    def _settled(self, stats: QueueStatistics | None) -> Account:
        """Account of events that went through the queues, without those that wait."""
        past = self._past
        if stats is None:
            return past
        return Account(
            accepted=past.accepted + stats.accepted - stats.queued - stats.queued_digested,
            delivered=past.delivered + stats.delivered,
            digested=past.digested + stats.digested,
            abandoned=past.abandoned,
        )

    def _statistics(self) -> QueueStatistics | None:
        return self.queue.statistics() if self.queue is not None else None

    def account(self) -> Account:
        """Every event that was accepted, and what became of it."""
        return self._account(self._statistics())

    def _account(self, stats: QueueStatistics | None) -> Account:
        if stats is None and not self.direct and not self.laned and self._past is _NOTHING:
            return _NOTHING
        settled = self._settled(stats)
        queued = self.laned + (stats.queued + stats.queued_digested if stats is not None else 0)
        return Account(
            accepted=settled.accepted + queued + self.direct,
            delivered=settled.delivered + self.direct - self.withheld - self.oversized,
            digested=settled.digested + self.oversized - self.counted,
            counted=self.counted,
            queued=queued,
            abandoned=settled.abandoned + self.withheld,
            oversized=self.oversized,
        )

    def status(self, *, now_us: Instant, digests_in_stream: bool) -> SubscriptionStatus:
        """The subscription at this moment; its session knows whether digests are in the stream."""
        p50_us, p99_us = self.latency.quantiles()
        stats = self._statistics()
        return SubscriptionStatus(
            filter=self.filter,
            qos=self.options.qos,
            policy=self.chosen.name,
            content_filter=self.content is not None,
            account=self._account(stats),
            level=stats.level if stats else 0,
            items=self.laned + (stats.items if stats else 0),
            bytes=stats.bytes if stats else 0,
            packs=stats.packs if stats else 0,
            packs_by_level=dict(stats.packs_by_level) if stats else _NO_PACKS,
            filters=tuple(
                FilterStatus(cause.level, cause.position, cause.filter, count.seen, count.dropped)
                for cause, count in (stats.filters.items() if stats else ())
            ),
            digests=self.digests,
            digests_in_stream=digests_in_stream,
            oldest_us=self._oldest_us(now_us),
            latency_p50_us=p50_us,
            latency_p99_us=p99_us,
            fresh_us=self._fresh_us() or 0,
            wait_us=(stats.wait_us or 0) if stats and stats.items else 0,
            urgent=stats.urgent if stats else 0,
            packs_in_time=stats.packs_in_time if stats else 0,
            bytes_per_s=round(self._pacing.pace.per_s or 0) if self._pacing is not None else 0,
        )

    def _oldest_us(self, now_us: Instant) -> int:
        head = self.queue.oldest() if self.queue is not None else None
        since_us = head_us(head)
        return 0 if since_us is None else max(0, now_us - since_us)


def _policy_of(chosen: Chosen) -> Policy | None:
    return chosen.plan.policy if chosen.plan is not None else None


def head_us(item: Item | None) -> Instant | None:
    """Since when an item waits: an event since it came, a digest since the first of its events."""
    if isinstance(item, Event):
        return item.ts_us
    return item.from_us if isinstance(item, Digest) else None
