"""Packs what a client has waiting to be sent by the policy of its receivers, which the node tells it.

The node says on `$policies/<filter>` who receives the topics of the filter. The client packs if all of them
have the same policy and get everything that it publishes there: then the events that it drops are those that
each receiver would have dropped, and each gets the digest. Otherwise nothing is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from penstock import limits
from penstock.client.subscription import plan_of
from penstock.errors import ClientError, InputError, PenstockError, printable
from penstock.model.event import Event
from penstock.mqtt.topics import POLICY_TOPICS, check_filter, covers, matches

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.client.subscription import Subscription
    from penstock.mqtt.packets.publish import Publish
    from penstock.policy.columns import Plan

log = logging.getLogger(__name__)


class _Receiver(msgspec.Struct, frozen=True, gc=False):
    filter: str
    policy: str


class _Told(msgspec.Struct, frozen=True):
    version: int
    receivers: list[_Receiver]
    more: bool


def common_plan(data: bytes, filter_: str) -> Plan | None:
    """The policy that all receivers of a filter have who get everything on its topics; None if there is none.

    InputError or PolicyError if the node tells what cannot be read.
    """
    if len(data) > 2 * limits.POLICY_BYTES:
        raise InputError(f"{len(data)} bytes")
    try:
        told = msgspec.json.decode(data, type=_Told)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(str(error)) from None
    policies = {each.policy for each in told.receivers}
    if told.version != 1 or told.more or len(policies) != 1 or "" in policies:
        return None
    if not all(covers(each.filter, filter_) for each in told.receivers):
        return None
    return plan_of(policies.pop())


class ReceiverPolicy:
    """Follows what the node tells about the receivers of one filter."""

    def __init__(self, filter_: str, use: Callable[[Plan | None], None]) -> None:
        """`use` gets the policy that counts from now on; None: nothing may be dropped."""
        check_filter(filter_, where="receivers_of")
        if filter_.startswith("$"):
            raise InputError(f"receivers_of is '{filter_}'; topics of the node have no receivers to ask for")
        self.filter = filter_
        self._use = use
        self._task: asyncio.Task[None] | None = None

    def check(self, packet: Publish) -> None:
        """InputError if a message cannot be packed for its receivers."""
        if not matches(self.filter, packet.topic):
            raise InputError(
                f"'{packet.topic}' is not in '{self.filter}', where a client with receivers_of publishes"
            )
        if packet.retain:
            raise InputError("a client with receivers_of publishes no retained messages: one may be dropped")

    async def start(self, subscribe: Callable[[str], Awaitable[Subscription]]) -> None:
        """Ask the node, and follow what it tells; one that refuses tells nothing, and nothing is dropped."""
        try:
            told = await subscribe(POLICY_TOPICS + self.filter)
        except ClientError as error:
            log.warning("the node does not tell the receivers of '%s': %s", self.filter, error)
            return
        self._task = asyncio.create_task(self._follow(told))

    async def stop(self) -> None:
        """Follow no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _follow(self, told: Subscription) -> None:
        with suppress(ClientError):  # the program hears of it where it publishes
            async for item in told:
                if isinstance(item, Event):
                    self._use(self._read(item.payload))

    def _read(self, data: bytes) -> Plan | None:
        try:
            return common_plan(data, self.filter)
        except PenstockError as error:
            log.warning("what the node tells of receivers cannot be read: %s", printable(str(error)))
            return None
