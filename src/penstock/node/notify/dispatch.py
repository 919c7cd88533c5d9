"""Sends what waits in the outbox: at the pace of each subscriber, one message at a time, with retries.

The pace is a burst and then an even rate (`access.rate`). A subscriber that fails for longer
than `give_up_s` loses its subscriptions.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.backoff import pauses_s
from penstock.errors import PenstockError
from penstock.model.instant import SECOND_US, to_us
from penstock.node.clock import steady_us, wall_us
from penstock.node.notify.subscriber_queue import delta_of
from penstock.node.notify.transport import Delivered, Notification, RecipientGone, RetryLater, redacted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
    from random import Random

    from penstock.core.channels.delta import Delta
    from penstock.model.digest import Digest
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.node.access.rate import RateLimits
    from penstock.node.notify.outbox import Outbox
    from penstock.node.notify.transport import SendOutcome, Transport


log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Failing:
    """A subscriber that could not be reached; times are of the monotonic clock."""

    since_us: Instant
    pauses_s: Iterator[float]
    reason: str = ""
    again_us: Instant = 0


class Dispatcher:
    """Takes notifications from the outbox and sends them by the transports."""

    def __init__(
        self,
        outbox: Outbox,
        transports: Mapping[str, Transport],
        *,
        pace: RateLimits,
        dice: Random,
        give_up_us: int,
        over: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._outbox = outbox
        self._transports = transports
        self._pace = pace
        self._dice = dice
        self._give_up_us = give_up_us
        self._over = over
        """Called to end a subscription of a subscriber, or all with an empty URL."""
        self._ready: dict[str, dict[str, None]] = {kind: {} for kind in transports}
        """Subscribers to send to as soon as there is room, by transport: a slow one delays no other."""
        self._busy: Counter[str] = Counter()
        self._active: dict[str, asyncio.Task[None]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._failing: dict[str, _Failing] = {}
        self._recovered: dict[str, _Failing] = {}
        """Subscribers that were reached again; what was sent may still come back."""
        self._closed = False
        self.attempts = self.failures = self.ended = 0

    def wake(self, who: str) -> None:
        """Send to a subscriber: something waits for it, or it can be reached again."""
        if self._closed:
            return
        kind = _kind(who)
        if who not in self._active and kind in self._ready:
            self._ready[kind][who] = None
        self._pump(kind)

    def _pump(self, kind: str) -> None:
        ready = self._ready.get(kind)
        while ready and self._busy[kind] < limits.NOTIFY_SENDS and not self._closed:
            who = next(iter(ready))
            del ready[who]
            self._start(who)

    def _start(self, who: str) -> None:
        transport = self._transports[_kind(who)]
        if transport.away(who):
            return  # the transport calls when that changes
        if not self._outbox.waits(who):
            return
        now_us = steady_us()
        failing = self._failing.get(who)
        wait_us = max(
            self._pace.wait_us(who, now_us=now_us), failing.again_us - now_us if failing is not None else 0
        )
        if wait_us > 0:
            self._later(who, wait_us)
            return
        item = self._outbox.next(who)
        assert item is not None
        self._pace.spend(who, now_us=now_us)
        self._begin(who, self._send(who, transport, item))

    def _begin(self, who: str, work: Coroutine[None, None, None]) -> None:
        self._busy[_kind(who)] += 1
        task = self._active[who] = asyncio.create_task(work)
        task.add_done_callback(lambda done: self._done(who, done))

    def _later(self, who: str, wait_us: float) -> None:
        if who in self._timers:
            self._timers[who].cancel()

        def due() -> None:
            del self._timers[who]
            self.wake(who)

        self._timers[who] = asyncio.get_running_loop().call_later(wait_us / SECOND_US, due)

    def _done(self, who: str, task: asyncio.Task[None]) -> None:
        del self._active[who]
        self._busy[_kind(who)] -= 1
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a bug: %s is not notified", redacted(who), exc_info=error)
            self._failed(who, RetryLater("a bug in Penstock; the node's log says where"))
        self.wake(who)

    async def _send(self, who: str, transport: Transport, item: Event | Digest) -> None:
        self.attempts += 1
        try:
            outcome: SendOutcome = await transport.send(Notification(who, delta_of(item), wall_us()))
        except PenstockError as error:
            outcome = RetryLater(str(error))
        match outcome:
            case Delivered():
                if who in self._failing:
                    self._recovered[who] = self._failing.pop(who)
                self._outbox.settled(who, item)
            case RecipientGone(reason, url):
                self.ended += 1
                log.info(
                    "%s wants no more notifications%s: %s", redacted(who), f" of {url}" if url else "", reason
                )
                self._failing.pop(who, None)
                await self._over(who, url)
            case RetryLater():
                if self._failed(who, outcome):
                    await self._give_up(who, outcome.reason)

    async def _give_up(self, who: str, reason: str) -> None:
        self.ended += 1
        log.warning("%s: subscriptions ended: %s", redacted(who), reason)
        self._failing.pop(who, None)
        await self._over(who, "")

    def returned(self, who: str, what: Delta | Digest, reason: str) -> None:
        """Put back a notification that counted as sent and came back from the subscriber's server."""
        before = self._recovered.pop(who, None)
        if before is not None and steady_us() - before.again_us < to_us(2 * limits.NOTIFY_RETRY_MOST_S):
            self._failing.setdefault(who, before)  # the same failure goes on
        self._outbox.returned(who, what, now_us=wall_us())
        if self._failed(who, RetryLater(reason)) and who not in self._active:
            self._begin(who, self._give_up(who, reason))
        else:
            self.wake(who)

    def _failed(self, who: str, later: RetryLater) -> bool:
        """Plan the next attempt; return whether to give up instead."""
        self.failures += 1
        now_us = steady_us()
        pauses = pauses_s(self._dice, least_s=limits.NOTIFY_RETRY_LEAST_S, most_s=limits.NOTIFY_RETRY_MOST_S)
        failing = self._failing.setdefault(who, _Failing(now_us, pauses))
        pause_s = max(next(failing.pauses_s), min(later.after_s or 0.0, limits.NOTIFY_RETRY_MOST_S))
        failing.again_us = now_us + to_us(pause_s)
        if later.reason != failing.reason:
            log.info("%s: %s; retry in %.0f s", redacted(who), later.reason, pause_s)
        failing.reason = later.reason
        return now_us - failing.since_us > self._give_up_us

    @property
    def failing(self) -> int:
        """Subscribers that could not be reached at the last attempt."""
        return len(self._failing)

    def forget(self, who: str) -> None:
        """Forget a subscriber that ended all subscriptions."""
        self._failing.pop(who, None)
        self._recovered.pop(who, None)
        self._ready.get(_kind(who), {}).pop(who, None)
        if who in self._timers:
            self._timers.pop(who).cancel()

    def statistics(self) -> dict[str, object]:
        """Return how many are sending, and why subscribers cannot be reached."""
        return {
            "attempts": self.attempts,
            "failures": self.failures,
            "ended": self.ended,
            "sending": len(self._active),
            "failing": {who: one.reason for who, one in list(self._failing.items())[: limits.HTTP_ROWS]},
        }

    async def close(self) -> None:
        """Stop sending; what is under way counts as not sent, and is sent again after the next start."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        tasks = list(self._active.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _kind(who: str) -> str:
    return who.partition(":")[0]
