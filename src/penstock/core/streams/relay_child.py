"""One link below a relay: what it was told, what it asked for, what its filter has turned into silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.streams.messages import Data, Silence

if TYPE_CHECKING:
    from penstock.core.streams.answers import Matches
    from penstock.core.streams.messages import Message
    from penstock.core.streams.spans import Span, Spans


class RelayChild:
    """New ticks go to it unasked, old ones if it is curious about them."""

    __slots__ = ("_pending", "_pending_us", "_pubend", "acked", "curious", "frontier", "interest", "matches")

    def __init__(self, pubend: str, matches: Matches | None, interest: str) -> None:
        self._pubend = pubend
        self.matches = matches
        self.interest = interest
        """The name under which others know this filter; empty if it has none."""
        self.acked: int | None = None
        self.frontier = 0
        """Behind the newest tick it was told."""
        self.curious: dict[str, Spans] = {}
        """By interest: what it asked for and has not been told."""
        self._pending: Span | None = None
        self._pending_us: int | None = None

    @property
    def due_us(self) -> int | None:
        """When its silence must be told at the latest."""
        return self._pending_us

    def wants(self, span: Span, interest: str) -> bool:
        """Whether it is curious about a part of a span that was told for an interest, "" for all."""
        names = self.curious if interest == "" else (interest,)
        return any(name in self.curious and bool(self.curious[name].within(*span)) for name in names)

    def satisfied(self, span: Span, interest: str) -> None:
        """It has been told a span."""
        for name in list(self.curious) if interest == "" else [interest]:
            spans = self.curious.get(name)
            if spans is not None:
                spans.remove(*span)
                if not len(spans):
                    del self.curious[name]

    def tell(self, since: int, until: int, body: bytes | None, *, due_us: int) -> list[Message]:
        """New ticks for it, the last of them a message unless `body` is None; filtered ones wait a while."""
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
        """The silence that waits."""
        pending, self._pending, self._pending_us = self._pending, None, None
        return [] if pending is None else [Silence(self._pubend, *pending)]
