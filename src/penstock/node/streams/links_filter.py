"""What a neighbour wants over its link: topic filters and a content filter, asked about each message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.streams import record
from penstock.errors import MqttError, PolicyError, StreamError
from penstock.mqtt.topics import check_filter, matches
from penstock.node.content import Content
from penstock.node.streams.carried import event_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.streams.answers import Matches


def filter_of(only: tuple[str, ...], where: str, *, clock: Callable[[], int]) -> Matches | None:
    """A filter of messages by their bodies; None: everything. StreamError says what is wrong with it."""
    if not only and not where:
        return None
    try:
        for filter_ in only:
            check_filter(filter_, where="only")
        content = Content(where) if where else None
    except (MqttError, PolicyError) as error:
        raise StreamError(f"its filter cannot be used: {error}") from None

    def wanted(body: bytes) -> bool:
        try:
            one = record.decode(body)
            if only and not any(matches(filter_, one.topic) for filter_ in only):
                return False
            return content is None or content.wants(event_from(one), now_us=clock())
        except (StreamError, MqttError):  # who can read it may judge it
            return True

    return wanted
