"""Tracks how far a moving session has seen the events of each origin, and which it may have missed.

The number of the last event that a node has seen is not always that of its sessions. An origin that could not
be fenced when a session came may have events on their way to the node before: the session has not seen them,
even if this node saw them earlier. So an origin counts as seen only as far as the session was there for it.
Where later events of the origin have come to the session, those before are a gap. What is left out in a gap
is not known to have come, and has to be counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.cluster.frames import Natural, Text

if TYPE_CHECKING:
    from collections.abc import Container

Marks = dict[Text, tuple[Natural, Natural]]
"""For each origin its incarnation, and the number of the last event that was seen."""

Gaps = dict[Text, tuple[Natural, Natural, Natural]]
"""For each origin its incarnation, and two numbers: events above the first and up to the second may not have
been seen."""


def below(marks: Marks, origin: str, incarnation: int, number: int) -> bool:
    """Whether an event is at or below the mark of its origin, or of an earlier incarnation of it."""
    mark = marks.get(origin)
    return mark is not None and (incarnation, number) <= mark


def missed(marks: Marks, gaps: Gaps, origin: str, incarnation: int, number: int) -> bool:
    """Whether an event that is at or below the mark of its origin is one that may not have been seen.

    A mark does not say how much was seen of the incarnations before.
    """
    mark, gap = marks.get(origin), gaps.get(origin)
    if mark is not None and incarnation < mark[0]:
        return True
    return gap is not None and gap[0] == incarnation and gap[1] < number <= gap[2]


class Seen:
    """Events that a session has seen, for a session that came to this node from another one."""

    def __init__(self, marks: Marks, gaps: Gaps, *, since: Marks, fenced: Container[str]) -> None:
        """`marks` and `gaps` are what it had seen there; `since` is what this node had seen when it began to
        hold events for the session; `fenced` are the origins whose earlier events were all there."""
        self.marks = marks
        self.gaps = gaps
        # A fenced origin is unsure, too, if the session comes without what this node had seen of it.
        self._unsure = {
            name: mark for name, mark in since.items() if name not in fenced or marks.get(name, mark) < mark
        }
        self._whole_from: dict[str, int] = {}

    def whole(self, name: str, number: int) -> None:
        """Every event of an origin above this number comes to this node."""
        self._whole_from.setdefault(name, number)

    def trim(self, newest: Marks) -> bool:
        """Forget what the marks of the node, `newest`, say as well; whether anything is left."""
        self.marks = {
            name: mark
            for name, mark in self.marks.items()
            if name in self._unsure or mark > newest.get(name, (0, 0))
        }
        return bool(self.marks or self.gaps)

    def at_leaving(self, newest: Marks) -> tuple[Marks, Gaps]:
        """The marks and gaps with which the session leaves; `newest` is what this node has seen by now."""
        marks, gaps = dict(newest), dict(self.gaps)
        for name, mark in self.marks.items():
            now, before = newest.get(name, mark), self._unsure.get(name)
            marks[name] = max(now, mark)  # of the later incarnation
            if before is None or now[0] != mark[0] or now[1] <= mark[1]:
                continue
            if now == before:  # nothing of it has come since
                marks[name] = mark
            else:
                gap = gaps.get(name)
                first = mark[1] if gap is None or gap[0] != mark[0] else min(gap[1], mark[1])
                gaps[name] = (mark[0], first, min(now[1], self._whole_from.get(name, now[1])))
        return marks, {name: gap for name, gap in gaps.items() if marks.get(name, (0, 0))[0] == gap[0]}
