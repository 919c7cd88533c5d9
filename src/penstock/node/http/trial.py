"""Help for people who write policies, from the messages that are being published.

`try_policy` packs them by a policy; no subscriber's queue is changed. `attributes_of` finds the attributes in
their payloads: paths, kinds and examples.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock import limits
from penstock.model.digest import Digest
from penstock.model.digest_wire import to_json
from penstock.model.event import Event
from penstock.model.values import number, value
from penstock.node.broker.status import FilterStatus
from penstock.node.http.answers import LevelEffect, Tried
from penstock.policy import evaluate
from penstock.policy.attributes import decoded
from penstock.policy.lint import lint
from penstock.policy.nodes import PayloadFormat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.model.event import Item
    from penstock.model.values import Value
    from penstock.node.broker.broker import Broker
    from penstock.policy.evaluate import FilterEffect
    from penstock.policy.nodes import Policy


PAYLOAD_CHARACTERS: Final = 300
"""Characters of a payload that are shown."""


class _Collected:
    """Collects the events of a tap until there are enough."""

    def __init__(self, most: int) -> None:
        self.events: list[Event] = []
        self.bytes = 0
        self._most = most
        self.enough = asyncio.Event()

    def __call__(self, event: Event) -> None:
        if self.enough.is_set():
            return
        self.events.append(event)
        self.bytes += event.size
        if len(self.events) >= self._most or self.bytes >= limits.HTTP_TRY_BYTES:
            self.enough.set()


async def try_policy(broker: Broker, policy: Policy, *, filter_: str, events: int, seconds: float) -> Tried:
    """Collect matching events until there are enough or the time is over, and pack them as one queue."""
    copies, spent_s = await collected_copies(broker, filter_, events=events, seconds=seconds)
    size = sum(event.size for event in copies)
    return await asyncio.to_thread(_packed, policy, copies, size=size, spent_s=spent_s)


async def collected_copies(
    broker: Broker, filter_: str, *, events: int, seconds: float
) -> tuple[list[Event], float]:
    """Collect matching events until there are enough or the time is over; returns copies, and the time.

    The node's queues hold the same event objects, which cache what policies read; a thread needs copies.
    """
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    collected = _Collected(events)
    tap = broker.tap(filter_, collected)
    try:
        async with asyncio.timeout(seconds):
            await collected.enough.wait()
    except TimeoutError:
        pass
    finally:
        tap.close()
    return [_copy(event) for event in collected.events], loop.time() - began_s


def _copy(event: Event) -> Event:
    return Event(
        topic=event.topic,
        payload=event.payload,
        ts_us=event.ts_us,
        sender=event.sender,
        seq=event.seq,
        properties=event.properties,
        content_type=event.content_type,
    )


def _packed(policy: Policy, events: list[Event], *, size: int, spent_s: float) -> Tried:
    from penstock.policy.columns import Plan  # noqa: PLC0415  # numpy, for those who try a policy

    plan = Plan(policy)
    now_us = max((event.ts_us for event in events), default=0)
    first, items = evaluate.ahead(policy, events)
    effects: list[FilterEffect] = []
    levels: list[LevelEffect] = []
    for level in range(1, plan.highest + 1):
        packed = plan.pack(items, level=level, above=level - 1, now_us=now_us)
        items = packed.items
        effects += packed.effects
        levels.append(_effect(level, [*first, *items], len(events)))
    return Tried(
        name=policy.name,
        events=len(events),
        bytes=size,
        seconds=round(spent_s, 3),
        topics=len({event.topic for event in events}),
        levels=(*levels, _effect(0, [*first, *plan.collapse(items)], len(events))),
        filters=tuple(
            FilterStatus(
                level=effect.cause.level,
                position=effect.cause.position,
                filter=effect.cause.filter,
                seen=effect.seen,
                dropped=effect.dropped,
            )
            for effect in effects
        ),
        items=tuple(map(_shown, [*first, *items][: limits.HTTP_TRY_ITEMS])),
        items_total=len(first) + len(items),
        warnings=lint(policy),
    )


def _effect(level: int, items: list[Item], total: int) -> LevelEffect:
    digests = [item for item in items if isinstance(item, Digest)]
    kept = len(items) - len(digests)
    return LevelEffect(
        level=level,
        kept=kept,
        digested=sum(digest.count for digest in digests),
        digests=len(digests),
        share=kept / total if total else 0.0,
    )


def _shown(item: Item) -> dict[str, Any]:
    if isinstance(item, Digest):
        return {"digest": to_json(item)}
    assert isinstance(item, Event)
    return {
        "event": {
            "topic": item.topic,
            "ts_us": item.ts_us,
            "payload": payload_text(item.payload),
        }
    }


def payload_text(payload: bytes) -> str:
    """Return the beginning of a payload as text, or as hexadecimal digits if it is not UTF-8."""
    begin = payload[: 4 * PAYLOAD_CHARACTERS]
    try:
        text = begin.decode()
    except UnicodeDecodeError as error:
        cut = len(begin) < len(payload) and error.start >= len(begin) - 3
        text = begin[: error.start].decode() if cut else "0x" + begin.hex()
    whole = len(begin) == len(payload) and len(text) <= PAYLOAD_CHARACTERS
    return text if whole else text[:PAYLOAD_CHARACTERS] + "…"


DEPTH: Final = 4
"""Nested objects in which attributes are looked for: `a.b.c.d`."""
EXAMPLES: Final = 3
"""Texts that are shown of an attribute."""


class AttributeRow(msgspec.Struct, frozen=True, gc=False):
    """An attribute that policies can use, as it was found in events."""

    path: str
    kind: str
    """number, text, true or false, list, or mixed."""
    events: int
    """Events that have it."""
    least: float | None
    most: float | None
    examples: tuple[str, ...]


class Attributes(msgspec.Struct, frozen=True, gc=False):
    """Attributes of the events that were published while they were watched; most frequent first."""

    seconds: float
    events: int
    undecoded: int
    """Events whose payload has no attributes."""
    attributes: tuple[AttributeRow, ...]


class _Found:
    """Kinds and values of one attribute in the events seen so far."""

    def __init__(self) -> None:
        self.events = 0
        self.kinds: set[str] = set()
        self.least: float | None = None
        self.most: float | None = None
        self.examples: dict[str, None] = {}

    def see(self, found: Value) -> None:
        """Note the value of one event."""
        self.events += 1
        figure = number(found)
        self.kinds.add(_kind(found))
        if figure is not None:
            self.least = figure if self.least is None else min(self.least, figure)
            self.most = figure if self.most is None else max(self.most, figure)
        elif len(self.examples) < EXAMPLES:
            self.examples[payload_text(str(found).encode())] = None


def _kind(found: Value) -> str:
    if isinstance(found, bool):
        return "true or false"
    if isinstance(found, tuple):
        return "list"
    return "text" if isinstance(found, str) else "number"


def attributes_of(events: list[Event], spent_s: float) -> Attributes:
    """List the attributes of events that were collected for so many seconds."""
    known: dict[str, _Found] = {}
    undecoded = 0
    for event in events:
        some = False
        for path, found in _values(decoded(event, PayloadFormat.AUTO), ()):
            some = True
            if path in known or len(known) < limits.HTTP_ATTRIBUTES:
                known.setdefault(path, _Found()).see(found)
        undecoded += not some
    rows = [
        AttributeRow(
            path=path,
            kind=next(iter(one.kinds)) if len(one.kinds) == 1 else "mixed",
            events=one.events,
            least=one.least,
            most=one.most,
            examples=tuple(one.examples),
        )
        for path, one in known.items()
    ]
    rows.sort(key=lambda row: (-row.events, row.path))
    return Attributes(round(spent_s, 3), len(events), undecoded, tuple(rows))


def _values(raw: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    """Yield the values of a payload with their paths as policies write them."""
    if isinstance(raw, dict):
        if len(names) < DEPTH:
            for name, inner in raw.items():
                if isinstance(name, str) and name:
                    yield from _values(inner, (*names, name))
        return
    found = value(raw)
    path = ".".join(map(_segment, names)) if names else "$value"
    if found is not None and len(path) <= limits.PATH_CHARACTERS:
        yield path, found


def _segment(name: str) -> str:
    plain = not any(each in name for each in '."') and not name.startswith("$")
    return name if plain else '"' + name.replace('"', '""') + '"'
