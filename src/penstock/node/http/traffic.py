"""Looks at the messages that are being published: topics with their rates, attributes, single messages.

The broker keeps no count for each topic, so that routing stays fast. A request opens a tap for a few seconds
and counts what passes; while nobody asks, nothing is counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from penstock import limits
from penstock.errors import RequestRefused
from penstock.mqtt.topics import check_filter
from penstock.node.http import guard
from penstock.node.http.replies import checked, json_answer, number_of, page_of
from penstock.node.http.routes import API, PAGE, Parameter, Route
from penstock.node.http.trial import Attributes, attributes_of, collected_copies, payload_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.model.event import Event
    from penstock.node.broker.broker import Broker
    from penstock.node.observe.watch import Watch

BATCH_S: Final = 0.25
"""Time between two batches of messages: shorter than anybody can read."""
BEAT_S: Final = 15
"""A line is sent after this time without messages, so that a lost connection is noticed."""


class TopicRow(msgspec.Struct, frozen=True, gc=False):
    """A topic, and what was published on it while it was watched."""

    topic: str
    messages: int
    bytes: int
    per_s: float
    """Messages per second."""
    retained: bool
    """Whether the topic has a retained message."""
    payload: str
    """The beginning of its last message, or of its retained one."""


class Topics(msgspec.Struct, frozen=True, gc=False):
    """Topics on which something was published just now, and those with a retained message."""

    seconds: float
    """Time for which messages were counted."""
    messages: int
    """Messages of all matching topics."""
    topics: tuple[TopicRow, ...]
    """Topics with messages, in the order of their names."""
    more: int
    """Messages on topics beyond the bound, which are not listed."""


class RetainedRow(msgspec.Struct, frozen=True, gc=False):
    """The retained message of a topic."""

    topic: str
    payload: str
    """The beginning of it; as hexadecimal digits if it is no text."""
    bytes: int
    ts_us: int
    """When it was published."""


class RetainedMessages(msgspec.Struct, frozen=True, gc=False):
    """A page of the retained messages, by topic."""

    total: int
    offset: int
    retained: tuple[RetainedRow, ...]


class MessageRow(msgspec.Struct, frozen=True, gc=False):
    """One message."""

    topic: str
    payload: str
    """The beginning of it; as hexadecimal digits if it is no text."""
    bytes: int
    sender: str
    ts_us: int
    retained: bool
    """Whether it is a retained message, sent at the beginning."""


class Messages(msgspec.Struct, frozen=True, gc=False):
    """Messages since the batch before."""

    messages: tuple[MessageRow, ...]
    missed: int
    """Messages that are not shown: more than can be read."""


_FILTER: Final = Parameter("filter", "topic filter; # if omitted")
_SECONDS: Final = Parameter(
    "seconds", "how long to watch; 1 if omitted", kind="integer", most=limits.HTTP_WATCH_S
)

TRAFFIC_ROUTES: Final = (
    Route(
        method="GET",
        path=f"{API}/topics",
        handler="topics",
        about="topics with their present rates, and those with a retained message",
        answer=(Topics,),
        parameters=(_FILTER, _SECONDS),
    ),
    Route(
        method="GET",
        path=f"{API}/retained",
        handler="retained",
        about="retained messages, by topic",
        answer=(RetainedMessages,),
        parameters=(_FILTER, *PAGE),
    ),
    Route(
        method="GET",
        path=f"{API}/attributes",
        handler="attributes",
        about="attributes of the events being published now, for policies",
        answer=(Attributes,),
        parameters=(_FILTER, _SECONDS),
    ),
    Route(
        method="GET",
        path=f"{API}/messages",
        handler="messages",
        about="server-sent events: retained messages that match, then each message that is published",
        answer=(Messages,),
        media="text/event-stream",
        parameters=(_FILTER,),
    ),
)


class TrafficHandlers:
    """Answers requests about what is being published."""

    def __init__(self, broker: Broker, watch: Watch) -> None:
        self._broker = broker
        self._watch = watch
        self._open = 0

    async def topics(self, request: web.Request) -> web.Response:
        """Count messages by topic for some seconds."""
        filter_, seconds = _asked(request)
        counted = _Counted()
        with self._place():
            spent_s = await self._watched(filter_, counted, seconds)
        retained = {each.topic: each for each in self._kept(filter_)[: limits.HTTP_TOPICS]}
        rows = [
            TopicRow(
                topic=topic,
                messages=count,
                bytes=size,
                per_s=round(count / spent_s, 2),
                retained=topic in retained,
                payload=payload_text(payload),
            )
            for topic, (count, size, payload) in counted.topics.items()
        ]
        rows += [
            TopicRow(topic, 0, 0, 0.0, retained=True, payload=payload_text(event.payload))
            for topic, event in retained.items()
            if topic not in counted.topics
        ]
        rows.sort(key=lambda row: row.topic)
        return json_answer(Topics(round(spent_s, 3), counted.messages, tuple(rows), counted.more))

    async def retained(self, request: web.Request) -> web.Response:
        """Answer with a page of retained messages."""
        filter_, _ = _asked(request)
        offset, limit = page_of(request)
        found = self._kept(filter_)
        page = tuple(
            RetainedRow(each.topic, payload_text(each.payload), len(each.payload), each.ts_us)
            for each in found[offset : offset + limit]
        )
        return json_answer(RetainedMessages(len(found), offset, page))

    async def attributes(self, request: web.Request) -> web.Response:
        """Look into the payloads of events for some seconds."""
        filter_, seconds = _asked(request)
        with self._place():
            events, spent_s = await collected_copies(
                self._broker, filter_, events=limits.HTTP_ATTRIBUTE_EVENTS, seconds=seconds
            )
        return json_answer(await asyncio.to_thread(attributes_of, events, spent_s))

    async def messages(self, request: web.Request) -> web.StreamResponse:
        """Send messages as they are published, until the viewer leaves."""
        filter_, _ = _asked(request)
        headers = guard.stream_headers() | {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)
        waiting = _Waiting()
        with self._place():
            tap = self._broker.tap(filter_, waiting)
            try:
                await response.prepare(request)
                first = [
                    _message(each, retained=True) for each in self._kept(filter_)[: limits.HTTP_MESSAGES]
                ]
                await _send(response, Messages(tuple(first), 0))
                idle_s = 0.0
                while not self._watch.closed:
                    await asyncio.sleep(BATCH_S)
                    batch = waiting.taken()
                    idle_s = 0.0 if batch.messages else idle_s + BATCH_S
                    if batch.messages or idle_s >= BEAT_S:
                        idle_s = 0.0
                        await _send(response, batch)
            except (TimeoutError, ConnectionError):  # the viewer stalls, or is gone
                request.protocol.force_close()
            finally:
                tap.close()
        return response

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Take one of the places for taps; RequestRefused if all are taken."""
        if self._open >= limits.HTTP_TAPS:
            raise RequestRefused(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{limits.HTTP_TAPS} views of messages are open at the moment",
                headers={"Retry-After": "5"},
            )
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    async def _watched(self, filter_: str, seen: _Counted, seconds: int) -> float:
        """Show messages to a counter for some seconds; returns the time it took."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        tap = self._broker.tap(filter_, seen)
        try:
            await asyncio.sleep(seconds)
        finally:
            tap.close()
        return loop.time() - began_s

    def _kept(self, filter_: str) -> list[Event]:
        """Return the retained messages that match, by topic."""
        retained, now_us = self._broker.retained, self._broker.clock()
        found = (retained.get(topic, now_us=now_us) for topic in sorted(retained.topics(filter_)))
        return [each for each in found if each is not None]


class _Counted:
    """Counts messages by topic, of a bounded number of topics."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[int, int, bytes]] = {}
        """Messages, their bytes and the last payload of each topic."""
        self.messages = 0
        self.more = 0

    def __call__(self, event: Event) -> None:
        self.messages += 1
        known = self.topics.get(event.topic)
        if known is None:
            if len(self.topics) >= limits.HTTP_TOPICS:
                self.more += 1
                return
            known = (0, 0, b"")
        self.topics[event.topic] = (known[0] + 1, known[1] + event.size, event.payload)


class _Waiting:
    """Messages that wait for the next batch; when there are too many, the newest stay."""

    def __init__(self) -> None:
        self._messages: deque[MessageRow] = deque(maxlen=limits.HTTP_MESSAGES)
        self._seen = 0

    def __call__(self, event: Event) -> None:
        self._seen += 1
        self._messages.append(_message(event, retained=False))

    def taken(self) -> Messages:
        """Return what waits, and forget it."""
        found = Messages(tuple(self._messages), self._seen - len(self._messages))
        self._messages.clear()
        self._seen = 0
        return found


async def _send(response: web.StreamResponse, batch: Messages) -> None:
    async with asyncio.timeout(limits.HTTP_STALL_S):
        await response.write(b"data: " + msgspec.json.encode(batch) + b"\n\n")


def _message(event: Event, *, retained: bool) -> MessageRow:
    return MessageRow(
        topic=event.topic,
        payload=payload_text(event.payload),
        bytes=len(event.payload),
        sender=event.sender,
        ts_us=event.ts_us,
        retained=retained,
    )


def _asked(request: web.Request) -> tuple[str, int]:
    filter_ = checked(check_filter, request.query.get("filter", "#"), where="filter").filter
    return filter_, max(1, number_of(request, "seconds", default=1, most=limits.HTTP_WATCH_S))
