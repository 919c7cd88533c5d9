"""Expectations: conditions that rows of a table should meet, and what happens to rows that do not.

    rows = frame.transform(checked([expect("has a time", "ts > 0", action="drop")]))

warn   the row is kept, and the name of the expectation is in its column `broken`
drop   the row is left out; `quarantine` has it
fail   the run fails
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from pyspark.sql import functions as sf

from penstock.errors import InputError
from penstock.pipeline.compile.queue_columns import with_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

Action: TypeAlias = Literal["warn", "drop", "fail"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition on the rows of a table; rows for which it is null do not meet it."""

    name: str
    condition: str
    action: Action = "warn"

    @property
    def met(self) -> Column:
        """Whether a row meets it."""
        return sf.coalesce(sf.expr(self.condition), sf.lit(False))


def expect(name: str, condition: str, action: Action = "warn") -> Expectation:
    """An expectation: `condition` is SQL over the table's columns."""
    if action not in ("warn", "drop", "fail"):
        raise InputError(f"expectation '{name}': unknown action '{action}'; allowed: warn, drop, fail")
    if not name or not condition:
        raise InputError(f"expectation '{name}': a name and a condition are needed")
    return Expectation(name, condition, action)


def checked(expectations: Sequence[Expectation]) -> Callable[[DataFrame], DataFrame]:
    """Transform that applies expectations to a frame and adds the column `broken`."""

    def transform(frame: DataFrame) -> DataFrame:
        for one in expectations:
            if one.action == "fail":
                said = sf.raise_error(sf.lit(f"expectation '{one.name}' is not met: {one.condition}"))
                frame = frame.where(sf.when(one.met, True).otherwise(said.cast("boolean")))
            elif one.action == "drop":
                frame = frame.where(one.met)
        names = [sf.when(~one.met, sf.lit(one.name)) for one in expectations if one.action == "warn"]
        every = sf.array(*names) if names else sf.array().cast("array<string>")
        return with_columns(frame, {"broken": sf.filter(every, lambda name: name.isNotNull())})

    return transform


def dropped(expectations: Sequence[Expectation]) -> Callable[[DataFrame], DataFrame]:
    """Transform that leaves the rows which `checked` drops, with the first reason in a column `reason`."""

    def transform(frame: DataFrame) -> DataFrame:
        reasons = [sf.when(~one.met, sf.lit(one.name)) for one in expectations if one.action == "drop"]
        first = sf.coalesce(*reasons) if reasons else sf.lit(None).cast("string")
        return with_columns(frame, {"reason": first}).where("reason IS NOT NULL")

    return transform
