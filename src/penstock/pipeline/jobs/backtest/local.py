"""`backtest` in this process: the same cores on the same events as on Spark, without Java.

    files ──Arrow──► rows by queue, in order of time ──► events ──► queue after queue ──► accounts, added up

All events are in memory; `limits.LOCAL_EVENTS` bounds them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import compute

from penstock.core.backtest.account import counted, measured, number_events, replays
from penstock.core.backtest.measures import Recorded, normal_range, quartiles
from penstock.core.backtest.settings import (
    Backtest,
    RecordedStream,
    as_written,
    no_queue_column,
    packed_already,
    reserved_name,
)
from penstock.errors import InputError
from penstock.model.values import number, value
from penstock.pipeline.jobs.backtest.rows import Rows, filled, indices, java_number
from penstock.pipeline.tables.files import NeedsSpark, format_of, read_table
from penstock.policy import paths
from penstock.policy.columns.frame import raw_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.backtest.account import Account
    from penstock.core.backtest.settings import Settings
    from penstock.model.arrays import Floats, Ints
    from penstock.model.event import Event


def read(path: str, *, format: str | None = None, ts: str = "ts") -> pa.Table:  # noqa: A002
    """Events at a path, with a column `ts` of whole microseconds made from the named column."""
    table = read_table(path, format or format_of(path))
    if ts not in table.column_names:
        there = ", ".join(table.column_names)
        raise InputError(
            f"there is no column '{ts}' for the time of an event; name it with --ts; there are: {there}",
            path=path,
        )
    found = _times(table.column(ts), ts, path)
    if found.null_count:
        row = table.slice(compute.index(found.is_null(), True).as_py(), 1).to_pylist()[0]
        raise InputError(f"an event without a time: column '{ts}' of {str(row)[:200]}", path=path)
    if "ts" in table.column_names:
        return table.set_column(table.column_names.index("ts"), "ts", found)
    return table.append_column("ts", found)


def _times(column: pa.ChunkedArray, name: str, path: str) -> pa.ChunkedArray:
    """Microseconds; null where a time cannot be read."""
    kind = column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.int64())
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", tz=kind.tz), safe=False).cast(pa.int64())
    if pa.types.is_string(kind):
        return pa.chunked_array([pa.array(list(map(_instant, column.to_pylist())), pa.int64())])
    wanted = "whole microseconds, a timestamp, or ISO 8601 texts"
    raise InputError(f"column '{name}' is {kind}, expected {wanted}", path=path)


def _instant(text: str | None) -> int | None:
    try:
        when = datetime.fromisoformat((text or "").strip())
    except ValueError:
        return None
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def backtest(table: pa.Table, settings: Settings) -> Backtest:
    """Replay every queue of a table whose column `ts` is the time of events."""
    rows = Rows(table, settings.attributes, settings.payload)
    _check(rows, settings)
    names, queues = _queues(rows, settings.key)
    rows, events, queues = _in_order(rows, queues, settings)
    values = [rows.numbers(name, events, settings.wanted()) for name in settings.measured]
    _check_attributes(events, settings, dict(zip(settings.measured, values, strict=True)))
    ends = [*(np.flatnonzero(np.diff(queues)) + 1).tolist(), len(queues)]
    stream = _stream(events, settings, values, queues=len(ends))
    series = _series(rows, settings.series)
    recorded = Recorded(
        published_us=filled(rows.table.column("ts"), 0),
        series=_combined([queues, series])[0],
        values=dict(zip(settings.measured, values, strict=True)),
        matters={one.text: one.matches(events) for one in settings.matters},
    )
    plans = {number: candidate.plan() for number, candidate in enumerate(settings.candidates)}
    counts: dict[int, Account] = {}
    delivered: dict[int, list[Ints]] = {number: [] for number in plans}
    parts = list(zip([0, *ends], ends, strict=False))
    if not rows.numbered():
        for start, end in parts:
            number_events(events[start:end])
    for plan in plans.values():
        if plan is not None:
            plan.prepare(events)
    for start, end in parts:
        own = events[start:end]
        for place, replay in replays(plans, settings).items():
            replay.offer_all(own)
            done = replay.finish()
            found = counted(done, queue=names[queues[start]])
            counts[place] = counts[place].merge(found) if place in counts else found
            delivered[place].append(np.frombuffer(done.delivered_us, dtype=np.int64))
    # Measured once for all queues: for many short ones the calls would cost more than the work.
    totals = {
        number: measured(
            found, recorded, np.concatenate(delivered[number]), stream, window_us=settings.window_us
        )
        for number, found in counts.items()
    }
    accounts = {candidate.name: totals[number] for number, candidate in enumerate(settings.candidates)}
    silent = frozenset(one.name for one in settings.candidates if one.drops is not None)
    return Backtest(stream, accounts, silent)


def _check(rows: Rows, settings: Settings) -> None:
    names = rows.table.column_names
    for name in (*settings.key, *settings.series):
        if rows.find(name) is None:
            raise no_queue_column(name, names)
    if rows.envelope("$digest") is not None:
        raise packed_already(settings.attributes.get("$digest", "digest"))
    reserved = [name for name in names if name.startswith("__")]
    if reserved:
        raise reserved_name(reserved[0])


def _stream(
    events: list[Event], settings: Settings, values: Sequence[Floats], *, queues: int
) -> RecordedStream:
    found = {name: quartiles(own) for name, own in zip(settings.measured, values, strict=True)}
    normal = {name: normal_range(*pair) for name, pair in found.items() if pair is not None}
    times = [event.ts_us for event in events]
    return RecordedStream(len(events), queues, min(times), max(times), normal)


def _check_attributes(events: list[Event], settings: Settings, values: dict[str, Floats]) -> None:
    """Refuse an attribute that no event has, which is a mistake."""
    counted = settings.counted()
    for name in dict.fromkeys((*settings.wanted(), *settings.measured)):
        if name in values and np.isfinite(values[name]).any():
            continue
        raw = raw_of(events, paths.parse(name), settings.payload) if name in settings.wanted() else []
        read = [one for one in map(value, raw) if one is not None]
        if not read and name in settings.wanted():
            raise InputError(f"attribute '{name}': none of {len(events):,} events has it")
        if name in counted and not any(number(one) is not None for one in read):
            texts = [one for one in read if isinstance(one, str)]
            numbers = [one for one in texts if _is_number(one)]
            other = min((one for one in texts if not _is_number(one)), default=None)
            said = as_written(len(numbers), other)
            raise InputError(
                f"attribute '{name}': in none of {len(events):,} events is it a number, which the filter "
                f"'{counted[name]}' needs{said and f'; {said}'}"
            )


def _is_number(text: str) -> bool:
    try:
        return text == text.strip() and float(text) is not None
    except ValueError:
        return False


# -- queues and order ----------------------------------------------------------------------------------------


def _queues(rows: Rows, key: Sequence[str]) -> tuple[list[str], Ints]:
    """Names of queues, as Spark's `to_json` writes them, and the queue of each row."""
    size = rows.table.num_rows
    if not key:
        return [""], np.zeros(size, dtype=np.int64)
    codes, firsts = _combined([_codes(rows.table.column(name), name) for name in key])
    fields = [rows.table.column(name).take(indices(firsts)).to_pylist() for name in key]
    names = [
        "{" + ",".join(_field(*pair) for pair in zip(key, row, strict=True) if pair[1] is not None) + "}"
        for row in zip(*fields, strict=True)
    ]
    return names, codes


def _field(name: str, found: Any) -> str:
    if isinstance(found, float):
        written = repr(found) if found == 0 or 1e-3 <= abs(found) < 1e7 else java_number(found)
    elif isinstance(found, str | int):
        written = msgspec.json.encode(found).decode()
    else:
        raise NeedsSpark(f"queues by column '{name}' of {type(found).__name__} values are made by Spark only")
    return f"{msgspec.json.encode(name).decode()}:{written}"


def _series(rows: Rows, names: Sequence[str]) -> Ints:
    """A number for each row that identifies its source: the given columns, or sender and topic."""
    if names:
        return _combined([_codes(rows.table.column(name), name) for name in names])[0]
    found = [rows.envelope(name) for name in ("$sender", "$topic")]
    there = [_codes(one, "") for one in found if one is not None]
    return _combined(there)[0] if there else np.zeros(rows.table.num_rows, dtype=np.int64)


def _codes(column: pa.ChunkedArray, name: str) -> Ints:
    try:
        whole = column if pa.types.is_dictionary(column.type) else column.dictionary_encode("encode")
        chunks = whole.unify_dictionaries().chunks
    except (pa.ArrowException, NotImplementedError):
        raise NeedsSpark(
            f"queues by column '{name}' of the kind {column.type} are made by Spark only"
        ) from None
    return np.concatenate([filled(chunk.indices, -1) for chunk in chunks]).astype(np.int64) + 1


def _combined(columns: list[Ints]) -> tuple[Ints, Ints]:
    """One code for each combination, and a row that has it."""
    whole = columns[0]
    for other in columns[1:]:
        whole = np.unique(whole, return_inverse=True)[1] * (int(other.max()) + 1) + other
    _, firsts, codes = np.unique(whole, return_index=True, return_inverse=True)
    return codes, firsts


def _in_order(rows: Rows, queues: Ints, settings: Settings) -> tuple[Rows, list[Event], Ints]:
    """Rows and events by queue and time; those of one instant by number, sender, topic and payload."""
    ts, seq = filled(rows.table.column("ts"), 0), rows.seq()
    order = np.lexsort((seq, ts, queues))
    ts, seq, queues = ts[order], seq[order], queues[order]
    rows = Rows(rows.table.take(indices(order)), rows.columns, rows.payload)
    events = rows.events(settings.wanted())
    same = (np.diff(queues) == 0) & (np.diff(ts) == 0) & (np.diff(seq) == 0)
    if not same.any():
        return rows, events, queues
    groups = np.concatenate(([0], np.cumsum(~same))).tolist()
    places = sorted(
        range(len(events)),
        key=lambda place: (groups[place], events[place].sender, events[place].topic, events[place].payload),
    )
    moved = Rows(rows.table.take(indices(np.array(places))), rows.columns, rows.payload)
    return moved, [events[place] for place in places], queues
