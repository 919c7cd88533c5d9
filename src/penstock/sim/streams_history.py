"""What happened to the messages of a run: the record that checkers read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.streams.messages import Data, Silence
from penstock.core.streams.spans import Spans

if TYPE_CHECKING:
    from penstock.core.streams.answers import Matches
    from penstock.core.streams.messages import Message


@dataclass(slots=True)
class Subscriber:
    """Somebody at a leaf, who remembers what comes next across crashes of the node."""

    name: str
    node: str
    matches: Matches | None
    position: dict[str, int] = field(default_factory=dict)
    """By pubend: the first tick that has not been processed."""
    received: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)

    def take(self, pubend: str, tick: int, body: bytes) -> None:
        """A message is handed over; it is processed and remembered in one step."""
        if self.matches is None or self.matches(body):
            self.received.setdefault(pubend, []).append((tick, body))
        self.position[pubend] = tick + 1


@dataclass(slots=True)
class History:
    """By pubend: what was durable, what was acknowledged; by node: what it was told to be silent."""

    durable: dict[str, dict[int, bytes]] = field(default_factory=dict)
    acknowledged: dict[str, dict[int, None]] = field(default_factory=dict)
    subscribers: list[Subscriber] = field(default_factory=list)
    silences: dict[tuple[str, str, str], Spans] = field(default_factory=dict)
    """Node, pubend, interest."""
    missed: list[tuple[str, str, int, int]] = field(default_factory=list)
    """Node, pubend, from, to: what nodes were told to be gone."""

    def watch(self, node: str, message: Message) -> None:
        """A message reaches a node."""
        if isinstance(message, Data):
            self._silent(node, message.pubend, message.interest, message.since, message.tick)
        elif isinstance(message, Silence):
            self._silent(node, message.pubend, message.interest, message.since, message.until)

    def _silent(self, node: str, pubend: str, interest: str, since: int, until: int) -> None:
        if until > since:
            self.silences.setdefault((node, pubend, interest), Spans()).add(since, until)
