"""Reading one attribute of an event: the value there, or None where there is nothing a filter could read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock.model.values import value
from penstock.policy.paths import Path, Source
from penstock.policy.payload import decoded

if TYPE_CHECKING:
    from penstock.model.event import Event
    from penstock.model.values import Value
    from penstock.policy.nodes import PayloadFormat


_INDEX = re.compile("[0-9]{1,9}")


def read(event: Event, path: Path, given: PayloadFormat) -> Value | None:
    """The value of `path` in `event`, whose payload is in the format `given` unless it says otherwise."""
    match path.source:
        case Source.PAYLOAD:
            return value(descend(decoded(event, given), path.segments))
        case Source.TOPIC:
            return event.topic
        case Source.TS:
            return event.ts_us
        case Source.SIZE:
            return len(event.payload) + len(event.topic)
        case Source.SENDER:
            return event.sender
        case Source.PROPERTY:
            return next((found for name, found in event.properties if name == path.segments[0]), None)


def descend(root: Any, segments: tuple[str, ...]) -> Any:
    """What lies at the end of a path through maps (by key) and lists (by index from 0)."""
    for segment in segments:
        if isinstance(root, dict):
            root = root.get(segment)
        elif isinstance(root, list | tuple) and _INDEX.fullmatch(segment):
            index = int(segment)
            root = root[index] if index < len(root) else None
        else:
            return None
    return root
