"""One stream at a node between root and subscribers: fans out, filters, caches, and merges NACKs and alerts.

Ticks beyond what a link was sent are new to it and go down unasked; older ones go to the links that asked for
them. A NACK is answered from the cache as far as it reaches; the rest goes up unless it was asked for a
moment ago (`NackHold`). A NACK of a single node is forwarded under its name (its interest), so that the
answer holds what its filter needs and not what all filters of the link need; such an answer is not silence
for other nodes. Alerts of many links go up as one (`AlertFold`, Figure 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.streams.knowledge import Knowledge
from penstock.core.streams.messages import NO_RATE, Ack, Alert, Data, FinalTicks, Nack, Query, Silence, told
from penstock.core.streams.ticks import Span, Spans, ticks_in
from penstock.errors import StreamError

if TYPE_CHECKING:
    from penstock.core.streams.messages import Matches, Message
    from penstock.core.streams.options import StreamOptions


class NackHold:
    """Two generations of requested spans by interest: each is held for one to two times `hold_us`."""

    __slots__ = ("_hold_us", "_newer", "_older", "_turned_us")

    def __init__(self, hold_us: int) -> None:
        self._hold_us = hold_us
        self._newer: dict[str, Spans] = {}
        self._older: dict[str, Spans] = {}
        self._turned_us = 0

    def unasked(self, spans: list[Span], interest: str, *, now_us: int) -> list[Span]:
        """Parts not requested lately; they count as requested now. Interest "" covers everything."""
        self._turn(now_us)
        for asked in (self._newer, self._older):
            for known in {"": None, interest: None}:
                if known in asked:
                    spans = [part for span in spans for part in asked[known].gaps(*span)]
        if spans:
            mine = self._newer.setdefault(interest, Spans())
            for span in spans:
                mine.add(*span)
        return spans

    def clear(self) -> None:
        """Forget all requests."""
        self._newer, self._older = {}, {}

    def answered(self, since: int, until: int, interest: str) -> None:
        """A span arrived; with interest "" for every interest."""
        for asked in (self._newer, self._older):
            for name in asked if interest == "" else (interest,):
                if name in asked:
                    asked[name].remove(since, until)

    def _turn(self, now_us: int) -> None:
        if now_us - self._turned_us >= 2 * self._hold_us:
            self._newer, self._older = {}, {}
        elif now_us - self._turned_us >= self._hold_us:
            self._newer, self._older = {}, self._newer
        else:
            return
        self._turned_us = now_us


class AlertFold:
    """Keeps both minima since the last alert that went up."""

    __slots__ = ("_behind", "_keeping", "_number", "_reached", "_recovering")

    def __init__(self) -> None:
        self._number = 0
        self._keeping = self._recovering = NO_RATE
        self._behind = self._reached = 0

    def fold(self, alert: Alert) -> Alert | None:
        """Add an alert from below; returns the alert to send up now, if any."""
        self._keeping = min(self._keeping, alert.keeping)
        self._recovering = min(self._recovering, alert.recovering)
        self._behind = max(self._behind, alert.behind)
        self._reached = min(self._reached or alert.reached, alert.reached or self._reached)
        if alert.number <= self._number:
            return None
        self._number = alert.number
        folded = Alert(
            alert.pubend, alert.number, self._keeping, self._recovering, self._behind, self._reached
        )
        self._keeping = self._recovering = NO_RATE
        self._behind = self._reached = 0
        return folded


class RelayChild:
    """A link below: new ticks go to it unasked, old ones on request."""

    __slots__ = ("_pending", "_pending_us", "_pubend", "acked", "curious", "frontier", "interest", "matches")

    def __init__(self, pubend: str, matches: Matches | None, interest: str) -> None:
        self._pubend = pubend
        self.matches = matches
        self.interest = interest
        """Name of this filter at other nodes; empty if it has none."""
        self.acked: int | None = None
        self.frontier = 0
        """Tick behind the newest one sent."""
        self.curious: dict[str, Spans] = {}
        """Spans requested and not yet sent, by interest."""
        self._pending: Span | None = None
        self._pending_us: int | None = None

    @property
    def due_us(self) -> int | None:
        """When its pending silence must be sent."""
        return self._pending_us

    def wants(self, span: Span, interest: str) -> bool:
        """Whether it requested part of a span sent for an interest, "" for all."""
        names = self.curious if interest == "" else (interest,)
        return any(name in self.curious and bool(self.curious[name].within(*span)) for name in names)

    def satisfied(self, span: Span, interest: str) -> None:
        """A span has been sent to it."""
        for name in list(self.curious) if interest == "" else [interest]:
            spans = self.curious.get(name)
            if spans is not None:
                spans.remove(*span)
                if not len(spans):
                    del self.curious[name]

    def tell(self, since: int, until: int, body: bytes | None, *, due_us: int) -> list[Message]:
        """Messages for new ticks, the last of them with `body` unless None.

        Filtered ones are delayed a while.
        """
        found: list[Message] = []
        if self._pending is not None and self._pending[1] == since:
            since = self._pending[0]
            self._pending = None
        else:
            found += self.flush()
        if body is None:
            found.append(Silence(self._pubend, since, until))
        elif self.matches is None or self.matches(body):
            found.append(Data(self._pubend, since, until - 1, body))
        else:
            self._pending = (since, until)
            if self._pending_us is None:
                self._pending_us = due_us
        if self._pending is None:
            self._pending_us = None
        self.frontier = max(self.frontier, until)
        return found

    def flush(self) -> list[Message]:
        """The pending silence."""
        pending, self._pending, self._pending_us = self._pending, None, None
        return [] if pending is None else [Silence(self._pubend, *pending)]


@dataclass(frozen=True, slots=True)
class RelayStatistics:
    """Figures of a relay at one moment."""

    cached_messages: int
    cached_bytes: int
    nacks: int
    """NACKs from below."""
    nacks_up: int
    """NACKs forwarded."""
    acked: int | None
    """Tick up to which all nodes below have processed."""


class Relay:
    """Relays a stream between one link up and any number down; `interest` is its filter at the node above."""

    def __init__(
        self,
        pubend: str,
        options: StreamOptions,
        *,
        interest: str = "",
        interests: dict[str, Matches] | None = None,
    ) -> None:
        self.pubend = pubend
        self._options = options
        self._interest = interest
        self._interests = interests or {}
        self.reached = 0
        """Tick behind the newest one known here."""
        self._children: dict[str, RelayChild] = {}
        self._holds: dict[str, int] = {}
        self.caching = True
        """Whether it caches what it forwards; useless beside the log if there is no link below."""
        self._cache = Knowledge()
        self._hold = NackHold(options.hold_us)
        self._fold = AlertFold()
        self._query = 0
        """Number of the last query."""
        self._nacks = self._nacks_up = 0
        self._up: list[Message] = []
        self._down: list[tuple[str, Message]] = []

    def statistics(self) -> RelayStatistics:
        """Present figures."""
        cache = self._cache
        return RelayStatistics(cache.messages, cache.size, self._nacks, self._nacks_up, self.acked())

    def attach(self, child: str, matches: Matches | None = None, *, interest: str = "") -> None:
        """Add a link below with the filter of everything behind it; its acknowledgement is waited for."""
        self._children[child] = RelayChild(self.pubend, matches, interest)

    def detach(self, child: str) -> None:
        """Remove a link below for good."""
        self._children.pop(child, None)

    def again(self, *, now_us: int) -> None:
        """Ask above again for everything requested from below and not yet sent."""
        self._hold.clear()
        wanted: dict[str, Spans] = {}
        for child in self._children.values():
            for interest, spans in child.curious.items():
                together = wanted.setdefault(interest, Spans())
                for span in spans:
                    together.add(*span)
        for interest, spans in wanted.items():
            self._pass_up(list(spans), interest, now_us)

    def acked(self) -> int | None:
        """Tick up to which all below have processed; None while one of them, or all, have not reported."""
        spoken = [child.acked for child in self._children.values() if child.acked is not None]
        if len(spoken) < len(self._children):
            return None
        return min((*spoken, *self._holds.values()), default=None)

    def hold(self, name: str, until: int | None) -> None:
        """Count nothing from a tick on as processed, for a subscriber that is away; None releases it."""
        if until is None:
            self._holds.pop(name, None)
        else:
            self._holds[name] = until

    def receive(self, message: Message, *, child: str | None, now_us: int) -> None:
        """Handle a message from above (`child` None) or from a link below."""
        if child is None:
            self._from_above(message, now_us)
        elif child not in self._children:
            raise StreamError(f"stream {self.pubend!r} has no link to {child!r} below")
        else:
            self._from_below(message, self._children[child], child, now_us)

    def on_timer(self, *, now_us: int) -> None:
        """Send pending silence."""
        for name, child in self._children.items():
            if child.due_us is not None and child.due_us <= now_us:
                self._down += [(name, message) for message in child.flush()]

    def timer(self) -> int | None:
        """When silence must be sent."""
        due_us = None
        for child in self._children.values():
            if child.due_us is not None and (due_us is None or child.due_us < due_us):
                due_us = child.due_us
        return due_us

    def upward(self) -> list[Message]:
        """Remove and return messages to send up."""
        found, self._up = self._up, []
        return found

    def downward(self) -> list[tuple[str, Message]]:
        """Remove and return messages to send down, with their links."""
        found, self._down = self._down, []
        return found

    def _from_above(self, message: Message, now_us: int) -> None:
        match message:
            case Data(_, since, tick, body, interest):
                self._spread(since, tick + 1, body, self._own(interest), now_us)
            case Silence(_, since, until, interest):
                self._spread(since, until, None, self._own(interest), now_us)
            case FinalTicks(_, until):
                self._hold.answered(0, until, "")
                for name, child in self._children.items():
                    if child.wants((0, until), ""):
                        child.satisfied((0, until), "")
                        self._down.append((name, message))
            case Query(number=number):
                self._query = max(self._query, number)
                self._down += [(name, message) for name in self._children]
                acked = self.acked()
                if acked is not None:
                    self._up.append(Ack(self.pubend, acked))
            case _:
                raise StreamError(f"{type(message).__name__} is not a message from above")

    def _own(self, interest: str) -> str:
        """Interest of an answer: under this node's own name it holds for the whole link."""
        return "" if interest == self._interest else interest

    def _spread(self, since: int, until: int, body: bytes | None, interest: str, now_us: int) -> None:
        self.reached = max(self.reached, until)
        if self.caching:
            self._remember(since, until, body, interest)
        elif not self._children:
            return
        self._hold.answered(since, until, interest)
        due_us = now_us + self._options.filtered_us
        for name, child in self._children.items():
            if interest == "" and until > child.frontier:
                child.satisfied((since, until), "")
                self._down += [(name, one) for one in child.tell(since, until, body, due_us=due_us)]
            elif child.wants((since, until), interest):
                child.satisfied((since, until), interest)
                matches = child.matches if interest == "" else None
                messages = [] if body is None else [(until - 1, body)]
                tag = "" if interest == child.interest else interest
                span = (since, until)
                self._down += [
                    (name, one) for one in told(self.pubend, span, messages, matches=matches, interest=tag)
                ]

    def _remember(self, since: int, until: int, body: bytes | None, interest: str) -> None:
        options = self._options
        if not options.cache_us:
            return
        cache = self._cache
        if interest == "":
            cache.learn_silence(since, until if body is None else until - 1)
        if body is not None:
            cache.learn_data(until - 1, body)
        bound = ticks_in(options.cache_us)
        # Trim in steps of an eighth: dropping messages one by one would move the whole list each time.
        if cache.top - cache.final > bound + bound // 8:
            cache.finalise(cache.top - bound)
        if cache.size > options.cache_bytes:
            cache.finalise(cache.oldest(options.cache_bytes - options.cache_bytes // 8))

    def _from_below(self, message: Message, child: RelayChild, name: str, now_us: int) -> None:
        match message:
            case Nack(_, spans, interest):
                self._nacks += 1
                self._answer(spans, interest, child, name, now_us)
            case Ack(_, until):
                child.acked = max(child.acked or 0, until)
            case Alert(number=number):
                # Ignore answers to queries not asked: they would make all later answers look old.
                folded = self._fold.fold(message) if number <= self._query else None
                if folded is not None:
                    self._up.append(folded)
            case _:
                raise StreamError(f"{type(message).__name__} is not a message from below")

    def _answer(
        self, spans: tuple[Span, ...], interest: str, child: RelayChild, name: str, now_us: int
    ) -> None:
        interest = interest if interest in self._interests else ""
        matches = self._interests.get(interest, child.matches)
        tag = "" if interest == child.interest else interest
        missing: list[Span] = []
        for since, until in spans:
            known = Spans(self._cache.known(since, until))
            for part in known:
                messages = self._cache.data(*part)
                self._down += [
                    (name, one) for one in told(self.pubend, part, messages, matches=matches, interest=tag)
                ]
            missing += known.gaps(since, until)
        if missing:
            self._ask_above(missing, interest, child, now_us)

    def _ask_above(self, missing: list[Span], interest: str, child: RelayChild, now_us: int) -> None:
        shared = interest != "" and any(
            name != interest and any(spans.within(*span) for span in missing)
            for other in self._children.values()
            for name, spans in other.curious.items()
        )
        curious = child.curious.setdefault(interest, Spans())
        if len(curious) + len(missing) > limits.STREAM_CURIOUS:
            return  # the child asks again
        for span in missing:
            curious.add(*span)
        self._pass_up(missing, "" if shared else interest, now_us)

    def _pass_up(self, missing: list[Span], asked: str, now_us: int) -> None:
        fresh = self._hold.unasked(missing, asked, now_us=now_us)
        for first in range(0, len(fresh), limits.STREAM_SPANS):
            part = tuple(fresh[first : first + limits.STREAM_SPANS])
            self._up.append(Nack(self.pubend, part, asked or self._interest))
            self._nacks_up += 1
