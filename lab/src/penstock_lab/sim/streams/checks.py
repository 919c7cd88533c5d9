"""Rules that every history of reliable streams must keep, one class each, which reports violations."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock_lab.sim.streams.network import Tree
    from penstock_lab.sim.streams.node import History


class Check(Protocol):
    """One rule that a run has to keep."""

    def problems(self, history: History, tree: Tree) -> Iterator[str]:
        """Return a message for each violation of the rule in a history."""
        ...


class ExactlyOnce:
    """No subscriber gets a message twice, and none that was not published."""

    def problems(self, history: History, tree: Tree) -> Iterator[str]:
        """Return each message that came twice or was never published."""
        del tree
        for subscriber in history.subscribers:
            for pubend, received in subscriber.received.items():
                seen: dict[int, bytes] = {}
                for tick, body in received:
                    if tick in seen:
                        yield f"{subscriber.name} got tick {tick} of {pubend} twice"
                    if history.durable.get(pubend, {}).get(tick) != body:
                        yield f"{subscriber.name} got tick {tick} of {pubend}, which nobody published"
                    seen[tick] = body


class InOrder:
    """Each subscriber gets the messages of a pubend in the order of their ticks."""

    def problems(self, history: History, tree: Tree) -> Iterator[str]:
        """Return each message that came after a later one."""
        del tree
        for subscriber in history.subscribers:
            for pubend, received in subscriber.received.items():
                for (earlier, _), (later, _) in pairwise(received):
                    if later < earlier:
                        yield f"{subscriber.name} got tick {later} of {pubend} after {earlier}"


class NothingLost:
    """Every acknowledged message has reached every subscriber whose filter it passes by the end.

    With `waiting`, messages at or beyond a subscriber's position may still come and are no violation: for
    runs that end while streams are on their way.
    """

    def __init__(self, *, waiting: bool = False) -> None:
        self._waiting = waiting

    def problems(self, history: History, tree: Tree) -> Iterator[str]:
        """Return each acknowledged message that is missing, and each range that a node was told is gone."""
        del tree
        for subscriber in history.subscribers:
            for pubend, acknowledged in history.acknowledged.items():
                got = {tick for tick, _ in subscriber.received.get(pubend, ())}
                for tick in acknowledged:
                    body = history.durable.get(pubend, {}).get(tick)
                    if body is None:
                        yield f"tick {tick} of {pubend} was acknowledged and is not durable"
                        continue
                    wanted = subscriber.matches is None or subscriber.matches(body)
                    if self._waiting and tick >= subscriber.position.get(pubend, 0):
                        continue
                    if wanted and tick not in got:
                        yield f"{subscriber.name} never got tick {tick} of {pubend}, which was acknowledged"
        for node, pubend, since, until in history.missed:
            yield f"{node} was told that ticks {since} to {until} of {pubend} are gone"


class SilenceHidesNothing:
    """No node was told silence where a message is that passes the filter it was told for."""

    def problems(self, history: History, tree: Tree) -> Iterator[str]:
        """Return each message that a node was told is silence."""
        for (node, pubend, interest), spans in history.silences.items():
            matches = tree.filters[interest] if interest else tree.link_filter(node)
            for tick, body in history.durable.get(pubend, {}).items():
                if tick in spans and (matches is None or matches(body)):
                    yield f"{node} was told silence at tick {tick} of {pubend}, where a message is"


CHECKS: Final[tuple[Check, ...]] = (ExactlyOnce(), InOrder(), NothingLost(), SilenceHidesNothing())


def problems(history: History, tree: Tree, *, waiting: bool = False) -> list[str]:
    """Return the violations of all rules; with `waiting`, of a run that ends with messages on their way."""
    checks = [NothingLost(waiting=waiting) if isinstance(check, NothingLost) else check for check in CHECKS]
    return [problem for check in checks for problem in check.problems(history, tree)]


def on_the_way(history: History) -> int:
    """Return how many acknowledged messages subscribers have not reached yet, once for each subscriber."""
    return sum(
        tick >= subscriber.position.get(pubend, 0)
        and (subscriber.matches is None or subscriber.matches(history.durable.get(pubend, {}).get(tick, b"")))
        for subscriber in history.subscribers
        for pubend, acknowledged in history.acknowledged.items()
        for tick in acknowledged
    )
