"""All streams of one node: connects pubends, relays and subscriber-hosting ends; the owner moves the bytes.

Each stream has a relay here. Above the relay is a link, or the pubend if this node hosts the stream; below it
are links and the subscriber-hosting ends of this node. Messages between parts of this node are handed over at
once; messages for other nodes are in `outgoing`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.streams.pubend import Pubend
from penstock.core.streams.relay import Relay
from penstock.core.streams.subend import Subend
from penstock.errors import StreamError

if TYPE_CHECKING:
    from penstock.core.streams.log import Log
    from penstock.core.streams.messages import Matches, Message, StreamEvent
    from penstock.core.streams.options import StreamOptions
    from penstock.core.streams.pubend import PubendStatistics
    from penstock.core.streams.relay import RelayStatistics
    from penstock.core.streams.subend import SubendStatistics


_HERE = "\0"
"""Prefix of the names of local ends among the links below a relay: no neighbour has such a name."""


@dataclass(slots=True)
class _Stream:
    relay: Relay
    upstream: str | None
    pubend: Pubend | None = None
    subends: dict[str, Subend] = field(default_factory=dict)
    due_us: int | None = 0

    def parts(self) -> list[Pubend | Relay | Subend]:
        """The parts that have timers."""
        middle: list[Pubend | Relay | Subend] = [self.relay, *self.subends.values()]
        return middle if self.pubend is None else [self.pubend, *middle]


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """Figures of one stream at one node."""

    relay: RelayStatistics
    pubend: PubendStatistics | None
    subends: dict[str, SubendStatistics]


class StreamBroker:
    """All streams of a node behind the interface of one core (receive, on_timer, timer, outgoing, events).

    Messages name their stream.
    """

    def __init__(
        self,
        name: str,
        options: StreamOptions,
        *,
        interest: str = "",
        interests: dict[str, Matches] | None = None,
    ) -> None:
        self.name = name
        self._options = options
        self._interest = interest
        self._interests = interests or {}
        self._streams: dict[str, _Stream] = {}
        self._outgoing: list[tuple[str, Message]] = []
        self._events: list[StreamEvent] = []

    def __len__(self) -> int:
        """Streams hosted or followed."""
        return len(self._streams)

    def host(self, pubend: str, log: Log, *, now_us: int, options: StreamOptions | None = None) -> Pubend:
        """Become the root of a stream.

        `options` override the node's, for instance how long messages are kept.
        """
        stream = self._add(pubend, upstream=None)
        stream.relay.caching = False
        stream.pubend = Pubend(
            pubend, log, options or self._options, now_us=now_us, interests=self._interests
        )
        return stream.pubend

    def follow(self, pubend: str, upstream: str) -> None:
        """Get a stream from a neighbour."""
        self._add(pubend, upstream=upstream)

    def begin(self, pubend: str, at: int) -> None:
        """A neighbour tells how far a stream has come: ends without any knowledge start there."""
        stream = self._stream(pubend)
        stream.relay.reached = max(stream.relay.reached, at)
        for subend in stream.subends.values() if at else ():
            subend.begin(at)

    def move(self, pubend: str, upstream: str) -> None:
        """Get a followed stream from another neighbour from now on."""
        stream = self._stream(pubend)
        if stream.upstream is None:
            raise StreamError(f"stream {pubend!r} is hosted by {self.name!r} itself")
        stream.relay.detach(upstream)
        stream.upstream = upstream

    def knows(self, pubend: str) -> bool:
        """Whether a stream is hosted or followed here."""
        return pubend in self._streams

    def attach(self, pubend: str, child: str, matches: Matches | None = None, *, interest: str = "") -> None:
        """Forward a stream to a neighbour, filtered by `matches`."""
        relay = self._stream(pubend).relay
        relay.attach(child, matches, interest=interest)
        relay.caching = True

    def detach(self, pubend: str, child: str) -> None:
        """Stop forwarding a stream to a neighbour; its acknowledgement is no longer waited for."""
        self._stream(pubend).relay.detach(child)

    def again(self, pubend: str, *, now_us: int) -> None:
        """The upstream neighbour is reachable again: repeat requests that may have been lost."""
        stream = self._stream(pubend)
        stream.relay.again(now_us=now_us)
        self._pump(stream, now_us)

    def subscribe(self, pubend: str, name: str, *, start: int | None = None, alerts: bool = True) -> Subend:
        """Open a subscriber-hosting end; the default start is the newest tick known here.

        Without `alerts` it never slows the publishers (for catching up).
        """
        stream = self._stream(pubend)
        if _HERE + name in stream.subends:
            raise StreamError(f"stream {pubend!r} already has an end {name!r} here")
        start = start if start is not None else stream.relay.reached or None
        subend = Subend(pubend, name, self._options, start=start, alerts=alerts)
        stream.subends[_HERE + name] = subend
        stream.relay.attach(_HERE + name)
        return subend

    def unsubscribe(self, pubend: str, name: str) -> None:
        """Close a subscriber-hosting end for good."""
        stream = self._stream(pubend)
        stream.subends.pop(_HERE + name, None)
        stream.relay.detach(_HERE + name)

    def hold(self, pubend: str, name: str, until: int | None) -> None:
        """Keep everything from a tick on for a subscriber that is away; None releases it."""
        stream = self._stream(pubend)
        stream.relay.hold(name, until)
        if stream.pubend is not None:  # the log may be trimmed up to what was acknowledged
            stream.pubend.hold(name, until)

    def pubend(self, name: str) -> Pubend:
        """The root of a stream hosted here."""
        found = self._stream(name).pubend
        if found is None:
            raise StreamError(f"stream {name!r} is not hosted by {self.name!r}")
        return found

    def relay(self, pubend: str) -> Relay:
        """The relay of a stream."""
        return self._stream(pubend).relay

    def statistics(self) -> dict[str, StreamStatistics]:
        """Figures of every stream now."""
        return {
            name: StreamStatistics(
                stream.relay.statistics(),
                None if stream.pubend is None else stream.pubend.statistics(),
                {subend.name: subend.statistics() for subend in stream.subends.values()},
            )
            for name, stream in self._streams.items()
        }

    def receive(self, message: Message, *, peer: str, now_us: int) -> None:
        """A message from a neighbour."""
        stream = self._stream(message.pubend)
        child = None if peer == stream.upstream else peer
        stream.relay.receive(message, child=child, now_us=now_us)
        self._pump(stream, now_us)

    def changed(self, pubend: str, *, now_us: int) -> None:
        """The owner called a pubend or an end itself (for instance after a commit): forward the results."""
        self._pump(self._stream(pubend), now_us)

    def on_timer(self, *, now_us: int) -> None:
        """Do everything that is due."""
        for stream in self._streams.values():
            if stream.due_us is None or stream.due_us > now_us:
                continue
            for part in stream.parts():
                due_us = part.timer()
                if due_us is not None and due_us <= now_us:
                    part.on_timer(now_us=now_us)
            self._pump(stream, now_us)

    def timer(self) -> int | None:
        """Time of the next due action."""
        due = [stream.due_us for stream in self._streams.values() if stream.due_us is not None]
        return min(due, default=None)

    def outgoing(self) -> list[tuple[str, Message]]:
        """Remove and return messages for neighbours."""
        found, self._outgoing = self._outgoing, []
        return found

    def events(self) -> list[StreamEvent]:
        """Remove and return events for the owner."""
        found, self._events = self._events, []
        return found

    def _add(self, pubend: str, *, upstream: str | None) -> _Stream:
        if pubend in self._streams:
            raise StreamError(f"{self.name!r} already has a stream {pubend!r}")
        relay = Relay(pubend, self._options, interest=self._interest, interests=self._interests)
        self._streams[pubend] = _Stream(relay, upstream)
        return self._streams[pubend]

    def _stream(self, pubend: str) -> _Stream:
        found = self._streams.get(pubend)
        if found is None:
            raise StreamError(f"{self.name!r} has no stream {pubend!r}: host or follow it first")
        return found

    def _pump(self, stream: _Stream, now_us: int) -> None:
        """Hand messages between the parts until none is left."""
        relay, pubend = stream.relay, stream.pubend
        busy = True
        while busy:
            busy = False
            if pubend is not None:
                for message in pubend.outgoing():
                    relay.receive(message, child=None, now_us=now_us)
                self._events += pubend.events()
            for child, message in relay.downward():
                subend = stream.subends.get(child)
                if subend is None:
                    self._outgoing.append((child, message))
                else:
                    subend.receive(message, now_us=now_us)
                    busy = True
            for name, subend in stream.subends.items():
                for message in subend.outgoing():
                    relay.receive(message, child=name, now_us=now_us)
                    busy = True
                self._events += subend.events()
            for message in relay.upward():
                if pubend is not None:
                    pubend.receive(message, now_us=now_us)
                    busy = True
                elif stream.upstream is not None:
                    self._outgoing.append((stream.upstream, message))
        due = [due_us for part in stream.parts() if (due_us := part.timer()) is not None]
        stream.due_us = min(due, default=None)
