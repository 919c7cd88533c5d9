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

if TYPE_CHECKING:
    from penstock.core.queues import BoundedQueue, QueueStatistics
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.subscribe import Subscription as Options
    from penstock.node.broker.policies import Chosen, Queueing
    from penstock.node.broker.runs import Run
    from penstock.policy.content import ContentFilter
    from penstock.policy.nodes import Policy


SEVERAL: Final = "*"
"""Stands for a wildcard in the topic of a digest: a legal topic that the filter still matches."""


class DigestForm(Enum):
    """The form of digests that a subscription asks for."""

    ANY = ""
    """The client says nothing: compact, or JSON where it speaks MQTT 3.1.1."""
    COMPACT = "compact"
    JSON = "json"


class Subscription:
    """What a session gets through one filter, and what waits for it there."""

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
        """How its digests are written."""
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
        """Events taken from the queue that were not sent: expired, or larger than the client takes."""
        self.abandoned = 0
        self.digests = 0
        """Digests sent."""
        self.latency = Latency()
        self.places: dict[int, int] = {}
        """Where items of the queue are in the journal, by identity."""
        self.dropped_before = 0
        """Events the queue had dropped when the journal last looked."""
        self._past = Account()
        """Account of earlier queues of this subscription, which were replaced."""

    @property
    def alone(self) -> bool:
        """Whether it gets its own copy of what other subscriptions of its session get, too."""
        return self.chosen.plan is not None or self.content is not None or self.options.no_local

    # -- waiting ---------------------------------------------------------------------------------------------

    def offer(self, item: Item, *, now_us: Instant) -> None:
        """Queue an event or a digest."""
        queue = self.queue
        if queue is None:
            queue = self.queue = self._new_queue()
        queue.offer(item, now_us=now_us)

    def offer_run(self, run: Run) -> None:
        """Queue plain messages."""
        queue = self.queue
        if queue is None:
            queue = self.queue = self._new_queue()
        if isinstance(queue, RunQueue):
            queue.offer_run(run)
        else:
            for event in run.events():
                queue.offer(event, now_us=run.now_us)

    def _new_queue(self) -> BoundedQueue:
        chosen = self.chosen
        if chosen.plan is not None:
            return PackingQueue(chosen.plan, self._queueing.options, self._queueing.controller())
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
        self.dropped_before = 0
        after = self.queue = self._new_queue()
        if isinstance(after, PackingQueue):
            after.absorb(items, now_us=now_us)
        else:
            for item in items:
                after.offer(item, now_us=now_us)

    def change(self, to: Subscription, *, now_us: Instant) -> None:
        """The client subscribed once more: other options and policy, the same queue."""
        other_queue = bool(self.options.qos) is not bool(to.options.qos)
        other_policy = _policy_of(self.chosen) != _policy_of(to.chosen)
        self.options, self.ids, self.content, self.form = to.options, to.ids, to.content, to.form
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

    def abandon(self) -> None:
        """End the subscription: count what waits as abandoned."""
        waiting = self.account().queued
        self._past = self._settled(self._statistics()) + Account(accepted=waiting, abandoned=waiting)
        self.queue = None

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
        settled = self._settled(stats)
        queued = self.laned + (stats.queued + stats.queued_digested if stats is not None else 0)
        return Account(
            accepted=settled.accepted + queued + self.direct,
            delivered=settled.delivered + self.direct - self.withheld,
            digested=settled.digested,
            queued=queued,
            abandoned=settled.abandoned + self.withheld,
        )

    def status(self, *, now_us: Instant) -> SubscriptionStatus:
        """The subscription at this moment."""
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
            packs_by_level=dict(stats.packs_by_level) if stats else {},
            filters=tuple(
                FilterStatus(cause.level, cause.position, cause.filter, count.seen, count.dropped)
                for cause, count in (stats.filters.items() if stats else ())
            ),
            digests=self.digests,
            oldest_us=self._oldest_us(now_us),
            latency_p50_us=p50_us,
            latency_p99_us=p99_us,
        )

    def _oldest_us(self, now_us: Instant) -> int:
        head = self.queue.head() if self.queue is not None else None
        since_us = head_us(head)
        return 0 if since_us is None else max(0, now_us - since_us)


def _policy_of(chosen: Chosen) -> Policy | None:
    return chosen.plan.policy if chosen.plan is not None else None


def head_us(item: Item | None) -> Instant | None:
    """Since when an item waits: an event since it came, a digest since the first of its events."""
    if isinstance(item, Event):
        return item.ts_us
    return item.from_us if isinstance(item, Digest) else None
