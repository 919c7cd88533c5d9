"""The end of a stream at a subscriber-hosting node: delivers messages in order and exactly once.

Everything before the doubt horizon is delivered. Two windows begin there. Ticks beyond the receive window are
ignored (and the stream recovers until nothing has to be ignored). Unknown ticks within the NACK window are
asked for if something behind them is known, because links keep the order. `HorizonMeter` measures how fast
the horizon moves (§3.1, equations 5 and 11); `RoundTrips` keeps the NACKs under way and when to repeat them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.streams.control import Sdcc, WholeWindow
from penstock.core.streams.knowledge import Knowledge
from penstock.core.streams.messages import (
    NO_RATE,
    Ack,
    Alert,
    Data,
    Delivered,
    FinalTicks,
    Missed,
    Nack,
    Query,
    Recovering,
    Silence,
)
from penstock.core.streams.ticks import TICKS_PER_S, Span, Spans, ticks_in
from penstock.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.streams.control import NackControl
    from penstock.core.streams.messages import Message, StreamEvent
    from penstock.core.streams.options import StreamOptions


class HorizonMeter:
    """Smoothed speed of the doubt horizon, read once for each query.

    Starts at that of a stream that keeps up.
    """

    __slots__ = ("_at_us", "_horizon", "_smoothing", "rate")

    def __init__(self, smoothing: float) -> None:
        self._smoothing = smoothing
        self._at_us: int | None = None
        self._horizon = 0
        self.rate = 1.0

    def read(self, horizon: int, *, at_end: bool, now_us: int) -> float:
        """Smoothed rate up to now; a stream at its end counts as keeping up, however slow it is."""
        if self._at_us is not None and now_us > self._at_us:
            newest = (horizon - self._horizon) / TICKS_PER_S * 1_000_000 / (now_us - self._at_us)
            if at_end:  # the pubend's clock may stand still, after it was set back or after a restart
                newest = max(newest, 1.0)
            self.rate += self._smoothing * (newest - self.rate)
        self._at_us = now_us
        self._horizon = horizon
        return self.rate


MOST_RETRY_US: Final = 30_000_000
"""Longest pause before a NACK is repeated: a path that recovers is used within half a minute."""


@dataclass(slots=True)
class _Asked:
    since: int
    until: int
    at_us: int
    tries: int


class RoundTrips:
    """NACKs in order of their ticks; one is answered when the doubt horizon has passed it."""

    def __init__(self, retry_us: int, *, adaptive: bool) -> None:
        self._retry_us = retry_us
        self._adaptive = adaptive
        self._asked: list[_Asked] = []
        self._covered = Spans()
        self.smoothed_us: float | None = None
        """Smoothed round trip of NACKs that needed one try."""

    def __len__(self) -> int:
        return len(self._asked)

    def unasked(self, gaps: list[Span]) -> list[Span]:
        """Parts of the gaps that are not requested yet."""
        return [part for since, until in gaps for part in self._covered.gaps(since, until)]

    def ask(self, span: Span, *, now_us: int) -> None:
        """Record a NACK for this span."""
        self._asked.append(_Asked(*span, now_us, 1))
        self._covered.add(*span)

    def forget(self) -> None:
        """Forget all NACKs: their answers will not arrive."""
        self._asked.clear()
        self._covered.clear()

    def passed(self, horizon: int, *, now_us: int) -> list[int]:
        """The horizon moved: round trips of the NACKs answered now that needed one try."""
        if not self._asked or all(asked.until > horizon for asked in self._asked):
            return []
        done = [asked for asked in self._asked if asked.until <= horizon]
        self._asked = [asked for asked in self._asked if asked.until > horizon]
        self._covered.remove(0, horizon)
        # A repeated NACK may be answered by either try, so it is not measured (Karn's algorithm).
        found = [now_us - asked.at_us for asked in done if asked.tries == 1]
        for rtt_us in found:
            before = self.smoothed_us
            # 1/8, the gain by which TCP smooths round trips (RFC 6298).
            self.smoothed_us = rtt_us if before is None else before + 0.125 * (rtt_us - before)
        return found

    def overdue(self, unknown: Callable[[int, int], list[Span]], *, now_us: int) -> list[Span]:
        """Gaps of NACKs that waited too long; they count as asked again now."""
        found: list[Span] = []
        for asked in self._asked:
            if now_us >= asked.at_us + self._wait_us(asked):
                asked.at_us = now_us
                asked.tries += 1
                found += unknown(asked.since, asked.until)
        return found

    def due_us(self) -> int | None:
        """When the next NACK is overdue."""
        if not self._asked:
            return None
        return min(asked.at_us + self._wait_us(asked) for asked in self._asked)

    def _wait_us(self, asked: _Asked) -> int:
        if not self._adaptive:
            return self._retry_us
        # Four round trips at least, doubled each time: NACKs must not add to congestion (decision 0024).
        least_us = max(self._retry_us, int(4 * (self.smoothed_us or 0)))
        return min(least_us << min(asked.tries - 1, 5), MOST_RETRY_US)


@dataclass(frozen=True, slots=True)
class SubendStatistics:
    """Figures of a subscriber-hosting end at one moment."""

    horizon: int
    rate: float
    """Smoothed speed of the doubt horizon, in tick-seconds per second."""
    recovering: bool
    nack_window: int
    """Size of the window for NACKs, in ticks."""
    delivered: int
    ignored: int
    """Messages beyond the receive window."""
    nacks: int
    held: int
    """Messages behind a gap."""
    acked: int


class Subend:
    """One consolidated stream for all local subscribers; `start` None begins with the first tick received."""

    def __init__(
        self,
        pubend: str,
        name: str,
        options: StreamOptions,
        *,
        start: int | None = None,
        alerts: bool = True,
        interest: str = "",
    ) -> None:
        self.pubend = pubend
        self.name = name
        self.control: NackControl = (
            Sdcc(options) if options.subscriber_control == "sdcc" else WholeWindow(options.receive_window)
        )
        self._options = options
        self._alerts = alerts
        self._interest = interest
        self._knowledge: Knowledge | None = None if start is None else Knowledge(start)
        self._heard = 0
        self._ignored_until = 0
        self._recovering = False
        self._paused = False
        self._trips = RoundTrips(options.retry_us, adaptive=options.subscriber_control != "off")
        self._meter = HorizonMeter(options.smoothing)
        self._query = -1
        self._acked = start or 0
        self._delivered = self._ignored = self._nacks = 0
        self._outgoing: list[Message] = []
        self._events: list[StreamEvent] = []

    @property
    def horizon(self) -> int:
        """The doubt horizon; 0 before anything was received."""
        return self._knowledge.final if self._knowledge is not None else 0

    @property
    def acked(self) -> int:
        """Tick up to which all subscribers have processed."""
        return self._acked

    @property
    def conflicts(self) -> int:
        """Contradicting messages, as `Knowledge.conflicts` counts."""
        return self._knowledge.conflicts if self._knowledge is not None else 0

    def statistics(self) -> SubendStatistics:
        """Present figures."""
        return SubendStatistics(
            horizon=self.horizon,
            rate=self._meter.rate,
            recovering=self._recovering,
            nack_window=self.control.window,
            delivered=self._delivered,
            ignored=self._ignored,
            nacks=self._nacks,
            held=self._knowledge.messages if self._knowledge is not None else 0,
            acked=self._acked,
        )

    def begin(self, at: int) -> None:
        """Start at this tick, unless something was received already."""
        if self._knowledge is None:
            self._knowledge = Knowledge(at)
            self._acked = max(self._acked, at)

    def acknowledge(self, until: int) -> None:
        """All subscribers have processed everything before a tick."""
        self._acked = max(self._acked, min(until, self.horizon))

    def pause(self) -> None:
        """Request and accept nothing until `resume`: the receiver has no room."""
        self._paused = True
        self._trips.forget()

    def resume(self, until: int, *, now_us: int) -> None:
        """Continue, or begin at once: there are messages up to a tick."""
        self._paused = False
        self._heard = max(self._heard, until)
        knowledge = self._knowledge
        if knowledge is not None and self._heard > knowledge.horizon:
            if self._heard > knowledge.final + self._options.receive_window:
                self._recover(self._heard)
            self._ask(now_us)

    def receive(self, message: Message, *, now_us: int) -> None:
        """Handle a message from above: data, silence, final ticks or a query."""
        if self._paused and not isinstance(message, Query):
            return
        match message:
            case Data(_, since, tick, body):
                self._learn(since, tick + 1, body, now_us=now_us)
            case Silence(_, since, until):
                self._learn(since, until, None, now_us=now_us)
            case FinalTicks(_, until):
                self._give_up(until, now_us=now_us)
            case Query():
                self._answer(message, now_us=now_us)
            case _:
                raise StreamError(f"a subscriber-hosting end does not accept {type(message).__name__}")

    def on_timer(self, *, now_us: int) -> None:
        """Repeat overdue NACKs."""
        knowledge = self._knowledge
        if knowledge is not None:
            self._send_nacks(self._trips.overdue(knowledge.unknown, now_us=now_us))
            self._ask(now_us)

    def outgoing(self) -> list[Message]:
        """Remove and return messages to send upstream."""
        found, self._outgoing = self._outgoing, []
        return found

    def events(self) -> list[StreamEvent]:
        """Remove and return deliveries, in order, and other events."""
        found, self._events = self._events, []
        return found

    def timer(self) -> int | None:
        """When a NACK is overdue."""
        return self._trips.due_us()

    def _learn(self, since: int, until: int, body: bytes | None, *, now_us: int) -> None:
        if self._knowledge is None:
            self._knowledge = Knowledge(since)
            self._acked = max(self._acked, since)
        knowledge = self._knowledge
        self._heard = max(self._heard, until)
        if since <= knowledge.horizon:  # adjacent silence costs nothing, however long it is
            knowledge.learn_silence(since, until if body is None else until - 1)
        edge = knowledge.horizon + self._options.receive_window
        if until > edge:
            self._ignore(until)
            knowledge.learn_silence(since, min(until, edge))
        elif body is None:
            knowledge.learn_silence(since, until)
        else:
            knowledge.learn_silence(since, until - 1)
            knowledge.learn_data(until - 1, body)
        self._advance(now_us)

    def _ignore(self, until: int) -> None:
        self._ignored += 1
        self._recover(until)

    def _recover(self, until: int) -> None:
        self._ignored_until = max(self._ignored_until, until)
        if not self._recovering:
            self._recovering = True
            self.control.begin()
            self._events.append(Recovering(self.pubend, self.name, on=True))

    def _advance(self, now_us: int) -> None:
        knowledge = self._knowledge
        assert knowledge is not None
        horizon = knowledge.horizon
        if horizon > knowledge.final:
            found = knowledge.data(knowledge.final, horizon)
            self._events += [Delivered(self.pubend, self.name, tick, body) for tick, body in found]
            self._delivered += len(found)
            knowledge.finalise(horizon)
            for rtt_us in self._trips.passed(horizon, now_us=now_us):
                self.control.answered(rtt_us, now_us=now_us)
            if self._recovering and horizon >= self._ignored_until:
                self._recovering = False
                self._events.append(Recovering(self.pubend, self.name, on=False))
        if self._heard > horizon:
            self._ask(now_us)

    def _give_up(self, until: int, *, now_us: int) -> None:
        """Do not wait for what the log has deleted."""
        if self._knowledge is None:
            self._knowledge = Knowledge(until)
        knowledge = self._knowledge
        if until > knowledge.final:
            found = knowledge.data(knowledge.final, until)
            self._events += [Delivered(self.pubend, self.name, tick, body) for tick, body in found]
            self._delivered += len(found)
            if knowledge.unknown(knowledge.final, until):
                self._events.append(Missed(self.pubend, self.name, knowledge.final, until))
            self._heard = max(self._heard, until)
            knowledge.finalise(until)
            self._trips.passed(until, now_us=now_us)
            self._advance(now_us)

    def _ask(self, now_us: int) -> None:
        """Send NACKs for unrequested gaps within the window; at its edge only if they are large enough."""
        knowledge = self._knowledge
        assert knowledge is not None
        edge = knowledge.final + min(self.control.window, self._options.receive_window)
        gaps = self._trips.unasked(knowledge.unknown(knowledge.final, min(edge, self._heard)))
        least = min(self._options.nack_ticks, self.control.window // 2)
        worth = [
            (since, until)
            for since, until in gaps
            if until < edge or until - since >= least or not len(self._trips)
        ]
        for span in worth:
            self._trips.ask(span, now_us=now_us)
        self._send_nacks(worth)

    def _send_nacks(self, spans: list[Span]) -> None:
        for first in range(0, len(spans), limits.STREAM_SPANS):
            part = tuple(spans[first : first + limits.STREAM_SPANS])
            self._outgoing.append(Nack(self.pubend, part, self._interest))
            self._nacks += 1

    def _answer(self, query: Query, *, now_us: int) -> None:
        if query.number <= self._query:
            return
        self._query = query.number
        if self._knowledge is None:
            return
        self._outgoing.append(Ack(self.pubend, self._acked))
        behind = max(0, query.position - self.horizon)
        rate = self._meter.read(self.horizon, at_end=behind < self._options.nack_ticks, now_us=now_us)
        if not self._alerts:
            return
        if self._recovering:
            if rate < 1 + self._options.recovering_gain:
                self._outgoing.append(Alert(self.pubend, query.number, NO_RATE, rate))
        elif (
            rate < 1 - self._options.keeping_slack
            or behind > self._lag
            or self._options.publisher_control == "steady"
        ):
            self._outgoing.append(Alert(self.pubend, query.number, rate, NO_RATE, behind, self.horizon))

    @property
    def _lag(self) -> int:
        return ticks_in(self._options.lag_us)
