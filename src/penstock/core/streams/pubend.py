"""The root of a stream: assigns ticks to messages, logs them, sends them once durable, answers NACKs.

`publish` → the owner commits the log → `committed`: the messages go downstream, and their acknowledgements
are released at the rate the controller sets (one every 1/r seconds, a few at once). Silence is sent only
where the log guarantees that a restart assigns no tick in it: before a durable message, or below a durable
claim.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.streams.control import Pdcc, Steady, Unlimited
from penstock.core.streams.log import cut_short
from penstock.core.streams.messages import (
    Ack,
    Acknowledged,
    Alert,
    ClockBehind,
    Data,
    Nack,
    Query,
    Silence,
    told,
)
from penstock.core.streams.messages import FinalTicks as FinalMessage
from penstock.core.streams.ticks import Spans, duration_us, tick_at, ticks_in
from penstock.errors import StreamError
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.streams.control import RateControl
    from penstock.core.streams.log import Log
    from penstock.core.streams.messages import Matches, Message, StreamEvent
    from penstock.core.streams.options import StreamOptions

BURST_US: Final = 50_000
"""Acknowledgements due within this time may be released together: publishers are not metronomes."""


class AckShaper:
    """Queue of ticks whose acknowledgement is held back."""

    __slots__ = ("_due_us", "_held", "_was_held")

    def __init__(self) -> None:
        self._held: deque[int] = deque()
        self._due_us = 0.0
        self._was_held = False

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, tick: int) -> None:
        """Add a durable tick."""
        self._held.append(tick)

    def release(self, rate: float, *, now_us: int) -> list[int]:
        """Remove and return the ticks that may be acknowledged now."""
        released = []
        if not isfinite(rate):
            released = list(self._held)
            self._held.clear()
            self._due_us = now_us
            return released
        self._due_us = max(self._due_us, now_us - BURST_US)
        while self._held and self._due_us <= now_us:
            released.append(self._held.popleft())
            self._due_us += 1_000_000 / rate
        self._was_held |= bool(self._held)
        return released

    def due_us(self) -> int | None:
        """When the next may be released; None if none waits."""
        return int(self._due_us) + 1 if self._held else None

    def throttled(self) -> bool:
        """Whether an acknowledgement had to wait since the last call."""
        found, self._was_held = self._was_held or bool(self._held), False
        return found


CLAIM_INTERVALS: Final = 4
"""Intervals of silence that an idle pubend claims ahead: one write for every four silence messages."""

BEHIND_US: Final = SECOND_US
"""Lag of the clock behind the stream (and an idle pubend's claim) above which `ClockBehind` is reported:
bursts alone do not reach it, nor does an instant restart.
"""


def rate_control(options: StreamOptions) -> RateControl:
    """Controller named by the options."""
    if options.publisher_control == "pdcc":
        return Pdcc(options)
    return Steady(options) if options.publisher_control == "steady" else Unlimited()


@dataclass(frozen=True, slots=True)
class PubendStatistics:
    """Figures of a pubend at one moment."""

    position: int
    """All ticks before this one have been sent."""
    acked: int
    """All ticks before this one have been processed by all nodes."""
    published: int
    """Messages sent since the start."""
    waiting: int
    """Messages that are not durable yet."""
    held: int
    """Durable messages whose acknowledgement is held back."""
    rate: float
    """Messages per second that may be acknowledged."""


class Pubend:
    """One stream at its publisher-hosting node; the owner commits a new log before it answers any request."""

    def __init__(
        self,
        name: str,
        log: Log,
        options: StreamOptions,
        *,
        now_us: int,
        interests: dict[str, Matches] | None = None,
    ) -> None:
        if not 0 < len(name) <= limits.STREAM_NAME_CHARS:
            raise StreamError(f"invalid stream name; allowed: 1 to {limits.STREAM_NAME_CHARS} characters")
        self.name = name
        self.control = rate_control(options)
        self._options = options
        self._log = log
        self._interests = interests or {}
        start = log.end
        if start == 0:  # a new log: everything before now is silence
            start = tick_at(now_us)
            log.claim(start)
        self._next = self._told = self._durable_claim = self._claimed = start
        self._unsent: deque[tuple[int, bytes]] = deque()
        self._shaper = AckShaper()
        self._wanted: dict[str, Spans] = {}
        self._answered = 0
        """Bytes of messages read to answer in this round."""
        self._published = 0
        self._number = start
        self._silence_us = now_us
        self._query_us = now_us
        self._acked = log.trimmed
        self._holds: dict[str, int] = {}
        self._behind = False
        self._outgoing: list[Message] = []
        self._events: list[StreamEvent] = []

    @property
    def position(self) -> int:
        """All ticks before this one have been sent."""
        return self._told

    @property
    def acked(self) -> int:
        """All ticks before this one have been processed by all nodes."""
        return self._acked

    @property
    def published(self) -> int:
        """Messages since this object was made."""
        return self._published

    @property
    def held(self) -> int:
        """Durable messages whose acknowledgement is held back."""
        return len(self._shaper)

    def statistics(self) -> PubendStatistics:
        """Present figures."""
        return PubendStatistics(
            position=self._told,
            acked=self._acked,
            published=self._published,
            waiting=len(self._unsent),
            held=len(self._shaper),
            rate=self.control.rate,
        )

    def publish(self, body: bytes, *, now_us: int) -> int:
        """Assign a tick to a message and log it.

        `Acknowledged` follows once it is durable and its turn has come.
        """
        return self.publish_many((body,), now_us=now_us)

    def publish_many(self, bodies: Sequence[bytes], *, now_us: int) -> int:
        """`publish` for several messages with successive ticks, all or none; returns the first tick."""
        if len(self._unsent) + len(self._shaper) + len(bodies) > self._options.held_most:
            raise StreamError(
                f"queue full: stream {self.name!r} holds back {self._options.held_most:,} acknowledgements; "
                "publish more slowly, or wait for them"
            )
        clock = tick_at(now_us)
        behind_us = duration_us(self._next - clock)
        behind = behind_us > BEHIND_US + CLAIM_INTERVALS * self._options.silence_us
        if behind and not self._behind:
            self._events.append(ClockBehind(self.name, behind_us))
        self._behind = behind
        first = max(self._next, clock)
        self._next = first + len(bodies)
        for tick, body in enumerate(bodies, start=first):
            self._log.append(tick, body)
            self._unsent.append((tick, body))
        return first

    def committed(self, until: int, *, claimed: int, now_us: int) -> list[tuple[int, bytes]]:
        """Messages before a tick, and a claim, are durable: send them, and acknowledge what the rate allows.

        Returns the messages sent, for local subscribers: these get them in order without a subscriber-hosting
        end.
        """
        told: list[tuple[int, bytes]] = []
        self._durable_claim = max(self._durable_claim, claimed)
        while self._unsent and self._unsent[0][0] < until:
            told.append(self._unsent.popleft())
            tick, body = told[-1]
            self._outgoing.append(Data(self.name, self._told, tick, body))
            self._told = tick + 1
            self._published += 1
            self._silence_us = now_us + self._options.silence_us
            self._shaper.hold(tick)
        self._release(now_us)
        return told

    def receive(self, message: Message, *, now_us: int) -> None:
        """Handle a message from below: NACK, acknowledgement or alert."""
        match message:
            case Nack(_, spans, interest):
                wanted = self._wanted.setdefault(interest if interest in self._interests else "", Spans())
                for since, until in spans:
                    wanted.add(since, min(until, self._told))
                self.resume()
            case Ack(_, until):
                self._acked = max(self._acked, min(until, self._told))
            case Alert():
                self.control.alerted(message, now_us=now_us)
                self._release(now_us)
            case _:
                raise StreamError(f"a pubend does not accept {type(message).__name__}")

    def hold(self, name: str, until: int | None) -> None:
        """Keep messages from a tick on for a subscriber, acknowledged or not; None releases them."""
        if until is None:
            self._holds.pop(name, None)
        else:
            self._holds[name] = until

    def resume(self) -> None:
        """Continue answering from the log, which is available again.

        Excess requests are dropped and repeated.
        """
        self._answered = 0
        for interest in list(self._wanted):
            for span in self._wanted[interest]:
                if not self._answer(interest, *span):
                    return
                if self._answered >= limits.STREAM_ANSWER_BYTES:
                    self._wanted.clear()
                    return
            del self._wanted[interest]

    def on_timer(self, *, now_us: int) -> None:
        """Send silence and queries and release acknowledgements that are due."""
        if now_us >= self._silence_us:
            self._tell_silence(now_us)
        if now_us >= self._query_us:
            self._ask(now_us)
        self._release(now_us)

    def outgoing(self) -> list[Message]:
        """Remove and return messages to send downstream."""
        found, self._outgoing = self._outgoing, []
        return found

    def events(self) -> list[StreamEvent]:
        """Remove and return acknowledgements and other events for the owner."""
        found, self._events = self._events, []
        return found

    def timer(self) -> int:
        """Time of the next due action."""
        due_us = min(self._silence_us, self._query_us)
        release_us = self._shaper.due_us() if isfinite(self.control.rate) else None
        return due_us if release_us is None else min(due_us, release_us)

    def _answer(self, interest: str, since: int, until: int) -> bool:
        """Send a span from the log, or as much as one round allows; False if the log is not available."""
        wanted = self._wanted[interest]
        trimmed = self._log.trimmed
        if since < trimmed:
            self._outgoing.append(FinalMessage(self.name, trimmed))
            wanted.remove(since, trimmed)
            since = trimmed
        while since < until and self._answered < limits.STREAM_ANSWER_BYTES:
            found = self._log.read(since, until, limits.STREAM_READ)
            if found is None:
                return False
            more = cut_short(found, limits.STREAM_READ)
            behind = found[-1][0] + 1 if more else self._silent_until(until)
            matches = self._interests.get(interest)
            self._outgoing += told(self.name, (since, behind), found, matches=matches, interest=interest)
            wanted.remove(since, behind)
            since = behind
            self._answered += sum(len(body) for _, body in found)
        return True

    def _silent_until(self, tick: int) -> int:
        """Tick of the next message from a tick on: an answer includes all known silence, requested or not."""
        found = self._log.read(tick, self._told, 1)
        return tick if found is None else found[0][0] if found else max(tick, self._told)

    def _tell_silence(self, now_us: int) -> None:
        """Send silence up to now, if a durable claim covers it and no message waits to become durable.

        At least one tick even if the clock is behind: a receiver that lost the last message learns of it by
        silence.
        """
        self._silence_us = now_us + self._options.silence_us
        if self._unsent:
            return
        until = tick_at(now_us)
        ahead = ticks_in(self._options.silence_us)
        if until <= self._told:
            until, ahead = self._told + 1, 1
        if until + ahead > self._claimed:
            self._claimed = until + CLAIM_INTERVALS * ahead
            self._log.claim(self._claimed)
        until = min(until, self._durable_claim)
        if until > self._told:
            self._next = max(self._next, until)
            self._outgoing.append(Silence(self.name, self._told, until))
            self._told = until

    def _ask(self, now_us: int) -> None:
        self._query_us = now_us + self._options.query_us
        self._number = max(self._number + 1, self._told)
        self.control.asked(
            self._number,
            position=self._told,
            published=self._published,
            throttled=self._shaper.throttled(),
            now_us=now_us,
        )
        self._outgoing.append(Query(self.name, self._number, self._told))
        self._trim(now_us)

    def _trim(self, now_us: int) -> None:
        until = min((self._acked, *self._holds.values()))
        if self._options.retain_us:
            until = min(until, tick_at(now_us - self._options.retain_us))
        # Silence stays: asked for again, it must not look like deleted messages.
        trimmed = self._log.trimmed
        if until > trimmed and self._log.read(trimmed, until, 1) != []:
            self._log.trim(until)

    def _release(self, now_us: int) -> None:
        for tick in self._shaper.release(self.control.rate, now_us=now_us):
            self._events.append(Acknowledged(self.name, tick))
