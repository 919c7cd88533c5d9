"""Which events of a frame a step drops, filter by filter, over arrays.

A decider gets the frame and `alive`, the places of the events still in the queue, and returns masks over
those places. It must say exactly what `evaluate` says; the agreement tests hold it to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.policy import filters, paths
from penstock.policy.fast import masks_of_change, masks_of_place, masks_of_values  # noqa: F401  # they register
from penstock.policy.fast.deciders import COMPILERS, View
from penstock.policy.filters import Verb
from penstock.policy.nodes import Missing

if TYPE_CHECKING:
    from penstock.policy.fast.columns import Frame, Ints, Mask
    from penstock.policy.nodes import Policy, Step
    from penstock.policy.paths import Path


class CompiledStep:
    """A step ready to run: parameters converted, sets hashed, patterns compiled."""

    __slots__ = ("_careful", "_decide", "_drop_unreadable", "_keep", "_path", "numbers")

    def __init__(self, policy: Policy, step: Step) -> None:
        by = step.filter.by if isinstance(step.filter, filters.Top) else None
        self._path: Path | None = None
        if step.filter.reads:
            self._path = paths.parse(by) if by else policy.path_of(step)
        self.numbers: list[Path] = [self._path] if self._path and _reads_numbers(step.filter) else []
        """The attribute, if it is read as a number."""
        self._decide = COMPILERS[type(step.filter)](step.filter)
        self._keep = step.verb is Verb.KEEP
        self._drop_unreadable = policy.missing_of(step) is Missing.DROP
        self._careful = self._keep or self._drop_unreadable

    def dropped(self, frame: Frame, alive: Ints | None, now_us: int) -> Mask:
        """A mask over the events left: which of them go."""
        column = frame.column(self._path) if self._path else None
        matched, readable, scope = self._decide(View(frame, alive, column, now_us, self._careful))
        gone = matched
        if self._keep:
            gone = ~matched
            if readable is not None:
                gone &= readable
            if scope is not None:
                gone &= scope
        if self._drop_unreadable and readable is not None:
            gone = gone | ~readable
        return gone


def _reads_numbers(node: filters.Filter) -> bool:
    match node:
        case filters.Gt() | filters.Ge() | filters.Lt() | filters.Le():
            return not isinstance(node.value, str)
        case filters.Within():
            return not isinstance(node.low, str)
    return isinstance(node, filters.Delta | filters.Swing | filters.Top)
