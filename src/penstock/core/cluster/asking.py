"""Questions to another node, and their answers.

A question has a kind, which says what its body means, and a number, by which its answer is found. A link
carries both in order, once, and ahead of events. An answer that does not come in time, or whose node goes
away, is a problem told to the one who has asked; the other node may have handled the question all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock import limits
from penstock.core.cluster.frames import Answer, Ask
from penstock.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.instant import Instant


class _Open(NamedTuple):
    """A question without an answer."""

    kind: str
    until_us: Instant
    then: Callable[[Answer], None]


class Asking:
    """The questions of this node to another one that wait for their answers."""

    def __init__(self, *, most: int = limits.CLUSTER_ASKS) -> None:
        self._most = most
        self._number = 0
        self._open: dict[int, _Open] = {}

    def __len__(self) -> int:
        return len(self._open)

    def ask(self, kind: str, body: bytes, then: Callable[[Answer], None], *, until_us: Instant) -> Ask:
        """Number a question; `then` is called once, with the answer or with the problem.

        ClusterError if too many questions wait.
        """
        if len(self._open) >= self._most:
            raise ClusterError(f"{self._most} questions wait for answers already")
        self._number += 1
        self._open[self._number] = _Open(kind, until_us, then)
        return Ask(self._number, kind, body)

    def answered(self, answer: Answer) -> None:
        """An answer has come; one that nobody waits for any more is ignored."""
        found = self._open.pop(answer.number, None)
        if found is not None:
            found.then(answer)

    def expire(self, *, now_us: Instant) -> None:
        """Tell those who have waited long enough."""
        late = [number for number, one in self._open.items() if one.until_us <= now_us]
        for number in late:
            self.answered(Answer(number, problem=f"no answer to {self._open[number].kind} in time"))

    def give_up(self, problem: str) -> None:
        """Tell everybody who waits that the other node will not answer."""
        for number in list(self._open):
            self.answered(Answer(number, problem=problem))
