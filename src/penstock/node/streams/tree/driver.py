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
    """Owns the core, its timer, and the callbacks that take what the core sends and reports.

    Code that calls a part of the core (a pubend, a subend, a relay) calls `changed` afterwards. The messages
    and events that follow are handed out at the end of the outermost call, so that a callback may call the
    core again.
    """

    def __init__(self, core: StreamBroker, *, clock: Callable[[], int]) -> None:
        self.core = core
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 0
        self._busy = False
        self._again: dict[str, None] = {}
        """Streams that were changed and that the core has not looked at since."""
        self.links: dict[str, Callable[[Message], None]] = {}
        """Send functions of connected neighbours, by name. Messages to other neighbours are dropped: a
        neighbour that connects asks for what it is missing."""
        self.delivered: dict[tuple[str, str], Callable[[int, bytes], None]] = {}
        """Receivers of delivered messages (tick, body), by stream and subend."""
        self.missed: dict[tuple[str, str], Callable[[int, int], None]] = {}
        """Receivers of lost spans (first tick, tick behind the last), by stream and subend."""
        self.acknowledged: dict[str, Callable[[list[int]], None]] = {}
        """Receivers of the ticks, in order, whose publishers may be acknowledged; by stream."""

    @classmethod
    def make(cls, name: str, options: StreamOptions, *, clock: Callable[[], int]) -> CoreDriver:
        """Create a driver together with its core."""
        return cls(StreamBroker(name, options), clock=clock)

    @property
    def busy(self) -> bool:
        """Whether events are being handed out. Subends may then be ahead of what has been handed out."""
        return self._busy

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to run the timers of the core."""
        self._loop = loop
        self._settle()

    def close(self) -> None:
        """Stop the timers."""
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()

    def receive(self, message: Message, *, peer: str) -> None:
        """Pass on a message of a neighbour; StreamError if the neighbour may not send it."""
        self.core.receive(message, peer=peer, now_us=self._clock())
        self._settle()

    def changed(self, pubend: str) -> None:
        """Have the core look at a stream of which a part was called."""
        self._again[pubend] = None
        self._settle()

    def _settle(self) -> None:
        """Hand out messages and events until the core has no more of them."""
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
                        _call(self._dispatch, event)
                for pubend, ticks in released.items():
                    _call(self.acknowledged[pubend], ticks)
        finally:
            self._busy = False
        self._set_timer()

    def _dispatch(self, event: StreamEvent) -> None:
        match event:
            case Delivered(pubend, stream, tick, body):
                take = self.delivered.get((pubend, stream))
                if take is not None:
                    take(tick, body)
            case Missed(pubend, stream, since, until):
                log.error(
                    "stream %r: %r misses ticks %d to %d, which are no longer in the log",
                    pubend,
                    stream,
                    since,
                    until,
                )
                missed = self.missed.get((pubend, stream))
                if missed is not None:
                    missed(since, until)
            case Recovering(pubend, stream, on):
                log.info("stream %r: %r %s", pubend, stream, "is catching up" if on else "has caught up")
            case ClockBehind(pubend, behind_us):
                log.warning(
                    "stream %r: the clock of this machine is %.1f s behind the stream; ticks are counted on "
                    "without the clock: correct the clock",
                    pubend,
                    behind_us / 1e6,
                )

    def _set_timer(self) -> None:
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


def _call(callback: Callable[[T], None], value: T) -> None:
    """Call a callback and log its failure.

    The core reports each event only once, so a callback that fails must not keep the others from theirs.
    """
    try:
        callback(value)
    except Exception:
        log.exception("a callback of the streams failed")
