"""SUBSCRIBE and UNSUBSCRIBE requests: who waits for the answer, and what is sent again after a reconnect."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.errors import MqttError, PolicyError, SubscribeRefused
from penstock.mqtt.codes import Reason, explained
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.subscribe import Suback, Subscribe

if TYPE_CHECKING:
    from penstock.client.connection import Connection
    from penstock.client.receiving import Receiver
    from penstock.client.subscription import Subscription
    from penstock.errors import ClientError, PenstockError
    from penstock.mqtt.sessions.client import Answered, ClientSession


class SubscribeRequests:
    """SUBSCRIBE and UNSUBSCRIBE requests without an answer yet."""

    def __init__(self, session: ClientSession, receiver: Receiver) -> None:
        self._session = session
        self._receiver = receiver
        self._asked: dict[str, asyncio.Future[None]] = {}
        """Futures by the filter of a subscription that waits for SUBACK."""
        self._leaving: dict[str, asyncio.Future[None]] = {}
        """Futures by the filter of a subscription that is ending."""

    async def begin(self, subscription: Subscription, connection: Connection | None) -> None:
        """Send SUBSCRIBE, now or after reconnecting, and wait; raises SubscribeRefused or PolicyError."""
        filter_ = subscription.filter
        answer = self._asked[filter_] = asyncio.get_running_loop().create_future()
        self._receiver.add(subscription)
        try:
            if connection is not None:
                self._ask(connection, subscription)
            await self._receiver.wait_for(answer)
        except BaseException:
            self._receiver.remove(subscription)
            subscription.end(give_up=True)
            raise
        finally:
            self._asked.pop(filter_, None)

    async def end(self, subscription: Subscription, connection: Connection | None) -> None:
        """Send UNSUBSCRIBE and wait for the answer."""
        leaving = self._leaving[subscription.filter] = asyncio.get_running_loop().create_future()
        try:
            if connection is not None:
                connection.send(self._session.unsubscribe(subscription.filter))
            await self._receiver.wait_for(leaving)
        finally:
            del self._leaving[subscription.filter]

    async def left(self, filter_: str) -> None:
        """Wait until another call has ended the subscription to a filter."""
        while (leaving := self._leaving.get(filter_)) is not None:
            await asyncio.wait((leaving,))

    def renew(self, connection: Connection, *, session_present: bool) -> None:
        """Send again what the node does not know: all subscriptions, or those without an answer yet."""
        for filter_, leaving in list(self._leaving.items()):
            if session_present:
                connection.send(self._session.unsubscribe(filter_))
            elif not leaving.done():
                leaving.set_result(None)
        for each in self._receiver.held():
            if each.filter not in self._leaving and (not session_present or each.filter in self._asked):
                try:
                    self._ask(connection, each)
                except MqttError as error:  # the node accepts less than before the reconnect
                    self._refused(each, error)

    def _ask(self, connection: Connection, subscription: Subscription) -> None:
        numbered = subscription.number and connection.rules.granted.subscription_ids_available != 0
        start = subscription.places.start
        user = subscription.wanted.user + (() if start is None else (("start", str(start)),))
        properties = Properties(user=user, subscription_ids=(subscription.number,) if numbered else ())
        options = subscription.wanted.options
        connection.check(Subscribe(1, (options,), properties))
        connection.send(self._session.subscribe(options, properties=properties))

    def answered(self, found: Answered) -> None:
        """Handle a SUBACK or UNSUBACK."""
        if not isinstance(found.answer, Suback):
            for filter_ in found.request.filters:  # type: ignore[union-attr]  # the session has paired them
                leaving = self._leaving.get(filter_)
                if leaving is not None and not leaving.done():
                    leaving.set_result(None)
            return
        filter_ = found.request.subscriptions[0].filter  # type: ignore[union-attr]
        waiting = self._asked.get(filter_)
        subscription = self._receiver.find(filter_)
        if subscription is None:  # the call was cancelled meanwhile
            return
        (reason,) = found.answer.reasons
        if reason < Reason.UNSPECIFIED:
            subscription.granted_qos = reason
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
            return
        self._refused(subscription, _refusal(filter_, found.answer, reason))

    def _refused(self, subscription: Subscription, error: PenstockError) -> None:
        waiting = self._asked.get(subscription.filter)
        if waiting is None:  # renewed after the node had lost the session
            subscription.end(error)
        elif not waiting.done():
            waiting.set_exception(error)

    def give_up(self, error: ClientError, *, closed: bool) -> None:
        """Fail all waiting calls: the client was closed or has given up."""
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(error)
        for waiting in self._leaving.values():
            if waiting.done():
                continue
            if closed:
                waiting.set_exception(error)
            else:
                waiting.set_result(None)


def _refusal(filter_: str, answer: Suback, reason: int) -> PolicyError | SubscribeRefused:
    said = answer.properties.reason_string
    kinds = {name for name, _ in answer.properties.user}
    if kinds & {"policy-error", "filter-error"}:
        return PolicyError(said or f"the node refused it for '{filter_}'")
    problem = f"'{filter_}': {explained(reason)}"
    return SubscribeRefused(f"{problem}: {said}" if said else problem, reason=reason)
