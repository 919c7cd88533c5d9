"""One key's rows of a trigger, packed as columns: no row becomes a Python object.

Most keys that do not fit look alike: events only, nothing held from earlier triggers, a policy that reads
numbers, and a level that makes room at once. Their rows are packed by `Plan.pack_columns`, and the digests
are written as Arrow columns. Every other case goes through the queue core (`key_queue.py`), with the same
result: `turn` answers None, and has changed nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type

from penstock.core.queues.controllers import PackOutcome, PackRequest
from penstock.core.queues.gathering import gathering_of
from penstock.pipeline.compile.digest_rows import row_of_mark
from penstock.pipeline.compile.events import EVENT
from penstock.pipeline.tables.schemas import DIGEST as DIGEST_KIND

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from penstock.core.queues import Ladder, QueueOptions
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.pipeline.stream.key_queue import QueueRules
    from penstock.policy.columns import Plan
    from penstock.policy.columns.assemble import DigestColumns, SummaryColumns

NUMBER: Final = f"{EVENT}_number_"
"""Prefix of the columns with attributes that are numbers."""
DIGESTS: Final = to_arrow_type(DIGEST_KIND)
_FIELDS: Final = list(DIGESTS)
_CAUSES: Final = DIGESTS.field("causes").type
_CAUSE_FIELDS: Final = list(_CAUSES.value_type)
_SUMMARIES: Final = DIGESTS.field("attributes").type
_SUMMARY_FIELDS: Final = list(_SUMMARIES.value_type)
_DIGEST_FIELD: Final = pa.field("digest", DIGESTS)


def number_column(path: str) -> str:
    """Column of an attribute that is a number. Named by its path: rows that are held outlive a policy."""
    return NUMBER + path.encode().hex()


class ColumnQueue:
    """The rules of a stream without a drain, for keys whose rows are packed as columns."""

    def __init__(self, plan: Plan, options: QueueOptions, rules: QueueRules) -> None:
        policy = plan.policy
        self._plan = plan
        self._most = options.most_packed
        self._rules = rules
        self._possible = policy is not None and plan.urgent is None and gathering_of(policy) is None

    def turn(
        self, rows: pa.Table, ladder: Ladder, events: Callable[[], list[Event]], *, now_us: Instant
    ) -> pa.Table | None:
        """The packed rows of a trigger; None if the queue core has to do it.

        The ladder climbs only if there is a result. `events` makes the rows' events.
        """
        if not self._possible:
            return None
        packed = rows.num_rows - 1  # the newest event is never part of a pack
        (batch,) = rows.combine_chunks().to_batches()
        before = ladder.state()
        level = ladder.choose(PackRequest(now_us, self._plan.highest, arrived=0, departed=0))
        found = self._plan.pack_columns(
            batch.column(f"{EVENT}_ts_us").to_numpy()[:packed],
            batch.column(f"{EVENT}_seq").to_numpy()[:packed],
            {path: _floats(batch.column(number_column(path)))[:packed] for path in self._rules.numbers},
            lambda: events()[:packed],
            level=level,
            now_us=now_us,
        )
        kept = 0 if found is None else packed - int(np.count_nonzero(found.dropped))
        if found is None or kept + len(found.begins) + 1 > self._most:
            ladder.restore(before)
            return None
        ladder.packed(PackOutcome(now_us, level, packed, ()))
        stays = np.append(~found.dropped, True)
        stays[found.begins] = True  # a digest takes the place of its first event
        places = stays.nonzero()[0]
        is_digest = np.append(found.dropped, False)[places]
        taken = batch.select(list(self._rules.events)).take(pa.array(places, mask=is_digest))
        # The key is equal in all rows.
        own = {name: batch.column(name).slice(0, len(places)) for name in self._rules.key}
        out = pa.table({**own, **dict(zip(self._rules.events, taken.columns, strict=True))})
        if found.digests is None:
            return out
        return out.append_column(_DIGEST_FIELD, _struct_of(found.digests, is_digest))


def _floats(column: pa.Array) -> NDArray[np.float64]:
    """Numbers as doubles, NaN for null."""
    found: NDArray[np.float64] = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return found


def _struct_of(made: DigestColumns, is_digest: NDArray[np.bool_]) -> pa.StructArray:
    """A column of digests where `is_digest`, of nulls elsewhere."""
    plain = []
    for found in made[:5]:
        spread = np.zeros(len(is_digest), dtype=np.int64)
        spread[is_digest] = found
        plain.append(pa.array(spread))
    causes = [one for found in made.causes for one in found]
    parts = [
        pa.array([cause.level for cause, _ in causes], pa.int32()),
        pa.array([cause.position for cause, _ in causes], pa.int32()),
        pa.array([cause.filter for cause, _ in causes], pa.string()),
        pa.array([count for _, count in causes], pa.int64()),
    ]
    structs = pa.StructArray.from_arrays(parts, fields=_CAUSE_FIELDS)
    lists = [
        pa.ListArray.from_arrays(_ends(is_digest, list(map(len, made.causes))), structs, type=_CAUSES),
        pa.ListArray.from_arrays(
            _ends(is_digest, len(made.attributes)),
            _summaries(made.attributes, len(made.counts)),
            type=_SUMMARIES,
        ),
    ]
    return pa.StructArray.from_arrays([*plain, *lists], fields=_FIELDS, mask=pa.array(~is_digest))


def _ends(is_digest: NDArray[np.bool_], sizes: list[int] | int) -> pa.Array:
    """Offsets of lists that are empty where there is no digest."""
    lengths = np.zeros(len(is_digest) + 1, dtype=np.int32)
    lengths[1:][is_digest] = sizes
    return pa.array(np.cumsum(lengths, dtype=np.int32))


def _summaries(attributes: list[tuple[str, SummaryColumns]], count: int) -> pa.StructArray:
    """Summaries of all digests: all attributes of the first, all of the second …"""
    by_name = [_summary(name, found) for name, found in attributes]
    if len(by_name) < 2:
        return by_name[0] if by_name else pa.array([], _SUMMARIES.value_type)
    turns = np.arange(count * len(by_name)).reshape(len(by_name), count).T.ravel()
    return pa.concat_arrays(by_name).take(pa.array(turns))


def _summary(name: str, found: SummaryColumns) -> pa.StructArray:
    """Summaries of one attribute."""
    values: list[list[Any]] = [
        [name] * len(found.n),
        *found[:5],
        *([row_of_mark(one) for one in marks] for marks in (found.first, found.last)),
        found.distinct,
        found.quantiles,
    ]
    arrays = [
        pa.nulls(len(column), field.type)
        if column.count(None) == len(column)
        else pa.array(column, field.type)
        for column, field in zip(values, _SUMMARY_FIELDS, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=_SUMMARY_FIELDS)
