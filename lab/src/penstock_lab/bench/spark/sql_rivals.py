"""SQL one would write by hand, one query per policy: the rivals of `bench.spark.packing`.

Each query knows its policy, its columns and that no value is missing, and gives what `pack` gives: kept
events and digests in place, of the same types.
"""

# ruff: noqa: S608  # queries of constants

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.pipeline.tables.schemas import MARK


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a frame of events, as the queries name them."""

    key: str
    own: tuple[str, ...]
    """Columns of an event besides the key, in order."""
    real: tuple[str, ...] = ()
    """Fractions among them, which a grouping may alter."""
    maps: tuple[str, ...] = ()

    @property
    def queue(self) -> str:
        """The window of a queue."""
        return f"partition by {self.key} order by ts, seq"

    @property
    def so_far(self) -> str:
        """The window of a queue up to a row."""
        return f"over ({self.queue} rows between unbounded preceding and current row)"

    def keeps(self, name: str) -> str:
        """A column in the rows that stay, as it is grouped by."""
        return f"if(fate is null, {f'map_entries({name})' if name in self.maps else name}, null)"


TYPED: Final = Columns("patient", ("ts", "seq", "pulse", "drift", "step", "ward"), real=("pulse", "drift"))
_QUEUE: Final = TYPED.queue
_SO_FAR: Final = TYPED.so_far
RECORDED: Final = Columns(
    "topic", ("ts", "seq", "sender", "payload", "properties", "content_type"), maps=("properties",)
)


def packed(marked: str, attribute: str, causes: tuple[tuple[int, str], ...], columns: Columns = TYPED) -> str:
    """Return kept rows and digests of a query that adds `fate`: null, or the step that drops a row.

    A kept row is grouped by its own columns, so nothing wide has to be aggregated: of several ways the
    fastest one found.
    """
    runs = f"""
        select *, row_number() over ({columns.queue}) as place,
            sum(if(fate is null, 1, 0)) {columns.so_far} as run
        from ({marked})
    """
    counts = ", ".join(f"count_if(fate = {number}) as c{number}" for number in range(len(causes)))
    structs = ", ".join(
        f"named_struct('level', {level}, 'position', 1, 'filter', '{name}', 'count', c{number})"
        for number, (level, name) in enumerate(causes)
    )
    none = f"cast(null as {MARK.simpleString()})"
    given = ", ".join(
        f"map_from_entries(k_{name}) as {name}" if name in columns.maps else f"k_{name} as {name}"
        for name in columns.own
    )
    exact = [name for name in columns.own if name not in columns.real]
    kept = [f"{columns.keeps(name)} as k_{name}" for name in exact]
    kept += [f"any_value({columns.keeps(name)}) as k_{name}" for name in columns.real]
    return f"""
        select {columns.key}, place, if(gone, 'digest', 'event') as kind, {given},
            if(gone, named_struct(
                'count', n, 'from_us', from_us, 'to_us', to_us, 'seq_first', seq_first, 'seq_last', seq_last,
                'causes', filter(array({structs}), cause -> cause.count > 0),
                'attributes', array(named_struct(
                    'name', '{attribute}', 'n', n, 'total', total, 'squares', cast(null as double),
                    'least', least, 'most', most, 'first', {none}, 'last', {none},
                    'distinct', cast(null as binary), 'quantiles', cast(null as binary)))), null) as digest
        from (
            select {columns.key}, run, fate is not null as gone, min(place) as place, {", ".join(kept)},
                count(*) as n, min(ts) as from_us, max(ts) as to_us, min(seq) as seq_first,
                max(seq) as seq_last, sum({attribute}) as total, min({attribute}) as least,
                max({attribute}) as most, {counts}
            from ({runs})
            group by {columns.key}, run, fate is not null, {", ".join(map(columns.keeps, exact))}
        )
    """


WITHIN: Final = packed(
    "select *, if(pulse between 50 and 100, 0, null) as fate from events", "pulse", ((1, "within"),)
)

UNIQ: Final = packed(
    f"select *, if(step = lag(step) over ({_QUEUE}), 0, null) as fate from events",
    "pulse",
    ((1, "uniq"),),
)

LATEST: Final = packed(
    f"""
    select *, if(count(*) over (partition by patient) - row_number() over ({_QUEUE}) < 100, null, 0) as fate
    from events
    """,
    "pulse",
    ((1, "latest"),),
)

_BAND: Final = """
    select patient, ts, seq, pulse, drift, step, ward, place + 1 as place, verdict
    from (
        select patient, posexplode(arrays_zip(queue, verdicts)) as (place, row)
        from (
            select patient, queue, aggregate(
                queue,
                named_struct('held', cast(null as double), 'out', cast(array() as array<boolean>)),
                (state, event) -> if(coalesce(abs(event.drift - state.held) < 5, false),
                    named_struct('held', state.held, 'out', array_append(state.out, true)),
                    named_struct('held', event.drift, 'out', array_append(state.out, false))),
                state -> state.out) as verdicts
            from (
                select patient,
                    sort_array(collect_list(struct(ts, seq, pulse, drift, step, ward))) as queue
                from events group by patient
            )
        )
    ) lateral view inline(array(row.queue)) as ts, seq, pulse, drift, step, ward
      lateral view inline(array(named_struct('verdict', row.verdicts))) as verdict
"""
"""The dead band of 5 over `drift`: collects each queue into an array, folds it, and explodes it again."""

BAND: Final = packed(
    f"select * except (place, verdict), if(verdict, 0, null) as fate from ({_BAND})", "drift", ((1, "delta"),)
)

CHAIN: Final = packed(
    f"""
    select * except (early), case when early is not null then early
        when sum(if(early is null, 1, 0)) over (partition by patient) - sum(if(early is null, 1, 0)) {_SO_FAR}
            >= 10 then 2 end as fate
    from (
        select * except (place, verdict), case when verdict then 0 when pulse between 50 and 100 then 1 end
            as early
        from ({_BAND})
    )
    """,
    "drift",
    ((1, "delta"), (2, "within"), (3, "latest")),
)

_READ: Final = """
    select *, cast(get_json_object(cast(payload as string), '$.pulse') as double) as pulse,
        cast(get_json_object(cast(payload as string), '$.drift') as double) as drift
    from events
"""
"""Recorded events with the numbers in their payloads."""

RECORDED_WITHIN: Final = packed(
    f"select *, if(pulse between 50 and 100, 0, null) as fate from ({_READ})",
    "pulse",
    ((1, "within"),),
    RECORDED,
)

_RECORDED_BAND: Final = f"""
    select topic, row.queue.*, row.verdicts as verdict
    from (
        select topic, explode(arrays_zip(queue, verdicts)) as row
        from (
            select topic, queue, aggregate(
                queue,
                named_struct('held', cast(null as double), 'out', cast(array() as array<boolean>)),
                (state, event) -> if(coalesce(abs(event.drift - state.held) < 5, false),
                    named_struct('held', state.held, 'out', array_append(state.out, true)),
                    named_struct('held', event.drift, 'out', array_append(state.out, false))),
                state -> state.out) as verdicts
            from (
                select topic, array_sort(
                    collect_list(struct(ts, seq, sender, payload, properties, content_type, drift)),
                    (a, b) -> case when a.ts < b.ts then -1 when a.ts > b.ts then 1
                        when a.seq < b.seq then -1 when a.seq > b.seq then 1 else 0 end) as queue
                from ({_READ}) group by topic
            )
        )
    )
"""

RECORDED_BAND: Final = packed(
    f"select * except (verdict), if(verdict, 0, null) as fate from ({_RECORDED_BAND})",
    "drift",
    ((1, "delta"),),
    RECORDED,
)
