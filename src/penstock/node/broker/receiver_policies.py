"""Tells publishers the policies of their receivers, on `$policies/<filter>`, so that they can pack by them.

A client that may publish on all topics of a filter may subscribe to `$policies/` with that filter. It is told
at once, and whenever it changes, who receives them: filters and policies, in JSON, on the topic with `*` in
the place of wildcards. What is more than a publisher needs to know is not told: neither clients nor counts.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from penstock import limits
from penstock.model.digest_wire import JSON_TYPE
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.topics import POLICY_TOPICS, overlap
from penstock.node.broker.extensions import SessionListener
from penstock.node.broker.message import message_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.model.instant import Instant
    from penstock.node.access.gate import Gate
    from penstock.node.broker.extensions import SessionIdentity
    from penstock.node.broker.routes import Router
    from penstock.node.broker.session import Session
    from penstock.node.broker.subscription import Subscription

LOOK_S: Final = 0.5
"""How often it is found out whether receivers have changed, as long as somebody wants to know."""

VERSION: Final = 1
"""Version of the format of the messages about receivers."""

_PROPERTIES: Final = Properties(payload_format_indicator=1, content_type=JSON_TYPE)

_json = msgspec.json.Encoder()


class TellingHost(Protocol):
    """The broker as this module sees it."""

    clock: Callable[[], Instant]
    gate: Gate
    router: Router


class ReceiverPolicies(SessionListener):
    """Follows subscriptions to `$policies/…`."""

    def __init__(self, broker: TellingHost) -> None:
        self._broker = broker
        self._told: dict[str, bytes] = {}
        """Policies that publishers were told last, by filter of the subscription."""
        self._seq = 0
        self._looking: asyncio.TimerHandle | None = None

    def start(self, sessions: Iterable[Session]) -> None:
        """Tell those who have asked before the node was started."""
        for session in sessions:
            for subscription in session.held.values():
                self.subscribed(subscription, {}, again=True)

    def subscribed(self, subscription: Subscription, asked: Mapping[str, str], *, again: bool) -> None:  # noqa: ARG002
        """Tell a client soon who receives what it publishes."""
        filter_ = subscription.filter
        if filter_.startswith(POLICY_TOPICS) and len(self._told) < limits.POLICY_TOPICS_TOLD:
            self._told[filter_] = b""
            self._look_in(0)

    def unsubscribed(self, session: SessionIdentity, filter_: str) -> None:  # noqa: ARG002
        """Forget a filter that nobody asks for any more."""
        if filter_ in self._told and not self._broker.router.subscribed(filter_):
            del self._told[filter_]

    def _look_in(self, after_s: float) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._looking = asyncio.get_running_loop().call_later(after_s, self._look)

    def _look(self) -> None:
        """Tell what has changed."""
        self._looking = None
        router = self._broker.router
        self._told = {filter_: told for filter_, told in self._told.items() if router.subscribed(filter_)}
        if not self._told:
            return
        receivers = list(router.receivers())
        for filter_, before in self._told.items():
            told = described(filter_.removeprefix(POLICY_TOPICS), receivers)
            if told != before:
                self._told[filter_] = told
                self._tell(filter_, told)
        self._look_in(LOOK_S)

    def _tell(self, filter_: str, told: bytes) -> None:
        topic = "/".join("*" if level in ("+", "#") else level for level in filter_.split("/"))
        self._seq += 1
        now_us = self._broker.clock()
        message = message_of(
            topic,
            told,
            topic_bytes=topic.encode(),
            now_us=now_us,
            sender="$node",
            seq=self._seq,
            qos=1,
            properties=_PROPERTIES,
        )
        for each in self._broker.router.subscribed(filter_):
            if self._may_know(each.session, filter_):
                self._broker.router.deliver_to(each.session, message, origin=None, now_us=now_us)

    def _may_know(self, session: Session, filter_: str) -> bool:
        """Whether a client may still publish there."""
        return self._broker.gate.may_subscribe(session.user, session.client_id, filter_)


def described(filter_: str, receivers: list[tuple[str, str]]) -> bytes:
    """Describe who receives topics of a filter; `more`: not all of them are told."""
    found = sorted({one for one in receivers if not one[0].startswith("$") and overlap(one[0], filter_)})
    kept, size = [], 0
    for name, policy in found[: limits.POLICY_RECEIVERS_TOLD]:
        size += len(policy.encode())
        if size > limits.POLICY_BYTES:
            break
        kept.append({"filter": name, "policy": policy})
    return _json.encode({"version": VERSION, "receivers": kept, "more": len(kept) < len(found)})
