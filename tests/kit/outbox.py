"""An outbox of notifications and what is put into and taken from it."""

from __future__ import annotations

from typing import Any

from penstock.core.channels.subscriptions import ChannelSubscription
from penstock.core.queues import QueueOptions
from penstock.node.notify.outbox import Outbox
from penstock.node.notify.subscriber_queue import delta_of
from penstock.policy.columns import Plan
from penstock.policy.text.forms import parse
from tests.kit.channel_api import made

LATEST = "levels: [{keep: {latest: 2}}]"


ADDED = "levels: [{drop: {attribute: added, lt: 2}}, {keep: {latest: 1}}]"


def plan_of(policy: str) -> Plan:
    return Plan(parse(policy or LATEST))


def outbox(capacity: int = 4) -> Outbox:
    return Outbox(plan_of, QueueOptions(capacity_events=capacity))


def put(box: Outbox, version: int, *, who: str = "xmpp:ann", policy: str = "", paused: bool = False) -> None:
    delta = made("http://a.example/", version)
    box.put(ChannelSubscription(who, delta.url, policy=policy, paused=paused), delta, now_us=delta.at_us)


def told(box: Outbox, who: str = "xmpp:ann") -> list[Any]:
    """Take and settle all that waits."""
    found = []
    while (item := box.next(who)) is not None:
        found.append(delta_of(item))
        box.settled(who, item)
    return found
