"""Which of a session's subscriptions a message of a stream is for: one copy for all of them together.

Ordinary topics give subscriptions with filters of their own a copy each. Here a message has one place in the
session, so that it can be acknowledged, and told from a repetition, by its tick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.model.instant import Instant
    from penstock.node.streams.reading_item import Item
    from penstock.node.subscription import Subscription


class Choice(NamedTuple):
    """How a message is sent to a session."""

    subscription: Subscription
    """The one with the highest QoS."""
    qos: int
    ids: tuple[int, ...]


def chosen(subscriptions: Sequence[Subscription]) -> Choice | None:
    """One copy for these, if there are any."""
    if not subscriptions:
        return None
    first = max(subscriptions, key=lambda one: one.options.qos)
    if len(subscriptions) == 1:
        return Choice(first, first.options.qos, first.ids)
    ids = tuple(dict.fromkeys(number for one in subscriptions for number in one.ids))
    return Choice(first, first.options.qos, ids)


def plain(subscriptions: Sequence[Subscription]) -> bool:
    """Whether the topic alone decides."""
    return not any(one.content is not None or one.options.no_local for one in subscriptions)


def choose(
    subscriptions: Sequence[Subscription], item: Item, starts: Mapping[str, int], *, now_us: Instant
) -> Choice | None:
    """The copy of a message for subscriptions to its topic, each of which begins somewhere."""
    never = item.tick + 1
    wanting = [
        one
        for one in subscriptions
        if starts.get(one.filter, never) <= item.tick
        and not (one.options.no_local and item.record.sender == one.session.client_id)
        and (one.content is None or one.content.wants(item.event, now_us=now_us))
    ]
    return chosen(wanting)
