"""One key of a packed stream from trigger to trigger: rows in, rows out, rows held. Arrow, no Spark.

Spark passes rows to a stateful processor value by value, as Python objects. A bundle is an Arrow batch in a
binary column: it crosses as one value, and its rows come out with the same types and bytes.

    rows --bundled--> key, now, bundle --stateful processor--> bundle --unbundled--> rows

Rows are sorted before they are split into bundles. A trigger's rows of a key, behind the rows held from
earlier triggers, form a queue. The queue core packs it if it does not fit. A digest at the end is held back,
because the next trigger may begin with one. With a drain, rows wait from trigger to trigger
(`drained_queue.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.queues import Ladder, LadderState, PackingQueue, QueueOptions
from penstock.errors import DigestError, InputError
from penstock.model import digest_wire
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.pipeline.compile.digest_rows import digest_of_row, row_of_digest
from penstock.pipeline.compile.events import EVENT, events_of
from penstock.pipeline.compile.queue_columns import TIE
from penstock.pipeline.stream.column_queue import DIGESTS, NUMBER, ColumnQueue, number_column
from penstock.pipeline.tables.schemas import SOUND
from penstock.policy.columns import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from penstock.core.queues import Drain
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.policy.nodes import Policy

NOW: Final = "__now"
"""Column with the time of the trigger in microseconds, equal in all rows."""
BUNDLE: Final = "__bundle"
DIGEST: Final = "digest"
"""Column left out if no row is a digest: it has so many parts that an empty one costs more than all other
columns.
"""
_ROWS: Final = 10_000
"""Rows handed back to Spark at a time: as many as Spark itself uses."""
_BUNDLED_BYTES: Final = 32 << 20
"""Bytes of rows gathered before they are split: in a batch of 10,000 a thousand keys would get ten rows each,
and a bundle of ten costs as much as one of a hundred.
"""


def write_bundle(rows: pa.Table | pa.RecordBatch) -> bytes:
    """Encode rows with their schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return bytes(sink.getvalue())


def read_bundle(data: bytes) -> pa.Table:
    """Decode rows."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def bundled(
    batches: Iterable[pa.RecordBatch], *, key: tuple[str, ...], order: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """One row per key and so many bytes: the key, the time of the trigger, the rows in order."""
    waiting: list[pa.RecordBatch] = []
    weight = 0
    for batch in batches:
        waiting += [batch] if batch.num_rows else []
        weight += batch.nbytes
        if weight >= _BUNDLED_BYTES:
            yield _in_bundles(waiting, key, order)
            waiting, weight = [], 0
    if waiting:
        yield _in_bundles(waiting, key, order)


def in_order(rows: pa.Table, order: tuple[str, ...], *, first: pa.Array | None = None) -> pa.Table:
    """Sort rows by columns as Spark compares: null, numbers, NaN; `first` takes precedence."""
    columns: list[Any] = [] if first is None else [first]
    for name in (*order, TIE):
        column = rows[name]
        if column.null_count:
            columns.append(column.is_valid())
        if pa.types.is_floating(column.type):
            columns.append(pc.fill_null(pc.is_nan(column), False))
        columns.append(column)
    names = [f"by{place}" for place in range(len(columns))]
    by = pa.table(columns, names=names)
    return rows.take(pc.sort_indices(by, sort_keys=[(name, "ascending") for name in names]))


def unbundled(batches: Iterable[pa.RecordBatch], *, digests: pa.DataType) -> Iterator[pa.RecordBatch]:
    """Rows of all bundles, each with a column `digest` at the end."""
    for batch in batches:
        tables = [_with_digests(read_bundle(data), digests) for data in batch.column(0).to_pylist()]
        if tables:
            whole = pa.concat_tables(tables).combine_chunks()
            yield from whole.to_batches(max_chunksize=_ROWS)


def _with_digests(rows: pa.Table, digests: pa.DataType) -> pa.Table:
    if DIGEST in rows.column_names:
        return rows
    return rows.append_column(DIGEST, pa.nulls(rows.num_rows, digests))


def _in_bundles(
    batches: list[pa.RecordBatch], key: tuple[str, ...], order: tuple[str, ...]
) -> pa.RecordBatch:
    whole = pa.Table.from_batches(batches).combine_chunks()
    groups = _groups([whole[name].combine_chunks() for name in key])
    rows = in_order(_nullable(whole), order, first=pa.array(groups)).combine_chunks()
    ends = np.cumsum(np.bincount(groups))
    begins = [0, *ends[:-1].tolist()]
    firsts = rows.take(pa.array(begins)).combine_chunks()
    bare = rows.drop_columns([NOW]).to_batches()[0]
    bundles = [write_bundle(bare.slice(begin, end - begin)) for begin, end in zip(begins, ends, strict=True)]
    columns = [*(firsts[name].chunk(0) for name in (*key, NOW)), pa.array(bundles, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=[*key, NOW, BUNDLE])


def _groups(keys: list[pa.Array]) -> NDArray[np.int64]:
    """A number for each row, equal for rows with equal keys."""
    found = np.zeros(len(keys[0]), dtype=np.int64)
    for column in keys:
        codes = pc.dictionary_encode(column, null_encoding="encode").indices.to_numpy().astype(np.int64)
        _, found = np.unique(found * (len(column) + 1) + codes, return_inverse=True)
    return found


def _nullable(rows: pa.Table) -> pa.Table:
    """The rows with every column nullable, as in rows of digests."""
    schema = pa.schema([field.with_nullable(True) for field in rows.schema])
    return pa.Table.from_arrays(rows.columns, schema=schema)


_ABSENT: Final = {
    "ts_us": pa.scalar(None, pa.int64()),
    "seq": pa.scalar(0, pa.int64()),
    "sender": pa.scalar(""),
    "topic": pa.scalar(""),
    "payload": pa.scalar(b""),
    "properties": pa.scalar(None, pa.list_(pa.null())),
    "content_type": pa.scalar(""),
    "root": pa.scalar(None, pa.string()),
}
"""Parts of an event as `as_events` names them, and their values if the policy does not read them. Each is a
column of its own: Spark measures the size of a struct anew for each of its rows.
"""
_ANY_BYTES: Final = 1 << 62
"""Byte capacity of the queue: unlimited, because Spark bounds the bytes of a trigger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """Rules common to all keys of a stream; pickled for the workers."""

    policy: Policy
    capacity: int
    key: tuple[str, ...]
    order: tuple[str, ...]
    events: tuple[str, ...]
    """Columns of an event that are not part of the key."""
    hold_us: int
    """How long rows may be held back; 0: not at all."""
    behind_us: int | None
    """Age from which on events are backlog; None: never."""
    numbers: tuple[str, ...] = ()
    """Attributes that are columns of numbers: then no event has a payload."""
    drain: Drain | None = None
    """How fast the rows of a key leave; None: all that fit go out with their trigger."""


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Rows taken in and not yet given out."""

    until_us: Instant
    """When they go out at the latest."""
    rows: pa.Table
    count: int
    """Events they stand for."""


@dataclass(frozen=True, slots=True)
class TriggerResult:
    """Result of one trigger for one key."""

    out: pa.Table | None
    held: HeldRows | None
    ladder: LadderState | None
    """None: unchanged."""
    drained: bytes | None = None
    """State of a drain; None: there is none."""


class KeyQueue:
    """The rules, compiled once per worker."""

    def __init__(self, rules: QueueRules) -> None:
        self._rules = rules
        # There is no link, and so no share of it: rows have no size.
        self._plan = Plan(replace(rules.policy, digest_share=1.0))
        self._gathers = bool(rules.policy.digest_every_us) and rules.hold_us > 0
        self._options = QueueOptions(capacity_events=rules.capacity, capacity_bytes=_ANY_BYTES)
        self._columns = ColumnQueue(self._plan, self._options, rules)

    def turn(
        self,
        rows: pa.Table,
        *,
        now_us: Instant,
        held: HeldRows | None,
        ladder: Callable[[], LadderState | None],
    ) -> TriggerResult:
        """Process a trigger's rows, in order; `ladder` is called only if a level must be chosen."""
        behind = self._behind(rows, now_us)
        fits = rows.num_rows <= self._rules.capacity
        if fits and held is None and not behind and not _digests_in(rows):
            return TriggerResult(rows, None, None)  # by far the most common case: no row is examined
        ladder_now = Ladder()
        known = ladder()
        if known is not None:
            ladder_now.restore(known)
            now_us = max(now_us, known.last_us or now_us)  # the machine's clock may have been set back
        if held is None and not fits and not behind and not _digests_in(rows):
            events = partial(events_in, rows, self._rules.numbers)
            out = self._columns.turn(rows, ladder_now, events, now_us=now_us)
            if out is not None:
                return TriggerResult(out, None, ladder_now.state())
        whole = rows if held is None else behind_held(held.rows, rows)
        items, found = items_of(whole, self._rules)
        queue = PackingQueue(self._plan, self._options, ladder_now)
        if held is not None:
            queue.gather_until(held.until_us)
        queue.absorb(items, now_us=now_us)
        left, cut, until_us = self._cut(queue, held, behind=behind, now_us=now_us)
        assembled = Assembly(whole, found, self._rules.key)
        return TriggerResult(
            out=assembled.rows(left[:cut]) if cut else None,
            held=assembled.held(left[cut:], until_us),
            ladder=ladder_now.state() if queue.packs else None,
        )

    def _cut(
        self, queue: PackingQueue, held: HeldRows | None, *, behind: bool, now_us: Instant
    ) -> tuple[Sequence[Item], int, Instant]:
        """Return the items left in the queue, how many of them go out, and until when the rest is held."""
        if self._gathers and not behind:
            out = queue.take(now_us=now_us)
            return [*out, *queue.items()], len(out), queue.due_us or now_us
        left = queue.items()
        cut = 0 if behind else _behind_last_event(left)
        until_us = held.until_us if held is not None and cut == 0 else now_us + self._rules.hold_us
        return left, len(left) if until_us <= now_us else cut, until_us

    def _behind(self, rows: pa.Table, now_us: Instant) -> bool:
        """Whether all events are old: the key is still catching up."""
        if self._rules.behind_us is None:
            return False
        newest_us = pc.max(rows[f"{EVENT}_ts_us"]).as_py()
        return newest_us is not None and newest_us < now_us - self._rules.behind_us


def items_of(rows: pa.Table, rules: QueueRules) -> tuple[list[Event | Digest], dict[int, int]]:
    """The rows as a queue's items, and the row of each by its `id`."""
    items = [
        _digest(rows[DIGEST][place].as_py(), rows, rules.key) if event is None else event
        for place, event in enumerate(events_in(rows, rules.numbers))
    ]
    return items, {id(item): place for place, item in enumerate(items)}


def _digest(row: Any, rows: pa.Table, key: tuple[str, ...]) -> Digest:
    try:
        return digest_wire.from_bytes(digest_wire.to_bytes(digest_of_row(row)))
    except (DigestError, TypeError, KeyError, ValueError) as error:
        where = ", ".join(f"{name} = {rows[name][0].as_py()!r}" for name in key)
        reason = error if isinstance(error, DigestError) else f"a damaged digest: {SOUND}"
        raise InputError(f"column 'digest' where {where}: {reason}") from None


def of_key(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Held rows with the key columns first; Spark itself compares only the types of a key."""
    if tuple(rows.column_names[: len(key)]) != key:
        raise InputError(
            f"the checkpoint has queues by other columns than {', '.join(key)}; use a new checkpoint"
        )
    return rows


def events_in(rows: pa.Table, numbers: tuple[str, ...]) -> list[Any]:
    """Events of the rows; None where a row is a digest."""
    count = rows.num_rows
    beside = {path: rows[number_column(path)].to_pylist() for path in numbers}
    parts = {
        name: rows[f"{EVENT}_{name}"].combine_chunks()
        if f"{EVENT}_{name}" in rows.column_names
        else pa.repeat(absent, count)
        for name, absent in _ABSENT.items()
    }
    return events_of(pa.StructArray.from_arrays(list(parts.values()), names=list(parts)), beside)


def _digests_in(rows: pa.Table) -> bool:
    """Whether some row is a digest."""
    return DIGEST in rows.column_names and rows[DIGEST].null_count < rows.num_rows


def behind_held(held: pa.Table, rows: pa.Table) -> pa.Table:
    """The held rows, then the new ones."""
    held_as, sent_as = (
        {name for name in one.column_names if name == f"{EVENT}_root" or name.startswith(NUMBER)}
        for one in (held, rows)
    )
    if held_as != sent_as:  # a held event would silently lose what a filter reads
        raise InputError(
            "the checkpoint holds rows with other attributes than the policy reads; use a new checkpoint"
        )
    try:
        both = pa.concat_tables([held, rows], promote_options="default")
    except pa.ArrowException as error:
        raise InputError(
            f"the columns of the stream differ from those of the checkpoint ({error}); use a new checkpoint"
        ) from None
    known = [*rows.column_names, *({DIGEST} & {*held.column_names} - {*rows.column_names})]
    return both.select(known)


def _behind_last_event(items: Sequence[Any]) -> int:
    """Number of items up to the last event."""
    return next((n for n in range(len(items), 0, -1) if isinstance(items[n - 1], Event)), 0)


@dataclass(frozen=True, slots=True)
class Assembly:
    """Items as rows again: events keep their rows, digests get new ones."""

    whole: pa.Table
    found: dict[int, int]
    key: tuple[str, ...]

    def held(self, items: Sequence[Any], until_us: Instant) -> HeldRows | None:
        """Items that wait, as rows; None if there are none."""
        if not items:
            return None
        count = sum(item.count if isinstance(item, Digest) else 1 for item in items)
        return HeldRows(until_us, self.rows(items), count)

    def rows(self, items: Sequence[Any]) -> pa.Table:
        """Items as rows."""
        indices = [self.found.get(id(item)) for item in items]
        bare = self.whole.drop_columns([DIGEST]) if DIGEST in self.whole.column_names else self.whole
        taken = bare.take(pa.array(indices, pa.int64()))
        if not any(isinstance(item, Digest) for item in items):
            return taken
        first = pa.array([0] * len(items), pa.int64())
        for name in self.key:  # equal in all rows, also in those of new digests
            place = taken.schema.get_field_index(name)
            taken = taken.set_column(place, taken.schema.field(place), self.whole[name].take(first))
        made = (row_of_digest(item) if isinstance(item, Digest) else None for item in items)
        return taken.append_column(DIGEST, pa.array(made, DIGESTS))
