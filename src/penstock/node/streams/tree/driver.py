"""Drives the core of a node's streams: passes messages in and out, sets timers, hands out events."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from penstock.core.streams import Acknowledged, ClockBehind, Delivered, Missed, Recovering, StreamBroker
from penstock.errors import StreamError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from penstock.core.streams import StreamOptions
    from penstock.core.streams.messages import Message, StreamEvent

log = logging.getLogger(__name__)

T = TypeVar("T")


class CoreDriver:
    """The core, its clock and its listeners.

    Whoever touches a part of the core (a pubend, a subend, a relay) calls `changed` afterwards. What follows
    is carried out at the end of the outermost call, so that a listener may touch the core again.
    """

    def __init__(self, core: StreamBroker, *, clock: Callable[[], int]) -> None:
        self.core = core
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 0
        self._busy = False
        self._again: dict[str, None] = {}
        self.links: dict[str, Callable[[Message], None]] = {}
        """How to send to neighbours that can be reached; what is for others is dropped: they ask again."""
        self.delivered: dict[tuple[str, str], Callable[[int, bytes], None]] = {}
        """Who takes the messages of a subscriber-hosting stream, by pubend and name."""
        self.missed: dict[tuple[str, str], Callable[[int, int], None]] = {}
        """Who is told that messages are gone for good."""
        self.acknowledged: dict[str, Callable[[list[int]], None]] = {}
        """Who is told of which messages the publishers may be told, by pubend: ticks, in order."""

    @classmethod
    def make(cls, name: str, options: StreamOptions, *, clock: Callable[[], int]) -> CoreDriver:
        """With a core of its own."""
        return cls(StreamBroker(name, options), clock=clock)

    @property
    def busy(self) -> bool:
        """Whether events are being handed out: then ends of streams may be ahead of what was handed out."""
        return self._busy

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look after timers from now on."""
        self._loop = loop
        self._settle()

    def close(self) -> None:
        """No more timers."""
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()

    def receive(self, message: Message, *, peer: str) -> None:
        """A neighbour has spoken; StreamError if it may not say that."""
        self.core.receive(message, peer=peer, now_us=self._clock())
        self._settle()

    def changed(self, pubend: str) -> None:
        """A part of this stream was touched."""
        self._again[pubend] = None
        self._settle()

    def _settle(self) -> None:
        """Carry out what the core wants, until it wants nothing more."""
        if self._busy:
            return
        self._busy = True
        try:
            while True:
                for pubend in list(self._again):
                    del self._again[pubend]
                    self.core.changed(pubend, now_us=self._clock())
                outgoing, events = self.core.outgoing(), self.core.events()
                if not outgoing and not events and not self._again:
                    break
                for peer, message in outgoing:
                    send = self.links.get(peer)
                    if send is not None:
                        _call(send, message)
                released: dict[str, list[int]] = {}
                for event in events:
                    if isinstance(event, Acknowledged):
                        released.setdefault(event.pubend, []).append(event.tick)
                    else:
                        _call(self._happened, event)
                for pubend, ticks in released.items():
                    _call(self.acknowledged[pubend], ticks)
        finally:
            self._busy = False
        self._wind()

    def _happened(self, event: StreamEvent) -> None:
        match event:
            case Delivered(pubend, stream, tick, body):
                take = self.delivered.get((pubend, stream))
                if take is not None:
                    take(tick, body)
            case Missed(pubend, stream, since, until):
                log.error("stream %r: %r misses ticks %d to %d: the log has let them go", *_of(event))
                gone = self.missed.get((pubend, stream))
                if gone is not None:
                    gone(since, until)
            case Recovering(pubend, stream, on):
                log.info("stream %r: %r %s", pubend, stream, "recovers" if on else "has caught up")
            case ClockBehind(pubend, behind_us):
                log.warning(
                    "stream %r: this machine's clock is %.1f s behind it; its ticks go on without the clock, "
                    "which should be set right",
                    pubend,
                    behind_us / 1e6,
                )

    def _wind(self) -> None:
        due_us = self.core.timer()
        if due_us is None or self._loop is None:
            return
        if self._timer is not None and not self._timer.cancelled():
            if self._timer_us <= due_us:
                return
            self._timer.cancel()
        self._timer_us = due_us
        self._timer = self._loop.call_later(max(0, due_us - self._clock()) / 1e6, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        try:
            self.core.on_timer(now_us=self._clock())
        except StreamError:
            log.exception("a timer of the streams failed")
        self._settle()


def _call(listener: Callable[[T], None], said: T) -> None:
    """What the core has said once, it does not say again: a listener that fails must not harm others."""
    try:
        listener(said)
    except Exception:
        log.exception("a listener of the streams failed")


def _of(event: Missed) -> tuple[str, str, int, int]:
    return event.pubend, event.stream, event.since, event.until
