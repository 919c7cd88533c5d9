"""Parts of a compiled filter, and the table to which each filter module adds its compilers.

A verdict is a boolean column: true where the filter matches, false where it does not, null where the
attribute cannot be read. Events out of a filter's scope get the value that keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from pyspark.sql import Window
from pyspark.sql import functions as sf

from penstock.policy.filters import Filter, Verb
from penstock.policy.nodes import Missing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

    from penstock.pipeline.compile.typed_columns import TypedColumns
    from penstock.policy.nodes import Policy, Step

PLACE: Final = "__place"
"""Position in the queue, from 1; added once a step needs it."""
FATE: Final = "__fate"
"""Null while the event is alive, else the index of the step that dropped it; DIGEST_ROW for rows that are
digests, URGENT_ROW for events that no step looks at."""
LEVEL: Final = "__level"
DIGEST_ROW: Final = -1
URGENT_ROW: Final = -2
AHEAD: Final = "__ahead"
"""0 for urgent events, 1 for all other rows: the first column of the order, if the policy has urgent events.
"""
VERDICT: Final = "__verdict"
"""Column with the verdicts of a fold."""
RUN: Final = "__run"
"""Identifies a kept row and the dropped rows behind it; ascending in queue order."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Time, number and sender of an event, as expressions of the frame's columns.

    Not as columns of their own: every shuffle, sort and window would copy those; a cast costs less.
    """

    ts: Column
    """Event time in microseconds, never null."""
    seq: Column
    """Sequence number, never null."""
    sender: Column


@dataclass(frozen=True, slots=True)
class Standing:
    """The order of the rows of a frame.

    Rows are sorted into queues once. Until something sorts them otherwise, windows in queue order repeat the
    columns of that sort, and Spark does not sort again; rows equal in all of these columns keep their order.
    A step that sorts otherwise needs numbered rows; queue order is by number from then on.
    """

    key: tuple[str, ...]
    """Columns that identify a queue."""
    order: tuple[str, ...]
    """Columns that order a queue."""
    by_time: bool
    """Whether queue order is the order of event time."""
    origin: Origin

    @property
    def placed(self) -> bool:
        """Whether rows have their PLACE."""
        return self.order == (PLACE,)

    def partition(self, *more: Column) -> WindowSpec:
        """The whole queue unordered, or the part of it with equal values in some columns."""
        return Window.partitionBy(*map(quoted, self.key), *more)

    def in_order(self) -> WindowSpec:
        """The queue in its order."""
        return self.partition().orderBy(*map(quoted, self.order))

    def whole(self) -> WindowSpec:
        """The whole queue, with the same sort as the windows below."""
        return self.in_order().rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)

    def up_to_here(self) -> WindowSpec:
        """The queue from its beginning to this event."""
        return self.in_order().rowsBetween(Window.unboundedPreceding, Window.currentRow)

    def before(self) -> WindowSpec:
        """The queue before this event."""
        return self.in_order().rowsBetween(Window.unboundedPreceding, -1)

    def from_newest(self, *more: Column) -> WindowSpec:
        """From the newest event, by event time and then by place, back to this one."""
        newest = self.partition(*more).orderBy(self.origin.ts.desc(), sf.desc(PLACE))
        return newest.rowsBetween(Window.unboundedPreceding, Window.currentRow)

    def place(self) -> Column:
        """The number of each row in its queue, from 1."""
        return sf.row_number().over(self.in_order())


@dataclass(frozen=True, slots=True)
class Ground:
    """Everything that a filter's column may use."""

    policy: Policy
    step: Step
    queue: Standing
    readings: Mapping[str, TypedColumns]
    now_us: Column
    columns: tuple[str, ...]
    """All columns of the frame: asking the frame itself would ask a Connect server."""
    sortable: bool
    """Whether rows of the frame can be compared."""
    closes: bool
    """Whether this is the policy's last step and drops: then it may determine the runs."""

    def reading(self, by: str | None = None) -> TypedColumns:
        """The step's attribute, or `by`."""
        return self.readings[by or self.policy.path_of(self.step).text]

    @property
    def lists_unread(self) -> bool:
        """Whether a step that determines runs has to count events it cannot read."""
        return self.closes and self.policy.missing_of(self.step) is not Missing.DROP

    @property
    def stays(self) -> Column:
        """The verdict under which an event is kept."""
        return sf.lit(self.step.verb is Verb.KEEP)


def quoted(name: str) -> str:
    """A column name quoted for SQL; cheaper to hand to Spark than a `Column`."""
    return f"`{name.replace('`', '``')}`"


def column(name: str) -> Column:
    """The column with exactly this name."""
    return sf.col(quoted(name))


def literal(text: str) -> str:
    """A text as SQL literal, safely escaped."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def alive() -> Column:
    """Whether no step has dropped the event yet."""
    return sf.col(FATE).isNull()


Compile: TypeAlias = Callable[[Any, Ground, "DataFrame"], "tuple[DataFrame, Column]"]
COMPILERS: Final[dict[type[Filter], Compile]] = {}
"""Compiler of each filter: returns the frame, perhaps with more columns, and the verdict."""

X = TypeVar("X", bound=Filter)


def by_columns(
    *kinds: type[Filter],
) -> Callable[[Callable[[X, Ground], Column]], Callable[[X, Ground], Column]]:
    """Register the verdict of filters that need only columns."""

    def register(verdict: Callable[[X, Ground], Column]) -> Callable[[X, Ground], Column]:
        def compiled(node: Any, ground: Ground, frame: DataFrame) -> tuple[DataFrame, Column]:
            return frame, verdict(node, ground)

        COMPILERS.update(dict.fromkeys(kinds, compiled))
        return verdict

    return register
