"""Content filters: which events a subscription or a link wants at all, asked before anything is queued.

A content filter is written as one step of a policy or a list of steps, all of which an event must pass:
`keep: {gt: 100, attribute: pulse}`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import PolicyError
from penstock.model.event import Event
from penstock.policy import evaluate
from penstock.policy.filters import Shape
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.policy.nodes import Policy


class ContentFilter:
    """One content filter."""

    __slots__ = ("_policy", "text")

    def __init__(self, text: str) -> None:
        """Read a filter's text; PolicyError says what is wrong and where."""
        self.text = text
        self._policy = _read(text)

    def wants(self, event: Event, *, now_us: Instant) -> bool:
        """Whether an event passes."""
        left = evaluate.pack(self._policy, [event], level=1, now_us=now_us).items
        return isinstance(left[0], Event)


def _read(text: str) -> Policy:
    indented = text.strip().replace("\n", "\n  ")
    try:
        policy = parse(f"levels:\n- {indented}")
    except PolicyError as error:
        if error.line is not None and error.line > 1:
            error.line -= 1
            error.column = None if error.column is None else max(1, error.column - 2)
        error.path = error.path.removeprefix("levels[0]").lstrip(".")
        raise error.of("filter") from None
    if policy.highest != 1:
        raise PolicyError("one step or one list of steps, not levels", source="filter")
    for placed in policy.steps(1):
        if placed.step.filter.shape is not Shape.PREDICATE:
            raise PolicyError(
                f"'{placed.step.filter.name}' looks at more than one event; a content filter cannot",
                source="filter",
            )
    return policy
