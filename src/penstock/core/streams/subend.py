"""The end of a stream at a subscriber-hosting node: from doubt to delivery, in order and once.

Everything before the doubt horizon is delivered. Two windows begin there: ticks beyond the receive window are
ignored (and the stream recovers until nothing has to be); unknown ticks within the NACK window are asked for,
if something behind them has been heard of, since links keep the order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.streams.control import WholeWindow
from penstock.core.streams.events import Delivered, Missed, Recovering
from penstock.core.streams.knowledge import Knowledge
from penstock.core.streams.messages import NO_RATE, Ack, Alert, Data, Final, Nack, Query, Silence
from penstock.core.streams.meter import HorizonMeter
from penstock.core.streams.round_trips import RoundTrips
from penstock.core.streams.sdcc import Sdcc
from penstock.core.streams.tick import ticks_in
from penstock.errors import StreamError

if TYPE_CHECKING:
    from penstock.core.streams.control import NackControl
    from penstock.core.streams.events import Event
    from penstock.core.streams.messages import Message
    from penstock.core.streams.options import StreamOptions
    from penstock.core.streams.spans import Span


@dataclass(frozen=True, slots=True)
class SubendStatistics:
    """A snapshot."""

    horizon: int
    rate: float
    """Of the doubt horizon, smoothed, in tick-seconds per second."""
    recovering: bool
    nack_window: int
    """In ticks."""
    delivered: int
    ignored: int
    """Messages beyond the receive window."""
    nacks: int
    held: int
    """Messages behind a gap."""
    acked: int


class Subend:
    """One consolidated stream; `start` None begins with the first tick it hears of."""

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
        self._events: list[Event] = []

    @property
    def horizon(self) -> int:
        """The doubt horizon; 0 before anything was heard."""
        return self._knowledge.final if self._knowledge is not None else 0

    @property
    def acked(self) -> int:
        """What lies before has been processed by all subscribers."""
        return self._acked

    @property
    def conflicts(self) -> int:
        """See Knowledge."""
        return self._knowledge.conflicts if self._knowledge is not None else 0

    def statistics(self) -> SubendStatistics:
        """A snapshot."""
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
        """Start with this tick, unless something was heard already."""
        if self._knowledge is None:
            self._knowledge = Knowledge(at)
            self._acked = max(self._acked, at)

    def acknowledge(self, until: int) -> None:
        """All subscribers have processed what lies before a tick."""
        self._acked = max(self._acked, min(until, self.horizon))

    def pause(self) -> None:
        """Ask for nothing and take nothing until `resume`: whoever gets the messages has no room for them."""
        self._paused = True
        self._trips.forget()

    def resume(self, until: int, *, now_us: int) -> None:
        """Go on, or begin at once: there is something to be had up to a tick."""
        self._paused = False
        self._heard = max(self._heard, until)
        knowledge = self._knowledge
        if knowledge is not None and self._heard > knowledge.horizon:
            if self._heard > knowledge.final + self._options.receive_window:
                self._recover(self._heard)
            self._ask(now_us)

    def receive(self, message: Message, *, now_us: int) -> None:
        """From above: what is known, what is gone, and who falls behind?"""
        if self._paused and not isinstance(message, Query):
            return
        match message:
            case Data(_, since, tick, body):
                self._learn(since, tick + 1, body, now_us=now_us)
            case Silence(_, since, until):
                self._learn(since, until, None, now_us=now_us)
            case Final(_, until):
                self._give_up(until, now_us=now_us)
            case Query():
                self._answer(message, now_us=now_us)
            case _:
                raise StreamError(f"a subscriber-hosting stream cannot be told {type(message).__name__}")

    def on_timer(self, *, now_us: int) -> None:
        """Ask again for what has not come."""
        knowledge = self._knowledge
        if knowledge is not None:
            self._send_nacks(self._trips.overdue(knowledge.unknown, now_us=now_us))
            self._ask(now_us)

    def outgoing(self) -> list[Message]:
        """What goes upstream."""
        found, self._outgoing = self._outgoing, []
        return found

    def events(self) -> list[Event]:
        """Deliveries, in order, and what else the owner should know."""
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
        if since <= knowledge.horizon:  # silence that goes on costs nothing, however long it is
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
        """What the log has let go is not waited for."""
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
        """NACK the gaps within the window that are not on their way; at its edge only pieces worth it."""
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
