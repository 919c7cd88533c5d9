"""The receiving half of a client: hands messages to subscriptions and decides when to stop reading.

Reading stops while the program is behind, so that events wait in the node's queue, where the policy is.
Reading goes on while a call waits for an answer of the node: a program that publishes from within its
own loop would otherwise wait for itself. Messages that then find a buffer full are packed there.
"""

from __future__ import annotations

import time
from collections import deque
from secrets import randbelow
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from penstock import limits
from penstock.client.receipts import Receipts
from penstock.client.statistics import NOTHING
from penstock.model.event import stamp_of
from penstock.mqtt.fields import MOST_VARINT
from penstock.mqtt.topics import overlap

if TYPE_CHECKING:
    import asyncio

    from penstock.client.connection import Connection
    from penstock.client.receipts import Receipt
    from penstock.client.statistics import ReceiveStatistics
    from penstock.client.subscription import Subscription
    from penstock.mqtt.packets.publish import Publish
    from penstock.mqtt.sessions.client import ClientSession

T = TypeVar("T")


class Receiver:
    """Hands incoming messages to the subscriptions of a client."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._connection: Connection | None = None
        self.receipts = Receipts(self._acknowledge)
        self._subscriptions: dict[str, Subscription] = {}
        """Subscriptions by filter, in the order in which they were made."""
        self._numbered: dict[int, Subscription] = {}
        self._past = NOTHING
        self._unclaimed: deque[tuple[Publish, Receipt | None]] = deque()
        self.unwanted = 0
        self.paused = False
        self._awaited: dict[asyncio.Future[Any], None] = {}
        """Answers of the node that calls wait for; a dict, to keep their order."""

    # -- subscriptions ---------------------------------------------------------------------------------------

    def number_for(self, filter_: str, *, alone: bool, choosy: bool = False, strict: bool = False) -> int:
        """The identifier of a new subscription, or 0 if it needs none.

        A subscription needs one if the node sends it separate copies of messages that another subscription
        gets, too, or does not send it everything that matches. Others get none, since a node that has to
        write identifiers cannot forward messages unchanged. The same filter gets the same identifier in every
        program, so that a session can be resumed. A strict subscription gets a random one: messages sent
        before the node knew of it are not for it.
        """
        rivals = (each for each in self._subscriptions.values() if not each.number)
        needed = choosy or any((alone or each.alone) and overlap(each.filter, filter_) for each in rivals)
        if not needed and not strict:
            return 0
        number = 1 + (randbelow(MOST_VARINT) if strict else crc32(filter_.encode()) % MOST_VARINT)
        while number in self._numbered:
            number = number % MOST_VARINT + 1
        return number

    def held(self) -> list[Subscription]:
        """Subscriptions that are in force or requested."""
        return list(self._subscriptions.values())

    def find(self, filter_: str) -> Subscription | None:
        """Return the subscription with exactly this filter, or None."""
        return self._subscriptions.get(filter_)

    def add(self, subscription: Subscription) -> None:
        """Add a subscription; it first gets the matching messages that arrived before it."""
        self._subscriptions[subscription.filter] = subscription
        if subscription.number:
            self._numbered[subscription.number] = subscription
        kept: deque[tuple[Publish, Receipt | None]] = deque()
        for message, receipt in self._unclaimed:
            if subscription.matches(message.topic):
                if not subscription.strict or not _of_stream(message):
                    self._put([subscription], message, receipt)
                if receipt is not None:
                    self.receipts.taken(receipt)
            else:
                kept.append((message, receipt))
        self._unclaimed = kept

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription that has ended."""
        if self._subscriptions.pop(subscription.filter, None) is not None:
            self._numbered.pop(subscription.number, None)
            self._past += subscription.statistics()

    def end(self, error: Exception | None) -> None:
        """End all subscriptions; no further message will arrive."""
        for each in self.held():
            each.end(error)

    # -- messages --------------------------------------------------------------------------------------------

    def arrived(self, message: Publish) -> None:
        """Handle a PUBLISH of the node."""
        receipt = None
        if message.qos:
            receipt = self.receipts.arrived(message)
            if receipt is None:
                return
        wanting = self._wanting(message)
        if wanting or self._comes_again(message):
            self._put(wanting, message, receipt)
            self._look()
        elif receipt is not None or len(self._unclaimed) < limits.CLIENT_UNCLAIMED:
            # Messages of QoS 1 and 2 need no bound here: the receive maximum bounds them.
            if receipt is not None:
                receipt.holders += 1
            self._unclaimed.append((message, receipt))
        else:
            self.unwanted += 1

    def _wanting(self, message: Publish) -> list[Subscription]:
        """Return the subscriptions whose identifiers a message carries, and those that share its copy."""
        matching = [each for each in self._subscriptions.values() if each.matches(message.topic)]
        if not self._numbered:
            return matching
        ids = message.properties.subscription_ids
        named = [each for each in matching if each.number in ids]
        if _of_stream(message):  # the node sends one copy for all subscriptions of a session
            others = [each for each in matching if not each.number or (ids and not named)]
            return [*named, *(each for each in others if not each.strict)]
        if ids and not named:
            return matching  # identifiers of an earlier program with this session
        shared = not ids or any(not each.alone for each in named)
        others = [each for each in matching if not each.number and (not ids or not each.alone)]
        found = [*named, *others] if shared else named
        return found or [each for each in matching if each.strict and not each.wanted.choosy]

    def _comes_again(self, message: Publish) -> bool:
        """Whether the node will send it again, having sent it before it knew where a subscription begins."""
        return _of_stream(message) and any(
            each.strict and each.matches(message.topic) for each in self._subscriptions.values()
        )

    def _put(self, wanting: list[Subscription], message: Publish, receipt: Receipt | None) -> None:
        now_us = time.time_ns() // 1_000
        if receipt is not None:
            receipt.holders += 1  # hold it, or it would be acknowledged before all subscriptions have it
        for each in wanting:
            each.put(message, receipt, now_us=now_us)
        if receipt is not None:
            self.receipts.taken(receipt)

    def _acknowledge(self, packet_id: int) -> None:
        ack = self._session.answer(packet_id)
        if self._connection is not None:
            self._connection.send(ack)

    # -- reading or not --------------------------------------------------------------------------------------

    def attach(self, connection: Connection, *, session_present: bool) -> None:
        """Use a new connection."""
        if not session_present:
            self.receipts.forget()
        self._connection = connection
        self.paused = False

    def detach(self) -> None:
        """Forget the connection, which is lost."""
        self._connection = None
        self.paused = False
        self.receipts.detached()

    async def wait_for(self, answer: asyncio.Future[T]) -> T:
        """Wait for an answer of the node; reading does not stop meanwhile."""
        self._awaited[answer] = None
        self._look()
        try:
            return await answer
        finally:
            del self._awaited[answer]
            self._look()

    def relieved(self) -> None:
        """Called when a program has taken items: reading may resume."""
        if self.paused:
            self._look()

    def _look(self) -> None:
        """Stop or resume reading, as the buffers are full or not."""
        connection = self._connection
        if connection is None:
            return
        if self.paused:
            if self._answer_awaited or not any(each.behind_still for each in self._subscriptions.values()):
                self.paused = False
                connection.resume()
        elif any(each.behind for each in self._subscriptions.values()) and not self._answer_awaited:
            self.paused = True
            connection.pause()

    @property
    def _answer_awaited(self) -> bool:
        return any(not each.done() for each in self._awaited)

    # -- what can be known -----------------------------------------------------------------------------------

    @property
    def unclaimed(self) -> int:
        """How many messages wait for a subscription that is not made yet."""
        return len(self._unclaimed)

    def statistics(self) -> ReceiveStatistics:
        """Return the counts of all subscriptions together."""
        total = self._past
        for each in self._subscriptions.values():
            total += each.statistics()
        return total


def _of_stream(message: Publish) -> bool:
    return stamp_of(message.properties.user) is not None
