"""Judges clients that move: while their nodes are well, nothing is missing, comes twice or out of order.

A *storm* is a fault with the time until the cluster is at rest again. It concerns the clients that go to its
node. Both sides of a cut serve a client, and a node that is frozen or killed has what it had: messages that
are published in a storm may be abandoned, come late or come twice. What is missing has to be in an account.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock_lab.experiments.result import Claim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock_lab.experiments.cluster.clients import Publisher, Traveller

BEFORE_S: Final = 1.0
"""A message that was published this long before a storm may still be on its way: a client takes two moves."""
AFTER_S: Final = 6.0
"""So long a node that was away may still have a session by an old right: it is told within some seconds."""


@dataclass(slots=True)
class Storm:
    """A fault, until the cluster is at rest again."""

    nodes: frozenset[str]
    """The nodes that it hits."""
    link: bool
    """Whether only the link between two nodes is hit."""
    begin_s: float
    end_s: float = float("inf")

    def concerns(self, nodes: frozenset[str], at_s: float) -> bool:
        """Whether a message of this time for a client of these nodes may have been hit."""
        there = self.nodes <= nodes if self.link else bool(self.nodes & nodes)
        return there and self.begin_s - BEFORE_S <= at_s <= self.end_s + AFTER_S


class MovingJudge:
    """Messages that came to clients that move, beside those that were published, and when."""

    def __init__(
        self, travellers: Sequence[Traveller], publishers: Iterable[Publisher], storms: Sequence[Storm]
    ) -> None:
        self._travellers = travellers
        self._times = {each.qos: each.times for each in publishers if each.qos}
        self._storms = storms
        self._sent = {qos: len(times) for qos, times in self._times.items()}

    def calm(self, one: Traveller, qos: int, number: int) -> bool:
        """Whether a message was published while the nodes of a client were well."""
        at_s = self._times[qos][number - 1]
        return not any(storm.concerns(one.nodes, at_s) for storm in self._storms)

    def rows(self, row: Callable[..., Claim], *, counted: int) -> Iterable[Claim]:
        """The promises; `counted` are the events that all nodes tell as abandoned."""
        calm = {one.name: self._calm(one) for one in self._travellers}
        visits = sum(one.visits for one in self._travellers)
        tried = visits > 0 and any(calm.values())
        few = sum(map(len, calm.values()))
        where = f"{len(calm)} clients that were {visits:,} times at a node; {few:,} messages in calm"
        missing = {one.name: one.missing(self._sent) for one in self._travellers}
        yield row(
            "client moves: messages that neither came nor are in any account",
            [said for one in self._travellers for said in self._lost(one, missing[one.name], counted)],
            f"none at {where}; in storms {sum(max(0, few) for few in missing.values()):,} missing, "
            f"{counted:,} abandoned",
            "with the first one that was published while its nodes were well, or if a client misses more "
            "than all nodes tell as abandoned",
            tried=visits > 0,
        )
        twice, late = self._again(well=True), self._late(well=True)
        yield row(
            "client moves: messages that came twice while its nodes were well",
            twice,
            f"none at {where}",
            "with the first one; QoS 1 may repeat what was not acknowledged, and says so (DUP)",
            tried=tried,
        )
        yield row(
            "client moves: messages out of order within their topic while its nodes were well",
            late,
            f"none at {where}",
            "with the first one",
            tried=tried,
        )
        told = sum(max(0, -few) for few in missing.values())
        yield Claim(
            "client moves in a storm: messages that came twice, behind later ones, and though in a digest",
            "few",
            f"{len(self._again(well=False)):,}, {len(self._late(well=False)):,} and {told:,}",
            ok=None,
            note="both sides of a cut serve a client, and a node that is back brings what it had",
        )

    def _calm(self, one: Traveller) -> list[tuple[int, int]]:
        """QoS and number of the messages that were published while the nodes of a client were well."""
        return [
            (qos, number)
            for qos, sent in self._sent.items()
            for number in range(1, sent + 1)
            if self.calm(one, qos, number)
        ]

    def _lost(self, one: Traveller, missing: int, counted: int) -> Iterable[str]:
        got = one.notes.got
        calm = [(qos, number) for qos, number in self._calm(one) if number not in got[qos]]
        if missing > 0 and calm:  # else digests tell of them
            qos, number = calm[0]
            yield f"{one.name}: {len(calm)} that were published in calm, first {number} of QoS {qos}"
        elif missing > counted:
            yield f"{one.name}: {missing:,} missing, {counted:,} abandoned"

    def _again(self, *, well: bool) -> list[str]:
        return [
            f"{one.name}: {each.number} of QoS {each.qos}"
            for one in self._travellers
            for each in one.notes.again
            if self.calm(one, each.qos, each.number) is well
            and not (each.dup and min(each.qos, one.qos) == 1)
        ]

    def _late(self, *, well: bool) -> list[str]:
        return [
            f"{one.name}: {each}"
            for one in self._travellers
            for each in one.notes.order
            if self.calm(one, each.qos, each.number) is well
        ]
