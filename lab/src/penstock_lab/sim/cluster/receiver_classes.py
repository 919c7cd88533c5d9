"""Receivers with policies at the nodes of a simulated cluster: what each class got, and what it was told.

A class is told with the interest of its node and lasts for the whole run. Checked are addresses (nothing for
a class reaches another), and conservation: events and digests of a class are what was published for it.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.core.cluster.interest import ReceiverClass, canonical
from penstock.model.digest_wire import from_bytes
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.core.cluster.frames import Carried, Told
    from penstock.core.cluster.peer import PeerLink

POLICIES: Final = tuple(
    canonical(parse(f"levels: [{levels}]"))
    for levels in ("{keep: {latest: 2}}", "{drop: {every: 2}}, {drop: {every: 2}}")
)


class Receivers:
    """The classes of receivers at one node, and its events for the classes of others."""

    def __init__(self, seed: int, name: str, topics: Iterable[str], problem: Callable[[str], None]) -> None:
        """Every second run has receivers with policies."""
        dice = Random(f"{seed}:{name}")  # noqa: S311  # a run is repeated by its seed
        pairs = [(topic, policy) for topic in topics for policy in POLICIES] if seed % 2 else []
        chosen = [pair for pair in pairs if dice.random() < 0.3]
        self.classes = {
            2 * at + 1: ReceiverClass(2 * at + 1, topic, *policy) for at, (topic, policy) in enumerate(chosen)
        }
        self._name = name
        self._problem = problem
        self.offered: Counter[tuple[str, str]] = Counter()
        """Events of this node by the node they are for, and topic."""
        self._links: Counter[str] = Counter()
        self._got: Counter[tuple[str, int]] = Counter()
        """Events, and events counted in digests, by the node they are from, and class here."""
        self.digested = 0
        """Events in digests of policies."""

    @property
    def topics(self) -> set[str]:
        """Topics that some class wants."""
        return {one.filter for one in self.classes.values()}

    def linked(self, name: str, link: PeerLink) -> None:
        """A link to another node begins: tell it the classes."""
        self._links[name] += 1
        for one in self.classes.values():
            link.interest.begin(one)

    def got(self, sender: str, item: Carried, classes: frozenset[int] | None) -> None:
        """An event has come, for everybody or for some classes."""
        for number, one in self.classes.items():
            if one.filter == item.topic and (classes is None or number in classes):
                self._got[sender, number] += 1
        for number in classes or ():
            if number % 2 and (number not in self.classes or self.classes[number].filter != item.topic):
                self._problem(f"{self._name} got {item.topic} of {sender} for class {number}")

    def told(self, sender: str, item: Told) -> None:
        """A digest has come."""
        if item.to % 2:
            if item.to not in self.classes or self.classes[item.to].filter != item.filter:
                self._problem(f"{self._name} got a digest of {item.filter} for class {item.to}")
            count = from_bytes(item.digest).count
            self._got[sender, item.to] += count
            self.digested += count

    def check(self, other: Receivers) -> None:
        """Check the events of this node for each class of another one."""
        once = self._links[other._name] == other._links[self._name] == 1
        for number, one in other.classes.items():
            offered, got = self.offered[other._name, one.filter], other._got[self._name, number]
            # What a node that is killed has not sent is lost, and so are its digests.
            if got > offered or (once and got != offered):
                self._problem(
                    f"{self._name} → {other._name}: class {number} of {one.filter}: {got} of {offered}"
                )
